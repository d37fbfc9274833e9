//! MCP: tools over Streamable HTTP and over stdio, in the revisions 2025-03-26 to 2026-07-28.
//!
//! Guarantees: whatever offers tools says what they are and does them; framing, versions and headers are the official
//! SDK's (rmcp), which no other module here touches. A node's answers are plain JSON, and nothing is kept between
//! requests.
//!
//! Refuses, for a toolbox: sessions, prompts, resources, sampling, logging and subscriptions (VA-MCP-12). An [`Offer`]
//! may have them, on a server of its own ([`router`]).
#![allow(
    clippy::result_large_err,
    reason = "an error here is an early answer, made once and moved once"
)]

mod offer;
mod over_http;
mod router;
mod server;

use std::future::Future;

use serde_json::{Map, Value};

pub use offer::{Change, Client, Fault, List, Offer};
pub(crate) use over_http::{answer, collect};
pub use router::router;
pub use server::{McpError, serve_stdio};

/// A tool, as `tools/list` tells it.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolFace {
    /// Its name.
    pub name: &'static str,
    /// Its title.
    pub title: &'static str,
    /// What it does.
    pub description: String,
    /// The JSON Schema of its arguments.
    pub input: Value,
    /// The JSON Schema of what it tells.
    pub output: Option<Value>,
}

/// What a tool tells.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    /// The result, or what went wrong.
    pub structured: Value,
    /// Whether it went wrong.
    pub is_error: bool,
}

/// Whatever offers tools.
pub trait Toolbox: Clone + Send + Sync + 'static {
    /// What a client should know before it uses them.
    fn instructions(&self) -> String;
    /// The tools, in their order.
    fn tools(&self) -> Vec<ToolFace>;
    /// Whether everybody is told the same tools.
    fn is_for_all(&self) -> bool {
        true
    }
    /// Uses one; none where there is no such tool.
    fn call(
        &self,
        name: &str,
        arguments: Map<String, Value>,
    ) -> impl Future<Output = Option<Told>> + Send;
}

//! The HTTP door: one listener, one table of paths, each with its rule.
#![allow(
    clippy::result_large_err,
    reason = "an error here is an early answer, made once and moved once"
)]

mod access;
mod admin;
mod agh;
mod agh_upgrade;
mod body;
mod connection;
mod connections;
mod door;
mod escalation;
mod failures;
pub mod figures;
mod guard;
mod inbox;
mod inbox_stream;
mod incoming;
mod journal;
mod limits;
mod messages;
mod node_tools;
pub mod openapi;
mod operations;
mod query;
mod recorder;
mod reply;
mod router;
mod send;
mod server;
mod state;
mod table;
mod tls;
mod upgrade;
mod vacant;
mod value_context;
mod vibe;

pub use access::{Need, Rule, is_scope};
pub use door::{Reload, Reloaded};
pub use limits::HttpLimits;
pub use node_tools::{LogDesk, NodeTools, node_tools};
pub use recorder::keep_figures;
pub use server::{Listening, ServeError, ServeOptions, Server, serve};
pub use table::{Route, routes};
pub use tls::{TlsError, TlsIdentity, TlsKeeper};
pub use vacant::mcp::{VacantTools, vacant_tools};

pub(crate) use messages::is_before_authentication;
pub(crate) use reply::{JSON, Reply, ReplyBody, reply};
pub(crate) use value_context::{at_the_door, rejection};

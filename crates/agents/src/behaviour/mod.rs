//! Behaviours: what turns the context of a step into its output (VC-TURN-11).
//!
//! Each has its contract on this crate's page. Replay never calls one.

mod echo;
pub mod http;
pub mod model;
pub mod roles;
mod script;
pub mod signed;

pub use echo::Echo;
pub use script::{Script, ScriptError};

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;

use crate::budget::Usage;
use crate::context::Context;

/// One inference by rules in this process: at once, and the same for the same context.
pub trait Infer: Send + Sync {
    /// The output of a step.
    fn infer(&self, context: &Context<'_>) -> String;
}

/// A step as a behaviour elsewhere is asked: the context's parts, named and in the order of VC-TURN-10.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The turn; the same when a turn runs again after a crash.
    pub turn_id: String,
    /// The step, from 1.
    pub step: u32,
    /// The agent.
    pub agent: String,
    /// The address that it speaks as.
    pub address: String,
    /// The parts.
    pub parts: Vec<(&'static str, Value)>,
}

impl Request {
    /// The question that a context is.
    pub fn of(context: &Context<'_>) -> Self {
        Self {
            turn_id: context.turn_id.to_owned(),
            step: context.step,
            agent: context.agent.name.clone(),
            address: context.agent.record.address.clone(),
            parts: context.parts().into(),
        }
    }
}

/// What a behaviour elsewhere answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inferred {
    /// The output.
    pub text: String,
    /// What it took.
    pub usage: Usage,
}

/// A behaviour elsewhere could not be asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unanswered {
    /// A code for turn records and metrics.
    pub code: &'static str,
    /// What it took all the same.
    pub usage: Usage,
}

/// One inference outside this process.
pub trait InferElsewhere: Send + Sync {
    /// The output of a step.
    fn infer(&self, request: Request) -> BoxFuture<'_, Result<Inferred, Unanswered>>;
}

/// What answers for an agent.
#[derive(Clone)]
pub enum Behaviour {
    /// Rules in this process.
    Here(Arc<dyn Infer>),
    /// Something elsewhere, which may hang or fail.
    Elsewhere(Arc<dyn InferElsewhere>),
}

//! A2A: the JSON-RPC binding of 0.3 and 1.0 and the HTTP+JSON binding of 1.0, for any agent behind them.
//!
//! Guarantees: both versions go through one set of operations, so they cannot differ in more than their spelling; a
//! task is seen only below the agent it belongs to; everything a remote can fill has a bound.
//!
//! Refuses: to know what a message means (the agent's business), and to keep a task over a restart or for longer
//! than an hour.
//!
//! The A2A project's own server crate speaks 1.0 alone and decides its error codes itself. Both bindings here are
//! ours, so that a signed call is judged alike on each of them.
#![allow(
    clippy::result_large_err,
    reason = "an error here is an early answer, made once and moved once"
)]

mod binding;
mod events;
mod fault;
mod listing;
mod model;
mod old;
mod operations;
mod pushes;
mod rest;
mod router;
mod rpc;
mod tasks;

pub(crate) use binding::{Version, version_of};
pub use fault::{Fault, Kind};
pub use model::{Artifact, Event, Message, Part, Role, Status, Task, TaskState};
pub(crate) use operations::Service;
pub use operations::{Agent, Cancel, Features, Incoming, Mode, Taken, Work};
pub use pushes::{Notify, PushConfig};
pub(crate) use rest::{RestRequest, answer as answer_rest};
pub(crate) use router::media_type;
pub use router::router;
pub(crate) use rpc::answer as answer_rpc;
pub use tasks::{TaskLimits, Tasks, Updater};

//! What a Rust agent links: to talk to a node, or to be one.
//!
//! An [`Agent`] speaks Value-Context messaging through a node. The node is somewhere else and is spoken to over its HTTP
//! doors ([`Remote`]), or it runs inside this process with a door of its own ([`Embedded`]); the agent is the same.
//!
//! A [`Vacant`] answers signed calls and makes them, with a node inside this process.
//!
//! Guarantees: what it sends is on the node's record when the call returns; a send has one effect, also when its answer
//! was lost and it is made again; the inbox is read in journal order and an entry is shown again until it is
//! acknowledged; a refusal arrives as a type; a suspended agent is told so before it does or says anything.
//!
//! Refuses: to send a token to another machine without TLS, to retry what the node refused, to retry without bound, to
//! follow a redirect, and to write a token or a key into an error.

mod agent;
mod embedded;
mod error;
mod incoming;
mod remote;
mod vacant;
mod way;

pub use agent::{Agent, Asked, Escalated, Operation, Outcome, State};
pub use embedded::{Embedded, Place};
pub use error::{Error, Refused};
pub use incoming::{Incoming, Verdict};
pub use remote::Remote;
pub use vacant::{Heard, Vacant};

pub use chancery_core::admin::RunState;
pub use chancery_value_context::message_id::MessageId;
pub use chancery_value_context::payload::{Mode, Payload, Severity};

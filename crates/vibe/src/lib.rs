//! Vibe Commerce Protocol 1.0: envelope, actions, permissions, private guard, world, lifecycle.
//!
//! Guarantees: money is integer and moves only past the human gate; a settlement happens whole or not at all; a
//! repeat has no second effect and gets the first answer byte for byte; the first failing check of the pipeline is the
//! answer; a rejection changes nothing; the same envelopes over the same seed give the same lines.
//!
//! Refuses: to read a clock, a file, a socket or a random source; to change session or world by anything but an
//! accepted envelope or an operator's recorded change; to know the other protocols.
#![cfg_attr(not(test), forbid(clippy::disallowed_methods))]
#![cfg_attr(not(test), forbid(clippy::disallowed_types))]

pub mod action;
pub mod address;
pub mod agent;
pub mod answer;
pub mod ap2;
pub mod code;
pub mod conformance;
pub mod flight;
pub mod guard;
pub mod guide;
pub mod message;
pub mod money;
pub mod partition;
pub mod payload;
mod protocol;
pub mod rules;
pub mod seal;
pub mod settings;
pub mod state;
pub mod world;

pub use answer::Answer;
pub use protocol::{Never, Vibe};

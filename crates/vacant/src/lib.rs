//! Vacant: agents that own one Ed25519 key each and call one another directly.
//!
//! Guarantees: the chain of an ordered pair has no gap, no repeat and no fork; an accepted call has at most one
//! outcome; whatever verifies does so strictly and over every field; the same bytes always give the same answer; no
//! input panics, and an error holds no text of a payload.
//!
//! Refuses: to read a clock, a file, a socket or a random source; to carry a call through the registry; to reset a
//! chain; to know how a call travels.
#![cfg_attr(not(test), forbid(clippy::disallowed_methods))]
#![cfg_attr(not(test), forbid(clippy::disallowed_types))]

pub mod act;
pub mod agent;
pub mod answer;
pub mod card;
pub mod conformance;
pub mod dispatch;
pub mod envelope;
pub mod error;
pub mod guide;
pub mod id;
pub mod message;
pub mod native;
pub mod outgoing;
pub mod payload;
mod protocol;
pub mod registry;
pub mod reputation;
pub mod rules;
pub mod settings;
pub mod state;
pub mod wire;

pub use protocol::{Never, Vacant};

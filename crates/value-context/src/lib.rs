//! Value-Context inter-agent messaging 1.2: grammar, decoding, verification and signing.
//!
//! Guarantees: a message that [`message::decode`] gives is well formed in every part, typed, and carries
//! the bytes its signature covers; the same bytes always give the same answer; no input panics; a refusal
//! has a code of the closed list, the path of the member at fault and a requirement id, and repeats no
//! value of the message. A signature verifies over the whole envelope and under a key that is usable at
//! the given time, or not at all.
//!
//! Refuses: to do I/O, to read a clock or draw randomness, to fetch a reference, to rewrite a signed text,
//! and to guess what a malformed message meant.
#![cfg_attr(not(test), forbid(clippy::disallowed_methods))]
#![cfg_attr(not(test), forbid(clippy::disallowed_types))]

pub mod agent;
pub mod agent_id;
pub mod answer;
pub mod attempts;
pub mod code;
pub mod conformance;
pub mod constraints;
pub mod context;
pub mod creed;
mod dns;
pub mod file;
pub mod guide;
pub mod judgement;
mod members;
pub mod message;
pub mod message_id;
pub mod outgoing;
pub mod payload;
pub mod personal_state;
mod protocol;
pub mod rules;
pub mod runtime;
pub mod schema;
pub mod settings;
pub mod sign;
pub mod signature;
pub mod signature_help;
pub mod trust;
pub mod verify;
pub mod world;

pub use protocol::{Answer, Never, ValueContext};

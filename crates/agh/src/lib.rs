//! AGH Network v0, both published revisions: envelopes, presence, interactions, capabilities.
//!
//! Guarantees: the published order of checks, with no side effect before duplicates are looked for; that an envelope
//! counts once; that an interaction is moved only by the two who opened it, and not after its end; that values are
//! kept as received; that the state of one revision is never touched by an envelope of the other; that everything a
//! stranger can fill has a bound. The same bytes on the same rows always give the same answer, and no input panics.
//!
//! Refuses: to read a clock, a file, a socket or a random source; to call a sender verified for any other reason than
//! a proof under its key; to reject an envelope for an extension it does not know; to know NATS beyond its names.
#![cfg_attr(not(test), forbid(clippy::disallowed_methods))]
#![cfg_attr(not(test), forbid(clippy::disallowed_types))]

pub mod answer;
pub mod body;
pub mod bridge;
pub mod conformance;
pub mod conversation;
pub mod envelope;
pub mod fault;
pub mod freshness;
pub mod grammar;
pub mod greeting;
pub mod guide;
pub mod handover;
mod integer;
pub mod kind;
pub mod lifecycle;
mod made;
pub mod message;
pub mod outgoing;
pub mod peer;
pub mod preview;
mod protocol;
pub mod receipts;
pub mod revision;
pub mod rules;
pub mod secret;
pub mod settings;
pub mod soft;
pub mod subject;
pub mod task;
pub mod trust;
pub mod validate;
pub mod whois;

pub use protocol::{Agh, Never};

//! What every protocol stands on: strict JSON, canonical bytes, keys, time, rows and the protocol trait.
//!
//! Nothing here reads a clock, a random source, a file or a socket: time and entropy are arguments. A decision is
//! a function of its input and the rows below it, so the same log gives the same state everywhere.
#![cfg_attr(not(test), forbid(clippy::disallowed_methods))]
#![cfg_attr(not(test), forbid(clippy::disallowed_types))]

pub mod admin;
pub mod canonical;
pub mod conformance;
pub mod decision;
pub mod delivery;
pub mod digest;
pub mod fault;
pub mod guide;
pub mod ids;
pub mod inbox;
pub mod json;
pub mod keys;
pub mod line;
pub mod protocol;
pub mod refusal;
pub mod rows;
pub mod time;
pub mod timer;
pub mod window;

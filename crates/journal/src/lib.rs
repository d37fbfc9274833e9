//! The log: lines, hash chain, units, the fold, verification and replay.
//!
//! Guarantees: a line is written in one form and read back strictly; any change, loss or reordering before the last line
//! shows; live decisions, recovery and replay run the rules through one function; verification and replay need
//! memory for the state, never for the log.
//!
//! Refuses to: read or write files, start threads, know a clock or a random source, hold a private key, or repair a log.
#![cfg_attr(not(test), forbid(clippy::disallowed_methods))]
#![cfg_attr(not(test), forbid(clippy::disallowed_types))]

mod backing;
mod decide;
mod divergence;
mod fold;
mod head;
mod in_force;
pub mod line;
mod lines;
mod prepare;
mod replay;
mod units;
mod verify;

pub use backing::{Backing, InMemory};
pub use decide::{Outcome, decide_input};
pub use divergence::{Divergence, Reason};
pub use fold::{Fold, Produced, Recorded};
pub use head::{Chain, Head};
pub use in_force::InForce;
pub use lines::Lines;
pub use prepare::{Prepared, Terms, changes_keys, prepare, prepare_under};
pub use replay::{ReplayReport, Replayer};
pub use units::{MAX_UNIT_LINES, UnitTooLong, Units};
pub use verify::{Check, Finding, LineCheck, MAX_FINDINGS, NOT_PROVEN, Verifier, VerifyReport};

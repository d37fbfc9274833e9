//! What the tests share: a node over a chosen store, a store that can be held still, a carrier that follows a script.

pub mod bureau;
mod carrier;
mod checks;
mod held;
mod rig;

pub use carrier::{Made, Scripted, Step};
pub use checks::{assert_log_gives, rows_of, verbs};
pub use held::{Awaited, HeldStore};
pub use rig::{Rig, Setup, free, inbox_of, start_of_tests, started, until};

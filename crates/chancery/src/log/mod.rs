//! Logs as files: a data directory, its segments, an export, standard input.
//!
//! Guarantees: needs no node and writes nothing; lines are read whole and in order, a file of any size in bounded memory;
//! what one core can do alone is done on all of them.
//!
//! Refuses to: repair.

mod batches;
mod check;
mod files;
mod lines;
mod live;
mod places;
mod pool;
mod side;
mod store_log;
mod summary;
mod what_if;

pub use check::{Checked, Rules, Verified, replay, replay_to_rows, verify, verify_with_keys};
pub use files::{LOG_FILE, LogFile, find};
pub use lines::{Block, Lines, Where};
pub use live::LiveLog;
pub use side::{Note, notes_about};
pub use store_log::StoreLog;
pub use summary::{Summary, message_id};
pub use what_if::{Difference, Item, NotJudged, Party, WhatIf};

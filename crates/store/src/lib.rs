//! Where the log and its rows are kept: one trait, one contract, embedded, in PostgreSQL and in memory.
//!
//! Guarantees: what [`Store::commit`] acknowledged survives whatever its store says it survives (the embedded one:
//! `kill -9` and a power cut); readers see committed rows only; a log that was changed or lost lines is found out.
//!
//! Refuses to: decide anything, edit or delete a line, go on after a write or a sync that failed, or open a log that
//! is damaged anywhere but in its unacknowledged end.

mod cache;
mod changes;
mod contract;
mod copying;
pub mod disk;
mod dropped;
mod embedded;
mod history;
mod index;
mod inspect;
mod lock;
pub mod log;
mod memory;
mod moment;
mod opening;
mod ops;
mod pages;
mod pending;
mod postgres;
mod recover;
mod rows;
mod scratch;
mod sidelog;
mod stillness;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod windows;

pub use cache::LEAST_CACHE_BYTES;
pub use contract::{Batch, CommitError, Note, Spent, Store, StoreError, StoredUnit, Watch};
pub use copying::{
    Beside, CopyError, SETTLED_DELIVERIES, copy_log, settled_delivery_key, settled_through_key,
};
pub use embedded::Embedded;
pub use inspect::{IndexLook, Inspection, inspect};
pub use lock::{DirLock, LockError};
pub use memory::Memory;
pub use moment::{Moment, moment_in};
pub use opening::{OpenError, Options, ROWS_VERSION, Tail, prune_accepted};
pub use ops::ops_in;
pub use pages::Pages;
pub use postgres::{
    Postgres, PostgresError, PostgresLook, PostgresOptions, look as look_at_postgres,
};
pub use recover::{RecoverError, Recovered, recover};
pub use rows::StoreRows;
pub use scratch::Scratch;
pub use sidelog::{SideLog, SideLogLimits};
pub use stillness::Still;

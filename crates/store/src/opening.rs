//! How an embedded store is opened: what one has to say, what can be wrong, and what is left to do.

use std::path::{Path, PathBuf};

use chancery_core::line::Seq;
use chancery_core::window::WindowName;

use crate::contract::StoreError;
use crate::index;
use crate::lock::{DirLock, LockError};
use crate::log::{LogError, Repair};

/// Raised whenever rules write rows differently.
pub const ROWS_VERSION: u32 = 3;

/// How an embedded store is opened.
#[derive(Clone, Debug)]
pub struct Options {
    /// The data directory.
    pub dir: PathBuf,
    /// The address that the lock file names; empty when it is not known yet.
    pub address: String,
    /// At which size a segment of the log is closed.
    pub segment_bytes: u64,
    /// How much memory cached rows may take.
    pub row_cache_bytes: usize,
    /// How many lines the index may be behind. Recovery waits at it; at run time the door looks at [`Store::lag`].
    pub index_lag_entries: u64,
    /// The windows that the rules use.
    pub windows: &'static [WindowName],
    /// [`ROWS_VERSION`]; an index with another one is built anew.
    pub rows_version: u32,
}

impl Options {
    /// The defaults of CH-JRN-2.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            address: String::new(),
            segment_bytes: 256 << 20,
            row_cache_bytes: 256 << 20,
            index_lag_entries: 100_000,
            windows: &[],
            rows_version: ROWS_VERSION,
        }
    }
}

/// Drops the rows of accepted envelopes that no chain needs, of a directory that no node has open: all but the newest of
/// each pair (VA-REP-13). The log keeps everything; an index that is built anew has them again. Gives how many.
pub fn prune_accepted(dir: &Path) -> Result<usize, OpenError> {
    let _lock = DirLock::take(dir, "")?;
    index::prune(dir).map_err(|error| OpenError::Index(error.to_string()))
}

/// Why an embedded store could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it (exit 2).
    #[error(transparent)]
    Locked(#[from] LockError),
    /// The log is damaged, or misses lines that the index knows (exit 3).
    #[error(transparent)]
    Log(#[from] LogError),
    /// The index belongs to another log (exit 3).
    #[error(
        "the index reflects another line {seq} than the log has: one of them is from another time or place. \
         Restore the log that belongs to the index, or delete index.db to build it anew from this log"
    )]
    IndexDiffers {
        /// The line.
        seq: Seq,
    },
    /// The index cannot be used.
    #[error("index.db: {0}")]
    Index(String),
    /// The rows of progress cannot be used.
    #[error(transparent)]
    Ops(#[from] StoreError),
    /// The directory cannot be used.
    #[error("the data directory cannot be used: {0}")]
    Io(#[from] std::io::Error),
}

impl OpenError {
    /// Whether data is damaged or missing, as opposed to a wrong use (CH-CLI-1: exit 3, not 2).
    pub fn is_damage(&self) -> bool {
        matches!(
            self,
            Self::IndexDiffers { .. }
                | Self::Log(LogError::Damaged(_) | LogError::IndexAhead { .. })
        )
    }
}

/// What opening left to do: lines that the index does not reflect yet, to be decided again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tail {
    /// The first such line.
    pub from: Seq,
    /// The last line of the log.
    pub to: Seq,
    /// What was cut off at the end of the log.
    pub repair: Option<Repair>,
}

impl Tail {
    /// How many lines it has.
    pub fn len(&self) -> u64 {
        (self.to + 1).saturating_sub(self.from)
    }

    /// Whether the index is up to date.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

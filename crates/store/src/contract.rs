//! The store's trait: what a node needs of the place where the log and its rows are kept.
//!
//! Every implementation passes one contract suite. Methods block: a node calls them from threads that may wait.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chancery_core::line::Seq;
use chancery_core::rows::{Lookup, Row, RowChange, RowKey};
use chancery_core::time::Time;
use chancery_core::window::{Remember, WindowId, WindowName};
use chancery_journal::{Head, Lines};

use crate::stillness::Still;

/// What one unit changes.
#[derive(Clone, Debug)]
pub struct StoredUnit {
    /// Its rows, in order.
    pub rows: Vec<RowChange>,
    /// What its windows remember.
    pub remembered: Vec<Remember>,
}

/// So much has somebody used of an allowance that all who commit to a journal share. It is on no line and in no row: it goes
/// with a batch because whoever decides the next one has heard of it then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spent {
    /// Who.
    pub who: String,
    /// How often.
    pub times: u32,
}

/// Units that become durable together.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The head that the units were decided on.
    pub base: Head,
    /// The head after them.
    pub head: Head,
    /// The lines of the units.
    pub lines: Lines,
    /// What the units change, in order.
    pub units: Vec<StoredUnit>,
    /// What their decisions used of allowances. Only a shared store passes it on.
    pub spent: Vec<Spent>,
}

/// Why a commit did not happen.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// Another handle committed first: take these changes in and decide again.
    #[error("another handle committed up to line {}", head.seq)]
    Behind {
        /// The head now.
        head: Head,
        /// The row changes since the batch's base, those of a row in order.
        rows: Vec<RowChange>,
        /// The window records since then.
        remembered: Box<[Remember]>,
        /// What was used of allowances since then, and how long ago, the oldest first.
        spent: Box<[(Spent, Duration)]>,
    },
    /// The write or sync failed. This is final (CH-JRN-2): nothing of the batch may be answered, now or later.
    #[error("the log cannot be written: {0}")]
    Failed(String),
}

/// What another process of the journal tells: worth knowing, and lost without harm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The name of the process.
    pub from: String,
    /// What it says.
    pub text: String,
}

/// What a process wants to be told of the others that share its journal. Neither may wait for anything.
#[derive(Clone)]
pub struct Watch {
    /// Others may have committed, or the duty may have changed hands.
    pub moved: Arc<dyn Fn() + Send + Sync>,
    /// Another process tells something.
    pub heard: Arc<dyn Fn(Note) + Send + Sync>,
}

/// Why a store could not answer.
#[derive(Debug, thiserror::Error)]
#[error("the store cannot be read: {0}")]
pub struct StoreError(pub String);

/// Where the log and its rows are kept.
pub trait Store: Send + Sync + 'static {
    /// The last committed line.
    fn head(&self) -> Head;

    /// A committed row, from memory alone.
    fn peek(&self, key: &RowKey) -> Lookup;

    /// Committed rows, fetched if need be; afterwards [`Store::peek`] knows them until they are evicted.
    fn load(&self, keys: &[RowKey]) -> Result<Vec<Option<Row>>, StoreError>;

    /// Committed rows below `prefix`, after `after` when given, in order, at most `limit`.
    fn scan(
        &self,
        prefix: &RowKey,
        after: Option<&RowKey>,
        limit: usize,
    ) -> Result<Vec<(RowKey, Row)>, StoreError>;

    /// What a window remembers.
    fn find(&self, window: WindowName, id: &WindowId, now: Time) -> Option<u64>;

    /// How many records all windows hold.
    fn window_len(&self) -> usize;

    /// Makes a batch durable. When this returns, its lines survive a power cut and readers see its rows. A batch
    /// without lines changes nothing and asks whether its base is still the head.
    fn commit(&self, batch: Batch) -> Result<Head, CommitError>;

    /// Keeps changes of other processes out while a decision reads.
    fn keep_still(&self) -> Still<'_> {
        Still::default()
    }

    /// How often changes of other processes have come in.
    fn foreign_changes(&self) -> u64 {
        0
    }

    /// Whether other processes may commit to this journal.
    fn is_shared(&self) -> bool {
        false
    }

    /// Whether others are likely to commit before whatever is decided now: then it is better decided after
    /// [`Store::take_turn`].
    fn is_contended(&self) -> bool {
        false
    }

    /// Keeps others from committing for a moment, so that the next batch is decided once; gives what came after `base`, if
    /// anything did, as [`CommitError::Behind`]. For stores that are shared.
    fn take_turn(&self, base: Head) -> CommitError {
        CommitError::Behind {
            head: base,
            rows: Vec::new(),
            remembered: Box::default(),
            spent: Box::default(),
        }
    }

    /// Whether this process sees to timers and deliveries: of all that share a journal one does. The number is another
    /// each time the duty comes anew.
    fn duty(&self) -> Option<u64> {
        Some(0)
    }

    /// Tells of the other processes of this journal from now on.
    ///
    /// # Errors
    /// No thread or connection for it.
    fn watch(&self, watch: Watch) -> Result<(), StoreError> {
        drop(watch);
        Ok(())
    }

    /// Tells the other processes of this journal something. It may be lost; this never waits.
    fn tell(&self, note: String) {
        drop(note);
    }

    /// The name of this process among those that share the journal.
    fn process(&self) -> &str {
        ""
    }

    /// Drops agenda rows (outbox, timers) that are settled. Not on the log: after a crash some may be back.
    fn forget(&self, keys: &[RowKey]) -> Result<(), StoreError>;

    /// Committed lines from `from` on, without newlines, at most `limit`.
    fn lines(&self, from: Seq, limit: usize) -> Result<Vec<Bytes>, StoreError>;

    /// How many lines the index is behind the log.
    fn lag(&self) -> u64;

    /// A row of progress (`ops`).
    fn ops_get(&self, key: &RowKey) -> Result<Option<Row>, StoreError>;

    /// Rows of progress below `prefix`.
    fn ops_scan(&self, prefix: &RowKey) -> Result<Vec<(RowKey, Row)>, StoreError>;

    /// Writes rows of progress in one transaction; durable when this returns, also over a power cut if `synced`.
    fn ops_put(&self, changes: &[RowChange], synced: bool) -> Result<(), StoreError>;

    /// The same with one row that never goes back, whoever writes it at the same time: of two values the greater one
    /// stays. Both are of the same length. In a store that is not shared, callers see to it that they come one by one.
    fn ops_raise(
        &self,
        raised: (RowKey, Row),
        changes: &[RowChange],
        synced: bool,
    ) -> Result<(), StoreError> {
        let (key, value) = raised;
        let value = match self.ops_get(&key)? {
            Some(before) if *before > *value => before,
            _ => value,
        };
        let mut changes = changes.to_vec();
        changes.push((key, Some(value)));
        self.ops_put(&changes, synced)
    }

    /// Whether acknowledged lines survive the process.
    fn is_durable(&self) -> bool;

    /// Bytes that cached rows take.
    fn cache_bytes(&self) -> usize;

    /// Writes everything out and closes; later calls fail.
    fn close(&self) -> Result<(), StoreError>;
}

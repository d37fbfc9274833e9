//! A store whose commits wait for leave, and that can be told to fail.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use chancery_core::line::Seq;
use chancery_core::rows::{Lookup, Row, RowChange, RowKey};
use chancery_core::time::Time;
use chancery_core::window::{WindowId, WindowName};
use chancery_journal::Head;

use crate::contract::{Batch, CommitError, Store, StoreError};

/// What commits may do.
enum Leave {
    /// Pass.
    Open,
    /// So many pass, the others wait.
    Some(usize),
    /// Fail.
    Fail,
}

/// What was asked of the store so far.
#[derive(Default)]
struct Seen {
    /// The units of each commit that was begun.
    begun: Vec<usize>,
    /// How many identifiers were looked up: one for each envelope that is decided.
    looked_up: usize,
}

/// A store around another one.
pub struct HeldStore {
    inner: Arc<dyn Store>,
    leave: Mutex<Leave>,
    leave_changed: Condvar,
    seen: Mutex<Seen>,
    seen_more: Condvar,
}

impl HeldStore {
    /// Around `inner`, open.
    pub fn new(inner: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            leave: Mutex::new(Leave::Open),
            leave_changed: Condvar::new(),
            seen: Mutex::default(),
            seen_more: Condvar::new(),
        })
    }

    /// From here on commits wait, except for `passing` of them.
    pub fn hold(&self, passing: usize) {
        self.set(Leave::Some(passing));
    }

    /// Commits pass, also those that wait.
    pub fn open(&self) {
        self.set(Leave::Open);
    }

    /// Commits fail, also those that wait.
    pub fn fail(&self) {
        self.set(Leave::Fail);
    }

    /// Waits until so many commits were begun; gives the number of units in each.
    pub fn wait_for_begun(&self, commits: usize) -> Vec<usize> {
        self.wait_for(|seen| seen.begun.len() >= commits)
            .begun
            .clone()
    }

    /// Waits until so many envelopes were looked up in a window.
    pub fn wait_for_looked_up(&self, envelopes: usize) {
        drop(self.wait_for(|seen| seen.looked_up >= envelopes));
    }

    fn set(&self, leave: Leave) {
        *lock(&self.leave) = leave;
        self.leave_changed.notify_all();
    }

    fn note(&self, what: impl FnOnce(&mut Seen)) {
        what(&mut lock(&self.seen));
        self.seen_more.notify_all();
    }

    fn wait_for(&self, enough: impl Fn(&Seen) -> bool) -> MutexGuard<'_, Seen> {
        self.seen_more
            .wait_while(lock(&self.seen), |seen| !enough(seen))
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_for_leave(&self) -> Result<(), CommitError> {
        let mut leave = lock(&self.leave);
        loop {
            match &mut *leave {
                Leave::Open => return Ok(()),
                Leave::Fail => return Err(CommitError::Failed("the disk is gone".to_owned())),
                Leave::Some(0) => {
                    leave = self
                        .leave_changed
                        .wait(leave)
                        .unwrap_or_else(PoisonError::into_inner);
                }
                Leave::Some(passing) => {
                    *passing -= 1;
                    return Ok(());
                }
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Store for HeldStore {
    fn head(&self) -> Head {
        self.inner.head()
    }

    fn peek(&self, key: &RowKey) -> Lookup {
        self.inner.peek(key)
    }

    fn load(&self, keys: &[RowKey]) -> Result<Vec<Option<Row>>, StoreError> {
        self.inner.load(keys)
    }

    fn scan(
        &self,
        prefix: &RowKey,
        after: Option<&RowKey>,
        limit: usize,
    ) -> Result<Vec<(RowKey, Row)>, StoreError> {
        self.inner.scan(prefix, after, limit)
    }

    fn find(&self, window: WindowName, id: &WindowId, now: Time) -> Option<u64> {
        self.note(|seen| seen.looked_up += 1);
        self.inner.find(window, id, now)
    }

    fn window_len(&self) -> usize {
        self.inner.window_len()
    }

    fn commit(&self, batch: Batch) -> Result<Head, CommitError> {
        self.note(|seen| seen.begun.push(batch.units.len()));
        self.wait_for_leave()?;
        self.inner.commit(batch)
    }

    fn forget(&self, keys: &[RowKey]) -> Result<(), StoreError> {
        self.inner.forget(keys)
    }

    fn lines(&self, from: Seq, limit: usize) -> Result<Vec<Bytes>, StoreError> {
        self.inner.lines(from, limit)
    }

    fn lag(&self) -> u64 {
        self.inner.lag()
    }

    fn ops_get(&self, key: &RowKey) -> Result<Option<Row>, StoreError> {
        self.inner.ops_get(key)
    }

    fn ops_scan(&self, prefix: &RowKey) -> Result<Vec<(RowKey, Row)>, StoreError> {
        self.inner.ops_scan(prefix)
    }

    fn ops_put(&self, changes: &[RowChange], synced: bool) -> Result<(), StoreError> {
        self.inner.ops_put(changes, synced)
    }

    fn is_durable(&self) -> bool {
        self.inner.is_durable()
    }

    fn cache_bytes(&self) -> usize {
        self.inner.cache_bytes()
    }

    fn close(&self) -> Result<(), StoreError> {
        self.inner.close()
    }
}

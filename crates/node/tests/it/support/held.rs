//! A store whose commits wait for leave, and that can be told to fail.

use std::sync::{Arc, Condvar, Mutex};

use bytes::Bytes;
use chancery_core::line::Seq;
use chancery_core::rows::{Lookup, RowChange, RowKey};
use chancery_core::time::Time;
use chancery_core::window::{WindowId, WindowName};
use chancery_journal::Head;
use chancery_store::{Batch, CommitError, Store, StoreError};
use tokio::sync::watch;

/// What commits may do.
enum Leave {
    /// Pass.
    Open,
    /// So many pass, the others wait.
    Some(usize),
    /// Fail.
    Fail,
}

/// A store around another one.
pub struct HeldStore {
    inner: Arc<dyn Store>,
    leave: Mutex<Leave>,
    changed: Condvar,
    /// The units of each commit that was begun.
    begun: watch::Sender<Vec<usize>>,
    /// How many identifiers were looked up: one for each envelope that is decided.
    looked_up: watch::Sender<usize>,
}

impl HeldStore {
    pub fn new(inner: Arc<dyn Store>) -> Arc<Self> {
        Arc::new(Self {
            inner,
            leave: Mutex::new(Leave::Open),
            changed: Condvar::new(),
            begun: watch::Sender::new(Vec::new()),
            looked_up: watch::Sender::new(0),
        })
    }

    /// From here on commits wait, except for `passing` of them.
    pub fn hold(&self, passing: usize) {
        self.set(Leave::Some(passing));
    }

    pub fn open(&self) {
        self.set(Leave::Open);
    }

    pub fn fail(&self) {
        self.set(Leave::Fail);
    }

    fn set(&self, leave: Leave) {
        *self.leave.lock().unwrap() = leave;
        self.changed.notify_all();
    }

    /// Returns once so many commits were begun; gives the number of units in each.
    pub async fn begun(&self, commits: usize) -> Vec<usize> {
        let mut begun = self.begun.subscribe();
        let begun = begun.wait_for(|begun| begun.len() >= commits).await;
        begun.unwrap().clone()
    }

    /// Returns once so many envelopes were looked up in a window.
    pub async fn looked_up(&self, envelopes: usize) {
        let mut looked_up = self.looked_up.subscribe();
        looked_up
            .wait_for(|count| *count >= envelopes)
            .await
            .unwrap();
    }

    fn wait_for_leave(&self) -> Result<(), CommitError> {
        let mut leave = self.leave.lock().unwrap();
        loop {
            match &mut *leave {
                Leave::Open => return Ok(()),
                Leave::Fail => return Err(CommitError::Failed("the disk is gone".to_owned())),
                Leave::Some(0) => leave = self.changed.wait(leave).unwrap(),
                Leave::Some(passing) => {
                    *passing -= 1;
                    return Ok(());
                }
            }
        }
    }
}

impl Store for HeldStore {
    fn head(&self) -> Head {
        self.inner.head()
    }

    fn peek(&self, key: &RowKey) -> Lookup {
        self.inner.peek(key)
    }

    fn load(&self, keys: &[RowKey]) -> Result<Vec<Option<Bytes>>, StoreError> {
        self.inner.load(keys)
    }

    fn scan(
        &self,
        prefix: &RowKey,
        after: Option<&RowKey>,
        limit: usize,
    ) -> Result<Vec<(RowKey, Bytes)>, StoreError> {
        self.inner.scan(prefix, after, limit)
    }

    fn find(&self, window: WindowName, id: &WindowId, now: Time) -> Option<u64> {
        self.looked_up.send_modify(|count| *count += 1);
        self.inner.find(window, id, now)
    }

    fn window_len(&self) -> usize {
        self.inner.window_len()
    }

    fn commit(&self, batch: Batch) -> Result<Head, CommitError> {
        self.begun
            .send_modify(|begun| begun.push(batch.units.len()));
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

    fn ops_get(&self, key: &RowKey) -> Result<Option<Bytes>, StoreError> {
        self.inner.ops_get(key)
    }

    fn ops_scan(&self, prefix: &RowKey) -> Result<Vec<(RowKey, Bytes)>, StoreError> {
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

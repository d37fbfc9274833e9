//! A store in memory that others share, whose duty comes and goes, and that tells what it was asked.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use chancery_core::line::Seq;
use chancery_core::rows::{Lookup, Row, RowChange, RowKey};
use chancery_core::time::Time;
use chancery_core::window::{WindowId, WindowName};
use chancery_journal::Head;
use chancery_store::{Batch, CommitError, Memory, Store, StoreError};
use hashbrown::HashMap;

pub(super) struct SharedStore {
    inner: Memory,
    duty: Mutex<Option<u64>>,
    /// The spaces of reads, in order.
    asked: Mutex<Vec<String>>,
    /// Rows beside those of the log.
    beside: Mutex<HashMap<RowKey, Row>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SharedStore {
    pub(super) fn new(inner: Memory) -> Self {
        Self {
            inner,
            duty: Mutex::default(),
            asked: Mutex::default(),
            beside: Mutex::default(),
        }
    }

    pub(super) fn set_duty(&self, term: Option<u64>) {
        *lock(&self.duty) = term;
    }

    /// Puts a row there without a line.
    pub(super) fn put_row(&self, (key, row): RowChange) {
        lock(&self.beside).extend(row.map(|row| (key, row)));
    }

    pub(super) fn forget_questions(&self) {
        lock(&self.asked).clear();
    }

    pub(super) fn questions(&self) -> Vec<String> {
        lock(&self.asked).clone()
    }

    fn note(&self, key: &RowKey) {
        let parts = key.parts();
        let space = parts.first().map(|space| String::from_utf8_lossy(space));
        lock(&self.asked).push(space.unwrap_or_default().into_owned());
    }
}

impl Store for SharedStore {
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
        self.note(prefix);
        let mut rows = self.inner.scan(prefix, after, limit)?;
        let beside = lock(&self.beside);
        let found = beside.iter().filter(|(key, _)| key.starts_with(prefix));
        rows.extend(found.map(|(key, row)| (key.clone(), row.clone())));
        Ok(rows)
    }

    fn find(&self, window: WindowName, id: &WindowId, now: Time) -> Option<u64> {
        self.inner.find(window, id, now)
    }

    fn window_len(&self) -> usize {
        self.inner.window_len()
    }

    fn commit(&self, batch: Batch) -> Result<Head, CommitError> {
        self.inner.commit(batch)
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn duty(&self) -> Option<u64> {
        *lock(&self.duty)
    }

    fn forget(&self, keys: &[RowKey]) -> Result<(), StoreError> {
        self.inner.forget(keys)
    }

    fn lines(&self, from: Seq, limit: usize) -> Result<Vec<Bytes>, StoreError> {
        self.inner.lines(from, limit)
    }

    fn lag(&self) -> u64 {
        0
    }

    fn ops_get(&self, key: &RowKey) -> Result<Option<Row>, StoreError> {
        self.note(key);
        self.inner.ops_get(key)
    }

    fn ops_scan(&self, prefix: &RowKey) -> Result<Vec<(RowKey, Row)>, StoreError> {
        self.note(prefix);
        self.inner.ops_scan(prefix)
    }

    fn ops_put(&self, changes: &[RowChange], synced: bool) -> Result<(), StoreError> {
        self.inner.ops_put(changes, synced)
    }

    fn is_durable(&self) -> bool {
        false
    }

    fn cache_bytes(&self) -> usize {
        self.inner.cache_bytes()
    }

    fn close(&self) -> Result<(), StoreError> {
        self.inner.close()
    }
}

//! The store that lives in memory: the same contract, nothing durable.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bytes::Bytes;
use chancery_core::line::Seq;
use chancery_core::rows::{Lookup, Row, RowChange, RowKey};
use chancery_core::time::Time;
use chancery_core::window::{WindowId, WindowName, Windows};
use chancery_journal::Head;

use crate::changes::Changes;
use crate::contract::{Batch, CommitError, Store, StoreError};
use crate::embedded::check_batch;
use crate::history::{HandleId, History};

/// A handle on a store in memory. A clone is another handle on the same journal, which may lose races.
pub struct Memory {
    state: Arc<RwLock<State>>,
    handle: HandleId,
}

struct State {
    head: Head,
    lines: Vec<Bytes>,
    rows: BTreeMap<RowKey, Row>,
    row_bytes: usize,
    windows: Windows,
    forgotten_minute: Option<i64>,
    ops: BTreeMap<RowKey, Row>,
    history: History,
    is_closed: bool,
}

impl Memory {
    /// An empty store.
    pub fn new() -> Self {
        let mut history = History::default();
        let handle = history.enter(0);
        let state = State {
            head: Head::EMPTY,
            lines: Vec::new(),
            rows: BTreeMap::new(),
            row_bytes: 0,
            windows: Windows::default(),
            forgotten_minute: None,
            ops: BTreeMap::new(),
            history,
            is_closed: false,
        };
        Self {
            state: Arc::new(RwLock::new(state)),
            handle,
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self) -> Result<RwLockReadGuard<'_, State>, StoreError> {
        let state = self.read();
        if state.is_closed {
            Err(closed())
        } else {
            Ok(state)
        }
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::new()
    }
}

impl Clone for Memory {
    fn clone(&self) -> Self {
        let mut state = self.write();
        let seq = state.head.seq;
        let handle = state.history.enter(seq);
        drop(state);
        Self {
            state: self.state.clone(),
            handle,
        }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.write().history.leave(self.handle);
    }
}

fn closed() -> StoreError {
    StoreError("the store is closed".into())
}

impl State {
    fn change(&mut self, (key, value): &RowChange) {
        let cost = |value: &Row| key.as_bytes().len() + value.len();
        let before = match value {
            Some(value) => {
                self.row_bytes += cost(value);
                self.rows.insert(key.clone(), value.clone())
            }
            None => self.rows.remove(key),
        };
        self.row_bytes -= before.as_ref().map_or(0, cost);
    }

    fn remember(&mut self, changes: &Changes) {
        self.windows.remember_all(changes.remembered());
        let minute = self
            .head
            .time
            .map(|time| time.unix_seconds().div_euclid(60));
        if minute > self.forgotten_minute {
            self.forgotten_minute = minute;
            self.head
                .time
                .into_iter()
                .for_each(|time| self.windows.forget_ended(time));
        }
    }

    fn behind_by(&mut self, handle: HandleId, base: Head) -> CommitError {
        let head = self.head;
        match self.history.since(handle, base.seq, head.seq) {
            Some((rows, remembered)) if base.seq < head.seq => CommitError::Behind {
                head,
                rows,
                remembered: remembered.into(),
                spent: Box::default(),
            },
            _ => CommitError::Failed(format!(
                "a batch on line {} cannot follow line {}",
                base.seq, head.seq
            )),
        }
    }
}

impl Store for Memory {
    fn head(&self) -> Head {
        self.read().head
    }

    fn peek(&self, key: &RowKey) -> Lookup {
        self.read()
            .rows
            .get(key)
            .cloned()
            .map_or(Lookup::Absent, Lookup::Found)
    }

    fn load(&self, keys: &[RowKey]) -> Result<Vec<Option<Row>>, StoreError> {
        let state = self.open()?;
        Ok(keys
            .iter()
            .map(|key| state.rows.get(key).cloned())
            .collect())
    }

    fn scan(
        &self,
        prefix: &RowKey,
        after: Option<&RowKey>,
        limit: usize,
    ) -> Result<Vec<(RowKey, Row)>, StoreError> {
        let state = self.open()?;
        let start = match after.filter(|after| *after >= prefix) {
            Some(after) => Bound::Excluded(after),
            None => Bound::Included(prefix),
        };
        let rows = state.rows.range::<RowKey, _>((start, Bound::Unbounded));
        let rows = rows
            .take_while(|(key, _)| key.starts_with(prefix))
            .take(limit);
        Ok(rows
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect())
    }

    fn find(&self, window: WindowName, id: &WindowId, now: Time) -> Option<u64> {
        self.read().windows.find(window, id, now)
    }

    fn window_len(&self) -> usize {
        self.read().windows.len()
    }

    fn commit(&self, batch: Batch) -> Result<Head, CommitError> {
        let mut state = self.write();
        if state.is_closed {
            return Err(CommitError::Failed(closed().0));
        }
        if (batch.base.seq, batch.base.hash) != (state.head.seq, state.head.hash) {
            return Err(state.behind_by(self.handle, batch.base));
        }
        check_batch(&batch).map_err(CommitError::Failed)?;
        if batch.lines.is_empty() {
            return Ok(state.head);
        }
        state.lines.extend(batch.lines.into_bytes());
        state.head = batch.head;
        let changes = Arc::new(Changes::of(batch.units));
        changes.rows().for_each(|change| state.change(change));
        state.remember(&changes);
        state
            .history
            .committed(self.handle, batch.base.seq, batch.head.seq, &changes);
        Ok(batch.head)
    }

    fn forget(&self, keys: &[RowKey]) -> Result<(), StoreError> {
        let mut state = self.write();
        if state.is_closed {
            return Err(closed());
        }
        keys.iter()
            .for_each(|key| state.change(&(key.clone(), None)));
        Ok(())
    }

    fn lines(&self, from: Seq, limit: usize) -> Result<Vec<Bytes>, StoreError> {
        let skip = usize::try_from(from.saturating_sub(1)).unwrap_or(usize::MAX);
        Ok(self
            .open()?
            .lines
            .iter()
            .skip(skip)
            .take(limit)
            .cloned()
            .collect())
    }

    fn lag(&self) -> u64 {
        0
    }

    fn ops_get(&self, key: &RowKey) -> Result<Option<Row>, StoreError> {
        Ok(self.open()?.ops.get(key).cloned())
    }

    fn ops_scan(&self, prefix: &RowKey) -> Result<Vec<(RowKey, Row)>, StoreError> {
        let state = self.open()?;
        let rows = state
            .ops
            .range(prefix.clone()..)
            .take_while(|(key, _)| key.starts_with(prefix));
        Ok(rows
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect())
    }

    fn ops_put(&self, changes: &[RowChange], _: bool) -> Result<(), StoreError> {
        let mut state = self.write();
        if state.is_closed {
            return Err(closed());
        }
        for (key, value) in changes {
            match value {
                Some(value) => state.ops.insert(key.clone(), value.clone()),
                None => state.ops.remove(key),
            };
        }
        Ok(())
    }

    fn is_durable(&self) -> bool {
        false
    }

    fn cache_bytes(&self) -> usize {
        self.read().row_bytes
    }

    fn close(&self) -> Result<(), StoreError> {
        self.write().is_closed = true;
        Ok(())
    }
}

//! Rows and windows as the sequencer sees them: the committed ones, and on top what was decided since.
//!
//! While one batch is sealed and synced the next is decided; what the first one changed is kept here until the
//! store has it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use chancery_core::decision::WindowsBelow;
use chancery_core::rows::{Lookup, Row, RowChange, RowKey, Rows, RowsDamaged};
use chancery_core::time::Time;
use chancery_core::window::{Remember, WindowId, WindowName};
use chancery_store::{Store, StoreError};
use hashbrown::HashMap;

/// How many rows one scan brings at most; a rule that needs more is wrong.
const SCAN_ROWS: usize = 1_000_000;

/// What was decided and is not committed yet, over a store.
pub(crate) struct Overlay {
    store: Arc<dyn Store>,
    rows: HashMap<RowKey, (u64, Option<Row>)>,
    records: HashMap<(WindowName, WindowId), (u64, Remember)>,
    batches: VecDeque<Changed>,
    /// Committed rows that are kept for one decision, whatever the store keeps in memory.
    held: HashMap<RowKey, Option<Row>>,
}

/// What a batch touched, so that it can be let go.
struct Changed {
    batch: u64,
    keys: Vec<RowKey>,
    records: Vec<(WindowName, WindowId)>,
}

impl Overlay {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            rows: HashMap::new(),
            records: HashMap::new(),
            batches: VecDeque::new(),
            held: HashMap::new(),
        }
    }

    /// Reads committed rows and keeps them until they are let go of. They are of the moment in which decisions are made,
    /// or the store says that it was disturbed.
    pub(crate) fn hold(&mut self, keys: &[RowKey]) -> Result<(), StoreError> {
        let rows = self.store.load(keys)?;
        self.held = keys.iter().cloned().zip(rows).collect();
        Ok(())
    }

    /// Lets go of what was kept for one decision.
    pub(crate) fn let_go(&mut self) {
        self.held.clear();
    }

    /// Takes in what a unit of `batch` changes.
    pub(crate) fn apply(&mut self, batch: u64, rows: &[RowChange], remembered: &[Remember]) {
        if self
            .batches
            .back()
            .is_none_or(|changed| changed.batch != batch)
        {
            self.batches.push_back(Changed {
                batch,
                keys: Vec::new(),
                records: Vec::new(),
            });
        }
        let changed = self.batches.back_mut().expect("a batch was just added");
        for (key, change) in rows {
            changed.keys.push(key.clone());
            self.rows.insert(key.clone(), (batch, change.clone()));
        }
        for record in remembered {
            changed.records.push((record.window, record.id));
            self.records
                .insert((record.window, record.id), (batch, *record));
        }
    }

    /// Lets go of everything: none of it will be committed.
    pub(crate) fn clear(&mut self) {
        self.rows.clear();
        self.records.clear();
        self.batches.clear();
    }

    /// Lets go of every batch up to `batch`: the store has them.
    pub(crate) fn release(&mut self, batch: u64) {
        while self
            .batches
            .front()
            .is_some_and(|changed| changed.batch <= batch)
        {
            let Some(changed) = self.batches.pop_front() else {
                break;
            };
            for key in changed.keys {
                if self
                    .rows
                    .get(&key)
                    .is_some_and(|(last, _)| *last == changed.batch)
                {
                    self.rows.remove(&key);
                }
            }
            for id in changed.records {
                if self
                    .records
                    .get(&id)
                    .is_some_and(|(last, _)| *last == changed.batch)
                {
                    self.records.remove(&id);
                }
            }
        }
    }
}

impl Rows for Overlay {
    fn get(&self, key: &RowKey) -> Lookup {
        match self.rows.get(key) {
            Some((_, Some(row))) => Lookup::Found(row.clone()),
            Some((_, None)) => Lookup::Absent,
            None => match self.held.get(key) {
                Some(Some(row)) => Lookup::Found(row.clone()),
                Some(None) => Lookup::Absent,
                None => self.store.peek(key),
            },
        }
    }

    fn scan(&self, prefix: &RowKey) -> Result<Vec<(RowKey, Row)>, RowsDamaged> {
        let committed = self
            .store
            .scan(prefix, None, SCAN_ROWS)
            .map_err(|error| RowsDamaged(error.to_string()))?;
        let mut rows: BTreeMap<RowKey, Row> = committed.into_iter().collect();
        for (key, (_, change)) in self.rows.iter().filter(|(key, _)| key.starts_with(prefix)) {
            match change {
                Some(row) => rows.insert(key.clone(), row.clone()),
                None => rows.remove(key),
            };
        }
        Ok(rows.into_iter().collect())
    }
}

impl WindowsBelow for Overlay {
    fn find(&self, window: WindowName, id: &WindowId, now: Time) -> Option<u64> {
        let own = self
            .records
            .get(&(window, *id))
            .filter(|(_, record)| now <= record.until);
        own.map(|(_, record)| record.value)
            .or_else(|| self.store.find(window, id, now))
    }
}

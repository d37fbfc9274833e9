//! Recovery: the lines that the index does not reflect are decided again, by the code that replay runs.
//!
//! Guarantees: rows and windows reach the store together with the line they are the state after, so that an index
//! written meanwhile is whole. Refuses to go on when the rules of this build do not give the lines on record.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use chancery_core::decision::WindowsBelow;
use chancery_core::digest::Sha256Digest;
use chancery_core::line::Seq;
use chancery_core::protocol::Suite;
use chancery_core::rows::{Lookup, Row, RowChange, RowKey, Rows, RowsDamaged};
use chancery_core::time::Time;
use chancery_core::window::{Remember, WindowId, WindowName, Windows};
use chancery_journal::line::parse;
use chancery_journal::{Backing, Divergence, Fold, Head, Produced, Reason, Recorded, Units};

use crate::contract::{Store, StoreError, StoredUnit};
use crate::embedded::Embedded;
use crate::opening::Tail;
use crate::pending::RowMap;
use crate::rows::StoreRows;

/// How many lines are read at a time.
const READ_LINES: usize = 256;
/// How many changed rows are held back at most before they are given to the store.
const HELD_ROWS: usize = 4_096;

/// What recovery did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recovered {
    /// The head of the journal.
    pub head: Head,
    /// Lines decided again.
    pub lines: u64,
    /// Their units.
    pub units: u64,
}

/// Why recovery did not reach the end of the log.
#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    /// A line on record is not what the rules give.
    #[error("the log cannot be taken in: {0}")]
    Diverged(#[from] Divergence),
    /// This build does not have the rules of a line: use the build that wrote it, or a later one.
    #[error("line {seq}: this build does not have its rules")]
    UnknownRules {
        /// The line.
        seq: Seq,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Decides the tail again and gives its changes to the store. Nothing is written to the log.
///
/// Another thread reads the lines ahead: their form and their chain are half of the work.
pub fn recover<S: Suite + Clone>(
    suite: &S,
    store: &Embedded,
    tail: &Tail,
) -> Result<Recovered, RecoverError> {
    std::thread::scope(|scope| {
        // A rendezvous: one chunk is read while the one before it is decided.
        let (chunks, to_decide) = sync_channel(0);
        let head = store.head();
        scope.spawn(move || read_ahead(store, head, tail, &chunks));
        decide_again(suite, store, &to_decide)
    })
}

fn decide_again<S: Suite + Clone>(
    suite: &S,
    store: &Embedded,
    chunks: &Receiver<Chunk>,
) -> Result<Recovered, RecoverError> {
    let held = Mutex::new(Held::default());
    let backing = Above { store, held: &held };
    let damaged = |damage: RowsDamaged| StoreError(damage.0);
    let mut fold = Fold::new(suite.clone(), backing, store.head(), true).map_err(damaged)?;
    let mut units = Units::default();
    let mut done = Recovered {
        head: store.head(),
        lines: 0,
        units: 0,
    };
    for Chunk { lines, fault } in chunks {
        for recorded in lines {
            let more = recorded.line.more;
            let too_long = |error: chancery_journal::UnitTooLong| StoreError(error.to_string());
            let Some(unit) = units.push(recorded, more).map_err(too_long)? else {
                continue;
            };
            if let Produced::LeftOut = fold.apply(&unit)? {
                return Err(RecoverError::UnknownRules {
                    seq: unit[0].line.seq,
                });
            }
            done = Recovered {
                head: fold.head(),
                lines: done.lines + unit.len() as u64,
                units: done.units + 1,
            };
            if let Some(units) = lock(&held).give(HELD_ROWS) {
                store.take_in(units, fold.head())?;
            }
        }
        if let Some(fault) = fault {
            return Err(fault);
        }
    }
    if let Some(units) = lock(&held).give(0) {
        store.take_in(units, fold.head())?;
    }
    Ok(done)
}

/// Lines in order, and why there are no more.
#[derive(Default)]
struct Chunk {
    lines: Vec<Recorded>,
    fault: Option<RecoverError>,
}

/// Reads the tail to its end, to the first fault, or until nobody takes it any more.
fn read_ahead(store: &Embedded, head: Head, tail: &Tail, chunks: &SyncSender<Chunk>) {
    let mut chain = (head.seq, head.hash);
    while chain.0 < tail.to {
        let mut chunk = Chunk::default();
        chunk.fault = read_chunk(store, tail, &mut chain, &mut chunk.lines).err();
        let is_last = chunk.fault.is_some();
        if chunks.send(chunk).is_err() || is_last {
            return;
        }
    }
}

fn read_chunk(
    store: &Embedded,
    tail: &Tail,
    chain: &mut (Seq, Sha256Digest),
    chunk: &mut Vec<Recorded>,
) -> Result<(), RecoverError> {
    let wanted = usize::try_from(tail.to - chain.0)
        .unwrap_or(READ_LINES)
        .min(READ_LINES);
    let lines = store.lines(chain.0 + 1, wanted)?;
    if lines.is_empty() {
        return Err(StoreError(format!("line {} is missing", chain.0 + 1)).into());
    }
    for canonical in lines {
        chunk.push(chained(canonical, chain)?);
    }
    Ok(())
}

/// A line that goes on with the chain. Closed segments are checked by their ends only when a log is opened.
pub(crate) fn chained(
    canonical: Bytes,
    chain: &mut (Seq, Sha256Digest),
) -> Result<Recorded, Divergence> {
    let expected = chain.0 + 1;
    let line = parse(&canonical).map_err(|fault| Divergence::at(expected, Reason::Form(fault)))?;
    if line.seq != expected {
        return Err(Divergence::at(
            expected,
            Reason::Sequence {
                expected,
                found: line.seq,
            },
        ));
    }
    if line.prev != chain.1 {
        return Err(Divergence::at(expected, Reason::Chain));
    }
    let hash = Sha256Digest::of(&canonical);
    *chain = (expected, hash);
    Ok(Recorded {
        line,
        canonical,
        hash,
    })
}

pub(crate) fn lock(held: &Mutex<Held>) -> MutexGuard<'_, Held> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Changes of units that the store does not have yet.
#[derive(Default)]
pub(crate) struct Held {
    rows: RowMap,
    windows: Windows,
    units: Vec<StoredUnit>,
}

impl Held {
    /// The units, once they hold more than `rows` rows.
    pub(crate) fn give(&mut self, rows: usize) -> Option<Vec<StoredUnit>> {
        let is_little = self.rows.len() <= rows && self.units.len() <= rows;
        if self.units.is_empty() || is_little {
            return None;
        }
        Some(std::mem::take(self).units)
    }
}

/// The store with the changes held back on top.
pub(crate) struct Above<'s> {
    pub(crate) store: &'s dyn Store,
    pub(crate) held: &'s Mutex<Held>,
}

impl Rows for Above<'_> {
    fn get(&self, key: &RowKey) -> Lookup {
        match lock(self.held).rows.get(key) {
            Some(Some(bytes)) => Lookup::Found(bytes.clone()),
            Some(None) => Lookup::Absent,
            None => self.store.peek(key),
        }
    }

    fn scan(&self, prefix: &RowKey) -> Result<Vec<(RowKey, Row)>, RowsDamaged> {
        let mut rows: RowMap = StoreRows(self.store)
            .scan(prefix)?
            .into_iter()
            .map(|(key, bytes)| (key, Some(bytes)))
            .collect();
        let held = lock(self.held);
        let changes = held
            .rows
            .range(prefix.clone()..)
            .take_while(|(key, _)| key.starts_with(prefix));
        rows.extend(changes.map(|(key, bytes)| (key.clone(), bytes.clone())));
        Ok(rows
            .into_iter()
            .filter_map(|(key, bytes)| Some((key, bytes?)))
            .collect())
    }
}

impl WindowsBelow for Above<'_> {
    fn find(&self, window: WindowName, id: &WindowId, now: Time) -> Option<u64> {
        let held = lock(self.held).windows.find(window, id, now);
        held.or_else(|| self.store.find(window, id, now))
    }
}

impl Backing for Above<'_> {
    fn take(&mut self, changes: Vec<RowChange>, remembered: Vec<Remember>) {
        let mut held = lock(self.held);
        held.rows.extend(changes.iter().cloned());
        remembered
            .iter()
            .for_each(|record| held.windows.remember(record));
        held.units.push(StoredUnit {
            rows: changes,
            remembered,
        });
    }

    /// The store does so itself when it takes the units in.
    fn forget_ended(&mut self, _: Time) {}

    fn load(&mut self, keys: &[RowKey]) -> Result<(), RowsDamaged> {
        self.store
            .load(keys)
            .map(drop)
            .map_err(|error| RowsDamaged(error.0))
    }
}

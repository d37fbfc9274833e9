//! A log brought from one store to another: its lines as they are, its rows by the rules.
//!
//! Guarantees: a line goes over only behind the whole chain before it, with the rows that the rules of this build give; a
//! copy that was cut off goes on where it ended. Refuses a store that holds another log.

use std::collections::BTreeSet;
use std::sync::Mutex;

use bytes::Bytes;
use chancery_core::delivery::{OUTBOX, parse_outbox_key};
use chancery_core::digest::Sha256Digest;
use chancery_core::line::Seq;
use chancery_core::protocol::Suite;
use chancery_core::rows::{Row, RowChange, RowKey};
use chancery_journal::{Fold, Head, Lines, Produced, Units};

use crate::contract::{Batch, CommitError, Store, StoreError};
use crate::recover::{Above, Held, RecoverError, chained, lock};

/// So many changed rows or units are committed together.
const TOGETHER: usize = 1_024;
/// Rows of progress that are written together.
const ROWS_TOGETHER: usize = 10_000;

/// Why a log could not be copied.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The target holds lines that are not of this log.
    #[error("the store that it goes to holds another log: its line {0} is another one")]
    OtherLog(Seq),
    /// The target holds more.
    #[error("the store that it goes to is further, at line {0}")]
    Ahead(Seq),
    /// A line is not what the rules give, or not on the chain.
    #[error(transparent)]
    Rules(#[from] RecoverError),
    /// The target does not take it.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// A store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What is beside a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Beside {
    /// Progress (CH-JRN-15).
    pub ops: Vec<(RowKey, Row)>,
    /// Where deliveries that are settled leave no note: the open ones, and up to which line they were looked for.
    pub open: Option<(Vec<RowKey>, Seq)>,
}

impl Beside {
    /// What a store has beside its log. It has to be asked before the lines are read: a cursor must not point beyond them.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn of(store: &dyn Store) -> Result<Self, StoreError> {
        let ops = store.ops_scan(&everything())?;
        let open = if store.is_shared() {
            let rows = store.scan(&RowKey::text(OUTBOX, &[]), None, usize::MAX)?;
            let keys = rows.into_iter().map(|(key, _)| key).collect();
            // What was committed before the scan is in it, or settled.
            Some((keys, store.head().seq))
        } else {
            None
        };
        Ok(Self { ops, open })
    }

    /// Puts it beside the log of another store.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn put(&self, to: &dyn Store) -> Result<(), StoreError> {
        for rows in self.ops.chunks(ROWS_TOGETHER) {
            let rows: Vec<RowChange> = rows
                .iter()
                .map(|(key, row)| (key.clone(), Some(row.clone())))
                .collect();
            to.ops_put(&rows, true)?;
        }
        let Some((open, through)) = &self.open else {
            return Ok(());
        };
        let open: BTreeSet<&RowKey> = open.iter().collect();
        let rows = to.scan(&RowKey::text(OUTBOX, &[]), None, usize::MAX)?;
        let is_settled = |key: &RowKey| {
            parse_outbox_key(key).is_some_and(|(seq, _)| seq <= *through) && !open.contains(key)
        };
        let keys = rows.into_iter().map(|(key, _)| key);
        let settled: Vec<RowKey> = keys.filter(is_settled).collect();
        settled
            .chunks(ROWS_TOGETHER)
            .try_for_each(|keys| to.forget(keys))
    }
}

fn everything() -> RowKey {
    RowKey::from_stored(Bytes::new())
}

/// Copies lines, which are all of a log from its first, to a store. A last unit that is not whole stays away. `told` hears
/// of every line that is read. Gives the head of the target.
///
/// # Errors
/// See [`CopyError`]; what was copied before it stays.
pub fn copy_log<S: Suite + Clone>(
    suite: &S,
    lines: impl Iterator<Item = Result<Bytes, StoreError>>,
    to: &dyn Store,
    mut told: impl FnMut(&Bytes),
) -> Result<Head, CopyError> {
    let begun = to.head();
    let held = Mutex::new(Held::default());
    let backing = Above {
        store: to,
        held: &held,
    };
    let damaged = |damage: chancery_core::rows::RowsDamaged| StoreError(damage.0);
    let mut fold = Fold::new(suite.clone(), backing, begun, true).map_err(damaged)?;
    let mut chain = (0, Sha256Digest::ZERO);
    let mut units = Units::default();
    let mut parcel = Parcel::behind(begun);
    for line in lines {
        let canonical = line?;
        told(&canonical);
        let recorded = chained(canonical, &mut chain).map_err(RecoverError::from)?;
        if chain.0 <= begun.seq {
            if chain.0 == begun.seq && chain.1 != begun.hash {
                return Err(CopyError::OtherLog(begun.seq));
            }
            continue;
        }
        let more = recorded.line.more;
        let too_long = |error: chancery_journal::UnitTooLong| StoreError(error.to_string());
        let Some(unit) = units.push(recorded, more).map_err(too_long)? else {
            continue;
        };
        if let Produced::LeftOut = fold.apply(&unit).map_err(RecoverError::from)? {
            let seq = unit[0].line.seq;
            return Err(RecoverError::UnknownRules { seq }.into());
        }
        unit.iter()
            .for_each(|one| parcel.lines.push(&one.canonical));
        let full = lock(&held).give(TOGETHER);
        if let Some(units) = full {
            parcel = parcel.commit(to, units, fold.head())?;
        }
    }
    if chain.0 < begun.seq {
        return Err(CopyError::Ahead(begun.seq));
    }
    let rest = lock(&held).give(0);
    if let Some(units) = rest {
        parcel.commit(to, units, fold.head())?;
    }
    Ok(to.head())
}

/// Lines that are committed together.
struct Parcel {
    base: Head,
    lines: Lines,
}

impl Parcel {
    fn behind(base: Head) -> Self {
        Self {
            base,
            lines: Lines::default(),
        }
    }

    fn commit(
        self,
        to: &dyn Store,
        units: Vec<crate::contract::StoredUnit>,
        head: Head,
    ) -> Result<Self, CopyError> {
        let batch = Batch {
            base: self.base,
            head,
            lines: self.lines,
            units,
        };
        to.commit(batch)?;
        Ok(Self::behind(head))
    }
}

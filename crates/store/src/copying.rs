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
use crate::pages::Pages;
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
            let (mut keys, mut through) = (Vec::new(), None);
            for page in Pages::below(store, RowKey::text(OUTBOX, &[])) {
                keys.extend(page?.into_iter().map(|(key, _)| key));
                // What was committed before the first page was read is in it, in a later one, or settled.
                through.get_or_insert_with(|| store.head().seq);
            }
            Some((keys, through.unwrap_or_else(|| store.head().seq)))
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
        let open: BTreeSet<(Seq, u64)> = open.iter().filter_map(parse_outbox_key).collect();
        let first = open.first().map_or(Seq::MAX, |(seq, _)| *seq);
        let mark = first.min(through.saturating_add(1));
        if !to.is_shared() {
            let mark = Row::from(&mark.to_be_bytes()[..]);
            to.ops_raise((settled_through_key(), mark), &[], true)?;
        }
        for page in Pages::below(to, RowKey::text(OUTBOX, &[])) {
            let (mut notes, mut settled) = (Vec::new(), Vec::new());
            for (key, _) in page? {
                let Some(place) = parse_outbox_key(&key) else {
                    continue;
                };
                if place.0 <= *through && !open.contains(&place) {
                    settled.push(key);
                    notes.extend((place.0 >= mark).then(|| settled_note(place)));
                }
            }
            // First: an index of files that is built anew has the rows again, and the notes say that they are settled.
            if !to.is_shared() {
                to.ops_put(&notes, true)?;
            }
            to.forget(&settled)?;
        }
        Ok(())
    }
}

/// The space of notes of settled deliveries, in stores that are not shared.
pub const SETTLED_DELIVERIES: &str = "outbox-settled";

/// The row of the note that a delivery is settled: its line, and its number among those of its unit.
pub fn settled_delivery_key((seq, number): (Seq, u64)) -> RowKey {
    RowKey::new(
        SETTLED_DELIVERIES,
        &[&seq.to_be_bytes(), &number.to_be_bytes()],
    )
}

/// The row of the line before which all deliveries are settled, as eight bytes.
pub fn settled_through_key() -> RowKey {
    RowKey::text("outbox-through", &[])
}

fn settled_note(place: (Seq, u64)) -> RowChange {
    (settled_delivery_key(place), Some("".into()))
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
            spent: Vec::new(),
        };
        to.commit(batch)?;
        Ok(Self::behind(head))
    }
}

#[cfg(test)]
mod tests {
    use chancery_core::delivery::outbox_key;

    use super::*;
    use crate::contract::StoredUnit;
    use crate::memory::Memory;

    /// A store that is not shared, with a log whose lines all have a delivery.
    fn with_deliveries(lines: Seq) -> Memory {
        let store = Memory::new();
        let rows = (1..=lines).map(|seq| (outbox_key(seq, 0), Some("{}".into())));
        let units = vec![StoredUnit {
            rows: rows.collect(),
            remembered: Vec::new(),
        }];
        let mut text = Lines::default();
        (0..lines).for_each(|_| text.push(b"{}"));
        let batch = Batch {
            base: Head::EMPTY,
            head: Head {
                seq: lines,
                hash: Sha256Digest::of(b"{}"),
                ..Head::EMPTY
            },
            lines: text,
            units,
            spent: Vec::new(),
        };
        store.commit(batch).unwrap();
        store
    }

    #[test]
    fn what_was_settled_elsewhere_is_noted_where_rows_come_back() {
        // CH-JRN-2, CH-JRN-15
        let of = |open: &[Seq]| Beside {
            ops: Vec::new(),
            open: Some((open.iter().map(|seq| outbox_key(*seq, 0)).collect(), 8)),
        };
        let note = |seq| settled_delivery_key((seq, 0));
        for (open, through, noted) in [
            (&[][..], 9, vec![]),
            (&[9, 10], 9, vec![]),
            (&[3, 6, 9, 10], 3, vec![note(4), note(5), note(7), note(8)]),
        ] {
            let store = with_deliveries(10);
            of(open).put(&store).unwrap();
            let rows = store.scan(&RowKey::text(OUTBOX, &[]), None, 99).unwrap();
            let left: Vec<Seq> = rows
                .iter()
                .filter_map(|(key, _)| Some(parse_outbox_key(key)?.0))
                .collect();
            let expected: Vec<Seq> = (1..=10)
                .filter(|seq| *seq > 8 || open.contains(seq))
                .collect();
            assert_eq!(left, expected);
            let notes = store
                .ops_scan(&RowKey::text(SETTLED_DELIVERIES, &[]))
                .unwrap();
            let notes: Vec<RowKey> = notes.into_iter().map(|(key, _)| key).collect();
            assert_eq!(notes, noted, "{open:?}");
            let mark = store.ops_get(&settled_through_key()).unwrap().unwrap();
            assert_eq!(*mark, Seq::to_be_bytes(through)[..], "{open:?}");
            // One that is further already does not go back.
            let further = Row::from(&100_u64.to_be_bytes()[..]);
            store
                .ops_put(&[(settled_through_key(), Some(further.clone()))], true)
                .unwrap();
            of(open).put(&store).unwrap();
            assert_eq!(
                store.ops_get(&settled_through_key()).unwrap(),
                Some(further)
            );
        }
    }
}

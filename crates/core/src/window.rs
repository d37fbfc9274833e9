//! Windows: memory of identifiers that guards a span of time and is dropped slice by slice.
//!
//! A record is 28 bytes: a 16-byte identifier, eight bytes that belong to the caller (a content tag, a line's
//! number) and when it ends. Records are packed into slices by the minute in which they end, so forgetting
//! is dropping a slice and never a sweep.

use std::collections::BTreeMap;
use std::time::Duration;

use hashbrown::HashMap;

use crate::time::Time;

/// Which memory: one name a rule, for instance `value-context/seen`.
pub type WindowName = &'static str;

/// An identifier in a window: the first 16 bytes of a SHA-256 over what identifies the record.
pub type WindowId = [u8; 16];

/// How much time one slice covers.
const SLICE_MS: i64 = 60_000;

/// One record to be remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remember {
    /// The memory it belongs to.
    pub window: WindowName,
    /// What is remembered.
    pub id: WindowId,
    /// Whatever the rule wants back.
    pub value: u64,
    /// The last instant at which it is remembered.
    pub until: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Record {
    value: [u8; 8],
    ends_in_slice_ms: u32,
}

/// A window, and the minute in which the records of one of its slices end.
type SliceName = (WindowName, i64);
type Slice = HashMap<WindowId, Record>;

/// All records of all windows.
#[derive(Clone, Debug, Default)]
pub struct Windows {
    slices: BTreeMap<SliceName, Slice>,
    len: usize,
}

impl Windows {
    /// The value remembered under `id`, if `now` is not past its end.
    pub fn find(&self, window: WindowName, id: &WindowId, now: Time) -> Option<u64> {
        let first = now.unix_millis().div_euclid(SLICE_MS);
        self.slices
            .range((window, first)..=(window, i64::MAX))
            .find_map(|((_, slice), records)| {
                let record = records.get(id)?;
                let until_ms = slice * SLICE_MS + i64::from(record.ends_in_slice_ms);
                (now.unix_millis() <= until_ms).then(|| u64::from_be_bytes(record.value))
            })
    }

    /// Adds a record.
    pub fn remember(&mut self, record: &Remember) {
        self.remember_all([record]);
    }

    /// Adds records. Those that end in the same minute, one after the other, find their slice once.
    pub fn remember_all<'r>(&mut self, records: impl IntoIterator<Item = &'r Remember>) {
        let mut open: Option<(SliceName, &mut Slice)> = None;
        for record in records {
            // An end is rounded up to the millisecond: a record may outlive its window by less than one, never fall
            // short.
            let until_ms = record
                .until
                .saturating_add(Duration::from_nanos(999_999))
                .unix_millis();
            let place = (record.window, until_ms.div_euclid(SLICE_MS));
            let packed = Record {
                value: record.value.to_be_bytes(),
                ends_in_slice_ms: u32::try_from(until_ms.rem_euclid(SLICE_MS)).unwrap_or(u32::MAX),
            };
            let slice = match open.take() {
                Some((at, slice)) if at == place => slice,
                _ => self.slices.entry(place).or_default(),
            };
            self.len += usize::from(slice.insert(record.id, packed).is_none());
            open = Some((place, slice));
        }
    }

    /// Drops every slice that ended before `now`.
    pub fn forget_ended(&mut self, now: Time) {
        let current = now.unix_millis().div_euclid(SLICE_MS);
        let mut dropped = 0;
        self.slices.retain(|(_, slice), records| {
            let keep = *slice >= current;
            if !keep {
                dropped += records.len();
            }
            keep
        });
        self.len -= dropped;
    }

    /// How many records are held.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Every record, in no particular order: for writing them to an index.
    pub fn iter(&self) -> impl Iterator<Item = Remember> {
        self.slices.iter().flat_map(|((window, slice), records)| {
            records.iter().map(move |(id, record)| Remember {
                window,
                id: *id,
                value: u64::from_be_bytes(record.value),
                until: Time::from_unix_millis(
                    slice * SLICE_MS + i64::from(record.ends_in_slice_ms),
                )
                .expect("an end that was an instant is one again"),
            })
        })
    }
}

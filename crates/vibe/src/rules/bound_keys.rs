//! The queue of bound keys (VC-IDEM-7): which key was bound when, so that those past their retention can be dropped.
//!
//! It lies in pages: one row that is written over instead of one more row for each key. New entries go to the open page,
//! the last one; a page whose entries were all taken is removed once it is not the open one any more.

use chancery_core::decision::{Cx, Stop};
use chancery_core::rows::{RowKey, RowsDamaged};
use chancery_core::time::Time;
use serde::{Deserialize, Serialize};

use super::idempotency::bound_at;
use crate::state::key;

/// Keys that are dropped with one that is bound: more than one, so that they never pile up.
const DROPPED_AT_ONCE: usize = 2;

/// A page that has so many bytes is full: a few dozen entries.
const PAGE_BYTES: usize = 1_536;

/// Where the queue begins and ends, and when its first key was bound.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Ends {
    /// The first page, and how much of it was taken.
    first: u64,
    taken: usize,
    /// The page that takes new entries.
    open: u64,
    oldest: Option<Time>,
}

/// Notes that a key was bound, and drops the oldest ones that have ended.
pub(super) fn note(
    bound: RowKey,
    at: Time,
    has_ended: impl Fn(Time) -> bool,
    cx: &mut Cx<'_>,
) -> Result<(), Stop> {
    let mut ends: Ends = cx.row(&key::bound_keys_ends())?.unwrap_or_default();
    ends.append(&Entry { at, bound }, cx)?;
    for _ in 0..DROPPED_AT_ONCE {
        if !ends.oldest.is_some_and(&has_ended) {
            break;
        }
        ends.drop_oldest(cx)?;
    }
    cx.put_value(key::bound_keys_ends(), ends);
    Ok(())
}

impl Ends {
    fn append(&mut self, entry: &Entry, cx: &mut Cx<'_>) -> Result<(), Stop> {
        let open = cx.bytes(&key::bound_keys_page(self.open))?;
        let mut page = Vec::with_capacity(PAGE_BYTES + PAGE_BYTES / 4);
        match open {
            Some(open) if open.len() >= PAGE_BYTES => {
                if self.oldest.is_none() {
                    cx.remove(key::bound_keys_page(self.first));
                    (self.first, self.taken) = (self.open + 1, 0);
                }
                self.open += 1;
            }
            Some(open) => page.extend_from_slice(&open),
            None => {}
        }
        entry.write(&mut page);
        cx.put_bytes(key::bound_keys_page(self.open), page.into());
        self.oldest = self.oldest.or(Some(entry.at));
        Ok(())
    }

    fn drop_oldest(&mut self, cx: &mut Cx<'_>) -> Result<(), Stop> {
        let Some((entry, bytes)) = self.first_entry(cx)? else {
            return Err(damaged().into());
        };
        // A key that was bound anew since then stands further back as well.
        let bound = cx.bytes(&entry.bound)?;
        if bound.is_some_and(|row| bound_at(&row) == Some(entry.at)) {
            cx.remove(entry.bound);
        }
        self.taken += bytes;
        self.oldest = self.first_entry(cx)?.map(|(entry, _)| entry.at);
        Ok(())
    }

    /// The first entry and the bytes that it takes; none of an empty queue. Leaves pages behind that hold nothing more.
    fn first_entry(&mut self, cx: &mut Cx<'_>) -> Result<Option<(Entry, usize)>, Stop> {
        loop {
            let page = cx.bytes(&key::bound_keys_page(self.first))?;
            let page = page.ok_or_else(damaged)?;
            match page.get(self.taken..) {
                Some([]) if self.first < self.open => {
                    cx.remove(key::bound_keys_page(self.first));
                    (self.first, self.taken) = (self.first + 1, 0);
                }
                Some([]) => return Ok(None),
                Some(rest) => return Ok(Some(Entry::read(rest).ok_or_else(damaged)?)),
                None => return Err(damaged().into()),
            }
        }
    }
}

fn damaged() -> RowsDamaged {
    RowsDamaged("the queue of bound keys".to_owned())
}

/// A key in the queue: when it was bound, and its row.
struct Entry {
    at: Time,
    bound: RowKey,
}

impl Entry {
    fn write(&self, page: &mut Vec<u8>) {
        let bound = self.bound.as_bytes();
        let length = u32::try_from(bound.len()).expect("a key is shorter than an envelope");
        page.extend_from_slice(&self.at.unix_seconds().to_be_bytes());
        page.extend_from_slice(&self.at.subsecond_nanos().to_be_bytes());
        page.extend_from_slice(&length.to_be_bytes());
        page.extend_from_slice(bound);
    }

    /// The entry that bytes begin with, and how many of them it takes.
    fn read(bytes: &[u8]) -> Option<(Self, usize)> {
        let (seconds, rest) = bytes.split_first_chunk()?;
        let (nanos, rest) = rest.split_first_chunk()?;
        let (length, rest) = rest.split_first_chunk()?;
        let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
        let entry = Self {
            at: Time::from_unix(i64::from_be_bytes(*seconds), u32::from_be_bytes(*nanos))?,
            bound: RowKey::from_stored(rest.get(..length)?),
        };
        Some((entry, bytes.len() - rest.len() + length))
    }
}

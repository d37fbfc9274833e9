//! The segmented append-only log (CH-JRN-2): `audit.jsonl` and, when it is full, `audit-<first seq>.jsonl`.
//!
//! Guarantees: when [`Log::append`] returns, its lines survive a power cut; an append or sync that fails is final
//! for this process; readers see durable lines only. Nothing here edits or deletes a line (CH-JRN-8): only
//! opening cuts off what was never acknowledged.

mod chain;
mod damage;
mod open;
mod scrub;
mod segment;
mod walk;

use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use bytes::Bytes;
use chancery_core::digest::Sha256Digest;
use chancery_core::line::Seq;
use chancery_journal::Lines;

pub(crate) use chain::ChainEnd;
pub use damage::{Damage, LogError};
pub use open::{Known, Repair};
pub use scrub::{ScrubError, Scrubbed};
use segment::{Closed, OPEN_NAME, Open};

use crate::disk::{Disk, DiskFile};

/// The most bytes that are written between two syncs: so that only that many, at the end of the log, can have
/// holes after a power cut. A batch beyond it is written and synced in pieces before it is acknowledged.
pub(crate) const LARGEST_APPEND_BYTES: usize = 16 << 20;

/// Where the log ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEnd {
    /// The last line's number, 0 when there is none.
    pub seq: Seq,
    /// Its hash.
    pub hash: Sha256Digest,
    /// The first line of the open segment.
    pub segment: Seq,
    /// The open segment's length in bytes.
    pub offset: u64,
}

/// The log is closed to writing: an append or a sync failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Poisoned(pub String);

/// The log.
pub struct Log {
    disk: Arc<dyn Disk>,
    segment_bytes: u64,
    state: RwLock<State>,
    /// Held by whoever appends; what it holds is why nobody may any more.
    writer: Mutex<Option<Poisoned>>,
}

struct State {
    closed: Vec<Arc<Closed>>,
    open: Open,
}

/// A run of lines in one segment, to be read.
struct Span {
    segment: Seq,
    file: Arc<dyn DiskFile>,
    from: u64,
    to: u64,
    skip: u64,
    available: u64,
}

impl Log {
    /// Opens the log: checks it, and cuts off what was never acknowledged.
    pub fn open(
        disk: Arc<dyn Disk>,
        segment_bytes: u64,
        known: &Known,
    ) -> Result<(Self, Option<Repair>), LogError> {
        let closed = open::closed_segments(&*disk, known)?;
        let before = closed.last().map_or(ChainEnd::START, |segment| segment.end);
        let (open, repair) = open::open_segment(&*disk, before, known)?;
        let state = RwLock::new(State { closed, open });
        Ok((
            Self {
                disk,
                segment_bytes,
                state,
                writer: Mutex::default(),
            },
            repair,
        ))
    }

    /// Where it ends.
    pub fn end(&self) -> LogEnd {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let open = &state.open;
        LogEnd {
            seq: open.end.seq,
            hash: open.end.hash,
            segment: open.first,
            offset: open.len,
        }
    }

    /// The closed segments from the one that begins with line `from` on: first lines and sizes in bytes.
    pub fn closed(&self, from: Seq) -> Vec<(Seq, u64)> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        let start = state.closed.partition_point(|segment| segment.first < from);
        state.closed[start..]
            .iter()
            .map(|segment| (segment.first, segment.len))
            .collect()
    }

    /// Appends lines in one write and makes them durable in one sync. `hash` is the last one's.
    pub fn append(&self, lines: &Lines, hash: Sha256Digest) -> Result<LogEnd, Poisoned> {
        let mut poison = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(poison) = &*poison {
            return Err(poison.clone());
        }
        self.append_batch(lines, hash).map_err(|error| {
            poison
                .insert(Poisoned(format!("{OPEN_NAME}: {error}")))
                .clone()
        })
    }

    fn append_batch(&self, lines: &Lines, hash: Sha256Digest) -> io::Result<LogEnd> {
        if self.end().offset >= self.segment_bytes {
            self.rotate()?;
        }
        // Only this function changes the open segment, and the writer's lock is held: what is read here stays true.
        let (file, len, index) = {
            let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
            (
                state.open.file.clone(),
                state.open.len,
                state.open.end.seq + 1 - state.open.first,
            )
        };
        for piece in lines.text().chunks(LARGEST_APPEND_BYTES) {
            file.append(piece)?;
            file.sync_data()?;
        }
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let open = &mut state.open;
        for (line, index) in (0..lines.len()).zip(index..) {
            if index.is_multiple_of(segment::STRIDE) {
                let offset = len + lines.start_of(line) as u64;
                open.offsets.note(index, offset);
            }
        }
        open.len = len + lines.text().len() as u64;
        open.end = ChainEnd {
            seq: open.first + index + lines.len() as u64 - 1,
            hash,
        };
        Ok(LogEnd {
            seq: open.end.seq,
            hash,
            segment: open.first,
            offset: open.len,
        })
    }

    /// Closes the full segment and begins a new one. Each name is durable before the next is touched: otherwise
    /// a power cut could leave the new file under the old one's name.
    fn rotate(&self) -> io::Result<()> {
        let end = self.end();
        self.disk
            .rename(OPEN_NAME, &segment::closed_name(end.segment))?;
        self.disk.sync_dir()?;
        let fresh = Open::create(
            &*self.disk,
            ChainEnd {
                seq: end.seq,
                hash: end.hash,
            },
        )?;
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        let full = std::mem::replace(&mut state.open, fresh);
        state.closed.push(Arc::new(Closed {
            first: full.first,
            end: full.end,
            len: full.len,
            offsets: OnceLock::from(full.offsets),
        }));
        Ok(())
    }

    /// Durable lines from `from` on, without newlines, at most `limit`.
    pub fn lines(&self, from: Seq, limit: usize) -> io::Result<Vec<Bytes>> {
        let mut lines = Vec::new();
        let mut next = from.max(1);
        while lines.len() < limit {
            let Some(span) = self.span(next)? else { break };
            let before = lines.len();
            let wanted =
                (limit - before).min(usize::try_from(span.available).unwrap_or(usize::MAX));
            walk::collect(
                &*span.file,
                span.from,
                span.to,
                span.skip,
                wanted,
                &mut lines,
            )?;
            let read = lines.len() - before;
            if read < wanted {
                let reason = format!("line {} is not where it was written", next + read as u64);
                return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
            }
            next += read as u64;
        }
        Ok(lines)
    }

    /// The segment of the line `seq`, by its first line, and the offset behind that line.
    pub fn position_after(&self, seq: Seq) -> io::Result<(Seq, u64)> {
        let end = self.end();
        if seq >= end.seq {
            return Ok((end.segment, end.offset));
        }
        let Some(span) = self.span(seq)? else {
            return Ok((end.segment, 0));
        };
        // The walk goes on to the line behind and stops in front of it.
        let mut left = span.skip + 1;
        let offset = walk::walk(&*span.file, span.from, span.to, |_, _| {
            let goes_on = left > 0;
            left = left.saturating_sub(1);
            goes_on
        })?;
        Ok((span.segment, offset))
    }

    /// Where to read line `seq` and those after it in the same segment.
    fn span(&self, seq: Seq) -> io::Result<Option<Span>> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        if seq > state.open.end.seq {
            return Ok(None);
        }
        if seq >= state.open.first {
            let open = &state.open;
            let (noted, from) = open.offsets.before(seq - open.first);
            let skip = seq - open.first - noted;
            let available = open.end.seq + 1 - seq;
            return Ok(Some(Span {
                segment: open.first,
                file: open.file.clone(),
                from,
                to: open.len,
                skip,
                available,
            }));
        }
        let slot = state
            .closed
            .partition_point(|segment| segment.end.seq < seq);
        let segment = state.closed.get(slot).cloned();
        drop(state);
        let Some(segment) = segment else {
            return Ok(None);
        };
        let file = self.disk.open_read(&segment.name())?;
        let (noted, from) = segment.offsets(&*file)?.before(seq - segment.first);
        let skip = seq - segment.first - noted;
        let available = segment.end.seq + 1 - seq;
        Ok(Some(Span {
            segment: segment.first,
            file,
            from,
            to: segment.len,
            skip,
            available,
        }))
    }
}

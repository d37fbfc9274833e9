//! Segments: files that hold a run of lines, and where in them a line stands.

use std::io;
use std::sync::{Arc, OnceLock};

use chancery_core::line::Seq;

use super::chain::ChainEnd;
use super::walk::walk;
use crate::disk::{Disk, DiskFile};

/// The segment that is being written.
pub(crate) const OPEN_NAME: &str = "audit.jsonl";

/// Every how many lines an offset is noted.
pub(crate) const STRIDE: u64 = 128;

/// The name of the closed segment whose first line is `first`.
pub(crate) fn closed_name(first: Seq) -> String {
    format!("audit-{first:020}.jsonl")
}

/// The first line's number that a closed segment's name tells.
pub(crate) fn parse_closed_name(name: &str) -> Option<Seq> {
    let digits = name.strip_prefix("audit-")?.strip_suffix(".jsonl")?;
    let first = digits.parse().ok()?;
    (digits.len() == 20 && closed_name(first) == name).then_some(first)
}

/// The offsets of every [`STRIDE`]th line of a segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offsets(Vec<u64>);

impl Offsets {
    /// Notes that the line with this index begins at `offset`.
    pub(crate) fn note(&mut self, index: u64, offset: u64) {
        if index == self.0.len() as u64 * STRIDE {
            self.0.push(offset);
        }
    }

    /// The nearest noted line at or before the one with this index: its index and offset.
    pub(crate) fn before(&self, index: u64) -> (u64, u64) {
        let slot = usize::try_from(index / STRIDE).unwrap_or(usize::MAX);
        let slot = slot.min(self.0.len().saturating_sub(1));
        (slot as u64 * STRIDE, self.0.get(slot).copied().unwrap_or(0))
    }

    /// All noted offsets.
    pub(crate) fn as_slice(&self) -> &[u64] {
        &self.0
    }

    /// Leaves only those of the first `lines` lines.
    pub(crate) fn cut(&mut self, lines: u64) {
        let keep = usize::try_from(lines.div_ceil(STRIDE)).unwrap_or(usize::MAX);
        self.0.truncate(keep);
    }
}

/// A segment that is full: nothing in it ever changes.
#[derive(Debug)]
pub(crate) struct Closed {
    pub first: Seq,
    pub end: ChainEnd,
    pub len: u64,
    /// Read from the file when first asked for; known at once when this process filled the segment.
    pub offsets: OnceLock<Offsets>,
}

impl Closed {
    pub(crate) fn name(&self) -> String {
        closed_name(self.first)
    }

    /// The offsets, from the file if need be.
    pub(crate) fn offsets(&self, file: &dyn DiskFile) -> io::Result<&Offsets> {
        if let Some(offsets) = self.offsets.get() {
            return Ok(offsets);
        }
        let mut offsets = Offsets::default();
        let mut index = 0;
        walk(file, 0, self.len, |offset, _| {
            offsets.note(index, offset);
            index += 1;
            true
        })?;
        Ok(self.offsets.get_or_init(|| offsets))
    }
}

/// The segment that is being written, as far as it is durable.
pub(crate) struct Open {
    pub file: Arc<dyn DiskFile>,
    pub first: Seq,
    pub end: ChainEnd,
    pub len: u64,
    pub offsets: Offsets,
}

impl Open {
    /// A new segment that goes on after `end`; its name is durable.
    pub(crate) fn create(disk: &dyn Disk, end: ChainEnd) -> io::Result<Self> {
        let file = disk.open_append(OPEN_NAME)?;
        disk.sync_dir()?;
        Ok(Self {
            file,
            first: end.seq + 1,
            end,
            len: 0,
            offsets: Offsets::default(),
        })
    }
}

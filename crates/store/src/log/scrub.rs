//! The scrub: closed segments checked whole, in the background (CH-JRN-4).

use std::io;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};

use super::Log;
use super::chain::ChainEnd;
use super::damage::Damage;
use super::segment::Closed;
use super::walk::walk;

/// What a scrub went over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Closed segments found whole.
    pub segments: usize,
    /// Their lines.
    pub lines: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Why a scrub did not find every closed segment whole.
#[derive(Debug, thiserror::Error)]
pub enum ScrubError {
    /// A closed segment was changed.
    #[error("the log is damaged: {0}")]
    Damaged(#[from] Damage),
    /// A closed segment could not be read.
    #[error("the log cannot be read: {0}")]
    Io(#[from] io::Error),
}

impl Log {
    /// Checks every closed segment's hash chain. Stops early, with what it has seen, once `stop` is set.
    pub fn scrub(&self, stop: &AtomicBool) -> Result<Scrubbed, ScrubError> {
        let segments = self
            .state
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .closed
            .clone();
        let mut seen = Scrubbed::default();
        let mut end = ChainEnd::START;
        for segment in segments {
            if !self.scrub_segment(&segment, end, stop)? {
                break;
            }
            end = segment.end;
            seen.segments += 1;
            seen.lines += segment.end.seq + 1 - segment.first;
            seen.bytes += segment.len;
        }
        Ok(seen)
    }

    /// Whether the segment was gone over to its end.
    fn scrub_segment(
        &self,
        segment: &Closed,
        before: ChainEnd,
        stop: &AtomicBool,
    ) -> Result<bool, ScrubError> {
        let name = segment.name();
        let file = self.disk.open_read(&name)?;
        let mut end = before;
        let mut lines = 0;
        let mut fault = None;
        let seen = walk(&*file, 0, segment.len, |_, line| {
            lines += 1;
            fault = end.follow(line).err();
            fault.is_none() && !stop.load(Ordering::Relaxed)
        })?;
        if let Some(broken) = fault {
            return Err(Damage::line(name, lines, broken.reason()).into());
        }
        if stop.load(Ordering::Relaxed) && seen < segment.len {
            return Ok(false);
        }
        if end != segment.end || seen != segment.len || file.len()? != segment.len {
            return Err(Damage::file(name, "it does not end as it did when it was opened").into());
        }
        Ok(true)
    }
}

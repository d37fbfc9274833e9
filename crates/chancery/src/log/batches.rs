//! Lines in batches, so that every line of a batch is checked under the same keys.

use bytes::Bytes;

use super::lines::{Lines, Where};
use crate::exit::Failure;

/// Lines of a batch: enough that handing it over costs nothing, few enough that all cores have work.
const BATCH_LINES: usize = 128;

/// Lines that one core prepares.
pub(super) struct Batch {
    pub first: Where,
    pub lines: Vec<Bytes>,
    pub bytes: u64,
    /// Whether the keys may be others after it.
    pub changes_keys: bool,
}

/// Cuts blocks into batches.
pub(super) struct Batches {
    lines: Lines,
    waiting: std::vec::IntoIter<Bytes>,
    next: Where,
    /// The last line of a file that has no newline.
    pub unended: Option<Where>,
}

impl Batches {
    pub(super) fn of(lines: Lines) -> Self {
        Self {
            lines,
            waiting: Vec::new().into_iter(),
            next: Where { file: 0, line: 1 },
            unended: None,
        }
    }

    pub(super) fn next(&mut self) -> Result<Option<Batch>, Failure> {
        if self.waiting.as_slice().is_empty() {
            let Some(block) = self.lines.next_block()? else {
                return Ok(None);
            };
            self.next = block.first;
            if block.unended {
                self.unended.get_or_insert(Where {
                    line: block.first.line + block.lines.len() as u64 - 1,
                    ..block.first
                });
            }
            self.waiting = block.lines.into_iter();
        }
        Ok(Some(self.cut()))
    }

    /// A run of key lines ends a batch: what follows is checked under those keys.
    fn cut(&mut self) -> Batch {
        let first = self.next;
        let waiting = self.waiting.as_slice();
        let boundary = waiting
            .windows(2)
            .position(|pair| is_key_line(&pair[0]) && !is_key_line(&pair[1]))
            .map_or(waiting.len(), |at| at + 1);
        let lines: Vec<Bytes> = self
            .waiting
            .by_ref()
            .take(boundary.min(BATCH_LINES))
            .collect();
        self.next.line += lines.len() as u64;
        Batch {
            first,
            changes_keys: lines.last().is_some_and(|line| is_key_line(line)),
            bytes: lines.iter().map(|line| line.len() as u64 + 1).sum(),
            lines,
        }
    }
}

/// Whether a canonical line is that of a key: its first member is the algorithm. Missing one costs time, not truth: a
/// signature that was checked under older keys is checked again.
fn is_key_line(line: &[u8]) -> bool {
    line.starts_with(b"{\"envelope\":{\"algorithm\":")
}

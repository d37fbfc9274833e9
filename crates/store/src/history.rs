//! What was committed lately, for handles that lost a race.
//!
//! Guarantees: a handle that commits on an old head gets every change since, in order. Kept only while there is more
//! than one handle and only from the slowest one's position on; a handle that falls too far behind is refused.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use chancery_core::line::Seq;
use chancery_core::rows::RowChange;
use chancery_core::window::Remember;

use crate::changes::Changes;

/// One of the handles on a journal.
pub(crate) type HandleId = u64;

/// A handle that is further behind than this has to be opened anew.
const MOST_CHANGES: usize = 1 << 20;

#[derive(Default)]
pub(crate) struct History {
    handles: BTreeMap<HandleId, Seq>,
    next_handle: HandleId,
    batches: VecDeque<Past>,
    changes: usize,
}

struct Past {
    base: Seq,
    end: Seq,
    changes: Arc<Changes>,
}

impl History {
    /// A new handle that knows the journal up to `seq`.
    pub(crate) fn enter(&mut self, seq: Seq) -> HandleId {
        let handle = self.next_handle;
        self.next_handle += 1;
        self.handles.insert(handle, seq);
        handle
    }

    /// A handle is gone.
    pub(crate) fn leave(&mut self, handle: HandleId) {
        self.handles.remove(&handle);
        self.trim();
    }

    /// A handle committed a batch.
    pub(crate) fn committed(
        &mut self,
        handle: HandleId,
        base: Seq,
        end: Seq,
        changes: &Arc<Changes>,
    ) {
        if self.handles.len() > 1 {
            self.changes += changes.len();
            self.batches.push_back(Past {
                base,
                end,
                changes: changes.clone(),
            });
        }
        self.handles.insert(handle, end);
        self.trim();
    }

    /// All changes since `base`, up to `end`, which the handle knows from now on.
    pub(crate) fn since(
        &mut self,
        handle: HandleId,
        base: Seq,
        end: Seq,
    ) -> Option<(Vec<RowChange>, Vec<Remember>)> {
        let start = self.batches.iter().position(|past| past.base == base)?;
        let mut rows = Vec::new();
        let mut remembered = Vec::new();
        for past in self.batches.range(start..) {
            rows.extend(past.changes.rows().cloned());
            remembered.extend(past.changes.remembered());
        }
        self.handles.insert(handle, end);
        self.trim();
        Some((rows, remembered))
    }

    fn trim(&mut self) {
        let slowest = self.handles.values().copied().min().unwrap_or(Seq::MAX);
        while let Some(first) = self.batches.front() {
            if first.end > slowest && self.changes <= MOST_CHANGES {
                return;
            }
            self.changes -= first.changes.len();
            self.batches.pop_front();
        }
    }
}

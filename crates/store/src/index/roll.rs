//! The roll call of an index that has rows at the start: a cache that was told of all of them knows of what there is none.
//!
//! It runs beside the node, a page at a time. Rows that change meanwhile are in the cache, or were dropped by it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use super::{Behind, Readers};

/// Keys that are read at once.
const PAGE_KEYS: usize = 4_096;

/// A roll call under way. It ends when this is dropped, if not before.
pub(crate) struct RollCall {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl RollCall {
    /// Begins to tell the cache of every row.
    pub(crate) fn begin(readers: Readers, behind: Arc<Behind>) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let is_stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("roll call".to_owned())
            .spawn(move || call(&readers, &behind, &is_stopped))?;
        Ok(Self {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for RollCall {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if self
            .thread
            .take()
            .is_some_and(|thread| thread.join().is_err())
        {
            tracing::error!("the roll call of the index panicked; each row is asked for");
        }
    }
}

/// Ends early when there are too many rows to keep in mind, when the index cannot be read, or once `stop` is set: then the
/// index goes on being asked.
fn call(readers: &Readers, behind: &Behind, stop: &AtomicBool) {
    let mut room = behind.cache.room_to_learn();
    let mut after = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        let page = match readers.keys_after(&after, PAGE_KEYS) {
            Ok(page) => page,
            Err(error) => {
                tracing::warn!(%error, "the rows of the index cannot be told of; each is asked for");
                return;
            }
        };
        behind.cache.learn(&page);
        match (page.last(), room.checked_sub(page.len())) {
            (None, _) => return behind.cache.learned_all(),
            (Some(_), None) => return,
            (Some(last), Some(left)) => {
                after = last.as_bytes().to_vec();
                room = left;
            }
        }
    }
}

//! Whether changes of other processes may come in right now.
//!
//! A decision reads many rows, one after the other, and they must be of one moment. While a thread decides it keeps the
//! store still; what others committed comes in before or after. A read that would need it meanwhile fails and says so
//! to the thread that decides, whose decision does not count.

use std::cell::Cell;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

thread_local! {
    static KEEPS: Cell<bool> = const { Cell::new(false) };
    static DISTURBED: Cell<bool> = const { Cell::new(false) };
}

/// What is kept still.
#[derive(Default)]
pub(crate) struct Stillness(RwLock<()>);

impl Stillness {
    pub(crate) fn keep(&self) -> Still<'_> {
        let guard = self.0.read().unwrap_or_else(PoisonError::into_inner);
        KEEPS.set(true);
        DISTURBED.set(false);
        Still { guard: Some(guard) }
    }

    /// Leave to bring changes in, had once nobody keeps the store still. Not for a thread that does so itself.
    pub(crate) fn end(&self) -> RwLockWriteGuard<'_, ()> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this thread keeps it still.
    pub(crate) fn is_kept_here() -> bool {
        KEEPS.get()
    }

    /// Whether this thread keeps it still; then it is told that what it reads has changed meanwhile.
    pub(crate) fn disturbs_this_thread() -> bool {
        let keeps = KEEPS.get();
        if keeps {
            DISTURBED.set(true);
        }
        keeps
    }
}

/// As long as this is there, no change of another process comes in.
#[derive(Default)]
pub struct Still<'s> {
    guard: Option<RwLockReadGuard<'s, ()>>,
}

impl Still<'_> {
    /// Whether a read of this thread found that others have changed what it asked for: what was decided does not count.
    pub fn was_disturbed(&self) -> bool {
        self.guard.is_some() && DISTURBED.get()
    }
}

impl Drop for Still<'_> {
    fn drop(&mut self) {
        if self.guard.is_some() {
            KEEPS.set(false);
        }
    }
}

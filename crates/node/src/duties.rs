//! Timers and deliveries: of all processes that share a journal one sees to them.
//!
//! Where the duty comes to this process it begins with what is on record; where it goes, everything under way is dropped.
//! Whoever has it next begins with the same record, so what was dropped is made again: a delivery twice at worst, and a
//! timer that fired is not wanted any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use chancery_core::protocol::Suite;
use chancery_core::rows::{RowChange, RowKey};
use chancery_core::timer::TIMERS;
use chancery_store::{Pages, StoreError};
use tokio::sync::{Notify, watch};

use crate::gate::Gate;
use crate::outbox::Outbox;
use crate::timers::Timers;

/// Whether the duties are this process's.
pub(crate) struct Duties {
    ours: AtomicBool,
    /// The duty may have changed hands.
    moved: Notify,
    changed: watch::Sender<bool>,
}

impl Duties {
    pub(crate) fn new() -> Self {
        Self {
            ours: AtomicBool::new(false),
            moved: Notify::new(),
            changed: watch::Sender::new(false),
        }
    }

    pub(crate) fn are_ours(&self) -> bool {
        self.ours.load(Ordering::Acquire)
    }

    /// Tells whenever they come or go.
    pub(crate) fn changes(&self) -> watch::Receiver<bool> {
        self.changed.subscribe()
    }

    /// The duty may have changed hands.
    pub(crate) fn look(&self) {
        self.moved.notify_one();
    }

    /// Follows the duty, for ever.
    pub(crate) async fn run<S: Suite>(
        &self,
        gate: Gate<S>,
        outbox: Arc<Outbox>,
        timers: Arc<Timers>,
    ) {
        let mut held = None;
        loop {
            self.moved.notified().await;
            let term = gate.store().duty();
            if term == held {
                continue;
            }
            if held.take().is_some() {
                self.lay_down(&outbox, &timers);
            }
            if term.is_some() {
                match self.take_up(&gate, &outbox, &timers) {
                    Ok(()) => held = term,
                    Err(error) => {
                        tracing::warn!(%error, "timers and deliveries cannot be begun yet");
                        self.lay_down(&outbox, &timers);
                    }
                }
            }
        }
    }

    /// Begins with what is on record. Needs a runtime.
    pub(crate) fn take_up<S: Suite>(
        &self,
        gate: &Gate<S>,
        outbox: &Arc<Outbox>,
        timers: &Timers,
    ) -> Result<(), StoreError> {
        // A commit that still took the duties for this process's may have begun something since they were laid down. It would
        // never go on, and keep others of its lane waiting.
        self.lay_down(outbox, timers);
        // Before anything is read: what is committed from here on is begun by its commit, or found on record, or both.
        self.ours.store(true, Ordering::Release);
        // Timers first: they are few, and need not wait until all deliveries are read.
        for page in Pages::below(&**gate.store(), RowKey::text(TIMERS, &[])) {
            let waiting = page?.into_iter().map(|(key, row)| (key, Some(row)));
            timers.follow(&waiting.collect::<Vec<RowChange>>());
        }
        outbox.resume(gate)?;
        self.changed.send_replace(true);
        Ok(())
    }

    fn lay_down(&self, outbox: &Outbox, timers: &Timers) {
        self.ours.store(false, Ordering::Release);
        outbox.pause();
        timers.clear();
        self.changed.send_replace(false);
    }
}

//! Timers: rows that become inputs when they are due. They survive a restart because they are rows.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use chancery_core::protocol::Suite;
use chancery_core::rows::{RowChange, RowKey};
use chancery_core::timer::{TIMERS, parse_timer_key};
use hashbrown::HashMap;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::clock::Clock;
use crate::gate::Gate;

/// All timers that wait, by the moment they are due.
pub(crate) struct Timers {
    waiting: Mutex<Waiting>,
    changed: Notify,
    clock: Clock,
}

#[derive(Default)]
struct Waiting {
    by_moment: BTreeMap<(Instant, RowKey), Bytes>,
    moments: HashMap<RowKey, Instant>,
}

impl Waiting {
    fn set(&mut self, key: &RowKey, due: Instant, row: Bytes) {
        self.moments.insert(key.clone(), due);
        self.by_moment.insert((due, key.clone()), row);
    }

    fn remove(&mut self, key: &RowKey) {
        if let Some(due) = self.moments.remove(key) {
            self.by_moment.remove(&(due, key.clone()));
        }
    }

    /// Takes the first timer that is due.
    fn take_due(&mut self, now: Instant) -> Option<(RowKey, Bytes)> {
        let (due, _) = self.by_moment.first_key_value()?.0;
        if *due > now {
            return None;
        }
        let ((_, key), row) = self.by_moment.pop_first()?;
        self.moments.remove(&key);
        Some((key, row))
    }
}

impl Timers {
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            waiting: Mutex::default(),
            changed: Notify::new(),
            clock,
        }
    }

    /// Whether a row is a timer.
    pub(crate) fn follows(&self, key: &RowKey) -> bool {
        key.is_in(TIMERS)
    }

    /// Follows committed timer rows.
    pub(crate) fn follow(&self, rows: &[RowChange]) {
        let mut changed = false;
        for (key, change) in rows.iter().filter(|(key, _)| self.follows(key)) {
            changed = true;
            let mut waiting = self.lock();
            waiting.remove(key);
            if let (Some(row), Some(due)) = (change, self.moment(key)) {
                waiting.set(key, due, row.bytes().clone());
            }
        }
        if changed {
            self.changed.notify_one();
        }
    }

    /// Lets go of all of them: another process sees to them.
    pub(crate) fn clear(&self) {
        *self.lock() = Waiting::default();
        self.changed.notify_one();
    }

    /// Fires what is due, for ever.
    pub(crate) async fn run<S: Suite>(&self, gate: Gate<S>) {
        loop {
            let changed = self.changed.notified();
            match self.next_due() {
                Some(due) if due <= Instant::now() => self.fire(&gate),
                Some(due) => {
                    tokio::select! {
                        () = tokio::time::sleep_until(due) => {}
                        () = changed => {}
                    }
                }
                None => changed.await,
            }
        }
    }

    fn fire<S: Suite>(&self, gate: &Gate<S>) {
        let Some((key, row)) = self.lock().take_due(Instant::now()) else {
            return;
        };
        let Some((_, name)) = parse_timer_key(&key) else {
            return;
        };
        if gate.store().duty().is_none() {
            // The duty has lapsed, as after a pause of the process: whoever has it now fires it.
            return;
        }
        let input = match gate.suite().timer(&name, &row) {
            Ok(input) => input,
            Err(damage) => {
                tracing::error!(%damage, timer = ?key, "a timer cannot be read and is left alone");
                return;
            }
        };
        // Not awaited: a timer must not hold up the next one. The row goes with the decision.
        let gate = gate.clone();
        tokio::spawn(async move {
            let now = gate.clock().now();
            if gate.submit_timer(input, now, Some(key)).await.is_err() {
                tracing::debug!(
                    "a timer fired while the node was stopping; it will fire after the next start"
                );
            }
        });
    }

    /// When a timer's row is due on this machine's own clock; a fixed clock stands still, its timers run on real time.
    fn moment(&self, key: &RowKey) -> Option<Instant> {
        let (due, _) = parse_timer_key(key)?;
        let wait = due.since(self.clock.now()).unwrap_or(Duration::ZERO);
        Some(Instant::now() + wait)
    }

    fn next_due(&self) -> Option<Instant> {
        self.lock()
            .by_moment
            .first_key_value()
            .map(|((due, _), _)| *due)
    }

    /// How many timers wait.
    pub(crate) fn len(&self) -> usize {
        self.lock().moments.len()
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

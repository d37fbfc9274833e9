//! Identifiers of envelopes that left no line: greetings, questions, what was ignored.

use std::collections::BTreeSet;

use chancery_core::time::Time;
use chancery_core::window::WindowId;
use hashbrown::HashMap;

/// What came before, each until its own end. The one nearest its end goes first when there are too many (AG-DUP-4).
#[derive(Clone, Debug)]
pub struct Once {
    ends: HashMap<WindowId, Time>,
    by_end: BTreeSet<(Time, WindowId)>,
    at_most: usize,
    dropped: u64,
}

impl Once {
    /// Nothing noted yet.
    pub fn new(at_most: usize) -> Self {
        Self {
            ends: HashMap::new(),
            by_end: BTreeSet::new(),
            at_most,
            dropped: 0,
        }
    }

    /// Another limit.
    pub fn limit(&mut self, at_most: usize) {
        self.at_most = at_most;
        self.shrink();
    }

    /// Whether it came before.
    pub fn has(&self, id: &WindowId, now: Time) -> bool {
        self.ends.get(id).is_some_and(|end| now <= *end)
    }

    /// Notes one until `until`; says whether it is the first.
    pub fn note(&mut self, id: &WindowId, now: Time, until: Time) -> bool {
        if self.has(id, now) {
            return false;
        }
        self.forget_ended(now);
        if let Some(old) = self.ends.insert(*id, until) {
            self.by_end.remove(&(old, *id));
        }
        self.by_end.insert((until, *id));
        self.shrink();
        true
    }

    /// Takes a note back.
    pub fn take_back(&mut self, id: &WindowId) {
        if let Some(end) = self.ends.remove(id) {
            self.by_end.remove(&(end, *id));
        }
    }

    /// How many are noted.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether none is noted.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// How many went before their end, for want of room.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// A few of those that have ended: each new one makes room for itself, and no call sweeps them all.
    fn forget_ended(&mut self, now: Time) {
        for _ in 0..2 {
            match self.by_end.first() {
                Some((end, _)) if *end < now => self.drop_first(),
                _ => return,
            }
        }
    }

    fn shrink(&mut self) {
        while self.ends.len() > self.at_most {
            self.drop_first();
            self.dropped += 1;
        }
    }

    fn drop_first(&mut self) {
        if let Some((_, id)) = self.by_end.pop_first() {
            self.ends.remove(&id);
        }
    }
}

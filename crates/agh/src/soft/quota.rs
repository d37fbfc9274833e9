//! How much one may have in a second: answers to a question, automatic receipts (AG-WHO-12, AG-RCT-6).

use chancery_core::time::Time;
use hashbrown::HashMap;

/// Counts of the current second. A new second starts empty, so nothing is swept and nothing outlives it.
#[derive(Clone, Debug)]
pub struct Quotas {
    second: i64,
    taken: HashMap<(&'static str, Box<str>), u32>,
    at_most: usize,
    refused: u64,
}

impl Quotas {
    /// Nothing taken yet; remembers so many takers in a second.
    pub fn new(at_most: usize) -> Self {
        Self {
            second: i64::MIN,
            taken: HashMap::new(),
            at_most,
            refused: 0,
        }
    }

    /// Takes one, if there is one left. When more takers come in a second than are remembered, none is left.
    pub fn take(&mut self, of: &'static str, who: &str, per_second: u32, now: Time) -> bool {
        let second = now.unix_seconds();
        if second != self.second {
            self.second = second;
            self.taken.clear();
        }
        let full = self.taken.len() >= self.at_most;
        let key = (of, Box::from(who));
        let taken = match self.taken.get_mut(&key) {
            Some(taken) => taken,
            None if full => {
                self.refused += 1;
                return false;
            }
            None => self.taken.entry(key).or_insert(0),
        };
        if *taken >= per_second {
            self.refused += 1;
            return false;
        }
        *taken += 1;
        true
    }

    /// Gives one back.
    pub fn take_back(&mut self, of: &'static str, who: &str) {
        if let Some(taken) = self.taken.get_mut(&(of, Box::from(who))) {
            *taken = taken.saturating_sub(1);
        }
    }

    /// Takers remembered in this second.
    pub fn len(&self) -> usize {
        self.taken.len()
    }

    /// Whether nothing was taken in this second.
    pub fn is_empty(&self) -> bool {
        self.taken.is_empty()
    }

    /// How often none was left.
    pub fn refused(&self) -> u64 {
        self.refused
    }
}

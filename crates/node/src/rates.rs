//! How much each sender may send in a second, on all nodes of a journal together.
//!
//! Each node keeps the whole allowance and takes off what the others tell of. A word comes late, so for a moment more is let
//! in than there is; that is owed, and nothing is let in until it is made up for. Over any longer time the sum holds.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use chancery_core::decision::Shut;
use hashbrown::HashMap;

/// Senders whose rate is remembered; beyond it the ones that have been quiet are forgotten.
const SENDERS: usize = 100_000;
/// How often the others are told.
pub(crate) const TELL_EVERY: Duration = Duration::from_millis(100);
/// An allowance is full after this time. Whoever hears of use that is longer ago (it was paused, or cut off) takes nothing
/// off for it: what was used then has been filled up again since.
pub(crate) const FILLED_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// The part of an allowance that is worth telling of.
const WORTH_TELLING: u32 = 100;
/// Seconds of an allowance that can be owed at most.
const OWED_AT_MOST: f64 = 10.0;

/// The rates of a node, shared with whoever hears of the others'.
#[derive(Clone)]
pub(crate) struct Rates(Arc<Mutex<Buckets>>);

struct Buckets {
    per_second: u32,
    of: HashMap<String, Bucket>,
    /// Whether there may be others to tell.
    is_told: bool,
    /// Whose use is worth telling.
    to_tell: Vec<String>,
}

/// A sender's allowance: full after a second of silence.
struct Bucket {
    left: f64,
    filled: Instant,
    untold: u32,
}

impl Bucket {
    fn fill(&mut self, per_second: f64, now: Instant) {
        let refill = now.duration_since(self.filled).as_secs_f64() * per_second;
        self.left = (self.left + refill).min(per_second);
        self.filled = now;
    }
}

impl Rates {
    pub(crate) fn new(per_second: u32, is_told: bool) -> Self {
        Self(Arc::new(Mutex::new(Buckets {
            per_second,
            of: HashMap::new(),
            is_told,
            to_tell: Vec::new(),
        })))
    }

    /// Takes one of a sender's allowance.
    pub(crate) fn take(&self, sender: &str, now: Instant) -> Result<(), Shut> {
        let mut buckets = self.lock();
        let worth_telling = (buckets.per_second / WORTH_TELLING).max(1);
        let is_told = buckets.is_told;
        let bucket = buckets
            .bucket(sender, now)
            .filter(|bucket| bucket.left >= 1.0)
            .ok_or(Shut { retry_after_s: 1 })?;
        bucket.left -= 1.0;
        if is_told {
            bucket.untold += 1;
            if bucket.untold == worth_telling {
                buckets.to_tell.push(sender.to_owned());
            }
        }
        Ok(())
    }

    /// Gives one back: the decision that took it does not count.
    pub(crate) fn give_back(&self, sender: &str) {
        if let Some(bucket) = self.lock().of.get_mut(sender) {
            bucket.left += 1.0;
            bucket.untold = bucket.untold.saturating_sub(1);
        }
    }

    /// Others have let this sender in so often.
    pub(crate) fn used_elsewhere(&self, sender: &str, times: u32, now: Instant) {
        let mut buckets = self.lock();
        let owed_at_most = f64::from(buckets.per_second) * OWED_AT_MOST;
        if let Some(bucket) = buckets.bucket(sender, now) {
            bucket.left = (bucket.left - f64::from(times)).max(-owed_at_most);
        }
    }

    /// What the others have not been told and should be.
    pub(crate) fn worth_telling(&self) -> Vec<(String, u32)> {
        let mut buckets = self.lock();
        let senders = std::mem::take(&mut buckets.to_tell);
        let used = |sender: String| {
            let bucket = buckets.of.get_mut(&sender)?;
            let times = std::mem::take(&mut bucket.untold);
            (times > 0).then_some((sender, times))
        };
        senders.into_iter().filter_map(used).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Buckets> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Buckets {
    /// A sender's allowance as it is now; none when too many senders are about.
    fn bucket(&mut self, sender: &str, now: Instant) -> Option<&mut Bucket> {
        if self.of.len() >= SENDERS && !self.of.contains_key(sender) {
            self.of
                .retain(|_, bucket| now.duration_since(bucket.filled).as_secs_f64() < 1.0);
            if self.of.len() >= SENDERS {
                return None;
            }
        }
        let per_second = f64::from(self.per_second);
        let bucket = self.of.entry_ref(sender).or_insert(Bucket {
            left: per_second,
            filled: now,
            untold: 0,
        });
        bucket.fill(per_second, now);
        Some(bucket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn let_in(rates: &Rates, now: Instant) -> u32 {
        (0..).take_while(|_| rates.take("x", now).is_ok()).count() as u32
    }

    #[test]
    fn what_others_let_in_is_taken_off_and_owed() {
        // CH-LIM-1, CH-JRN-13
        let rates = Rates::new(100, true);
        let start = Instant::now();
        assert_eq!(let_in(&rates, start), 100);
        assert_eq!(rates.worth_telling(), [("x".to_owned(), 100)]);
        assert!(rates.worth_telling().is_empty(), "told once");
        // Two others let as much in before they heard of it: two seconds are owed.
        rates.used_elsewhere("x", 200, start);
        let after = |seconds| start + Duration::from_millis(seconds);
        assert_eq!(let_in(&rates, after(1_990)), 0);
        assert_eq!(let_in(&rates, after(2_500)), 50);
        // However much they tell, it ends.
        rates.used_elsewhere("x", u32::MAX, after(2_500));
        assert_eq!(let_in(&rates, after(14_000)), 100);
    }

    #[test]
    fn what_was_given_back_is_told_of_nobody() {
        let rates = Rates::new(100, true);
        let now = Instant::now();
        rates.take("x", now).unwrap();
        rates.give_back("x");
        assert!(rates.worth_telling().is_empty());
        assert_eq!(let_in(&rates, now), 100);
        // A node alone keeps no count for others.
        let alone = Rates::new(100, false);
        alone.take("x", now).unwrap();
        assert!(alone.worth_telling().is_empty());
    }

    #[test]
    fn little_use_of_a_large_allowance_is_not_told() {
        let rates = Rates::new(10_000, true);
        let now = Instant::now();
        (0..99).for_each(|_| rates.take("x", now).unwrap());
        assert!(rates.worth_telling().is_empty());
        rates.take("x", now).unwrap();
        assert_eq!(rates.worth_telling(), [("x".to_owned(), 100)]);
    }
}

//! How much each sender may send in a second, on all nodes of a journal together.
//!
//! Each node keeps the whole allowance and takes off what all have used. Use that is on the log comes with its batch: a batch is
//! committed only on top of all before it, so whoever lets an envelope in has counted all that the others let in, and the sum
//! holds however busy or late a node is. Use that left no line (what was refused for another reason, or came twice) is told by
//! word. A word comes late, so for a moment more is let in than there is; that is owed, and nothing is let in until it is made
//! up for.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use chancery_core::decision::Shut;
use chancery_store::Spent;
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
    /// Whether others may use it too.
    is_shared: bool,
    /// Whose use is worth telling.
    to_tell: Vec<String>,
}

/// A sender's allowance: full after a second of silence.
struct Bucket {
    /// What was left when it was filled last, of which all use that counts is taken off.
    left: f64,
    filled: Instant,
    /// Taken by decisions of which it is not known whether they count.
    under_way: u32,
    /// Used without a line, and not told of.
    untold: u32,
}

impl Bucket {
    fn level(&self, per_second: f64, now: Instant) -> f64 {
        // Use is told of in the order in which it happened, and not at times that go back.
        let refill = now.saturating_duration_since(self.filled).as_secs_f64() * per_second;
        (self.left + refill).min(per_second)
    }

    fn fill(&mut self, per_second: f64, now: Instant) {
        self.left = self.level(per_second, now);
        self.filled = self.filled.max(now);
    }

    fn has_one(&self, per_second: f64, now: Instant) -> bool {
        self.level(per_second, now) - f64::from(self.under_way) >= 1.0
    }

    fn use_up(&mut self, per_second: f64, times: u32, at: Instant) {
        self.fill(per_second, at);
        self.left = (self.left - f64::from(times)).max(-per_second * OWED_AT_MOST);
    }

    /// Whether nothing is lost when it is forgotten.
    fn is_as_new(&self, per_second: f64, now: Instant) -> bool {
        self.under_way == 0 && self.level(per_second, now) >= per_second
    }
}

impl Rates {
    pub(crate) fn new(per_second: u32, is_shared: bool) -> Self {
        Self(Arc::new(Mutex::new(Buckets {
            per_second,
            of: HashMap::new(),
            is_shared,
            to_tell: Vec::new(),
        })))
    }

    /// Takes one of a sender's allowance: for good where nobody shares it, else until it is [counted](Self::count) or
    /// [given back](Self::give_back).
    pub(crate) fn take(&self, sender: &str, now: Instant) -> Result<(), Shut> {
        let mut buckets = self.lock();
        let (per_second, is_shared) = (f64::from(buckets.per_second), buckets.is_shared);
        let bucket = buckets
            .bucket(sender, now)
            .filter(|bucket| bucket.has_one(per_second, now))
            .ok_or(Shut { retry_after_s: 1 })?;
        if is_shared {
            bucket.under_way += 1;
        } else {
            bucket.use_up(per_second, 1, now);
        }
        Ok(())
    }

    /// Gives one back: the decision that took it does not count.
    pub(crate) fn give_back(&self, sender: &str) {
        let mut buckets = self.lock();
        let is_shared = buckets.is_shared;
        if let Some(bucket) = buckets.of.get_mut(sender) {
            if is_shared {
                bucket.under_way = bucket.under_way.saturating_sub(1);
            } else {
                bucket.left += 1.0;
            }
        }
    }

    /// What was taken and went with a batch was used then; so was what left no line, of which the others are told by word.
    pub(crate) fn count(&self, with_batch: &[Spent], without_line: &[Spent], at: Instant) {
        if with_batch.is_empty() && without_line.is_empty() {
            return;
        }
        let mut buckets = self.lock();
        let (per_second, worth_telling) = (f64::from(buckets.per_second), buckets.worth_telling());
        for spent in with_batch {
            buckets.count(spent, per_second, at);
        }
        for spent in without_line {
            let Some(bucket) = buckets.count(spent, per_second, at) else {
                continue;
            };
            let before = bucket.untold;
            bucket.untold += spent.times;
            if before < worth_telling && bucket.untold >= worth_telling {
                buckets.to_tell.push(spent.who.clone());
            }
        }
    }

    /// Others have used this with their batches, so long ago.
    pub(crate) fn used_by_others(&self, spent: &[(Spent, Duration)], now: Instant) {
        for (Spent { who, times }, ago) in spent {
            // What was used before this machine began has been filled up again.
            if let Some(at) = now.checked_sub(*ago) {
                self.used_elsewhere(who, *times, at);
            }
        }
    }

    /// Others have let this sender in so often, at that time.
    pub(crate) fn used_elsewhere(&self, sender: &str, times: u32, at: Instant) {
        let mut buckets = self.lock();
        let per_second = f64::from(buckets.per_second);
        if let Some(bucket) = buckets.bucket(sender, at)
            && bucket.filled.saturating_duration_since(at) <= FILLED_AGAIN_AFTER
        {
            bucket.use_up(per_second, times, at);
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
    /// How much use of one sender the others are told of.
    fn worth_telling(&self) -> u32 {
        (self.per_second / WORTH_TELLING).max(1)
    }

    /// What was under way is used.
    fn count(&mut self, spent: &Spent, per_second: f64, at: Instant) -> Option<&mut Bucket> {
        let bucket = self.of.get_mut(&spent.who)?;
        bucket.under_way = bucket.under_way.saturating_sub(spent.times);
        bucket.use_up(per_second, spent.times, at);
        Some(bucket)
    }

    /// A sender's allowance; none when too many senders are about.
    fn bucket(&mut self, sender: &str, now: Instant) -> Option<&mut Bucket> {
        let per_second = f64::from(self.per_second);
        if self.of.len() >= SENDERS && !self.of.contains_key(sender) {
            self.of
                .retain(|_, bucket| !bucket.is_as_new(per_second, now));
            if self.of.len() >= SENDERS {
                return None;
            }
        }
        let bucket = self.of.entry_ref(sender).or_insert(Bucket {
            left: per_second,
            filled: now,
            under_way: 0,
            untold: 0,
        });
        Some(bucket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START_MS: u64 = 100_000;

    fn x(times: u32) -> Spent {
        Spent {
            who: "x".to_owned(),
            times,
        }
    }

    /// As many as are let in at once.
    fn let_in(rates: &Rates, now: Instant) -> u32 {
        (0..).take_while(|_| rates.take("x", now).is_ok()).count() as u32
    }

    #[test]
    fn what_others_let_in_is_taken_off_and_owed() {
        // CH-LIM-1, CH-JRN-13
        let rates = Rates::new(100, true);
        let start = Instant::now();
        assert_eq!(let_in(&rates, start), 100);
        rates.count(&[x(100)], &[], start);
        // Two others let as much in before they heard of it: two seconds are owed.
        rates.used_elsewhere("x", 200, start);
        let after = |millis| start + Duration::from_millis(millis);
        assert_eq!(let_in(&rates, after(1_990)), 0);
        assert_eq!(let_in(&rates, after(2_500)), 50);
        rates.count(&[x(50)], &[], after(2_500));
        // However much they tell, it ends.
        rates.used_elsewhere("x", u32::MAX, after(2_500));
        assert_eq!(let_in(&rates, after(14_000)), 100);
    }

    #[test]
    fn what_is_decided_on_an_old_head_is_decided_again_on_what_the_others_used() {
        // CH-LIM-1, CH-JRN-13: three nodes begin with the whole allowance and ask for all of it at the same time.
        let start = Instant::now();
        let nodes = [0; 3].map(|_| Rates::new(100, true));
        let taken = nodes.each_ref().map(|node| let_in(node, start));
        assert_eq!(taken, [100; 3], "none has heard of another");
        // The first one's batch is committed. The others learn it before theirs is, give back and decide again.
        nodes[0].count(&[x(100)], &[], start);
        for node in &nodes[1..] {
            node.used_by_others(&[(x(100), Duration::ZERO)], start);
            (0..100).for_each(|_| node.give_back("x"));
            assert_eq!(let_in(node, start), 0);
        }
    }

    #[test]
    fn a_node_that_slept_owes_nothing_for_what_was_filled_up_again() {
        // CH-LIM-1, CH-JRN-13
        let start = Instant::now();
        let now = start + Duration::from_millis(START_MS);
        let rates = Rates::new(100, true);
        assert_eq!(let_in(&rates, start), 100);
        rates.count(&[x(100)], &[], start);
        // It wakes, decides with what it knows, and hears then of 30 seconds in which the others used what there was.
        assert_eq!(let_in(&rates, now), 100);
        let each_second = |ago_s| (x(100), Duration::from_secs(ago_s));
        let slept: Vec<_> = (10..40).rev().map(each_second).collect();
        rates.used_by_others(&slept, now);
        (0..100).for_each(|_| rates.give_back("x"));
        assert_eq!(let_in(&rates, now), 100, "ten quiet seconds filled it");
        (0..100).for_each(|_| rates.give_back("x"));
        // Of what they used half a second ago half is missing; what is older than this machine is nothing.
        let lately = [(x(7), Duration::MAX), (x(100), Duration::from_millis(500))];
        rates.used_by_others(&lately, now);
        assert_eq!(let_in(&rates, now), 50);
    }

    #[test]
    fn use_from_long_before_what_was_counted_last_is_not_owed() {
        // CH-LIM-1, CH-JRN-13: it sleeps for half a minute, and of what it hears then the latest comes first.
        let start = Instant::now();
        let now = start + Duration::from_millis(START_MS);
        let rates = Rates::new(100, true);
        rates.used_elsewhere("x", 10, start);
        rates.used_elsewhere("x", 10, now);
        let each_second = |ago_s| (x(100), Duration::from_secs(ago_s));
        let slept: Vec<_> = (2..30).rev().map(each_second).collect();
        rates.used_by_others(&slept, now);
        assert_eq!(let_in(&rates, now), 90);
    }

    #[test]
    fn what_was_given_back_is_told_of_nobody() {
        let rates = Rates::new(100, true);
        let now = Instant::now();
        rates.take("x", now).unwrap();
        rates.give_back("x");
        assert_eq!(let_in(&rates, now), 100);
        assert!(rates.worth_telling().is_empty());
        // A node alone waits for no batch.
        let alone = Rates::new(100, false);
        alone.take("x", now).unwrap();
        alone.give_back("x");
        assert_eq!(let_in(&alone, now), 100);
        assert_eq!(let_in(&alone, now + Duration::from_millis(500)), 50);
    }

    #[test]
    fn what_left_no_line_is_told_by_word_and_little_of_it_is_not() {
        let rates = Rates::new(10_000, true);
        let now = Instant::now();
        (0..299).for_each(|_| rates.take("x", now).unwrap());
        rates.count(&[x(100)], &[x(99)], now);
        assert!(rates.worth_telling().is_empty());
        rates.count(&[], &[x(1)], now);
        assert_eq!(rates.worth_telling(), [("x".to_owned(), 100)]);
        assert!(rates.worth_telling().is_empty(), "told once");
    }
}

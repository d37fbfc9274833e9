//! Committed changes that the index does not hold yet, ordered by key.
//!
//! A commit hands its changes over unsorted, in one step; whoever needs the order (a scan, the index writer) sorts
//! them in. Changes of one row coalesce: the index sees the last one only.

use std::collections::BTreeMap;
use std::collections::btree_map::Range;
use std::iter::Peekable;
use std::ops::Bound;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use chancery_core::line::Seq;
use chancery_core::rows::{Row, RowKey};
use chancery_core::window::Remember;
use chancery_journal::Head;

use crate::changes::Changes;

/// So many changes are worth a transaction at once: most of a busy node's rows are changed again and again, and only
/// the last change within a transaction is written.
const WORTH_WRITING_ROWS: usize = 32_768;
/// Otherwise changes wait at most this long.
const LONGEST_WAIT: Duration = Duration::from_millis(500);

/// Changes are few beside so many times as many that are sorted already.
const FEW_AMONG: usize = 8;

/// Rows by key; none for a removed one.
pub(crate) type RowMap = BTreeMap<RowKey, Option<Row>>;

/// Up to where the rows reflect the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub head: Head,
    /// First line of the segment that holds the head, and the offset behind it.
    pub segment: Seq,
    pub offset: u64,
}

/// One transaction's worth of changes.
pub(crate) struct Job {
    pub rows: Arc<RowMap>,
    pub remembered: Vec<Remember>,
    pub mark: Mark,
    pub change: u64,
}

/// Two locks, taken in this order: sorting changes in never keeps a commit waiting.
pub(crate) struct Pending {
    sorted: Mutex<Sorted>,
    fresh: Mutex<Fresh>,
    /// The index writer waits here for work, closers for the writer; with `fresh`.
    moved: Condvar,
}

/// What commits hand over, and what the writer is to do.
#[derive(Default)]
struct Fresh {
    batches: Vec<FreshBatch>,
    /// The last change handed over, and the last one written.
    change: u64,
    written_change: u64,
    /// Rows changed since the last job was taken, and since when.
    rows: usize,
    since: Option<Instant>,
    wanted_change: u64,
    stop: Option<Stop>,
    failure: Option<String>,
}

struct FreshBatch {
    changes: Arc<Changes>,
    change: u64,
    mark: Option<Mark>,
}

/// Changes by key, and up to where they reflect the log.
struct Sorted {
    rows: RowMap,
    remembered: Vec<Remember>,
    writing: Option<Arc<RowMap>>,
    epoch: u64,
    mark: Mark,
    change: u64,
}

/// How the writer is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// After everything is written.
    Written,
    /// At once.
    Now,
}

impl Pending {
    pub(crate) fn new(mark: Mark) -> Self {
        let sorted = Sorted {
            rows: RowMap::new(),
            remembered: Vec::new(),
            writing: None,
            epoch: 0,
            mark,
            change: 0,
        };
        Self {
            sorted: Mutex::new(sorted),
            fresh: Mutex::default(),
            moved: Condvar::new(),
        }
    }

    fn fresh(&self) -> MutexGuard<'_, Fresh> {
        self.fresh.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The changes by key, everything handed over so far among them.
    fn sorted(&self) -> MutexGuard<'_, Sorted> {
        let mut sorted = self.sorted.lock().unwrap_or_else(PoisonError::into_inner);
        let batches = std::mem::take(&mut self.fresh().batches);
        sorted.take(batches);
        sorted
    }

    /// Takes committed changes; `mark` says up to where they reflect the log, none when they are not on it.
    pub(crate) fn push(&self, changes: Arc<Changes>, change: u64, mark: Option<Mark>) {
        let mut fresh = self.fresh();
        let (was_idle, was_worth) = (fresh.since.is_none(), fresh.is_worth_writing());
        fresh.rows += changes.len();
        fresh.change = change;
        fresh.batches.push(FreshBatch {
            changes,
            change,
            mark,
        });
        if was_idle {
            fresh.since = Some(Instant::now());
        }
        if was_idle || !was_worth && fresh.is_worth_writing() {
            self.moved.notify_all();
        }
    }

    /// The changes below `prefix` after `after`, in order, as far as `limit` rows could need them, and the epoch:
    /// an index that is read before the epoch ends lacks no other changes than these, and has none beyond them.
    pub(crate) fn overlay(
        &self,
        prefix: &RowKey,
        after: Option<&RowKey>,
        limit: usize,
    ) -> (RowMap, u64) {
        let sorted = self.sorted();
        let start = match after.filter(|after| *after >= prefix) {
            Some(after) => Bound::Excluded(after),
            None => Bound::Included(prefix),
        };
        let empty = RowMap::new();
        let range = (start, Bound::Unbounded);
        let older = sorted
            .writing
            .as_deref()
            .unwrap_or(&empty)
            .range::<RowKey, _>(range);
        let newer = sorted.rows.range::<RowKey, _>(range);
        let mut overlay = RowMap::new();
        let mut live = 0;
        let layers = Layers {
            older: older.peekable(),
            newer: newer.peekable(),
        };
        for (key, value) in layers {
            if live >= limit || !key.starts_with(prefix) {
                break;
            }
            live += usize::from(value.is_some());
            overlay.insert(key.clone(), value.clone());
        }
        (overlay, sorted.epoch)
    }

    /// The epoch: another one begins when a job is taken, whose transaction may show at any time from then on.
    pub(crate) fn epoch(&self) -> u64 {
        self.sorted
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .epoch
    }

    /// Waits until there is something to write; none when the writer is to end.
    pub(crate) fn next_job(&self) -> Option<Job> {
        let mut fresh = self.fresh();
        loop {
            match (fresh.stop, fresh.since) {
                (Some(Stop::Now), _) | (Some(Stop::Written), None) => return None,
                (Some(Stop::Written), Some(_)) => break,
                (None, Some(since)) => {
                    let left = LONGEST_WAIT.saturating_sub(since.elapsed());
                    let is_wanted = fresh.wanted_change > fresh.written_change;
                    if left.is_zero() || is_wanted || fresh.is_worth_writing() {
                        break;
                    }
                    fresh = self
                        .moved
                        .wait_timeout(fresh, left)
                        .unwrap_or_else(PoisonError::into_inner)
                        .0;
                }
                (None, None) => {
                    fresh = self
                        .moved
                        .wait(fresh)
                        .unwrap_or_else(PoisonError::into_inner)
                }
            }
        }
        drop(fresh);
        Some(self.take_job())
    }

    fn take_job(&self) -> Job {
        let mut sorted = self.sorted.lock().unwrap_or_else(PoisonError::into_inner);
        let mut fresh = self.fresh();
        let batches = std::mem::take(&mut fresh.batches);
        fresh.rows = 0;
        fresh.since = None;
        drop(fresh);
        sorted.take(batches);
        let rows = Arc::new(std::mem::take(&mut sorted.rows));
        sorted.writing = Some(rows.clone());
        sorted.epoch += 1;
        let remembered = std::mem::take(&mut sorted.remembered);
        Job {
            rows,
            remembered,
            mark: sorted.mark,
            change: sorted.change,
        }
    }

    /// A job is written; `publish` runs before anyone can look again.
    pub(crate) fn written(&self, publish: impl FnOnce()) {
        let mut sorted = self.sorted.lock().unwrap_or_else(PoisonError::into_inner);
        let written = sorted.writing.take();
        publish();
        drop(sorted);
        // Thousands of rows are let go of outside the lock.
        drop(written);
    }

    /// Tells those who wait for it that a job is done.
    pub(crate) fn announce(&self, job: &Job) {
        let mut fresh = self.fresh();
        fresh.written_change = job.change;
        fresh.failure = None;
        self.moved.notify_all();
    }

    /// A job could not be written. Waits a while; says whether to try again.
    pub(crate) fn failed(&self, error: String, pause: Duration) -> bool {
        let mut fresh = self.fresh();
        fresh.failure = Some(error);
        self.moved.notify_all();
        let goes_on = |fresh: &mut Fresh| fresh.stop.is_none();
        fresh = self
            .moved
            .wait_timeout_while(fresh, pause, goes_on)
            .unwrap_or_else(PoisonError::into_inner)
            .0;
        fresh.stop.is_none()
    }

    /// Waits until everything pushed so far is written, or cannot be.
    pub(crate) fn flush(&self) -> Result<(), String> {
        let mut fresh = self.fresh();
        let target = fresh.change;
        fresh.wanted_change = target;
        self.moved.notify_all();
        while fresh.written_change < target {
            fresh.check()?;
            fresh = self
                .moved
                .wait(fresh)
                .unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }

    /// Waits until at most `lines` lines are missing in the index.
    pub(crate) fn wait_for_lag(&self, lag: impl Fn() -> u64, lines: u64) -> Result<(), String> {
        let mut fresh = self.fresh();
        while lag() > lines {
            fresh.check()?;
            fresh = self
                .moved
                .wait(fresh)
                .unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }

    /// Tells the writer to end.
    pub(crate) fn stop(&self, how: Stop) {
        let mut fresh = self.fresh();
        if fresh.stop != Some(Stop::Now) {
            fresh.stop = Some(how);
        }
        self.moved.notify_all();
    }

    /// Why the last attempt to write failed, if it did.
    pub(crate) fn failure(&self) -> Option<String> {
        self.fresh().failure.clone()
    }
}

impl Fresh {
    fn is_worth_writing(&self) -> bool {
        self.rows >= WORTH_WRITING_ROWS
    }

    /// Whether it makes sense to wait for the writer.
    fn check(&self) -> Result<(), String> {
        match (&self.failure, self.stop) {
            (Some(failure), _) => Err(failure.clone()),
            (None, Some(_)) => Err("the store is closed".into()),
            (None, None) => Ok(()),
        }
    }
}

impl Sorted {
    /// Sorts changes in.
    fn take(&mut self, batches: Vec<FreshBatch>) {
        let mut rows = Vec::new();
        for batch in batches {
            match Arc::try_unwrap(batch.changes) {
                Ok(changes) => {
                    for unit in changes.into_units() {
                        rows.extend(unit.rows);
                        self.remembered.extend(unit.remembered);
                    }
                }
                Err(shared) => {
                    rows.extend(shared.rows().cloned());
                    self.remembered.extend(shared.remembered());
                }
            }
            self.change = batch.change;
            self.mark = batch.mark.unwrap_or(self.mark);
        }
        // Many are sorted at once for less than each takes to find its place; a few need not move all others for that.
        if rows.len() < self.rows.len() / FEW_AMONG {
            self.rows.extend(rows);
        } else {
            self.rows.append(&mut rows.into_iter().collect());
        }
    }
}

/// Two layers of changes in one order; of a row that both hold the newer change is shown.
struct Layers<'m> {
    older: Peekable<Range<'m, RowKey, Option<Row>>>,
    newer: Peekable<Range<'m, RowKey, Option<Row>>>,
}

impl<'m> Iterator for Layers<'m> {
    type Item = (&'m RowKey, &'m Option<Row>);

    fn next(&mut self) -> Option<Self::Item> {
        match (self.older.peek(), self.newer.peek()) {
            (Some((older, _)), Some((newer, _))) if older == newer => {
                self.older.next();
                self.newer.next()
            }
            (Some((older, _)), Some((newer, _))) if older < newer => self.older.next(),
            (Some(_), None) => self.older.next(),
            _ => self.newer.next(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Chance;

    fn key(n: u64) -> RowKey {
        RowKey::text("t", &[&format!("{n:02}")])
    }

    fn merged(index: &RowMap, overlay: &RowMap, limit: usize) -> Vec<(RowKey, Row)> {
        let mut rows = index.clone();
        rows.extend(overlay.clone());
        rows.into_iter()
            .filter_map(|(key, value)| Some((key, value?)))
            .take(limit)
            .collect()
    }

    /// A scan takes the overlay at one moment and reads the index at a later one: within one epoch it sees the state
    /// of the first moment.
    #[test]
    fn an_overlay_on_the_index_of_its_epoch_is_the_committed_state() {
        for seed in 0..300 {
            let mut chance = Chance::new(seed);
            let pending = Pending::new(Mark::START);
            let (mut committed, mut index) = (RowMap::new(), RowMap::new());
            let (mut change, mut published) = (0, 0);
            let mut job: Option<Job> = None;
            let mut scan: Option<(RowMap, RowMap, u64, usize)> = None;
            for _ in 0..150 {
                match chance.below(7) {
                    0..=2 => {
                        change += 1;
                        let value =
                            (!chance.one_in(3)).then(|| Row::from(change.to_string().into_bytes()));
                        let rows = vec![(key(chance.below(15)), value)];
                        committed.extend(rows.clone());
                        let changes = Changes::of_rows(rows);
                        pending.push(Arc::new(changes), change, None);
                    }
                    3 if job.is_none() && change > published => job = Some(pending.take_job()),
                    // The transaction is visible at once, its publication comes later.
                    4 => index.extend(job.iter().flat_map(|job| (*job.rows).clone())),
                    5 => {
                        if let Some(job) = job.take() {
                            index.extend((*job.rows).clone());
                            pending.written(|| published = job.change);
                        }
                    }
                    _ => {
                        let limit = 1 + chance.below(16) as usize;
                        let prefix = RowKey::text("t", &[]);
                        let (overlay, epoch) = pending.overlay(&prefix, None, limit);
                        scan = Some((overlay, committed.clone(), epoch, limit));
                    }
                }
                if let Some((overlay, then, epoch, limit)) = &scan
                    && *epoch == pending.epoch()
                {
                    assert_eq!(
                        merged(&index, overlay, *limit),
                        merged(then, &RowMap::new(), *limit),
                        "seed {seed}"
                    );
                }
            }
        }
    }
}

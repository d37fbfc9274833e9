//! All cores prepare lines; one takes them in order.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread;

use chancery_core::protocol::Suite;
use chancery_journal::{Prepared, Terms, prepare_under};

use super::batches::{Batch, Batches};
use super::lines::Where;
use crate::exit::Failure;

/// Who takes prepared lines.
pub(super) trait Taker<S: Suite> {
    /// What lines are best prepared under after those taken so far.
    fn terms(&self) -> Terms<S>;
    /// Takes the next line.
    fn take(&mut self, at: Where, prepared: Prepared);
    /// So many bytes of the log are done.
    fn done(&mut self, bytes: u64);
}

struct Job<S: Suite> {
    number: u64,
    batch: Batch,
    terms: Terms<S>,
}

struct Ready {
    number: u64,
    first: Where,
    bytes: u64,
    lines: Vec<Prepared>,
}

/// Runs a log through all cores into `taker`.
pub(super) fn run<S: Suite + Clone>(
    suite: &S,
    batches: &mut Batches,
    taker: &mut dyn Taker<S>,
) -> Result<(), Failure> {
    let workers = thread::available_parallelism().map_or(1, NonZero::get);
    let (to_workers, jobs) = mpsc::channel::<Job<S>>();
    let (to_taker, ready) = mpsc::channel::<Ready>();
    let jobs = Mutex::new(jobs);
    thread::scope(|scope| {
        for _ in 0..workers {
            let to_taker = to_taker.clone();
            let suite = suite.clone();
            let jobs = &jobs;
            scope.spawn(move || work(&suite, jobs, &to_taker));
        }
        drop(to_taker);
        let mut desk = Desk {
            to_workers,
            ready,
            sent: 0,
            taken: 0,
            early: BTreeMap::new(),
            under_way: workers * 4,
        };
        desk.run(batches, taker)
    })
}

fn work<S: Suite>(suite: &S, jobs: &Mutex<Receiver<Job<S>>>, to_taker: &Sender<Ready>) {
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else { return };
        let lines = job.batch.lines.into_iter();
        let ready = Ready {
            number: job.number,
            first: job.batch.first,
            bytes: job.batch.bytes,
            lines: lines
                .map(|line| prepare_under(suite, line, &job.terms))
                .collect(),
        };
        if to_taker.send(ready).is_err() {
            return;
        }
    }
}

/// Hands batches out and takes them back in order.
struct Desk<S: Suite> {
    to_workers: Sender<Job<S>>,
    ready: Receiver<Ready>,
    sent: u64,
    taken: u64,
    early: BTreeMap<u64, Ready>,
    under_way: usize,
}

impl<S: Suite> Desk<S> {
    fn run(&mut self, batches: &mut Batches, taker: &mut dyn Taker<S>) -> Result<(), Failure> {
        let mut keys_change = false;
        let mut ended = false;
        loop {
            while !ended && self.has_room(keys_change) {
                match batches.next()? {
                    None => ended = true,
                    Some(batch) => {
                        keys_change = batch.changes_keys;
                        self.send(batch, taker.terms());
                    }
                }
            }
            if self.sent == self.taken {
                return Ok(());
            }
            let Ok(ready) = self.ready.recv() else {
                return Err(Failure::damaged("a thread that checks lines has stopped"));
            };
            self.early.insert(ready.number, ready);
            while let Some(ready) = self.early.remove(&self.taken) {
                self.taken += 1;
                take(ready, taker);
            }
        }
    }

    /// After lines that change keys the next batch waits until they are taken.
    fn has_room(&self, keys_change: bool) -> bool {
        let under_way = self.sent - self.taken;
        if keys_change {
            under_way == 0
        } else {
            under_way < self.under_way as u64
        }
    }

    fn send(&mut self, batch: Batch, terms: Terms<S>) {
        let job = Job {
            number: self.sent,
            batch,
            terms,
        };
        // The workers live as long as the desk; one that panicked is told by the scope.
        let _ = self.to_workers.send(job);
        self.sent += 1;
    }
}

fn take<S: Suite>(ready: Ready, taker: &mut dyn Taker<S>) {
    for (line, prepared) in (ready.first.line..).zip(ready.lines) {
        let at = Where {
            line,
            ..ready.first
        };
        taker.take(at, prepared);
    }
    taker.done(ready.bytes);
}

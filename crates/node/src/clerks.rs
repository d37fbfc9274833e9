//! The gate's two threads: while one makes a batch durable the other decides the next.
//!
//! Whoever decides a batch also commits it, unless the other is still committing; then it is left for that one. So an
//! envelope that comes to an idle node wakes one thread and not two in a row, and under load each thread keeps its
//! work and nobody waits to be woken. Batches are committed in the order in which they were decided.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use chancery_core::protocol::Suite;

use crate::committer::{Behind, Committer, Taken};
use crate::gate::Shared;
use crate::sequencer::{BATCH_INPUTS, DecidedBatch, Sequencer};
use crate::tenant;

/// Who decides and commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Hands {
    /// Two threads of the node's own.
    #[default]
    Own,
    /// Whoever submits, before it waits for its answer: where one thread runs everything, things happen in one order
    /// and a simulation can repeat them.
    Callers,
}

/// What the two threads share.
pub(crate) struct Clerks<S: Suite> {
    shared: Arc<Shared<S>>,
    sequencer: Mutex<Sequencer<S>>,
    committer: Mutex<Committer<S>>,
    desk: Desk<DecidedBatch<S>>,
}

/// The running threads.
pub(crate) struct Threads {
    running: Vec<JoinHandle<()>>,
    /// What only this keeps, where callers lend their hands.
    _kept: Option<Arc<dyn Send + Sync>>,
}

impl Threads {
    /// No threads: callers work for these clerks as long as this is kept.
    pub(crate) fn none<S: Suite>(clerks: Arc<Clerks<S>>) -> Self {
        Self {
            running: Vec::new(),
            _kept: Some(clerks),
        }
    }

    /// Waits for both to end: everything accepted is durable then.
    pub(crate) fn join(self) {
        for thread in self.running {
            let _ = thread.join();
        }
    }
}

impl<S: Suite> Clerks<S> {
    pub(crate) fn new(
        shared: Arc<Shared<S>>,
        sequencer: Sequencer<S>,
        committer: Committer<S>,
    ) -> Arc<Self> {
        Arc::new(Self {
            shared,
            sequencer: Mutex::new(sequencer),
            committer: Mutex::new(committer),
            desk: Desk::default(),
        })
    }

    /// Starts both threads.
    pub(crate) fn start(self: &Arc<Self>) -> std::io::Result<Threads> {
        let spawn = |name: &str| {
            let (clerk, tenant) = (Clerk(Arc::clone(self)), tenant::of_this_thread());
            std::thread::Builder::new()
                .name(name.to_owned())
                .spawn(move || {
                    tenant::work_for(tenant);
                    clerk.work();
                })
        };
        let first = spawn("clerk 1")?;
        match spawn("clerk 2") {
            Ok(second) => Ok(Threads {
                running: vec![first, second],
                _kept: None,
            }),
            Err(error) => {
                self.shared.lanes.close();
                Err(error)
            }
        }
    }

    /// Decides and commits what waits, on the caller's thread.
    pub(crate) fn work_off(&self) {
        let lanes = &self.shared.lanes;
        let mut entries = Vec::new();
        while lanes.take_waiting(&mut entries, BATCH_INPUTS) {
            let batch = lock(&self.sequencer).decide_batch(&mut entries);
            lanes.let_go();
            let taken = lock(&self.committer).take(batch);
            if let Taken::Behind(_) = taken {
                self.shared.fail("callers decide for one process alone");
            }
        }
    }

    /// Commits a batch, and what was left meanwhile. False when the node cannot go on.
    fn commit_all(&self, first: DecidedBatch<S>) -> bool {
        let mut committer = lock(&self.committer);
        let mut batch = Some(first);
        while let Some(decided) = batch {
            batch = match committer.take(decided) {
                Taken::Done => self.desk.next(),
                // Dropped without an answer when it fails: the callers wait until the process ends.
                Taken::Failed => {
                    self.desk.end();
                    return false;
                }
                Taken::Behind(behind) => match self.decide_anew(*behind) {
                    Some(batch) => Some(batch),
                    None => return false,
                },
            };
        }
        true
    }

    /// Decides a batch again, and with it the one that the other thread has decided on top of it meanwhile. None when
    /// that thread has ended in the middle of it.
    fn decide_anew(&self, behind: Behind<S>) -> Option<DecidedBatch<S>> {
        let mut sequencer = lock(&self.sequencer);
        let number = behind.batch.number;
        let mut void = vec![behind.batch];
        // No more than one: the lanes are let go of only after a batch was taken from the desk.
        if sequencer.went_beyond(number) {
            void.push(self.desk.wait_for_next()?);
        }
        Some(sequencer.decide_anew(void, behind.head, &behind.rows))
    }
}

/// One of the two threads. A panic in it ends the node: what was decided may be lost, and nobody would answer.
struct Clerk<S: Suite>(Arc<Clerks<S>>);

impl<S: Suite> Clerk<S> {
    /// Works until the lanes are closed and empty, or the node fails.
    fn work(&self) {
        let clerks = &*self.0;
        let lanes = &clerks.shared.lanes;
        let mut entries = Vec::with_capacity(BATCH_INPUTS);
        while lanes.take(&mut entries, BATCH_INPUTS) {
            let batch = lock(&clerks.sequencer).decide_batch(&mut entries);
            // The other one decides only after this batch has its place.
            let offered = clerks.desk.offer(batch);
            lanes.let_go();
            let goes_on = match offered {
                Offered::Left => true,
                Offered::Yours(batch) => clerks.commit_all(batch),
                Offered::Ended => false,
            };
            if !goes_on {
                return;
            }
        }
    }
}

impl<S: Suite> Drop for Clerk<S> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.shared.fail("a thread of the gate panicked");
            self.0.desk.end();
        }
    }
}

/// A thread that panicked has failed the node: nothing reads what it left behind.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where a batch is left for the thread that commits.
struct Desk<T> {
    state: Mutex<State<T>>,
    moved: Condvar,
}

struct State<T> {
    /// Whether a thread commits: it takes what is left here.
    is_attended: bool,
    left: Option<T>,
    has_ended: bool,
}

impl<T> Default for Desk<T> {
    fn default() -> Self {
        Self {
            state: Mutex::new(State {
                is_attended: false,
                left: None,
                has_ended: false,
            }),
            moved: Condvar::new(),
        }
    }
}

/// What became of a batch that was offered.
enum Offered<T> {
    /// Nobody commits: whoever offered it does, until [`Desk::next`] has nothing.
    Yours(T),
    /// The other thread has taken it.
    Left,
    /// There are no more commits.
    Ended,
}

impl<T> Desk<T> {
    /// Offers the next batch. Returns when it has somebody who commits it: exactly one batch is decided while another
    /// is made durable.
    fn offer(&self, batch: T) -> Offered<T> {
        let mut state = lock(&self.state);
        if !state.is_attended {
            state.is_attended = true;
            return Offered::Yours(batch);
        }
        state.left = Some(batch);
        self.moved.notify_all();
        while state.left.is_some() && !state.has_ended {
            state = self
                .moved
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if state.has_ended {
            return Offered::Ended;
        }
        Offered::Left
    }

    /// The batch that was left meanwhile; with none the thread that commits is free.
    fn next(&self) -> Option<T> {
        let mut state = lock(&self.state);
        let left = state.left.take();
        state.is_attended = left.is_some();
        drop(state);
        self.moved.notify_one();
        left
    }

    /// The batch that is about to be left; none when nothing more is committed. The thread that commits goes on.
    fn wait_for_next(&self) -> Option<T> {
        let mut state = lock(&self.state);
        while state.left.is_none() && !state.has_ended {
            state = self
                .moved
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        let left = state.left.take();
        drop(state);
        self.moved.notify_all();
        left
    }

    /// Nothing more is committed.
    fn end(&self) {
        let mut state = lock(&self.state);
        state.has_ended = true;
        drop(state);
        self.moved.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Offers a batch from another thread; returns when it lies on the desk.
    fn left<'s, T: Send + 's>(
        desk: &'s Desk<T>,
        batch: T,
        scope: &'s std::thread::Scope<'s, '_>,
    ) -> std::thread::ScopedJoinHandle<'s, Offered<T>> {
        let offering = scope.spawn(move || desk.offer(batch));
        while lock(&desk.state).left.is_none() {
            std::thread::yield_now();
        }
        offering
    }

    #[test]
    fn a_batch_is_left_for_the_thread_that_commits_and_otherwise_stays_with_its_own() {
        let desk = Desk::default();
        assert!(matches!(desk.offer(1), Offered::Yours(1)));
        std::thread::scope(|scope| {
            let offering = left(&desk, 2, scope);
            assert_eq!(desk.next(), Some(2));
            assert!(matches!(offering.join().unwrap(), Offered::Left));
        });
        assert_eq!(desk.next(), None);
        assert!(matches!(desk.offer(3), Offered::Yours(3)));
    }

    #[test]
    fn a_batch_that_is_about_to_be_left_is_waited_for() {
        let desk = Desk::default();
        assert!(matches!(desk.offer(1), Offered::Yours(1)));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| desk.wait_for_next());
            assert!(matches!(desk.offer(2), Offered::Left));
            assert_eq!(waiting.join().unwrap(), Some(2));
        });
        // It still commits.
        std::thread::scope(|scope| {
            let offering = left(&desk, 3, scope);
            assert_eq!(desk.next(), Some(3));
            assert!(matches!(offering.join().unwrap(), Offered::Left));
        });
    }

    #[test]
    fn whoever_waits_at_the_desk_is_told_when_nothing_more_is_committed() {
        let desk = Desk::default();
        assert!(matches!(desk.offer(1), Offered::Yours(1)));
        std::thread::scope(|scope| {
            let offering = left(&desk, 2, scope);
            desk.end();
            assert!(matches!(offering.join().unwrap(), Offered::Ended));
        });
        assert!(matches!(desk.offer(3), Offered::Ended));
    }
}

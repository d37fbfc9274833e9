//! The committer: seals batches, makes them durable and then lets their answers go.
//!
//! While it waits for the disk the sequencer decides the next batch. A commit that fails is final: nothing of the
//! batch is answered, and the node stops (CH-JRN-2).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use bytes::Bytes;
use chancery_core::admin;
use chancery_core::decision::{Aside, Unit};
use chancery_core::delivery::Delivery;
use chancery_core::line::{Draft, DraftEnvelope, Seq};
use chancery_core::protocol::Suite;
use chancery_core::rows::{Row, RowChange, RowKey};
use chancery_journal::{Chain, Head, Lines};
use chancery_store::{Batch, CommitError, Spent, StoredUnit};

use crate::gate::Shared;
use crate::rates::Rates;
use crate::sequencer::{DecidedBatch, Waiting};
use crate::soft::spent;
use crate::trace::{Stage, Trace, Traced};

/// Below so many signatures another thread costs more than it brings.
const SEAL_ALONE: usize = 8;

/// What follows a commit: woken readers, started deliveries, new timers.
pub(crate) trait AfterCommit: Send {
    /// Called before a batch is made durable.
    fn about_to_commit(&mut self, units: &[Unit]);
    /// Called with a committed batch, before its units.
    fn all_committed(&mut self, units: &[Unit]);
    /// Whether it looks at changes of this row; of the others it gets none.
    fn follows(&self, key: &RowKey) -> bool;
    /// Called with each committed unit, in order, before any answer of its batch leaves; with its trace, where that is
    /// recorded.
    fn committed(&mut self, unit: &Unit, trace: Option<&Arc<Trace>>);
    /// Called with what decisions left aside.
    fn aside(&mut self, aside: Aside);
    /// Called with lines that are delivered once more.
    fn repeat(&mut self, seq: Seq, delivery: Delivery);
    /// Whether it looks at what other processes changed in this row.
    fn minds(&self, key: &RowKey) -> bool;
    /// Called with what other processes changed, instead of units that are not committed.
    fn others_committed(&mut self, rows: &[RowChange], void: &[Unit]);
}

/// What became of a batch.
pub(crate) enum Taken<S: Suite> {
    /// It is durable and answered.
    Done,
    /// The node cannot go on: nothing of it is answered.
    Failed,
    /// Others were faster: it has to be decided again.
    Behind(Box<Behind<S>>),
}

/// What a batch used of allowances: of those decisions that are on record, and of the others.
#[derive(Default)]
struct Usage {
    with_lines: Vec<Spent>,
    without: Vec<Spent>,
}

/// A batch that others were faster than.
pub(crate) struct Behind<S: Suite> {
    pub(crate) batch: DecidedBatch<S>,
    /// The head now.
    pub(crate) head: Head,
    /// What others changed since the batch's base and matters here, each row once, sorted.
    pub(crate) rows: Vec<RowChange>,
}

/// The end of the log that batches are put behind.
pub(crate) struct Committer<S: Suite> {
    pub(crate) shared: Arc<Shared<S>>,
    pub(crate) chain: Chain,
    pub(crate) after: Box<dyn AfterCommit>,
    /// What senders use, told to the others with each batch.
    pub(crate) rates: Rates,
    /// How many bytes of lines the last batch had: the next will have about as many.
    pub(crate) line_bytes: usize,
}

impl<S: Suite> Committer<S> {
    /// Makes a batch durable and lets its answers go.
    pub(crate) fn take(&mut self, mut batch: DecidedBatch<S>) -> Taken<S> {
        if self.shared.has_failed() {
            return Taken::Failed;
        }
        for traced in recorded(&mut batch.waiting) {
            traced.1.begins();
        }
        let usage = self.usage(&batch.waiting);
        // Used before others use what comes after it, however late this process learns that it was committed.
        let used_at = Instant::now();
        match self.commit(&mut batch, &usage) {
            Ok(()) => {
                self.rates.count(&usage.with_lines, &usage.without, used_at);
                for traced in recorded(&mut batch.waiting) {
                    traced.1.ends(Stage::Commit);
                }
                self.publish(batch);
                Taken::Done
            }
            Err(CommitError::Behind {
                head, rows, spent, ..
            }) => {
                // Before anything is decided again.
                self.rates.used_by_others(&spent, Instant::now());
                let minded = |(key, _): &RowChange| self.minds(key);
                let last: BTreeMap<RowKey, Option<Row>> = rows.into_iter().filter(minded).collect();
                let rows: Vec<RowChange> = last.into_iter().collect();
                self.chain = Chain::after(head);
                self.after.others_committed(&rows, &batch.units);
                Taken::Behind(Box::new(Behind { batch, head, rows }))
            }
            Err(CommitError::Failed(reason)) => {
                self.shared.fail(&reason);
                Taken::Failed
            }
        }
    }

    /// Whether anything here depends on a row that others changed. The rules read rows themselves.
    fn minds(&self, key: &RowKey) -> bool {
        self.after.minds(key) || admin::changes_rules(key) || admin::is_token(key)
    }

    /// What a batch used of allowances that others share.
    fn usage(&self, waiting: &[Waiting<S>]) -> Usage {
        if !self.shared.store.is_shared() {
            return Usage::default();
        }
        let of = |recorded: bool| {
            let are_so = move |one: &&Waiting<S>| one.decided.seq.is_some() == recorded;
            spent(waiting.iter().filter(are_so).map(|one| &one.used))
        };
        Usage {
            with_lines: of(true),
            without: of(false),
        }
    }

    fn commit(&mut self, batch: &mut DecidedBatch<S>, usage: &Usage) -> Result<(), CommitError> {
        if batch.units.is_empty() && !self.shared.store.is_shared() {
            return Ok(());
        }
        let base = self.chain.head();
        // Nobody is answered by a batch that decided nothing; what waits in it is decided with the head locked.
        if batch.waiting.is_empty() && !batch.undecided.is_empty() {
            return Err(self.shared.store.take_turn(base));
        }
        let Some(sealed) = seal(&self.shared, &batch.units) else {
            let reason = "a key that seals what its agent sends is gone";
            return Err(CommitError::Failed(reason.to_owned()));
        };
        let mut stored = Vec::with_capacity(batch.units.len());
        let mut lines = Lines::with_capacity(self.line_bytes);
        let mut envelopes = sealed.into_iter();
        let mut waiting = batch.waiting.iter_mut();
        for unit in &mut batch.units {
            let of_unit: Vec<Bytes> = envelopes.by_ref().take(unit.drafts.len()).collect();
            hand_over_sealed(unit, &of_unit, self.chain.head().seq + 1, &mut waiting);
            self.chain
                .append_unit(unit.drafts.iter().zip(&of_unit), &mut lines);
            let rows = std::mem::take(&mut unit.rows);
            let followed = rows.iter().filter(|(key, _)| self.after.follows(key));
            unit.rows = followed.cloned().collect();
            stored.push(StoredUnit {
                rows,
                remembered: std::mem::take(&mut unit.remembered),
            });
        }
        let units = &batch.units;
        let batch = Batch {
            base,
            head: self.chain.head(),
            lines,
            units: stored,
            spent: usage.with_lines.clone(),
        };
        self.line_bytes = batch.lines.text().len();
        self.after.about_to_commit(units);
        self.shared.store.commit(batch).map(drop)
    }

    fn publish(&mut self, mut batch: DecidedBatch<S>) {
        if let Some((settings, keyring)) = batch.changed {
            self.shared.settings.store(settings);
            self.shared.keyring.store(keyring);
        }
        if batch.changed_tokens {
            self.shared.tokens_changed();
        }
        self.shared
            .committed_batch
            .store(batch.number, Ordering::Release);
        self.after.all_committed(&batch.units);
        self.hand_on(&batch.units, &mut batch.waiting);
        for aside in batch.asides {
            self.after.aside(aside);
        }
        for (seq, delivery) in batch.repeat {
            self.after.repeat(seq, delivery);
        }
        if !batch.settled.is_empty()
            && let Err(error) = self.shared.store.forget(&batch.settled)
        {
            tracing::warn!(%error, "settled timers could not be dropped; they will be asked again");
        }
        for waiting in batch.waiting {
            // A caller that hung up changes nothing.
            let _ = waiting.entry.reply.send(waiting.decided);
            drop(waiting.entry.permit);
        }
        if !batch.undecided.is_empty() {
            self.shared.lanes.push_front(batch.undecided);
        }
    }

    /// Hands committed units on to whoever acts on them.
    fn hand_on(&mut self, units: &[Unit], waiting: &mut [Waiting<S>]) {
        let lines: u64 = units.iter().map(|unit| unit.drafts.len() as u64).sum();
        let mut first = self.chain.head().seq + 1 - lines;
        let mut traced = recorded(waiting).peekable();
        for unit in units {
            match traced.next_if(|(seq, _)| *seq == first) {
                Some((_, traced)) => {
                    traced.begins();
                    self.after.committed(unit, Some(&traced.trace));
                    traced.ends(Stage::Deliver);
                }
                None => self.after.committed(unit, None),
            }
            first += unit.drafts.len() as u64;
        }
    }
}

/// The traces of those whose unit is in a batch, in the order of the units.
fn recorded<S: Suite>(waiting: &mut [Waiting<S>]) -> impl Iterator<Item = (Seq, &mut Traced)> {
    waiting.iter_mut().filter_map(|waiting| {
        let traced = waiting.entry.traced.as_mut()?;
        Some((waiting.decided.seq?, traced))
    })
}

/// Gives the envelope that a unit begins with to whoever waits for that unit, when this node signed it. Those who wait
/// stand in the order of the units.
fn hand_over_sealed<'w, S: Suite>(
    unit: &Unit,
    envelopes: &[Bytes],
    first: Seq,
    waiting: &mut impl Iterator<Item = &'w mut Waiting<S>>,
) {
    let signed = matches!(
        unit.drafts.first().map(|draft| &draft.envelope),
        Some(DraftEnvelope::Unsealed { .. })
    );
    if signed && let Some(waiting) = waiting.find(|waiting| waiting.decided.seq == Some(first)) {
        waiting.decided.sealed = envelopes.first().cloned();
    }
}

/// The envelopes of all lines, signed where the node signs, in order.
fn seal<S: Suite>(shared: &Shared<S>, units: &[Unit]) -> Option<Vec<Bytes>> {
    let drafts: Vec<&Draft> = units.iter().flat_map(|unit| &unit.drafts).collect();
    let unsealed = drafts
        .iter()
        .filter(|draft| matches!(draft.envelope, DraftEnvelope::Unsealed { .. }))
        .count();
    if unsealed <= SEAL_ALONE {
        return drafts
            .into_iter()
            .map(|draft| seal_one(shared, draft))
            .collect();
    }
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let share = drafts.len().div_ceil(threads);
    std::thread::scope(|scope| {
        let parts: Vec<_> = drafts
            .chunks(share)
            .map(|part| {
                scope.spawn(|| {
                    part.iter()
                        .map(|draft| seal_one(shared, draft))
                        .collect::<Option<Vec<_>>>()
                })
            })
            .collect();
        let mut all = Vec::with_capacity(drafts.len());
        for part in parts {
            all.extend(part.join().ok()??);
        }
        Some(all)
    })
}

fn seal_one<S: Suite>(shared: &Shared<S>, draft: &Draft) -> Option<Bytes> {
    match &draft.envelope {
        DraftEnvelope::Whole(bytes) => Some(bytes.clone()),
        DraftEnvelope::Unsealed { bytes, signer } => {
            let mut sign = |message: &[u8]| shared.vault.sign(signer, message);
            shared.suite.seal(draft.protocol, bytes, &mut sign)
        }
    }
}

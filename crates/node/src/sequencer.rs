//! The sequencer: decides every input, in order, and collects them to batches that are committed together.
//!
//! It owns the state that decisions are made on and reads no disk: a row that is not in memory parks its input
//! while the row is fetched. What it decides is not answered here; answers leave after the commit.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use chancery_core::admin;
use chancery_core::decision::{Aside, Before, Nonce, Unit};
use chancery_core::delivery::Delivery;
use chancery_core::keys::Keyring;
use chancery_core::line::{Draft, ProtocolName, Seq};
use chancery_core::protocol::Suite;
use chancery_core::refusal::Refusal;
use chancery_core::rows::{RowChange, RowKey, Rows};
use chancery_core::time::Time;
use chancery_journal::{Head, InForce, Outcome, decide_input};
use chancery_store::Still;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::clock::Nonces;
use crate::gate::Shared;
use crate::overlay::Overlay;
use crate::soft::{Soft, Used};
use crate::trace::{Stage, Traced};

/// How many inputs are decided before their batch is handed on.
pub(crate) const BATCH_INPUTS: usize = 1_024;

/// How often rows are fetched in vain for an input by another thread: they were evicted before it was decided. After that
/// the thread that decides reads them itself. Two rows of one decision may lie where a small cache has room for one of
/// them, and then no fetch would ever bring both.
const FETCHED_IN_VAIN_AT_MOST: u32 = 4;

/// An input on its way to a decision.
pub(crate) struct Entry<S: Suite> {
    pub(crate) input: S::Input,
    /// When it came in (CH-JRN-14).
    pub(crate) received: Time,
    /// Where the answer goes.
    pub(crate) reply: oneshot::Sender<Decided<S::Answer>>,
    /// A timer's row, dropped once the input is decided.
    pub(crate) timer: Option<RowKey>,
    /// The rows it was parked for.
    pub(crate) fetched: Vec<RowKey>,
    pub(crate) parked_in_vain: u32,
    /// The nonce of the decision that parked it.
    pub(crate) nonce: Option<Nonce>,
    /// Its place among the requests under way; free again when the answer has left.
    pub(crate) permit: Option<OwnedSemaphorePermit>,
    /// Where its trace is recorded.
    pub(crate) traced: Option<Traced>,
}

impl<S: Suite> Entry<S> {
    /// Whether the thread that decides reads the rows that it lacked.
    fn reads_itself(&self) -> bool {
        self.parked_in_vain > FETCHED_IN_VAIN_AT_MOST
    }
}

/// What came of an input, told after the commit.
#[derive(Debug)]
pub struct Decided<A> {
    /// The answer, or why it was refused.
    pub result: Result<A, Refusal>,
    /// The first line of its unit, when it was recorded.
    pub seq: Option<Seq>,
    /// The envelope of that line, when this node signed it: the rules have not seen the signature.
    pub sealed: Option<Bytes>,
}

/// An answer that waits for its batch, with the input that it is decided from again where others were faster.
pub(crate) struct Waiting<S: Suite> {
    pub(crate) entry: Entry<S>,
    pub(crate) decided: Decided<S::Answer>,
    pub(crate) used: Used,
}

/// Inputs decided together.
pub(crate) struct DecidedBatch<S: Suite> {
    pub(crate) number: u64,
    pub(crate) units: Vec<Unit>,
    pub(crate) waiting: Vec<Waiting<S>>,
    /// Inputs after those that could not be decided on rows of one moment.
    pub(crate) undecided: Vec<Entry<S>>,
    pub(crate) asides: Vec<Aside>,
    /// Lines that are delivered once more.
    pub(crate) repeat: Vec<(Seq, Delivery)>,
    /// Agenda rows that are settled without a line.
    pub(crate) settled: Vec<RowKey>,
    /// Settings and keyring after this batch, when it changed them.
    pub(crate) changed: Option<(Arc<S::Settings>, Arc<Keyring>)>,
    /// Whether this batch changed a token's record.
    pub(crate) changed_tokens: bool,
}

impl<S: Suite> DecidedBatch<S> {
    /// With room for what comes of so many inputs.
    fn new(number: u64, inputs: usize) -> Self {
        Self {
            number,
            units: Vec::with_capacity(inputs),
            waiting: Vec::with_capacity(inputs),
            undecided: Vec::new(),
            asides: Vec::with_capacity(inputs),
            repeat: Vec::new(),
            settled: Vec::new(),
            changed: None,
            changed_tokens: false,
        }
    }
}

/// What decisions are made on.
pub(crate) struct Sequencer<S: Suite> {
    shared: Arc<Shared<S>>,
    overlay: Overlay,
    soft: Soft,
    nonces: Nonces,
    settings: Arc<S::Settings>,
    in_force: InForce<S>,
    next_seq: Seq,
    /// The latest decision time.
    time: Option<Time>,
    /// The number of the last batch.
    batch: u64,
    /// How often changes of others had come in when the overlay was empty last: it lies on those.
    foreign: u64,
    /// Whether settings and keyring have to be read anew.
    is_in_doubt: bool,
    /// Inputs of this batch that lack rows.
    parked: Vec<Entry<S>>,
}

impl<S: Suite> Sequencer<S> {
    pub(crate) fn new(shared: Arc<Shared<S>>, in_force: InForce<S>, soft: Soft) -> Self {
        let head = shared.store.head();
        Self {
            overlay: Overlay::new(Arc::clone(&shared.store)),
            soft,
            nonces: Nonces::new(shared.entropy),
            settings: shared.settings.load_full(),
            in_force,
            next_seq: head.seq + 1,
            time: head.time,
            batch: 0,
            foreign: shared.store.foreign_changes(),
            is_in_doubt: false,
            parked: Vec::new(),
            shared,
        }
    }

    /// Decides inputs in the order they have.
    pub(crate) fn decide_batch(&mut self, entries: &mut Vec<Entry<S>>) -> DecidedBatch<S> {
        self.batch += 1;
        self.overlay
            .release(self.shared.committed_batch.load(Ordering::Acquire));
        self.soft.release();
        let mut batch = DecidedBatch::new(self.batch, entries.len());
        let store = Arc::clone(&self.shared.store);
        let still = store.keep_still();
        let is_alone = self.foreign == store.foreign_changes() && !store.is_contended();
        if is_alone && self.is_sure(&still, &mut batch) {
            self.decide_all(entries.drain(..), &still, &mut batch);
        } else {
            // What lies in the overlay will not be committed, or others will be faster: whoever commits learns it, and all is
            // decided then.
            batch.undecided.append(entries);
        }
        batch
    }

    /// Whether batches were decided after this one.
    pub(crate) fn went_beyond(&self, number: u64) -> bool {
        self.batch > number
    }

    /// Decides batches again, in their order, because others have committed up to `head` meanwhile; `rows` is what
    /// they changed.
    pub(crate) fn decide_anew(
        &mut self,
        void: Vec<DecidedBatch<S>>,
        head: Head,
        rows: &[RowChange],
    ) -> DecidedBatch<S> {
        self.batch += 1;
        let decided = void.iter().map(|batch| batch.waiting.len()).sum();
        let mut batch = DecidedBatch::new(self.batch, decided);
        let store = Arc::clone(&self.shared.store);
        let still = store.keep_still();
        self.foreign = store.foreign_changes();
        self.overlay.clear();
        self.soft.nothing_arrives();
        self.next_seq = head.seq + 1;
        self.time = head.time;
        self.is_in_doubt |= rows.iter().any(|(key, _)| admin::changes_rules(key));
        batch.changed_tokens = rows.iter().any(|(key, _)| admin::is_token(key));
        let mut entries = Vec::new();
        for void in void {
            self.is_in_doubt |= void.changed.is_some();
            batch.changed_tokens |= void.changed_tokens;
            for waiting in void.waiting {
                self.soft.give_back(waiting.used);
                entries.push(waiting.entry);
            }
            entries.extend(void.undecided);
        }
        if self.is_sure(&still, &mut batch) {
            self.decide_all(entries.into_iter(), &still, &mut batch);
        } else {
            batch.undecided = entries;
        }
        batch
    }

    /// Reads settings and keyring anew where they may be other ones; whether that went well.
    fn is_sure(&mut self, still: &Still<'_>, batch: &mut DecidedBatch<S>) -> bool {
        if !self.is_in_doubt {
            return true;
        }
        let rows: &dyn Rows = &self.overlay;
        match InForce::of_rows(&*self.shared.suite, rows) {
            Ok(in_force) => {
                self.in_force = in_force;
                batch.changed = Some(self.in_force_now());
                self.is_in_doubt = false;
            }
            Err(_) if still.was_disturbed() => {}
            Err(damage) => self.shared.fail(&damage.to_string()),
        }
        !self.is_in_doubt
    }

    fn decide_all(
        &mut self,
        entries: impl Iterator<Item = Entry<S>>,
        still: &Still<'_>,
        batch: &mut DecidedBatch<S>,
    ) {
        for entry in entries {
            if still.was_disturbed() {
                batch.undecided.push(entry);
            } else {
                self.decide(entry, still, batch);
            }
        }
        self.fetch_parked();
    }

    fn decide(&mut self, mut entry: Entry<S>, still: &Still<'_>, batch: &mut DecidedBatch<S>) {
        if let Some(traced) = &mut entry.traced {
            traced.begins();
        }
        if entry.reads_itself() && !self.read(&entry.fetched, still) {
            batch.undecided.push(entry);
            return;
        }
        let now = self.decision_time(entry.received);
        self.soft.begin(now);
        let before = Before {
            now,
            seq: self.next_seq,
            rows: &self.overlay,
            windows: &self.overlay,
            guards: &mut self.soft,
            nonce: self.nonces.of(&mut entry.nonce, self.next_seq),
            keeps_agenda: true,
        };
        let by_position = self.time.unwrap_or(Time::UNIX_EPOCH);
        let decided = decide_input(
            &*self.shared.suite,
            &entry.input,
            &self.settings,
            by_position,
            before,
        );
        self.overlay.let_go();
        if still.was_disturbed() {
            self.soft.take_back();
            batch.undecided.push(entry);
            return;
        }
        match decided {
            Outcome::Recorded {
                unit,
                answer,
                aside,
            } => {
                let seq = self.next_seq;
                self.record(unit, batch);
                batch.asides.push(aside);
                self.settle(entry, Ok(answer), Some(seq), batch);
            }
            Outcome::Passed {
                answer,
                repeat,
                aside,
            } => {
                batch.repeat.extend(repeat);
                batch.asides.push(aside);
                self.settle(entry, Ok(answer), None, batch);
            }
            Outcome::Refused { refusal, aside } => {
                batch.asides.push(aside);
                self.settle(entry, Err(refusal), None, batch);
            }
            Outcome::Missing(keys) => {
                self.soft.take_back();
                self.park(entry, keys);
            }
            Outcome::Damaged(damage) => self.shared.fail(&damage.to_string()),
        }
    }

    /// Reads rows for one decision; whether they are of its moment.
    fn read(&mut self, keys: &[RowKey], still: &Still<'_>) -> bool {
        match self.overlay.hold(keys) {
            Ok(()) => return true,
            Err(_) if still.was_disturbed() => {}
            Err(error) => self.shared.fail(&error.to_string()),
        }
        false
    }

    /// The later of the time the input came and the journal's latest (CH-JRN-14); a fixed clock has no floor.
    fn decision_time(&self, received: Time) -> Time {
        let received = received.truncate_to_micros();
        match self.time {
            Some(floor) if !self.shared.clock.is_fixed() => received.max(floor),
            _ => received,
        }
    }

    fn record(&mut self, unit: Unit, batch: &mut DecidedBatch<S>) {
        self.overlay
            .apply(batch.number, &unit.rows, &unit.remembered);
        self.soft.decided(&unit.inboxes);
        self.next_seq += unit.drafts.len() as u64;
        // As the journal's head does it: a vibe line may carry its sender's time.
        let own = |draft: &&Draft| draft.protocol != ProtocolName::Vibe;
        let latest = unit
            .drafts
            .iter()
            .filter(own)
            .filter_map(|draft| draft.eval_ts);
        self.time = self.time.max(latest.max());
        if unit.rows.iter().any(|(key, _)| admin::changes_rules(key)) {
            batch.changed = self.follow_rules(&unit.rows);
        }
        let is_act = |draft: &Draft| draft.protocol == ProtocolName::Node;
        batch.changed_tokens |= unit.drafts.first().is_some_and(is_act)
            && unit.rows.iter().any(|(key, _)| admin::is_token(key));
        batch.units.push(unit);
    }

    /// Settings and keyring after an act changed them: only what it changed is read again.
    fn follow_rules(&mut self, changes: &[RowChange]) -> Option<(Arc<S::Settings>, Arc<Keyring>)> {
        let followed = self
            .in_force
            .follow(&self.shared.suite, &self.overlay, changes);
        match followed {
            Ok(()) => Some(self.in_force_now()),
            Err(damage) => {
                self.shared.fail(&damage.to_string());
                None
            }
        }
    }

    fn in_force_now(&mut self) -> (Arc<S::Settings>, Arc<Keyring>) {
        self.settings = Arc::new(self.in_force.settings().clone());
        let keyring = Arc::new(self.in_force.keyring().clone());
        (Arc::clone(&self.settings), keyring)
    }

    fn settle(
        &mut self,
        mut entry: Entry<S>,
        result: Result<S::Answer, Refusal>,
        seq: Option<Seq>,
        batch: &mut DecidedBatch<S>,
    ) {
        if let Some(traced) = &mut entry.traced {
            traced.ends(Stage::Decide);
        }
        batch.settled.extend(entry.timer.clone());
        let decided = Decided {
            result,
            seq,
            sealed: None,
        };
        batch.waiting.push(Waiting {
            entry,
            decided,
            used: self.soft.used(),
        });
    }

    /// Sets an input aside until the rows that its decision lacks are fetched.
    ///
    /// What it lacked before is fetched with it: some of that may be evicted again.
    fn park(&mut self, mut entry: Entry<S>, keys: Vec<RowKey>) {
        let fetched = entry.fetched.len();
        for key in keys {
            if !entry.fetched.contains(&key) {
                entry.fetched.push(key);
            }
        }
        if entry.fetched.len() == fetched {
            if entry.reads_itself() {
                self.shared
                    .fail("a decision asks for rows that it was given");
                return;
            }
            entry.parked_in_vain += 1;
        }
        self.parked.push(entry);
    }

    /// Fetches what the inputs that were set aside lack, together: a store may be a trip away. One whose rows were evicted
    /// before it was decided goes alone, so that they do not make each other's way again.
    fn fetch_parked(&mut self) {
        let parked = std::mem::take(&mut self.parked);
        let (ready, parked): (Vec<_>, Vec<_>) = parked.into_iter().partition(Entry::reads_itself);
        self.shared.lanes.push_front(ready);
        let (alone, together): (Vec<_>, Vec<_>) = parked
            .into_iter()
            .partition(|entry| entry.parked_in_vain > 0);
        if !together.is_empty() {
            self.fetch(together);
        }
        alone.into_iter().for_each(|entry| self.fetch(vec![entry]));
    }

    /// Fetches on another thread, then puts the inputs back in front.
    fn fetch(&self, entries: Vec<Entry<S>>) {
        if self.shared.is_helped() {
            return fetched(&self.shared, entries);
        }
        let parked = Parked::new(&self.shared);
        self.shared
            .runtime
            .spawn_blocking(move || fetched(&parked.0, entries));
    }
}

fn fetched<S: Suite>(shared: &Shared<S>, entries: Vec<Entry<S>>) {
    let keys: BTreeSet<&RowKey> = entries.iter().flat_map(|entry| &entry.fetched).collect();
    let keys: Vec<RowKey> = keys.into_iter().cloned().collect();
    match shared.store.load(&keys) {
        Ok(_) => shared.lanes.push_front(entries),
        Err(error) => shared.fail(&error.to_string()),
    }
}

/// Keeps the lanes open for an input that is set aside, also when its fetch never runs.
struct Parked<S: Suite>(Arc<Shared<S>>);

impl<S: Suite> Parked<S> {
    fn new(shared: &Arc<Shared<S>>) -> Self {
        shared.lanes.park();
        Self(Arc::clone(shared))
    }
}

impl<S: Suite> Drop for Parked<S> {
    fn drop(&mut self) {
        self.0.lanes.unpark();
    }
}

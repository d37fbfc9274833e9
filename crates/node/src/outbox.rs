//! The outbox: brings committed lines to their recipients, at least once, with the attempts their protocol allows.
//!
//! Attempts are counted before each is made, so a restart never adds any. What a suspended participant has here
//! waits until it runs again, and an attempt under way is cut off. Losing the count repeats deliveries, never an effect.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use chancery_core::admin::{RunState, run_state_key};
use chancery_core::delivery::{Delivery, OUTBOX, Whisper, parse_outbox_key};
use chancery_core::line::{Line, Seq};
use chancery_core::protocol::{Failure, Suite};
use chancery_core::rows::{RowChange, RowKey};
use chancery_core::time::Time;
use chancery_core::timer::TimerName;
use chancery_store::{Store, StoreError};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::clock::Clock;
use crate::gate::Gate;

/// What came of one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carried {
    /// The recipient has it.
    Delivered,
    /// The recipient will never take it: further attempts are pointless.
    Refused,
    /// No answer, or one that a later attempt may better; `at_least` lengthens the pause.
    Failed {
        /// The shortest pause before the next attempt.
        at_least: Option<Duration>,
    },
}

/// A future of an attempt.
pub type Attempt = Pin<Box<dyn Future<Output = Carried> + Send>>;

/// Brings bytes to recipients: a transport.
pub trait Carrier: Send + Sync + 'static {
    /// One attempt to bring a line's envelope to the delivery's recipient.
    fn carry(&self, delivery: Delivery, envelope: Bytes) -> Attempt;

    /// Sends a soft message, once.
    fn whisper(&self, whisper: Whisper);
}

/// A carrier that reaches nobody: every attempt fails.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoCarrier;

impl Carrier for NoCarrier {
    fn carry(&self, _: Delivery, _: Bytes) -> Attempt {
        Box::pin(std::future::ready(Carried::Failed { at_least: None }))
    }

    fn whisper(&self, _: Whisper) {}
}

/// How many attempts run at once.
const ATTEMPTS_AT_ONCE: usize = 256;

/// The outbox of a node.
pub(crate) struct Outbox {
    store: Arc<dyn Store>,
    carrier: Arc<dyn Carrier>,
    under_way: Semaphore,
    run_states: Notify,
    pending: Mutex<Pending>,
    tasks: Mutex<JoinSet<()>>,
}

/// A delivery: its line, and its number among those of its unit.
type Place = (Seq, u64);

/// Which deliveries are settled: all before the first open one, and those noted.
#[derive(Default)]
struct Pending {
    open: BTreeSet<Place>,
    noted: BTreeSet<Place>,
    /// The latest line that has a delivery.
    latest: Seq,
}

impl Pending {
    /// The line before which every delivery is settled.
    fn through(&self) -> Seq {
        self.open
            .first()
            .map_or(self.latest + 1, |(first, _)| *first)
    }

    /// Settles a delivery; gives what changes in the rows of progress.
    fn settle(&mut self, place: Place) -> Vec<RowChange> {
        self.open.remove(&place);
        let through = self.through();
        let later = self.noted.split_off(&(through, 0));
        let covered = std::mem::replace(&mut self.noted, later);
        let mut changes: Vec<RowChange> = covered
            .into_iter()
            .map(|covered| (settled_key(covered), None))
            .collect();
        if place.0 >= through {
            self.noted.insert(place);
            changes.push((settled_key(place), Some(Bytes::new())));
        }
        let through = Bytes::copy_from_slice(&through.to_be_bytes());
        changes.push((through_key(), Some(through)));
        changes
    }
}

impl Outbox {
    pub(crate) fn new(store: Arc<dyn Store>, carrier: Arc<dyn Carrier>) -> Self {
        Self {
            store,
            carrier,
            under_way: Semaphore::new(ATTEMPTS_AT_ONCE),
            run_states: Notify::new(),
            pending: Mutex::default(),
            tasks: Mutex::default(),
        }
    }

    /// Deliveries that are on record and not settled: after a start. Rows of settled ones, which an index that was
    /// built anew has again, are dropped.
    pub(crate) fn unsettled(&self) -> Result<Vec<(RowKey, Delivery)>, StoreError> {
        let noted: BTreeSet<Place> = self
            .store
            .ops_scan(&RowKey::text(SETTLED, &[]))?
            .iter()
            .filter_map(|(key, _)| noted_place(key))
            .collect();
        let through = self.settled_through()?;
        let (mut open, mut settled) = (Vec::new(), Vec::new());
        let rows = self
            .store
            .scan(&RowKey::text(OUTBOX, &[]), None, usize::MAX)?;
        for (key, bytes) in rows {
            let Some(place) = parse_outbox_key(&key) else {
                continue;
            };
            if place.0 < through || noted.contains(&place) {
                settled.push(key);
                continue;
            }
            let delivery = serde_json::from_slice(&bytes)
                .map_err(|error| StoreError(format!("{key:?}: {error}")))?;
            open.push((key, delivery));
        }
        if !settled.is_empty() {
            self.store.forget(&settled)?;
        }
        let mut pending = self.lock();
        let last_noted = noted.last().map_or(0, |(seq, _)| *seq);
        pending.latest = last_noted.max(through.saturating_sub(1));
        pending.noted = noted;
        Ok(open)
    }

    /// Starts deliveries. Needs a runtime.
    ///
    /// All of them are open before the first one can be settled: those of one line are settled together only.
    pub(crate) fn start<S: Suite>(
        self: &Arc<Self>,
        gate: &Gate<S>,
        deliveries: &[(RowKey, Delivery)],
    ) {
        {
            let mut pending = self.lock();
            for place in deliveries
                .iter()
                .filter_map(|(key, _)| parse_outbox_key(key))
            {
                pending.open.insert(place);
                pending.latest = pending.latest.max(place.0);
            }
        }
        for (key, delivery) in deliveries {
            let (outbox, gate) = (Arc::clone(self), gate.clone());
            let (key, delivery) = (key.clone(), delivery.clone());
            self.spawn(async move { outbox.deliver(gate, key, delivery).await });
        }
    }

    /// Makes one more attempt to deliver a line, because its recipient seems to have missed it. Not recorded.
    pub(crate) fn again(self: &Arc<Self>, seq: Seq, delivery: Delivery) {
        let outbox = Arc::clone(self);
        self.spawn(async move {
            if outbox.wait_until_allowed(&delivery, None).await.is_ok()
                && let Err(error) = outbox.attempt(seq, &delivery).await
            {
                tracing::warn!(%error, seq, "a repeated delivery could not be made");
            }
        });
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.lock_tasks();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(task);
    }

    /// Ends all attempts, without waiting. What is not settled goes on after the next start.
    pub(crate) fn abort(&self) {
        self.lock_tasks().abort_all();
    }

    /// Ends all attempts; when this returns none is under way.
    pub(crate) async fn stop(&self) {
        let mut tasks = std::mem::take(&mut *self.lock_tasks());
        tasks.shutdown().await;
    }

    /// Whether a row says who may send.
    pub(crate) fn follows(&self, key: &RowKey) -> bool {
        key.is_in("run")
    }

    /// Follows committed run states: what waited for one looks again.
    pub(crate) fn follow(&self, rows: &[RowChange]) {
        if rows.iter().any(|(key, _)| self.follows(key)) {
            self.run_states.notify_waiters();
        }
    }

    /// Sends a soft message.
    pub(crate) fn whisper(&self, whisper: Whisper) {
        self.carrier.whisper(whisper);
    }

    /// How many deliveries are not settled.
    pub(crate) fn len(&self) -> usize {
        self.lock().open.len()
    }

    async fn deliver<S: Suite>(&self, gate: Gate<S>, key: RowKey, delivery: Delivery) {
        let Some((seq, _)) = parse_outbox_key(&key) else {
            return;
        };
        match self.bring(&gate, &key, seq, &delivery).await {
            Ok(Carried::Delivered) => {
                // Not asked, not settled: the next start asks.
                if !self.ask(&gate, &key, &delivery).await {
                    return;
                }
            }
            Ok(_) => {
                // Not on record, not settled: the next start gives it up once more, without an attempt.
                if !self.give_up(&gate, seq, &delivery).await {
                    return;
                }
            }
            Err(error) => {
                tracing::error!(%error, seq, "a delivery is held back: its progress cannot be recorded");
                return;
            }
        }
        if let Err(error) = self.settle(&key) {
            tracing::warn!(%error, seq, "a settled delivery could not be recorded; it may be made again");
        }
    }

    /// Makes the attempts, unless one before the last stop was the last already.
    async fn bring<S: Suite>(
        &self,
        gate: &Gate<S>,
        key: &RowKey,
        seq: Seq,
        delivery: &Delivery,
    ) -> Result<Carried, StoreError> {
        if self.delivered_at(key)?.is_some() {
            return Ok(Carried::Delivered);
        }
        let until = self.last_moment(gate.clock(), seq, delivery)?;
        let carried = self
            .attempt_until_settled(key, seq, delivery, until)
            .await?;
        if carried == Carried::Delivered && delivery.then_ask.is_some() {
            self.note_delivered(key, gate.clock().now())?;
        }
        Ok(carried)
    }

    /// The moment after which no attempt begins.
    fn last_moment(
        &self,
        clock: &Clock,
        seq: Seq,
        delivery: &Delivery,
    ) -> Result<Option<Instant>, StoreError> {
        let Some(within_ms) = delivery.within_ms else {
            return Ok(None);
        };
        let within = Duration::from_millis(u64::from(within_ms));
        let decided = self.line(seq)?.eval_ts;
        let age = decided.and_then(|decided| clock.now().since(decided));
        Ok(Some(
            Instant::now() + within.saturating_sub(age.unwrap_or_default()),
        ))
    }

    async fn attempt_until_settled(
        &self,
        key: &RowKey,
        seq: Seq,
        delivery: &Delivery,
        until: Option<Instant>,
    ) -> Result<Carried, StoreError> {
        let attempts_at_most = delivery.pauses_ms.len() as u64 + 1;
        let mut made = self.attempts_made(key)?;
        let mut last = Carried::Failed { at_least: None };
        while made < attempts_at_most {
            if !self.wait_until_allowed(delivery, until).await? {
                return Ok(Carried::Failed { at_least: None });
            }
            made += 1;
            self.count_attempt(key, made)?;
            last = self.attempt(seq, delivery).await?;
            let at_least = match last {
                Carried::Failed { at_least } => at_least,
                Carried::Refused => {
                    self.count_attempt(key, attempts_at_most)?;
                    return Ok(last);
                }
                Carried::Delivered => return Ok(last),
            };
            if let Some(pause_ms) = delivery.pauses_ms.get(made as usize - 1) {
                let pause = Duration::from_millis(u64::from(*pause_ms));
                tokio::time::sleep(pause.max(at_least.unwrap_or_default())).await;
            }
        }
        Ok(last)
    }

    async fn attempt(&self, seq: Seq, delivery: &Delivery) -> Result<Carried, StoreError> {
        let envelope = self.line(seq)?.received().clone();
        let failed = Carried::Failed { at_least: None };
        let Ok(_place) = self.under_way.acquire().await else {
            return Ok(failed);
        };
        let limit = Duration::from_millis(u64::from(delivery.attempt_ms));
        // Waiting for a place takes time: whether the sender is held is asked once more, and for as long as it takes.
        // An attempt that is cut off may have reached the recipient; for it the next one is a repetition.
        tokio::select! {
            biased;
            held = self.wait_until_held(delivery) => held.map(|()| failed),
            carried = async {
                tokio::time::timeout(limit, self.carrier.carry(delivery.clone(), envelope)).await
            } => Ok(carried.unwrap_or(failed)),
        }
    }

    fn line(&self, seq: Seq) -> Result<Line, StoreError> {
        let line = self
            .store
            .lines(seq, 1)?
            .pop()
            .ok_or_else(|| StoreError(format!("the log has no line {seq}")))?;
        chancery_journal::line::parse(&line).map_err(|fault| StoreError(fault.to_string()))
    }

    /// Waits while the sender is suspended, reading the committed run state before each attempt. False when `until`
    /// has passed.
    async fn wait_until_allowed(
        &self,
        delivery: &Delivery,
        until: Option<Instant>,
    ) -> Result<bool, StoreError> {
        let allowed = self.wait_for(|| Ok(!self.is_held(delivery)?));
        let Some(until) = until else {
            return allowed.await.map(|()| true);
        };
        if until <= Instant::now() {
            return Ok(false);
        }
        match tokio::time::timeout_at(until, allowed).await {
            Ok(allowed) => allowed.map(|()| true),
            Err(_) => Ok(false),
        }
    }

    /// Waits until the sender is suspended.
    async fn wait_until_held(&self, delivery: &Delivery) -> Result<(), StoreError> {
        self.wait_for(|| self.is_held(delivery)).await
    }

    fn is_held(&self, delivery: &Delivery) -> Result<bool, StoreError> {
        Ok(!delivery.exempt && self.run_state(&delivery.from)? == RunState::Suspended)
    }

    /// Waits until a condition on committed run states holds.
    async fn wait_for(
        &self,
        condition: impl Fn() -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        loop {
            let changed = self.run_states.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if condition()? {
                return Ok(());
            }
            changed.await;
        }
    }

    /// Asks the rules what they want to be asked after the delivery, once it is time; whether they were asked.
    async fn ask<S: Suite>(&self, gate: &Gate<S>, key: &RowKey, delivery: &Delivery) -> bool {
        let Some(ask) = &delivery.then_ask else {
            return true;
        };
        let now = gate.clock().now();
        let delivered = self.delivered_at(key).ok().flatten().unwrap_or(now);
        let after = Duration::from_millis(u64::from(ask.after_ms));
        let waited = now.since(delivered).unwrap_or_default();
        tokio::time::sleep(after.saturating_sub(waited)).await;
        let name = TimerName {
            protocol: delivery.protocol,
            name: String::new(),
        };
        match gate.suite().timer(&name, ask.timer.as_bytes()) {
            Ok(input) => {
                let now = gate.clock().now();
                gate.submit(input, now, None).await.is_ok()
            }
            Err(damage) => {
                tracing::error!(%damage, delivery = ?key, "what to ask after a delivery cannot be read");
                true
            }
        }
    }

    fn delivered_at(&self, key: &RowKey) -> Result<Option<Time>, StoreError> {
        let bytes = self.store.ops_get(&delivered_key(key))?;
        Ok(bytes.and_then(|bytes| {
            let micros = i64::from_be_bytes(bytes.as_ref().try_into().ok()?);
            Time::from_unix_micros(micros)
        }))
    }

    fn note_delivered(&self, key: &RowKey, at: Time) -> Result<(), StoreError> {
        let at = Bytes::copy_from_slice(&at.unix_micros().to_be_bytes());
        self.store.ops_put(&[(delivered_key(key), Some(at))], false)
    }

    fn run_state(&self, participant: &str) -> Result<RunState, StoreError> {
        let key = run_state_key(participant);
        match self
            .store
            .load(std::slice::from_ref(&key))?
            .into_iter()
            .next()
            .flatten()
        {
            Some(bytes) => serde_json::from_slice(&bytes)
                .map_err(|error| StoreError(format!("{key:?}: {error}"))),
            None => Ok(RunState::default()),
        }
    }

    /// Hands the failure to the rules; whether they took or refused it.
    async fn give_up<S: Suite>(&self, gate: &Gate<S>, seq: Seq, delivery: &Delivery) -> bool {
        let input = gate.suite().failed(
            delivery.protocol,
            seq,
            delivery.to.clone(),
            Failure::Undeliverable,
        );
        let now = gate.clock().now();
        let submitted = gate.submit(input, now, None).await;
        if let Ok(decided) = &submitted
            && let Err(refusal) = &decided.result
        {
            tracing::warn!(%refusal, seq, "the rules do not take a failed delivery");
        }
        submitted.is_ok()
    }

    fn attempts_made(&self, key: &RowKey) -> Result<u64, StoreError> {
        let bytes = self.store.ops_get(&attempts_key(key))?;
        Ok(bytes
            .and_then(|bytes| bytes.as_ref().try_into().ok().map(u64::from_be_bytes))
            .unwrap_or_default())
    }

    fn count_attempt(&self, key: &RowKey, made: u64) -> Result<(), StoreError> {
        let count = Bytes::copy_from_slice(&made.to_be_bytes());
        self.store
            .ops_put(&[(attempts_key(key), Some(count))], false)
    }

    /// Records that a delivery is done with, and before which line all are.
    fn settle(&self, key: &RowKey) -> Result<(), StoreError> {
        let Some(place) = parse_outbox_key(key) else {
            return Ok(());
        };
        {
            // Held while it is written: an earlier mark must not overwrite a later one.
            let mut pending = self.lock();
            let mut changes = pending.settle(place);
            changes.push((attempts_key(key), None));
            changes.push((delivered_key(key), None));
            self.store.ops_put(&changes, false)?;
        }
        self.store.forget(std::slice::from_ref(key))
    }

    fn settled_through(&self) -> Result<Seq, StoreError> {
        let bytes = self.store.ops_get(&through_key())?;
        Ok(bytes
            .and_then(|bytes| bytes.as_ref().try_into().ok().map(Seq::from_be_bytes))
            .unwrap_or_default())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_tasks(&self) -> std::sync::MutexGuard<'_, JoinSet<()>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn attempts_key(key: &RowKey) -> RowKey {
    RowKey::new("outbox-attempts", &[key.as_bytes()])
}

/// When a delivery was made after which the rules are to be asked.
fn delivered_key(key: &RowKey) -> RowKey {
    RowKey::new("outbox-delivered", &[key.as_bytes()])
}

/// The space of notes of settled deliveries.
const SETTLED: &str = "outbox-settled";

fn settled_key((seq, number): Place) -> RowKey {
    RowKey::new(SETTLED, &[&seq.to_be_bytes(), &number.to_be_bytes()])
}

/// The delivery that a note is about.
fn noted_place(key: &RowKey) -> Option<Place> {
    let parts = key.parts();
    let [_, seq, number] = parts.as_slice() else {
        return None;
    };
    let number_of = |part: &[u8]| part.try_into().ok().map(u64::from_be_bytes);
    Some((number_of(seq)?, number_of(number)?))
}

fn through_key() -> RowKey {
    RowKey::text("outbox-through", &[])
}

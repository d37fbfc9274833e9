//! The outbox: brings committed lines to their recipients, at least once, with the attempts their protocol allows.
//!
//! Attempts are counted before each is made, so a restart never adds any. What a suspended participant has here
//! waits until it runs again, and an attempt under way is cut off. Losing the count repeats deliveries, never an effect.

mod carrier;
mod handing;
mod parcel;
mod progress;
mod rooms;
#[cfg(test)]
mod tests;
mod turns;
mod unreached;

use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use chancery_core::delivery::{Delivery, Whisper};
use chancery_core::line::Seq;
use chancery_core::protocol::{Failure, Suite};
use chancery_core::rows::RowKey;
use chancery_core::time::Time;
use chancery_core::timer::TimerName;
use chancery_store::{Store, StoreError};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;
use tokio::time::Instant;

pub use carrier::{Attempt, Carried, Carrier, NoCarrier};
pub use handing::{Bus, Made, Order};

use crate::clock::Clock;
use crate::gate::Gate;
use crate::leave::{Leave, Suspended};
use crate::sidelogs::SideLogs;
use crate::trace::{Trace, within};
use handing::LastOrders;
use parcel::Parcel;
use progress::{Attempts, Progress, pause};
use rooms::Rooms;
use turns::{Turn, Turns};
use unreached::Unreached;

/// Says whether a delivery is still this node's to make.
pub(crate) type Held = Arc<dyn Fn() -> bool + Send + Sync>;

/// How many attempts run at once.
const ATTEMPTS_AT_ONCE: usize = 256;
/// How many attempts of what is exempt run at once beyond those.
const EXEMPT_ATTEMPTS_AT_ONCE: usize = 64;

/// The outbox of a node.
pub(crate) struct Outbox {
    store: Arc<dyn Store>,
    clock: Clock,
    carrier: Arc<dyn Carrier>,
    suspended: Arc<Suspended>,
    side_logs: Arc<SideLogs>,
    progress: Progress,
    turns: Arc<Turns>,
    under_way: Semaphore,
    exempt_under_way: Semaphore,
    /// What hands deliveries out among the nodes of the journal, where something does.
    bus: OnceLock<Arc<dyn Bus>>,
    /// Whether whoever has the duty makes them all the same.
    is_alone: AtomicBool,
    last_orders: Mutex<LastOrders>,
    /// Orders that wait for their turn here.
    rooms: Rooms,
    /// Had by whoever hands out everything on record.
    round: Arc<Semaphore>,
    unreached: Unreached,
    /// Something could not be handed out.
    again: Notify,
    /// The attempts under way; none once they have been ended for good.
    tasks: Mutex<Option<JoinSet<()>>>,
}

impl Outbox {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        clock: Clock,
        carrier: Arc<dyn Carrier>,
        suspended: Arc<Suspended>,
        side_logs: Arc<SideLogs>,
    ) -> Self {
        Self {
            progress: Progress::new(Arc::clone(&store)),
            store,
            clock,
            carrier,
            suspended,
            side_logs,
            turns: Arc::default(),
            under_way: Semaphore::new(ATTEMPTS_AT_ONCE),
            exempt_under_way: Semaphore::new(EXEMPT_ATTEMPTS_AT_ONCE),
            bus: OnceLock::new(),
            is_alone: AtomicBool::new(false),
            last_orders: Mutex::default(),
            rooms: Rooms::default(),
            round: Arc::new(Semaphore::new(1)),
            unreached: Unreached::default(),
            again: Notify::new(),
            tasks: Mutex::new(Some(JoinSet::new())),
        }
    }

    /// Goes on with the deliveries that are on record and not settled. Needs a runtime.
    pub(crate) fn resume<S: Suite>(self: &Arc<Self>, gate: &Gate<S>) -> Result<(), StoreError> {
        if self.hands_out().is_some() {
            // Whoever keeps handing out hears of the duty, and begins with what is on record as well.
            return Ok(());
        }
        let mut open = self.progress.unsettled()?;
        self.progress.open(&mut open);
        let open = self.progress.attempts_of(open)?;
        let parcel = |(key, delivery, attempts)| Parcel::new(key, delivery, attempts);
        let parcels = open.into_iter().filter_map(parcel).collect();
        for parcel in self.put_together(parcels) {
            let age = self.age(&parcel)?;
            self.send(gate, parcel, age, None);
        }
        Ok(())
    }

    /// How long ago a parcel was signed, where that matters.
    fn age(&self, parcel: &Parcel) -> Result<Duration, StoreError> {
        let age = match parcel.lead().within_ms {
            Some(_) => {
                let signed = self.signed_at(parcel.seq)?;
                signed.map(|at| self.clock.now().since(at))
            }
            None => None,
        };
        Ok(age.flatten().unwrap_or_default())
    }

    /// Starts the deliveries of a unit, below its trace. Needs a runtime.
    pub(crate) fn start<S: Suite>(
        self: &Arc<Self>,
        gate: &Gate<S>,
        deliveries: &[(RowKey, Delivery)],
        trace: Option<&Arc<Trace>>,
    ) {
        if deliveries.is_empty() {
            return;
        }
        let mut deliveries = deliveries.to_vec();
        let parcel = |(key, delivery)| Parcel::new(key, delivery, Attempts::default());
        if let Some(bus) = self.hands_out() {
            let parcels = deliveries.into_iter().filter_map(parcel).collect();
            return self.hand_out(bus, parcels);
        }
        self.progress.open(&mut deliveries);
        let parcels = deliveries.into_iter().filter_map(parcel).collect();
        for parcel in self.put_together(parcels) {
            self.send(gate, parcel, Duration::ZERO, trace.cloned());
        }
    }

    /// Copies of one line for one place become one parcel.
    fn put_together(&self, parcels: Vec<Parcel>) -> Vec<Parcel> {
        parcel::put_together(parcels, |delivery| self.carrier.place(delivery))
    }

    fn send<S: Suite>(
        self: &Arc<Self>,
        gate: &Gate<S>,
        parcel: Parcel,
        age: Duration,
        trace: Option<Arc<Trace>>,
    ) {
        let (outbox, gate) = (Arc::clone(self), gate.clone());
        let mut schedule = self.schedule(&parcel, age, None);
        schedule.turn =
            (parcel.attempts.made == 0).then(|| self.turns.line_up(parcel.deliveries()));
        schedule.trace = trace;
        self.spawn(async move {
            outbox.deliver(gate, parcel, schedule).await;
        });
    }

    /// When a parcel that was signed so long ago is attempted, without a turn.
    fn schedule(&self, parcel: &Parcel, age: Duration, held: Option<Held>) -> Schedule {
        let wait = parcel.attempts.wait(parcel.lead(), self.clock.now());
        let now = Instant::now();
        Schedule {
            next: now + wait,
            last: parcel
                .lead()
                .within_ms
                .map(|within| now + Duration::from_millis(u64::from(within)).saturating_sub(age)),
            turn: None,
            trace: None,
            held,
        }
    }

    /// Makes one more attempt to deliver a line, because its recipient seems to have missed it. Not recorded.
    pub(crate) fn again(self: &Arc<Self>, seq: Seq, delivery: Delivery) {
        let outbox = Arc::clone(self);
        self.spawn(async move {
            let leave = Leave::new(&outbox.suspended, &delivery.from, delivery.exempt);
            leave.given().await;
            if let Err(error) = outbox.attempt(seq, &delivery, leave, None).await {
                tracing::warn!(%error, seq, "a repeated delivery could not be made");
            }
        });
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        // What is committed while the node ends is delivered after the next start.
        if let Some(tasks) = &mut *self.lock_tasks() {
            while tasks.try_join_next().is_some() {}
            tasks.spawn(task);
        }
    }

    /// Ends all attempts for good, without waiting. What is not settled goes on after the next start.
    pub(crate) fn abort(&self) {
        // Dropping them aborts them.
        self.lock_tasks().take();
    }

    /// Ends all attempts: another process sees to them.
    pub(crate) fn pause(&self) {
        if let Some(tasks) = &mut *self.lock_tasks() {
            *tasks = JoinSet::new();
        }
        self.progress.close();
        self.is_alone.store(false, Ordering::Release);
    }

    /// Ends all attempts for good; when this returns none is under way.
    pub(crate) async fn stop(&self) {
        let tasks = self.lock_tasks().take();
        if let Some(mut tasks) = tasks {
            tasks.shutdown().await;
        }
    }

    /// Sends a soft message.
    pub(crate) fn whisper(&self, whisper: Whisper) {
        self.carrier.whisper(whisper);
    }

    /// How many deliveries are not settled.
    pub(crate) fn len(&self) -> usize {
        self.progress.len()
    }

    /// Makes a delivery; whether it is settled.
    async fn deliver<S: Suite>(&self, gate: Gate<S>, parcel: Parcel, schedule: Schedule) -> bool {
        let seq = parcel.seq;
        let carried = match self.bring(&parcel, schedule).await {
            Ok(Some(carried)) => carried,
            Ok(None) => return false,
            Err(error) => {
                tracing::error!(%error, seq, "a delivery is held back: its progress cannot be recorded");
                return false;
            }
        };
        let delivered = carried == Carried::Delivered;
        // Not asked, not settled: the next start asks.
        if delivered && !self.ask(&gate, &parcel).await {
            return false;
        }
        let mut is_settled = true;
        for (key, delivery) in &parcel.copies {
            let event = if delivered {
                "delivered"
            } else {
                "delivery_failed"
            };
            self.side_logs
                .delivery(event, delivery.protocol, seq, &delivery.to);
            if !delivered {
                self.unreached
                    .given_up(&self.side_logs, seq, delivery, carried);
            }
            // Not on record, not settled: the next start gives it up once more, without an attempt.
            if !delivered && !self.give_up(&gate, seq, delivery).await {
                is_settled = false;
                continue;
            }
            if let Err(error) = self.progress.settle(key) {
                tracing::warn!(%error, seq, "a settled delivery could not be recorded; it may be made again");
                is_settled = false;
            }
        }
        is_settled
    }

    /// Makes the attempts, unless one before the last stop was the last already. None where an order goes back.
    async fn bring(
        &self,
        parcel: &Parcel,
        schedule: Schedule,
    ) -> Result<Option<Carried>, StoreError> {
        if self.progress.delivered_at(parcel.lead_key())?.is_some() {
            return Ok(Some(Carried::Delivered));
        }
        let carried = self.attempt_until_settled(parcel, schedule).await?;
        if carried == Some(Carried::Delivered) && parcel.lead().then_ask.is_some() {
            self.progress
                .note_delivered(parcel.lead_key(), self.clock.now())?;
        }
        Ok(carried)
    }

    /// Asks the rules what they want to be asked after the delivery, once it is time; whether they were asked.
    async fn ask<S: Suite>(&self, gate: &Gate<S>, parcel: &Parcel) -> bool {
        let Some(ask) = &parcel.lead().then_ask else {
            return true;
        };
        let now = self.clock.now();
        let delivered = self.progress.delivered_at(parcel.lead_key());
        let delivered = delivered.ok().flatten().unwrap_or(now);
        let after = Duration::from_millis(u64::from(ask.after_ms));
        let waited = now.since(delivered).unwrap_or_default();
        tokio::time::sleep(after.saturating_sub(waited)).await;
        let name = TimerName {
            protocol: parcel.lead().protocol,
            name: String::new(),
        };
        match gate.suite().timer(&name, ask.timer.as_bytes()) {
            Ok(input) => {
                let now = self.clock.now();
                gate.submit(input, now, None).await.is_ok()
            }
            Err(damage) => {
                tracing::error!(%damage, seq = parcel.seq, "what to ask after a delivery cannot be read");
                true
            }
        }
    }

    async fn attempt_until_settled(
        &self,
        parcel: &Parcel,
        schedule: Schedule,
    ) -> Result<Option<Carried>, StoreError> {
        let delivery = parcel.lead();
        let leave = Leave::new(&self.suspended, &delivery.from, delivery.exempt);
        let attempts_at_most = delivery.pauses_ms.len() as u64 + 1;
        let Schedule {
            mut next,
            last,
            mut turn,
            trace,
            held,
        } = schedule;
        let is_ours = || match &held {
            Some(held) => held(),
            None => self.store.duty().is_some(),
        };
        let mut made = parcel.attempts.made;
        let mut carried = Carried::Failed { at_least: None };
        while made < attempts_at_most {
            tokio::time::sleep_until(next).await;
            if let Some(turn) = &mut turn {
                turn.comes().await;
            }
            if held.is_some() && !leave.is_given() && last.is_none_or(|last| Instant::now() <= last)
            {
                // An order does not wait for leave in anybody's hands.
                return Ok(None);
            }
            if !in_time(last, leave.given()).await {
                return Ok(Some(Carried::Failed { at_least: None }));
            }
            if !is_ours() {
                // Another process may see to it by now: this task ends with what made it this one's.
                std::future::pending::<()>().await;
            }
            made += 1;
            let under_way = Attempts { made, due: None };
            self.progress.record(parcel.keys(), under_way)?;
            carried = self
                .attempt(parcel.seq, delivery, leave.clone(), trace.as_ref())
                .await?;
            turn = None;
            let at_least = match carried {
                Carried::Delivered => return Ok(Some(carried)),
                Carried::Failed { at_least } => at_least.unwrap_or_default(),
                Carried::Refused => {
                    made = attempts_at_most;
                    Duration::ZERO
                }
            };
            let pause = pause(delivery, made - 1).unwrap_or_default().max(at_least);
            let due = Some(self.clock.now().saturating_add(pause));
            self.progress
                .record(parcel.keys(), Attempts { made, due })?;
            next = Instant::now() + pause;
        }
        Ok(Some(carried))
    }

    /// One attempt, cut off when it takes too long or its sender is suspended.
    async fn attempt(
        &self,
        seq: Seq,
        delivery: &Delivery,
        leave: Leave,
        trace: Option<&Arc<Trace>>,
    ) -> Result<Carried, StoreError> {
        let failed = Carried::Failed { at_least: None };
        let envelope = self.envelope(seq)?;
        let places = match delivery.exempt {
            true => &self.exempt_under_way,
            false => &self.under_way,
        };
        let Ok(_place) = places.acquire().await else {
            return Ok(failed);
        };
        // It may have waited for its place.
        if !leave.is_given() {
            return Ok(failed);
        }
        let (began, at) = (
            std::time::Instant::now(),
            trace.map(|trace| trace.attempt()),
        );
        let attempt = self
            .carrier
            .carry(delivery.clone(), envelope, leave.clone());
        let attempt = within(at.clone(), attempt);
        let limit = Duration::from_millis(u64::from(delivery.attempt_ms));
        let carried = tokio::select! {
            biased;
            () = leave.withdrawn() => failed,
            carried = tokio::time::timeout(limit, attempt) => carried.unwrap_or(failed),
        };
        if let (Some(trace), Some(at)) = (trace, at) {
            trace.attempted(&at, began, carried.as_str());
        }
        Ok(carried)
    }

    fn line(&self, seq: Seq) -> Result<chancery_core::line::Line, StoreError> {
        let line = self.store.lines(seq, 1)?.pop();
        let line = line.ok_or_else(|| StoreError(format!("the log has no line {seq}")))?;
        chancery_journal::line::parse(&line).map_err(|fault| StoreError(fault.to_string()))
    }

    fn envelope(&self, seq: Seq) -> Result<Bytes, StoreError> {
        Ok(self.line(seq)?.received().clone())
    }

    fn signed_at(&self, seq: Seq) -> Result<Option<Time>, StoreError> {
        Ok(self.line(seq)?.eval_ts)
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

    fn lock_tasks(&self) -> MutexGuard<'_, Option<JoinSet<()>>> {
        lock(&self.tasks)
    }
}

/// When a parcel is attempted.
struct Schedule {
    /// The next attempt.
    next: Instant,
    /// No attempt begins after this.
    last: Option<Instant>,
    /// Its turn, before the first attempt.
    turn: Option<Turn>,
    /// The trace that its attempts belong to.
    trace: Option<Arc<Trace>>,
    /// Says whether it is still this node's; without it the duty does.
    held: Option<Held>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for something, at most until `last`; whether it came in time.
async fn in_time(last: Option<Instant>, something: impl Future<Output = ()>) -> bool {
    match last {
        None => {
            something.await;
            true
        }
        Some(last) => {
            let now = Instant::now();
            now <= last && tokio::time::timeout_at(last, something).await.is_ok()
        }
    }
}

//! Deliveries that are handed out among the nodes of a journal, through a bus.
//!
//! The record stays the truth: a delivery is open while its row is there, whatever the bus knows. Whoever has the duty
//! hands out what is on record, again and again; the bus keeps one order for each delivery until it is settled. While
//! the bus is away they wait for a moment, and then whoever has the duty makes them itself.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use chancery_core::delivery::{Delivery, outbox_key, parse_outbox_key};
use chancery_core::protocol::Suite;
use chancery_core::rows::RowKey;
use chancery_store::StoreError;
use hashbrown::HashMap;
use serde::{Deserialize, Serialize};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};

use super::parcel::Parcel;
use super::progress::{Attempts, Place};
use super::rooms::{REST, Visit};
use super::{Held, Outbox};
use crate::gate::Gate;
use crate::leave::Leave;

/// How long the bus may be away before whoever has the duty goes on by itself.
const WAITED_FOR: Duration = Duration::from_secs(15);
/// How often everything on record is handed out again: what the bus still has it does not take twice.
const AGAIN_EVERY: Duration = Duration::from_secs(20);
/// Between two looks at the bus.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Pairs of sender and recipient whose last order is known; beyond it the order of a pair may be lost for a moment.
const LANES: usize = 100_000;
/// Orders that are on their way to the bus at once.
const ON_THEIR_WAY: usize = 256;
/// How long an order waits for those before it; then it goes back to the bus.
const TURN_WITHIN: Duration = Duration::from_secs(30);
/// The first and the longest pause between two looks whether its turn has come.
const TURN_PAUSES: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(250));

/// Hands orders out: each to one node at a time, and to another when that one is gone.
pub trait Bus: Send + Sync + 'static {
    /// Hands an order out, unless the bus has it; whether the bus has it now.
    fn hand_out(&self, order: Order) -> Pin<Box<dyn Future<Output = bool> + Send>>;

    /// Whether the bus can be reached.
    fn is_up(&self) -> watch::Receiver<bool>;
}

/// A delivery that is to be made by whoever gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// Its name in the journal: the same whoever hands it out.
    pub name: String,
    /// Whether it must not wait behind others.
    pub exempt: bool,
    /// What [`Node::make_delivery`](crate::Node::make_delivery) wants to see.
    pub bytes: Bytes,
}

/// What becomes of an order that a node took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    /// The bus need not know of it any more: nothing of it is open, or it is handed out anew when it may be made.
    Done,
    /// It is to come again, after so long.
    Later(Duration),
}

/// Which deliveries an order is about, and which are first attempted before.
#[derive(Serialize, Deserialize)]
struct Content {
    make: Vec<Place>,
    after: Vec<Place>,
}

/// The last order of each sender to each recipient, by exemption (VX-ORD-3).
#[derive(Default)]
pub(super) struct LastOrders(HashMap<(String, String, bool), Place>);

impl LastOrders {
    /// An order for deliveries that are made together.
    fn order(&mut self, parcel: &Parcel) -> Option<Order> {
        if self.0.len() >= LANES {
            self.0.clear();
        }
        let mut content = Content {
            make: Vec::with_capacity(parcel.copies.len()),
            after: Vec::new(),
        };
        for (key, delivery) in &parcel.copies {
            let place = parse_outbox_key(key)?;
            let lane = (delivery.from.clone(), delivery.to.clone(), delivery.exempt);
            let before = self.0.insert(lane, place);
            // Handed out anew it waits for nobody who came after it.
            content
                .after
                .extend(before.filter(|before| *before < place));
            content.make.push(place);
        }
        let (seq, number) = content.make.first()?;
        Some(Order {
            name: format!("{seq}.{number}"),
            exempt: parcel.lead().exempt,
            bytes: serde_json::to_vec(&content).ok()?.into(),
        })
    }
}

impl Outbox {
    /// Deliveries are handed out through a bus from here on.
    pub(crate) fn hand_out_through(&self, bus: Arc<dyn Bus>) {
        let _ = self.bus.set(bus);
    }

    /// Whether others may make the deliveries.
    pub(super) fn hands_out(&self) -> Option<&Arc<dyn Bus>> {
        let bus = self.bus.get()?;
        (!self.is_alone.load(Ordering::Acquire)).then_some(bus)
    }

    /// Hands deliveries out.
    pub(super) fn hand_out(self: &Arc<Self>, bus: &Arc<dyn Bus>, parcels: Vec<Parcel>) {
        self.hand_out_in(bus, parcels, None);
    }

    /// The same in a round, which ends when the bus has answered for all.
    fn hand_out_in(
        self: &Arc<Self>,
        bus: &Arc<dyn Bus>,
        parcels: Vec<Parcel>,
        round: Option<OwnedSemaphorePermit>,
    ) {
        if !*bus.is_up().borrow() {
            // They are on record, and handed out when it is back.
            return;
        }
        let parcels = self.put_together(parcels);
        let parcels = parcels.into_iter().filter(|parcel| !self.rests(parcel));
        let parcels: Vec<Parcel> = parcels.collect();
        let orders: Vec<Order> = {
            let mut last = super::lock(&self.last_orders);
            parcels
                .iter()
                .filter_map(|parcel| last.order(parcel))
                .collect()
        };
        if orders.is_empty() {
            return;
        }
        let (outbox, bus) = (Arc::clone(self), Arc::clone(bus));
        self.spawn(async move {
            let _round = round;
            let (mut on_their_way, mut all_taken) = (JoinSet::new(), true);
            for order in orders {
                if on_their_way.len() >= ON_THEIR_WAY {
                    all_taken &= matches!(on_their_way.join_next().await, Some(Ok(true)));
                }
                on_their_way.spawn(bus.hand_out(order));
            }
            while let Some(taken) = on_their_way.join_next().await {
                all_taken &= matches!(taken, Ok(true));
            }
            if !all_taken {
                outbox.again.notify_one();
            }
        });
    }

    /// Whether a parcel is on record only, because its sender is suspended: it would lie in a node's hands, in the place of
    /// others. It is handed out when the sender runs again, or when its time is over.
    fn rests(&self, parcel: &Parcel) -> bool {
        let delivery = parcel.lead();
        let leave = Leave::new(&self.suspended, &delivery.from, delivery.exempt);
        if leave.is_given() {
            return false;
        }
        let Some(within_ms) = delivery.within_ms else {
            return true;
        };
        let age = self.age(parcel);
        age.is_ok_and(|age| age <= Duration::from_millis(u64::from(within_ms)))
    }

    /// Sees to it that what is on record is handed out or made, for as long as this process has the duty.
    pub(crate) async fn keep_handing_out<S: Suite>(
        self: Arc<Self>,
        gate: Gate<S>,
        mut on_duty: watch::Receiver<bool>,
    ) {
        let Some(bus) = self.bus.get().cloned() else {
            return;
        };
        let mut look = tokio::time::interval(LOOK_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut is_up, mut suspended) = (bus.is_up(), self.suspended.changes());
        let (mut handed_out, mut seen_up) = (None::<Instant>, Instant::now());
        loop {
            let at_once = tokio::select! {
                changed = is_up.changed() => changed.is_ok(),
                changed = on_duty.changed() => changed.is_ok(),
                () = self.again.notified() => {
                    tokio::time::sleep(LOOK_EVERY).await;
                    true
                }
                // What somebody had on record who runs again.
                changed = suspended.changed() => {
                    tokio::time::sleep(LOOK_EVERY).await;
                    suspended.mark_unchanged();
                    changed.is_ok()
                }
                _ = look.tick() => false,
            };
            let up = *is_up.borrow();
            if up {
                seen_up = Instant::now();
            }
            if !*on_duty.borrow() {
                continue;
            }
            let is_due = at_once || handed_out.is_none_or(|at| at.elapsed() >= AGAIN_EVERY);
            let done = if up && is_due {
                self.is_alone.store(false, Ordering::Release);
                handed_out = Some(Instant::now());
                self.hand_out_all(&bus)
            } else if !up && seen_up.elapsed() >= WAITED_FOR && !self.is_alone() {
                tracing::warn!("the bus is away: deliveries are made without it");
                self.is_alone.store(true, Ordering::Release);
                self.resume(&gate)
            } else {
                Ok(())
            };
            if let Err(error) = done {
                tracing::warn!(%error, "open deliveries cannot be read yet");
                handed_out = None;
            }
        }
    }

    fn is_alone(&self) -> bool {
        self.is_alone.load(Ordering::Acquire)
    }

    /// Hands out everything on record that is not under way here; where that is still being done, soon once more.
    pub(super) fn hand_out_all(self: &Arc<Self>, bus: &Arc<dyn Bus>) -> Result<(), StoreError> {
        let Ok(round) = Arc::clone(&self.round).try_acquire_owned() else {
            self.again.notify_one();
            return Ok(());
        };
        let mut open = self.progress.unsettled()?;
        open.retain(|(key, _)| !self.progress.is_open(key));
        let open = self.progress.attempts_of(open)?;
        let parcel = |(key, delivery, attempts)| Parcel::new(key, delivery, attempts);
        let parcels = open.into_iter().filter_map(parcel).collect();
        self.hand_out_in(bus, parcels, Some(round));
        Ok(())
    }

    /// Makes what an order asks for, as long as `held` says that it is this node's. Dropping the future ends it.
    pub(crate) async fn make<S: Suite>(
        self: &Arc<Self>,
        gate: &Gate<S>,
        order: &[u8],
        held: Held,
    ) -> Made {
        let Ok(content) = serde_json::from_slice::<Content>(order) else {
            tracing::error!("an order cannot be read and is dropped");
            return Made::Done;
        };
        match self.make_all(gate, content, held).await {
            Ok(made) => made,
            Err(error) => {
                tracing::warn!(%error, "a delivery cannot be made yet");
                Made::Later(REST)
            }
        }
    }

    async fn make_all<S: Suite>(
        self: &Arc<Self>,
        gate: &Gate<S>,
        content: Content,
        held: Held,
    ) -> Result<Made, StoreError> {
        let mut open = Vec::new();
        for place in content.make {
            open.extend(self.on_record(place)?);
        }
        let wanted = open.len();
        self.progress.open(&mut open);
        let _here = OpenHere(self, open.iter().map(|(key, _)| key.clone()).collect());
        if open.len() < wanted {
            // It is under way here already, and is settled there.
            return Ok(Made::Later(REST));
        }
        let mut parcels = Vec::new();
        for (key, delivery) in open {
            let attempts = self.progress.attempts(&key)?;
            parcels.extend(Parcel::new(key, delivery, attempts));
        }
        let Some(first) = parcels.first() else {
            return Ok(Made::Done);
        };
        if self.rests(first) {
            return Ok(Made::Done);
        }
        let visit = self.visit(first);
        let is_first = parcels.iter().any(|parcel| parcel.attempts.made == 0);
        if is_first && let Some(later) = self.turn_comes(&content.after, &visit).await? {
            return Ok(Made::Later(later));
        }
        let mut settled = true;
        for parcel in self.put_together(parcels) {
            let age = self.age(&parcel)?;
            let schedule = self.schedule(&parcel, age, Some(Arc::clone(&held)));
            settled &= self.deliver(gate.clone(), parcel, schedule).await;
        }
        Ok(match settled {
            true => Made::Done,
            false => Made::Later(REST),
        })
    }

    fn visit(&self, parcel: &Parcel) -> Visit<'_> {
        let delivery = parcel.lead();
        let lane = (delivery.from.clone(), delivery.to.clone(), delivery.exempt);
        let place = parse_outbox_key(parcel.lead_key()).unwrap_or((parcel.seq, 0));
        self.rooms.visit(lane, place)
    }

    /// A delivery, if its row is there: in the database, for another node may have settled it.
    fn on_record(&self, (seq, number): Place) -> Result<Option<(RowKey, Delivery)>, StoreError> {
        let key = outbox_key(seq, usize::try_from(number).unwrap_or(usize::MAX));
        let found = self.store.scan(&key, None, 1)?.pop();
        let Some((found, row)) = found.filter(|(found, _)| *found == key) else {
            return Ok(None);
        };
        let delivery = serde_json::from_slice(&row)
            .map_err(|error| StoreError(format!("{found:?}: {error}")))?;
        Ok(Some((found, delivery)))
    }

    /// Waits until the first attempts of these have ended, wherever they are made. Where they have not in time, or too many
    /// of the lane wait here already, it is to come again after so long.
    async fn turn_comes(
        &self,
        after: &[Place],
        visit: &Visit<'_>,
    ) -> Result<Option<Duration>, StoreError> {
        let late = Instant::now() + TURN_WITHIN;
        for place in after {
            let mut pause = TURN_PAUSES.0;
            loop {
                let stepped = visit.stepped.notified();
                if !visit.is_behind(*place) && self.was_attempted(*place)? {
                    break;
                }
                if Instant::now() >= late || !visit.may_wait() {
                    return Ok(Some(visit.goes_back()));
                }
                tokio::select! {
                    // Of its own lane somebody has gone on: its turn may be next.
                    () = stepped => pause = TURN_PAUSES.0,
                    () = tokio::time::sleep(pause) => pause = (pause * 2).min(TURN_PAUSES.1),
                }
            }
        }
        visit.goes_on();
        Ok(None)
    }

    fn was_attempted(&self, place: Place) -> Result<bool, StoreError> {
        let Some((key, _)) = self.on_record(place)? else {
            return Ok(true);
        };
        let Attempts { made, due } = self.progress.attempts(&key)?;
        Ok(made > 1 || made == 1 && due.is_some())
    }
}

/// Deliveries that are under way here; not any more once this is dropped.
struct OpenHere<'o>(&'o Outbox, Vec<RowKey>);

impl Drop for OpenHere<'_> {
    fn drop(&mut self) {
        self.0.progress.let_go(&self.1);
    }
}

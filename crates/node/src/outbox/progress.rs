//! What is on record about deliveries beside the log: attempts made, when the next one is due, which are settled.
//!
//! It is written before each attempt, so a restart adds none, and after it, so a restart keeps the pause (VX-RTY-1).
//! Losing it repeats deliveries, never an effect.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chancery_core::delivery::{Delivery, OUTBOX, parse_outbox_key};
use chancery_core::line::Seq;
use chancery_core::rows::{Row, RowChange, RowKey};
use chancery_core::time::Time;
use chancery_store::{
    Pages, SETTLED_DELIVERIES, Store, StoreError, settled_delivery_key, settled_through_key,
};
use hashbrown::HashMap;

/// A delivery: its line, and its number among those of its unit.
pub(super) type Place = (Seq, u64);

/// The attempts of a delivery so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Attempts {
    /// How many were made; the last one may be under way.
    pub(super) made: u64,
    /// When the next one is due; none while one is under way.
    pub(super) due: Option<Time>,
}

impl Attempts {
    /// How long to wait before the next attempt, after a start at `now`. The pause runs from the end of the last
    /// attempt; one that a crash cut off ends with the start. A clock that was set back lengthens no pause.
    pub(super) fn wait(&self, delivery: &Delivery, now: Time) -> Duration {
        let Some(before) = self.made.checked_sub(1) else {
            return Duration::ZERO;
        };
        let pause = pause(delivery, before).unwrap_or_default();
        match self.due {
            Some(due) => due.since(now).unwrap_or_default().min(pause.max(LONGEST)),
            None => pause,
        }
    }
}

/// The longest pause that a recipient can ask for (VX-RTY-5).
const LONGEST: Duration = Duration::from_secs(30);

/// The pause after the attempt with this number, counted from nought.
pub(super) fn pause(delivery: &Delivery, attempt: u64) -> Option<Duration> {
    let pause_ms = delivery.pauses_ms.get(usize::try_from(attempt).ok()?)?;
    Some(Duration::from_millis(u64::from(*pause_ms)))
}

/// The rows of progress.
pub(super) struct Progress {
    store: Arc<dyn Store>,
    pending: Mutex<Pending>,
}

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
            .map(|covered| (settled_delivery_key(covered), None))
            .collect();
        if place.0 >= through {
            self.noted.insert(place);
            changes.push((settled_delivery_key(place), Some("".into())));
        }
        let through = Row::from(&through.to_be_bytes()[..]);
        changes.push((settled_through_key(), Some(through)));
        changes
    }
}

impl Progress {
    pub(super) fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            pending: Mutex::default(),
        }
    }

    /// Deliveries that are on record and not settled: after a start. Rows of settled ones, which an index that was
    /// built anew has again, are dropped.
    pub(super) fn unsettled(&self) -> Result<Vec<(RowKey, Delivery)>, StoreError> {
        let noted: BTreeSet<Place> = self
            .store
            .ops_scan(&RowKey::text(SETTLED_DELIVERIES, &[]))?
            .iter()
            .filter_map(|(key, _)| noted_place(key))
            .collect();
        let through = self.settled_through()?;
        let mut open = Vec::new();
        for page in Pages::below(&*self.store, RowKey::text(OUTBOX, &[])) {
            let mut settled = Vec::new();
            for (key, bytes) in page? {
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
        }
        let mut pending = self.lock();
        let last_noted = noted.last().map_or(0, |(seq, _)| *seq);
        pending.latest = last_noted.max(through.saturating_sub(1));
        pending.noted = noted;
        Ok(open)
    }

    /// Deliveries are open from here on.
    ///
    /// All of a line are open before the first one can be settled: they are settled together only.
    /// Those that are open already are left out: they were found on record and told of as well.
    pub(super) fn open(&self, deliveries: &mut Vec<(RowKey, Delivery)>) {
        let mut pending = self.lock();
        deliveries.retain(|(key, _)| {
            let Some(place) = parse_outbox_key(key) else {
                return false;
            };
            pending.latest = pending.latest.max(place.0);
            pending.open.insert(place)
        });
    }

    /// Whether a delivery is under way here.
    pub(super) fn is_open(&self, key: &RowKey) -> bool {
        parse_outbox_key(key).is_some_and(|place| self.lock().open.contains(&place))
    }

    /// These are not under way here any more, settled or not.
    pub(super) fn let_go(&self, keys: &[RowKey]) {
        let mut pending = self.lock();
        for place in keys.iter().filter_map(parse_outbox_key) {
            pending.open.remove(&place);
        }
    }

    /// None is open here any more.
    pub(super) fn close(&self) {
        *self.lock() = Pending::default();
    }

    /// How many deliveries are not settled.
    pub(super) fn len(&self) -> usize {
        self.lock().open.len()
    }

    /// The attempts of a delivery so far.
    pub(super) fn attempts(&self, key: &RowKey) -> Result<Attempts, StoreError> {
        let bytes = self.store.ops_get(&attempts_key(key))?;
        bytes.map_or(Ok(Attempts::default()), |bytes| attempts_in(key, &bytes))
    }

    /// The attempts of these deliveries so far, asked for at once however many they are.
    pub(super) fn attempts_of(
        &self,
        open: Vec<(RowKey, Delivery)>,
    ) -> Result<Vec<(RowKey, Delivery, Attempts)>, StoreError> {
        let mut of = HashMap::new();
        if !open.is_empty() {
            for (key, bytes) in self.store.ops_scan(&RowKey::text(ATTEMPTS, &[]))? {
                if let [_, key] = key.parts().as_slice() {
                    let key = RowKey::from_stored(key);
                    let attempts = attempts_in(&key, &bytes)?;
                    of.insert(key, attempts);
                }
            }
        }
        let with_its_own = |(key, delivery): (RowKey, Delivery)| {
            let attempts = of.get(&key).copied().unwrap_or_default();
            (key, delivery, attempts)
        };
        Ok(open.into_iter().map(with_its_own).collect())
    }

    /// Records the attempts of deliveries that are made together.
    pub(super) fn record<'k>(
        &self,
        keys: impl Iterator<Item = &'k RowKey>,
        attempts: Attempts,
    ) -> Result<(), StoreError> {
        let mut bytes = attempts.made.to_be_bytes().to_vec();
        if let Some(due) = attempts.due {
            bytes.extend_from_slice(&due.unix_micros().to_be_bytes());
        }
        let row = Row::from(bytes);
        let changes: Vec<RowChange> = keys
            .map(|key| (attempts_key(key), Some(row.clone())))
            .collect();
        self.store.ops_put(&changes, false)
    }

    /// When a delivery was made after which the rules are to be asked, and have not been.
    pub(super) fn delivered_at(&self, key: &RowKey) -> Result<Option<Time>, StoreError> {
        let bytes = self.store.ops_get(&delivered_key(key))?;
        Ok(bytes.and_then(|bytes| {
            let micros = i64::from_be_bytes(bytes.as_ref().try_into().ok()?);
            Time::from_unix_micros(micros)
        }))
    }

    pub(super) fn note_delivered(&self, key: &RowKey, at: Time) -> Result<(), StoreError> {
        let at = Row::from(&at.unix_micros().to_be_bytes()[..]);
        self.store.ops_put(&[(delivered_key(key), Some(at))], false)
    }

    /// Records that a delivery is done with, and before which line all are.
    pub(super) fn settle(&self, key: &RowKey) -> Result<(), StoreError> {
        let Some(place) = parse_outbox_key(key) else {
            return Ok(());
        };
        {
            // Held while it is written: an earlier mark must not overwrite a later one.
            let mut pending = self.lock();
            let mut changes = pending.settle(place);
            if self.store.is_shared() {
                // Another process may have the duty since, and know of other open ones. There a row that is dropped
                // stays dropped, and says enough.
                changes.clear();
            }
            changes.push((attempts_key(key), None));
            changes.push((delivered_key(key), None));
            self.store.ops_put(&changes, false)?;
        }
        self.store.forget(std::slice::from_ref(key))
    }

    fn settled_through(&self) -> Result<Seq, StoreError> {
        let bytes = self.store.ops_get(&settled_through_key())?;
        Ok(bytes
            .and_then(|bytes| bytes.as_ref().try_into().ok().map(Seq::from_be_bytes))
            .unwrap_or_default())
    }

    fn lock(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The space of attempts.
const ATTEMPTS: &str = "outbox-attempts";

fn attempts_key(key: &RowKey) -> RowKey {
    RowKey::new(ATTEMPTS, &[key.as_bytes()])
}

/// The attempts of a delivery, as they are recorded.
fn attempts_in(key: &RowKey, bytes: &Row) -> Result<Attempts, StoreError> {
    let (Some((made, due)), true) = (bytes.split_first_chunk::<8>(), bytes.len() <= 16) else {
        return Err(StoreError(format!("{key:?}: attempts that are none")));
    };
    let due = due.try_into().ok().map(i64::from_be_bytes);
    Ok(Attempts {
        made: u64::from_be_bytes(*made),
        due: due.and_then(Time::from_unix_micros),
    })
}

fn delivered_key(key: &RowKey) -> RowKey {
    RowKey::new("outbox-delivered", &[key.as_bytes()])
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

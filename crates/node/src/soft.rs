//! Soft state: what may only refuse. In memory, bounded, lost at a stop; replay runs without it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use chancery_agh::soft::Soft as AghSoft;
use chancery_core::decision::{Guard, Guards, Shut};
use chancery_core::inbox::InboxName;
use chancery_core::line::Seq;
use chancery_core::time::Time;
use chancery_core::window::WindowId;
use chancery_store::{Spent, Store};
use hashbrown::HashMap;

use crate::inboxes::Inboxes;
use crate::rates::Rates;

/// The limits of soft state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SoftLimits {
    /// Unacknowledged entries an inbox holds.
    pub inbox_depth: u64,
    /// Envelopes a sender may send in a second.
    pub rate_per_sender: u32,
    /// Records all windows hold.
    pub window_records: usize,
    /// How long a short-lived key may live (VX-KEY-6).
    pub short_lived_key_max_s: u64,
}

impl Default for SoftLimits {
    fn default() -> Self {
        Self {
            inbox_depth: 1_000_000,
            rate_per_sender: 10_000,
            window_records: 10_000_000,
            short_lived_key_max_s: 24 * 60 * 60,
        }
    }
}

/// What agh remembers without a log, shared with whoever brings signs of life in.
pub(crate) type SharedAgh = Arc<Mutex<AghSoft>>;

/// The guards of a node.
pub(crate) struct Soft {
    limits: SoftLimits,
    inboxes: Arc<Inboxes>,
    store: Arc<dyn Store>,
    rates: Rates,
    /// Whose allowance the present decision used.
    used: Vec<String>,
    agh: SharedAgh,
    /// The time of the present decision.
    now: Time,
    /// Where the time of quotas runs from: a fixed clock stands still.
    started: Instant,
    /// What the present decision noted.
    noted: Vec<WindowId>,
    /// The quotas that the present decision used.
    quotas: Vec<(&'static str, String)>,
    /// Inbox entries that are decided and not committed, by inbox and in order.
    arriving: HashMap<InboxName, VecDeque<Seq>>,
    arriving_order: VecDeque<(Seq, InboxName)>,
}

/// What a decision used of soft state.
#[derive(Default)]
pub(crate) struct Used {
    senders: Vec<String>,
    noted: Vec<WindowId>,
    quotas: Vec<(&'static str, String)>,
}

/// What decisions used of allowances, each sender once.
pub(crate) fn spent<'u>(by: impl Iterator<Item = &'u Used>) -> Vec<Spent> {
    let mut times: HashMap<&str, u32> = HashMap::new();
    for sender in by.flat_map(|used| &used.senders) {
        *times.entry(sender).or_default() += 1;
    }
    let spent = |(who, times): (&str, u32)| Spent {
        who: who.to_owned(),
        times,
    };
    times.into_iter().map(spent).collect()
}

impl Soft {
    pub(crate) fn new(
        limits: SoftLimits,
        inboxes: Arc<Inboxes>,
        store: Arc<dyn Store>,
        rates: Rates,
        agh: SharedAgh,
    ) -> Self {
        Self {
            limits,
            inboxes,
            store,
            rates,
            used: Vec::new(),
            agh,
            now: Time::UNIX_EPOCH,
            started: Instant::now(),
            noted: Vec::new(),
            quotas: Vec::new(),
            arriving: HashMap::new(),
            arriving_order: VecDeque::new(),
        }
    }

    /// The rates, for whoever learns which decisions count.
    pub(crate) fn rates(&self) -> Rates {
        self.rates.clone()
    }

    /// A decision begins.
    pub(crate) fn begin(&mut self, now: Time) {
        self.now = now;
        self.used.clear();
        self.noted.clear();
        self.quotas.clear();
    }

    /// The decision will be made again: what it used is not used.
    pub(crate) fn take_back(&mut self) {
        let used = self.used();
        self.give_back(used);
    }

    /// What the present decision used, so that it can be given back.
    pub(crate) fn used(&mut self) -> Used {
        Used {
            senders: std::mem::take(&mut self.used),
            noted: std::mem::take(&mut self.noted),
            quotas: std::mem::take(&mut self.quotas),
        }
    }

    /// A decision does not count: what it used is not used.
    pub(crate) fn give_back(&mut self, used: Used) {
        for sender in used.senders {
            self.rates.give_back(&sender);
        }
        if used.noted.is_empty() && used.quotas.is_empty() {
            return;
        }
        let mut agh = lock(&self.agh);
        for id in used.noted {
            agh.once.take_back(&id);
        }
        for (of, who) in used.quotas {
            agh.quotas.take_back(of, &who);
        }
    }

    /// Nothing that was decided and is not committed will be.
    pub(crate) fn nothing_arrives(&mut self) {
        self.arriving.clear();
        self.arriving_order.clear();
    }

    /// Entries were decided; they count before they are committed.
    pub(crate) fn decided(&mut self, entries: &[(InboxName, Seq)]) {
        for (name, seq) in entries {
            self.arriving.entry_ref(name).or_default().push_back(*seq);
            self.arriving_order.push_back((*seq, name.clone()));
        }
    }

    /// Lets go of entries that are committed.
    pub(crate) fn release(&mut self) {
        let head = self.store.head().seq;
        while let Some((seq, name)) = self.arriving_order.pop_front_if(|(seq, _)| *seq <= head) {
            let Some(arriving) = self.arriving.get_mut(&name) else {
                continue;
            };
            while arriving.pop_front_if(|first| *first <= seq).is_some() {}
            if arriving.is_empty() {
                self.arriving.remove(&name);
            }
        }
    }

    /// Whether an inbox has room for one more. One whose depth cannot be read has none.
    fn has_room(&self, name: &InboxName) -> bool {
        let Ok(mut fill) = self.inboxes.fill(name) else {
            return false;
        };
        if fill.depth() >= self.limits.inbox_depth && self.store.is_shared() {
            // Its owner may have acknowledged entries elsewhere.
            let Ok(again) = self.inboxes.fill_anew(name) else {
                return false;
            };
            fill = again;
        }
        let arriving = self.arriving.get(name).map_or(0, |arriving| {
            arriving.len() - arriving.partition_point(|seq| *seq <= fill.last)
        });
        fill.depth() + (arriving as u64) < self.limits.inbox_depth
    }

    /// Asks what is remembered of agh; what that notes can be taken back.
    fn ask_agh(&mut self, guard: Guard<'_>) -> Result<(), Shut> {
        let millis = i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX);
        let tick = Time::from_unix_millis(millis).unwrap_or(Time::UNIX_EPOCH);
        lock(&self.agh).guards(self.now, tick).pass(guard)?;
        match guard {
            Guard::Once {
                id, until: Some(_), ..
            } => self.noted.push(*id),
            Guard::Quota { of, who, .. } => self.quotas.push((of, who.to_owned())),
            _ => {}
        }
        Ok(())
    }

    fn rate(&mut self, sender: &str) -> Result<(), Shut> {
        self.rates.take(sender, Instant::now())?;
        self.used.push(sender.to_owned());
        Ok(())
    }
}

/// What agh remembers; a thread that died with it held left nothing half done.
pub(crate) fn lock(agh: &SharedAgh) -> MutexGuard<'_, AghSoft> {
    agh.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Guards for Soft {
    fn pass(&mut self, guard: Guard<'_>) -> Result<(), Shut> {
        let open = match guard {
            Guard::Rate { sender } => return self.rate(sender),
            Guard::Inbox { name } => self.has_room(name),
            Guard::Window => self.store.window_len() < self.limits.window_records,
            Guard::Once { .. }
            | Guard::Quota { .. }
            | Guard::Present { .. }
            | Guard::Network { .. } => {
                return self.ask_agh(guard);
            }
        };
        if open {
            Ok(())
        } else {
            Err(Shut { retry_after_s: 1 })
        }
    }
}

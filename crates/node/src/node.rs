//! A node: the gate with everything that works around it, from start to clean stop.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use chancery_agh::settings::Settings as AghSettings;
use chancery_agh::soft::Soft as AghSoft;
use chancery_core::decision::Event;
use chancery_core::protocol::Suite;
use chancery_core::rows::{RowKey, Rows, RowsDamaged};
use chancery_core::time::Time;
use chancery_journal::InForce;
use chancery_store::{Store, StoreError, Watch};
use chancery_vibe::flight::Flights;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use crate::after::Follow;
use crate::allowance::Allowance;
use crate::clerks::{Hands, Threads};
use crate::clock::{Clock, Entropy};
use crate::duties::Duties;
use crate::gate::{Gate, GateLimits, Overloaded, Parts, Permit};
use crate::inboxes::Inboxes;
use crate::lateness::Lateness;
use crate::leave::{Leave, Suspended};
use crate::others::{Others, Word};
use crate::outbox::{Bus, Carrier, Made, Outbox};
use crate::overlay::Overlay;
use crate::rates::{FILLED_AGAIN_AFTER, Rates, TELL_EVERY};
use crate::sequencer::Decided;
use crate::sidelogs::SideLogs;
use crate::soft::{self, SharedAgh, Soft, SoftLimits};
use crate::timers::Timers;
use crate::trace::Spans;
use crate::vault::Vault;

/// How far the machine's clock may be behind the journal's time at start (CH-JRN-14).
const CLOCK_BEHIND_AT_MOST: Duration = Duration::from_secs(60);

/// Failed signatures that are explained in a second, for all senders together: each may cost a few dozen verifications.
const HINTS_PER_S: u32 = 16;

/// What a node is started with.
pub struct Options<S: Suite> {
    /// The rules.
    pub suite: Arc<S>,
    /// An open store whose tail has been decided again.
    pub store: Arc<dyn Store>,
    /// The secret keys of hosted agents.
    pub vault: Arc<Vault>,
    /// The clock.
    pub clock: Clock,
    /// Where identifiers come from.
    pub entropy: Entropy,
    /// How much is taken at once.
    pub gate_limits: GateLimits,
    /// The limits of soft state.
    pub soft_limits: SoftLimits,
    /// How envelopes reach recipients elsewhere.
    pub carrier: Arc<dyn Carrier>,
    /// Where refusals and events are noted.
    pub side_logs: SideLogs,
    /// Who decides and commits.
    pub hands: Hands,
    /// Where the spans of recorded traces go; none where nobody collects them.
    pub spans: Option<Arc<Spans>>,
}

/// Why a node did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The clock is behind the journal.
    #[error(
        "the clock says {now}, but the journal has a decision of {journal}: set the clock, or wait until it has caught up"
    )]
    ClockBehind {
        /// This machine's time.
        now: Time,
        /// The journal's latest decision time.
        journal: Time,
    },
    /// The store cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The rows cannot be read.
    #[error(transparent)]
    Rows(#[from] RowsDamaged),
    /// A thread could not be started.
    #[error("a thread could not be started: {0}")]
    Thread(#[from] std::io::Error),
}

/// A running node.
pub struct Node<S: Suite> {
    gate: Gate<S>,
    inboxes: Arc<Inboxes>,
    outbox: Arc<Outbox>,
    timers: Arc<Timers>,
    duties: Arc<Duties>,
    side_logs: Arc<SideLogs>,
    spans: Option<Arc<Spans>>,
    soft_limits: SoftLimits,
    agh: SharedAgh,
    rates: Rates,
    others: Arc<Others>,
    peers_changed: watch::Sender<()>,
    suspended: Arc<Suspended>,
    started: Time,
    /// Keys of vibe requests that wait for their answer (CH-JRN-13).
    pub(crate) flights: std::sync::Mutex<Flights>,
    /// Tokens that were shown lately.
    pub(crate) shown_tokens: crate::tokens::Shown,
    hints: Allowance,
    running: std::sync::Mutex<Option<Running>>,
}

struct Running {
    threads: Threads,
    timers: JoinHandle<()>,
    /// Follows the duty, where a journal is shared.
    duties: Option<JoinHandle<()>>,
    /// Tells the others what senders use, where there may be any.
    telling: Option<JoinHandle<()>>,
    /// Hands deliveries out, where there is a bus.
    handing: Option<JoinHandle<()>>,
}

impl Running {
    /// What every node has.
    fn new(threads: Threads, timers: JoinHandle<()>) -> Self {
        Self {
            threads,
            timers,
            duties: None,
            telling: None,
            handing: None,
        }
    }

    /// Ends what fires timers, follows the duty and tells others.
    fn abort(&self) {
        self.timers.abort();
        for task in [&self.duties, &self.telling, &self.handing]
            .into_iter()
            .flatten()
        {
            task.abort();
        }
    }
}

impl<S: Suite> Node<S> {
    /// Starts the gate, the timers and the outbox over an open store. Needs a tokio runtime.
    pub fn start(options: Options<S>) -> Result<Self, StartError> {
        let started = options.clock.now();
        check_clock(&options.clock, options.store.head().time)?;
        let inboxes = Arc::new(Inboxes::new(Arc::clone(&options.store)));
        let suspended = Suspended::on_record(&*options.store)?;
        let side_logs = Arc::new(options.side_logs.salted(salt(&*options.store)?));
        let timers = Arc::new(Timers::new(options.clock.clone()));
        let duties = Arc::new(Duties::new());
        let outbox = Arc::new(Outbox::new(
            Arc::clone(&options.store),
            options.clock.clone(),
            options.carrier,
            Arc::clone(&suspended),
            Arc::clone(&side_logs),
        ));
        let rows: &dyn Rows = &Overlay::new(Arc::clone(&options.store));
        let in_force = InForce::of_rows(&*options.suite, rows)?;
        let (soft, rates, agh) = soft_state(options.soft_limits, &inboxes, &options.store);
        let others = Others::new(Arc::clone(&options.store));
        let parts = Parts {
            suite: options.suite,
            store: options.store,
            vault: options.vault,
            clock: options.clock,
            entropy: options.entropy,
            in_force,
            limits: options.gate_limits,
        };
        let peers_changed = watch::Sender::new(());
        let (gate, threads) = Gate::start(parts, soft, options.hands, |gate| {
            Box::new(Follow {
                gate: gate.clone(),
                inboxes: Arc::clone(&inboxes),
                outbox: Arc::clone(&outbox),
                suspended: Arc::clone(&suspended),
                timers: Arc::clone(&timers),
                duties: Arc::clone(&duties),
                side_logs: Arc::clone(&side_logs),
                peers_changed: peers_changed.clone(),
                runtime: tokio::runtime::Handle::current(),
            })
        })?;
        if !gate.store().is_shared() {
            duties.take_up(&gate, &outbox, &timers)?;
        }
        let firing = fire(Arc::clone(&timers), gate.clone());
        let running = std::sync::Mutex::new(Some(Running::new(threads, firing)));
        Ok(Self {
            gate,
            inboxes,
            outbox,
            timers,
            duties,
            side_logs,
            spans: options.spans,
            soft_limits: options.soft_limits,
            agh,
            rates,
            others,
            peers_changed,
            suspended,
            started,
            flights: std::sync::Mutex::default(),
            shown_tokens: crate::tokens::Shown::default(),
            hints: Allowance::new(HINTS_PER_S),
            running,
        })
    }

    /// Where the journal is shared: follows what others commit from now on, and takes up timers and deliveries when that
    /// falls to this process. Needs a tokio runtime.
    ///
    /// # Errors
    /// The store cannot tell of others.
    pub fn join_others(&self) -> Result<(), StoreError> {
        if !self.gate.store().is_shared() {
            return Ok(());
        }
        let (gate, duties) = (self.gate.clone(), Arc::clone(&self.duties));
        let (outbox, timers) = (Arc::clone(&self.outbox), Arc::clone(&self.timers));
        let task = tokio::spawn(async move { duties.run(gate, outbox, timers).await });
        let telling = tell_of_rates(self.rates.clone(), Arc::clone(&self.others));
        if let Some(running) = &mut *self.lock_running() {
            running.duties = Some(task);
            running.telling = Some(tokio::spawn(telling));
        }
        self.listen_to_others();
        let (look, duties) = (self.gate.look(), Arc::clone(&self.duties));
        let others = Arc::clone(&self.others);
        self.gate.store().watch(Watch {
            moved: Arc::new(move || {
                look();
                duties.look();
            }),
            heard: Arc::new(move |note| others.hear(&note)),
        })
    }

    /// Soft state goes by what the others tell of theirs (CH-JRN-13).
    fn listen_to_others(&self) {
        let (rates, agh, clock) = (
            self.rates.clone(),
            Arc::clone(&self.agh),
            self.gate.clock().clone(),
        );
        let others = Arc::downgrade(&self.others);
        let asked = AtomicBool::new(false);
        let lateness = Mutex::new(Lateness::new(Instant::now()));
        let late = move |from: &str, told_ms: u64| {
            let mut lateness = lateness.lock().unwrap_or_else(PoisonError::into_inner);
            lateness.of(from, told_ms, Instant::now())
        };
        self.others.listen(move |from, word| {
            // Whoever hears one word will hear the answers too.
            if !asked.swap(true, Ordering::AcqRel)
                && let Some(others) = others.upgrade()
            {
                others.tell(&Word::WhoIsPresent);
            }
            match word {
                Word::Used { told_ms, by } => {
                    if late(from, *told_ms) > FILLED_AGAIN_AFTER {
                        return;
                    }
                    let now = Instant::now();
                    for (sender, times) in by {
                        rates.used_elsewhere(sender, *times, now);
                    }
                }
                Word::Seen {
                    told_ms,
                    ago_s,
                    seen,
                } => {
                    // What is heard at once after a pause was said during it.
                    let late_s = i64::try_from(late(from, *told_ms).as_secs()).unwrap_or(i64::MAX);
                    let now = clock.now().unix_seconds();
                    let at = now.saturating_sub(late_s).saturating_sub(*ago_s);
                    let mut agh = soft::lock(&agh);
                    agh.presence.hear((**seen).clone(), at, now);
                }
                Word::WhoIsPresent => {
                    if let Some(others) = others.upgrade() {
                        let now = clock.now().unix_seconds();
                        tell_who_is_present(&others, &soft::lock(&agh), now);
                    }
                }
                _ => {}
            }
        });
    }

    /// Deliveries are handed out among the nodes of the journal through this bus: say it before joining them. Needs a
    /// tokio runtime.
    pub fn hand_out_through(&self, bus: Arc<dyn Bus>) {
        self.outbox.hand_out_through(bus);
        let (outbox, gate) = (Arc::clone(&self.outbox), self.gate.clone());
        let handing = outbox.keep_handing_out(gate, self.duties.changes());
        if let Some(running) = &mut *self.lock_running() {
            running.handing = Some(tokio::spawn(handing));
        }
    }

    /// Makes a delivery that the bus gave to this node, for as long as `is_mine` says that it did; what the bus is to do
    /// with it.
    pub async fn make_delivery(
        &self,
        order: &[u8],
        is_mine: Arc<dyn Fn() -> bool + Send + Sync>,
    ) -> Made {
        self.outbox.make(&self.gate, order, is_mine).await
    }

    /// The other nodes of the journal.
    pub fn others(&self) -> &Arc<Others> {
        &self.others
    }

    /// The leave of a message to go out.
    pub fn leave(&self, from: &str, exempt: bool) -> Leave {
        Leave::new(&self.suspended, from, exempt)
    }

    /// Whether timers, deliveries and what else one process does for all are this one's; tells whenever that changes.
    pub fn on_duty(&self) -> watch::Receiver<bool> {
        self.duties.changes()
    }

    /// Returns once the duties are this process's: at once where no other shares the journal.
    pub async fn duty_begun(&self) {
        let mut on_duty = self.duties.changes();
        // It ends with the node alone.
        if on_duty.wait_for(|ours| *ours).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    fn lock_running(&self) -> std::sync::MutexGuard<'_, Option<Running>> {
        self.running
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The gate.
    pub fn gate(&self) -> &Gate<S> {
        &self.gate
    }

    /// The inboxes.
    pub fn inboxes(&self) -> &Arc<Inboxes> {
        &self.inboxes
    }

    /// The limits of soft state.
    pub fn soft_limits(&self) -> SoftLimits {
        self.soft_limits
    }

    /// What agh remembers without a log.
    pub(crate) fn agh(&self) -> &SharedAgh {
        &self.agh
    }

    /// Tells when the record of a hosted agent has changed.
    pub fn peers_changed(&self) -> watch::Receiver<()> {
        self.peers_changed.subscribe()
    }

    /// Told whenever the run state of anybody changes.
    pub fn run_states(&self) -> tokio::sync::watch::Receiver<()> {
        self.suspended.changes()
    }

    /// When the node started, on its own clock.
    pub fn started(&self) -> Time {
        self.started
    }

    /// How often a failed signature is still explained.
    pub(crate) const fn hints(&self) -> &Allowance {
        &self.hints
    }

    /// Deliveries that are not settled.
    pub fn outbox_len(&self) -> usize {
        self.outbox.len()
    }

    /// Timers that wait.
    pub fn timers_len(&self) -> usize {
        self.timers.len()
    }

    /// Decides an input of the node's own (administration, configuration) and waits until it is durable.
    pub async fn submit(&self, input: S::Input) -> Result<Decided<S::Answer>, Overloaded> {
        self.gate.submit(input, self.gate.clock().now(), None).await
    }

    /// A place for one request: the ordinary kind, or the urgent kind when `urgent` says that it may have one.
    pub fn permit(&self, urgent: bool) -> Result<Permit, Overloaded> {
        self.gate.permit().or_else(|full| {
            if urgent {
                self.gate.urgent_permit()
            } else {
                Err(full)
            }
        })
    }

    /// Where spans go; none where nobody collects them.
    pub fn spans(&self) -> Option<&Arc<Spans>> {
        self.spans.as_ref()
    }

    /// Where refusals and events are noted.
    pub(crate) fn side_logs(&self) -> &SideLogs {
        &self.side_logs
    }

    /// Notes something worth telling that no decision told.
    pub fn note_event(&self, event: &Event) {
        self.side_logs.event(event);
    }

    /// Stops: takes nothing more, decides what waits, makes it durable and closes the store.
    pub async fn stop(&self) -> Result<(), StoreError> {
        let running = self.lock_running().take();
        let Some(running) = running else {
            return Ok(());
        };
        running.abort();
        // Ended by the abort, which is no fault.
        let _ = running.timers.await;
        self.gate.close();
        let failed = |error: tokio::task::JoinError| StoreError(error.to_string());
        tokio::task::spawn_blocking(move || running.threads.join())
            .await
            .map_err(failed)?;
        self.outbox.stop().await;
        let store = Arc::clone(self.gate.store());
        tokio::task::spawn_blocking(move || store.close())
            .await
            .map_err(failed)?
    }
}

/// A node that is dropped without [`Node::stop`] leaves its store as a crash would, and no thread or task behind.
impl<S: Suite> Drop for Node<S> {
    fn drop(&mut self) {
        let running = self
            .running
            .get_mut()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .take();
        if let Some(running) = running {
            running.abort();
            self.gate.close();
            self.outbox.abort();
        }
    }
}

/// The guards of a node, and what of them others are told.
fn soft_state(
    limits: SoftLimits,
    inboxes: &Arc<Inboxes>,
    store: &Arc<dyn Store>,
) -> (Soft, Rates, SharedAgh) {
    let rates = Rates::new(limits.rate_per_sender, store.is_shared());
    let agh = SharedAgh::new(AghSoft::new(&AghSettings::default()).into());
    let (inboxes, store) = (Arc::clone(inboxes), Arc::clone(store));
    let soft = Soft::new(limits, inboxes, store, rates.clone(), Arc::clone(&agh));
    (soft, rates, agh)
}

/// Senders that one word is about.
const TOLD_TOGETHER: usize = 1_000;

/// Remote peers that a node that has just started is told of; of the others it hears when they greet.
const PRESENT_TOLD: usize = 1_000;

/// Tells the others which remote peers were seen here or told here, and how long ago.
fn tell_who_is_present(others: &Others, agh: &AghSoft, now: i64) {
    for (seen, at) in agh.presence.latest(PRESENT_TOLD, now) {
        others.tell(&Word::Seen {
            told_ms: others.told_ms(),
            ago_s: now.saturating_sub(at),
            seen: Box::new(seen),
        });
    }
}

/// Tells the others what senders use here, for ever.
async fn tell_of_rates(rates: Rates, others: Arc<Others>) {
    let mut tick = tokio::time::interval(TELL_EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        let told_ms = others.told_ms();
        for used in rates.worth_telling().chunks(TOLD_TOGETHER) {
            let by = used.to_vec();
            others.tell(&Word::Used { told_ms, by });
        }
    }
}

/// Makes inputs of timers as they are due.
fn fire<S: Suite>(timers: Arc<Timers>, gate: Gate<S>) -> JoinHandle<()> {
    tokio::spawn(async move { timers.run(gate).await })
}

fn check_clock(clock: &Clock, journal: Option<Time>) -> Result<(), StartError> {
    let (Some(journal), now) = (journal, clock.now()) else {
        return Ok(());
    };
    let behind = journal.since(now).unwrap_or_default();
    if !clock.is_fixed() && behind > CLOCK_BEHIND_AT_MOST {
        return Err(StartError::ClockBehind { now, journal });
    }
    Ok(())
}

/// What the names in events are hashed with: made once, kept beside the log (VX-AUD-1).
fn salt(store: &dyn Store) -> Result<[u8; 16], StoreError> {
    let key = RowKey::text("event-salt", &[]);
    if let Some(salt) = store
        .ops_get(&key)?
        .and_then(|salt| salt.as_ref().try_into().ok())
    {
        return Ok(salt);
    }
    let mut salt = [0; 16];
    getrandom::fill(&mut salt).map_err(|error| StoreError(error.to_string()))?;
    store.ops_put(&[(key, Some(salt[..].into()))], false)?;
    Ok(salt)
}

//! The gate: the one path of every input, from a caller's request to a durable answer.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use arc_swap::ArcSwap;
use chancery_core::decision::{Before, Nonce, Open};
use chancery_core::keys::Keyring;
use chancery_core::protocol::Suite;
use chancery_core::refusal::Refusal;
use chancery_core::rows::{Lookup, RowKey};
use chancery_core::time::Time;
use chancery_journal::{Chain, InForce, Outcome, decide_input};
use chancery_store::Store;
use tokio::runtime::Handle;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot, watch};

use crate::clerks::{Clerks, Hands, Threads};
use crate::clock::{Clock, Entropy};
use crate::committer::{AfterCommit, Committer};
use crate::lanes::Lanes;
use crate::overlay::Overlay;
use crate::sequencer::{Decided, Entry, Sequencer};
use crate::soft::Soft;
use crate::trace::Traced;
use crate::vault::Vault;

/// How much a gate takes at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateLimits {
    /// Requests under way.
    pub requests: usize,
    /// Urgent requests under way beyond those.
    pub urgent_requests: usize,
    /// How many lines the index may be behind the log.
    pub index_lag_entries: u64,
}

impl Default for GateLimits {
    fn default() -> Self {
        Self {
            requests: 4_096,
            urgent_requests: 64,
            index_lag_entries: 100_000,
        }
    }
}

/// What the gate's threads and its callers share.
pub(crate) struct Shared<S: Suite> {
    pub(crate) suite: Arc<S>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) vault: Arc<Vault>,
    pub(crate) clock: Clock,
    pub(crate) entropy: Entropy,
    pub(crate) settings: ArcSwap<S::Settings>,
    pub(crate) keyring: ArcSwap<Keyring>,
    pub(crate) lanes: Lanes<Entry<S>>,
    pub(crate) committed_batch: AtomicU64,
    /// Raised whenever a token's record or hash has changed: what was looked up before does not count any more.
    token_changes: AtomicU64,
    /// Told of each such change.
    tokens: watch::Sender<()>,
    pub(crate) runtime: Handle,
    /// Those whom callers lend their hands, where they do.
    helped: OnceLock<Weak<Clerks<S>>>,
    failed: AtomicBool,
    failure: Notify,
}

impl<S: Suite> Shared<S> {
    /// A token's record or hash has changed, and readers see it.
    pub(crate) fn tokens_changed(&self) {
        self.token_changes.fetch_add(1, Ordering::AcqRel);
        self.tokens.send_replace(());
    }

    /// The node cannot go on: no further answer leaves, and whoever waits for the end is told.
    pub(crate) fn fail(&self, reason: &str) {
        if !self.failed.swap(true, Ordering::AcqRel) {
            tracing::error!(
                reason,
                "the node stops: its log or its rows cannot be trusted any more"
            );
        }
        self.lanes.abandon();
        self.failure.notify_waiters();
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Whether callers decide and commit.
    pub(crate) fn is_helped(&self) -> bool {
        self.helped.get().is_some()
    }
}

/// A place among the requests under way.
#[derive(Debug)]
pub struct Permit(OwnedSemaphorePermit);

/// The gate is full or closed: try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the node takes no further requests at the moment")]
pub struct Overloaded;

/// A handle on the gate. Cheap to clone.
pub struct Gate<S: Suite> {
    shared: Arc<Shared<S>>,
    limits: GateLimits,
    permits: Arc<Semaphore>,
    urgent_permits: Arc<Semaphore>,
}

impl<S: Suite> Clone for Gate<S> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            limits: self.limits,
            permits: Arc::clone(&self.permits),
            urgent_permits: Arc::clone(&self.urgent_permits),
        }
    }
}

/// What a gate is made of.
pub(crate) struct Parts<S: Suite> {
    pub(crate) suite: Arc<S>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) vault: Arc<Vault>,
    pub(crate) clock: Clock,
    pub(crate) entropy: Entropy,
    pub(crate) in_force: InForce<S>,
    pub(crate) limits: GateLimits,
}

impl<S: Suite> Gate<S> {
    /// Starts the threads that decide and commit, unless callers do it.
    pub(crate) fn start(
        parts: Parts<S>,
        soft: Soft,
        hands: Hands,
        after: impl FnOnce(&Gate<S>) -> Box<dyn AfterCommit>,
    ) -> std::io::Result<(Self, Threads)> {
        let shared = Arc::new(Shared {
            suite: parts.suite,
            store: parts.store,
            vault: parts.vault,
            clock: parts.clock,
            entropy: parts.entropy,
            settings: ArcSwap::from_pointee(parts.in_force.settings().clone()),
            keyring: ArcSwap::from_pointee(parts.in_force.keyring().clone()),
            lanes: Lanes::new(),
            committed_batch: AtomicU64::new(0),
            token_changes: AtomicU64::new(0),
            tokens: watch::Sender::new(()),
            runtime: Handle::current(),
            helped: OnceLock::new(),
            failed: AtomicBool::new(false),
            failure: Notify::new(),
        });
        let gate = Self {
            shared: Arc::clone(&shared),
            limits: parts.limits,
            permits: Arc::new(Semaphore::new(parts.limits.requests)),
            urgent_permits: Arc::new(Semaphore::new(parts.limits.urgent_requests)),
        };
        let committer = Committer {
            shared: Arc::clone(&shared),
            chain: Chain::after(shared.store.head()),
            after: after(&gate),
            rates: soft.rates(),
            line_bytes: 0,
        };
        let sequencer = Sequencer::new(Arc::clone(&shared), parts.in_force, soft);
        let clerks = Clerks::new(Arc::clone(&shared), sequencer, committer);
        let threads = match hands {
            Hands::Own => clerks.start()?,
            Hands::Callers => {
                // Nobody else sets it.
                let _ = shared.helped.set(Arc::downgrade(&clerks));
                Threads::none(clerks)
            }
        };
        Ok((gate, threads))
    }

    /// A place among the requests under way, if there is one.
    pub fn permit(&self) -> Result<Permit, Overloaded> {
        if self.shared.has_failed() || self.shared.store.lag() >= self.limits.index_lag_entries {
            return Err(Overloaded);
        }
        Arc::clone(&self.permits)
            .try_acquire_owned()
            .map(Permit)
            .map_err(|_| Overloaded)
    }

    /// A place for an urgent request when there is no other.
    pub fn urgent_permit(&self) -> Result<Permit, Overloaded> {
        if self.shared.has_failed() {
            return Err(Overloaded);
        }
        Arc::clone(&self.urgent_permits)
            .try_acquire_owned()
            .map(Permit)
            .map_err(|_| Overloaded)
    }

    /// How much this gate takes at once.
    pub fn limits(&self) -> GateLimits {
        self.limits
    }

    /// Requests that could come in right now.
    pub fn free_permits(&self) -> usize {
        self.permits.available_permits()
    }

    /// Decides an input. The answer comes when everything decided up to it is durable.
    pub async fn submit(
        &self,
        input: S::Input,
        received: Time,
        permit: Option<Permit>,
    ) -> Result<Decided<S::Answer>, Overloaded> {
        self.submit_as(input, received, permit, None).await
    }

    /// The same with a trace.
    pub(crate) async fn submit_as(
        &self,
        input: S::Input,
        received: Time,
        permit: Option<Permit>,
        traced: Option<Traced>,
    ) -> Result<Decided<S::Answer>, Overloaded> {
        self.line_up(input, received, permit, None, traced).await
    }

    /// The same for a timer, whose row is dropped once it is decided.
    pub(crate) async fn submit_timer(
        &self,
        input: S::Input,
        received: Time,
        timer: Option<RowKey>,
    ) -> Result<Decided<S::Answer>, Overloaded> {
        self.line_up(input, received, None, timer, None).await
    }

    async fn line_up(
        &self,
        input: S::Input,
        received: Time,
        permit: Option<Permit>,
        timer: Option<RowKey>,
        traced: Option<Traced>,
    ) -> Result<Decided<S::Answer>, Overloaded> {
        // A store that is a trip away is asked for the rows of many inputs together, by the sequencer.
        if !self.shared.store.is_shared() {
            let missing = self.missing_rows(&input);
            self.fetch(missing).await;
        }
        let urgent = self.shared.suite.urgent(&input);
        let (reply, answer) = oneshot::channel();
        let permit = permit.map(|permit| permit.0);
        let entry = Entry {
            input,
            received,
            reply,
            timer,
            fetched: Vec::new(),
            parked_in_vain: 0,
            nonce: None,
            permit,
            traced,
        };
        if self.shared.lanes.push(entry, urgent).is_err() {
            return Err(Overloaded);
        }
        if let Some(clerks) = self.shared.helped.get() {
            // Gone once the node is: then nobody answers, as after a crash.
            if let Some(clerks) = clerks.upgrade() {
                clerks.work_off();
            }
        }
        match answer.await {
            Ok(decided) => Ok(decided),
            // The node failed with this input under way: it may be on disk or not, so it is not answered at all.
            Err(_) => std::future::pending().await,
        }
    }

    /// The refusal that an input gets by what is durable, if it gets one and leaves nothing else. It is no less true
    /// for what is being decided meanwhile: nobody was told of that yet.
    pub(crate) fn refusal_on_record(&self, input: &S::Input, received: Time) -> Option<Refusal> {
        let shared = &*self.shared;
        let head = shared.store.head();
        let committed = Overlay::new(Arc::clone(&shared.store));
        let before = Before {
            now: head.decision_time(received),
            seq: head.seq + 1,
            rows: &committed,
            windows: &committed,
            guards: &mut Open,
            nonce: Nonce::default(),
            keeps_agenda: true,
        };
        let settings = shared.settings.load();
        let by_position = head.time_by_position();
        match decide_input(&*shared.suite, input, &settings, by_position, before) {
            Outcome::Refused { refusal, aside } if aside.is_empty() => Some(refusal),
            _ => None,
        }
    }

    /// Brings the rows that a decision will surely read into memory: an input that is submitted after this is in line
    /// at once.
    pub(crate) async fn prepare(&self, input: &S::Input) {
        let missing = self.missing_rows(input);
        self.fetch(missing).await;
    }

    /// The rows that a decision will read and that are not in memory.
    fn missing_rows(&self, input: &S::Input) -> Vec<RowKey> {
        let mut wants = Vec::new();
        self.shared.suite.wants(input, &mut wants);
        wants.retain(|key| self.shared.store.peek(key) == Lookup::NotLoaded);
        wants
    }

    /// Brings rows into memory, so that the sequencer need not wait for them.
    async fn fetch(&self, keys: Vec<RowKey>) {
        if keys.is_empty() {
            return;
        }
        let store = Arc::clone(&self.shared.store);
        if self.shared.is_helped() {
            let _ = store.load(&keys);
            return;
        }
        // Should this fail the sequencer finds the rows missing and asks again.
        let _ = tokio::task::spawn_blocking(move || store.load(&keys)).await;
    }

    /// The rules.
    pub fn suite(&self) -> &S {
        &self.shared.suite
    }

    /// The settings in force.
    pub fn settings(&self) -> Arc<S::Settings> {
        self.shared.settings.load_full()
    }

    /// The keys on record.
    pub fn keyring(&self) -> Arc<Keyring> {
        self.shared.keyring.load_full()
    }

    /// How often tokens have changed.
    pub(crate) fn token_changes(&self) -> u64 {
        self.shared.token_changes.load(Ordering::Acquire)
    }

    /// Told whenever a token changes.
    pub(crate) fn watch_tokens(&self) -> watch::Receiver<()> {
        self.shared.tokens.subscribe()
    }

    /// A token's hash has changed beside the log.
    pub(crate) fn tokens_changed(&self) {
        self.shared.tokens_changed();
    }

    /// Where the log and its rows are kept.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.shared.store
    }

    /// The secret keys of hosted agents.
    pub fn vault(&self) -> &Arc<Vault> {
        &self.shared.vault
    }

    /// Where identifiers come from.
    pub fn entropy(&self) -> Entropy {
        self.shared.entropy
    }

    /// The clock.
    pub fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    /// Whether the log or the rows failed: the node takes nothing more and ends.
    pub fn has_failed(&self) -> bool {
        self.shared.has_failed()
    }

    /// Ends the node: something outside the gate found that the log or the rows cannot be trusted.
    pub fn fail(&self, reason: &str) {
        self.shared.fail(reason);
    }

    /// Returns once the log or the rows have failed.
    pub async fn failed(&self) {
        loop {
            let told = self.shared.failure.notified();
            if self.has_failed() {
                return;
            }
            told.await;
        }
    }

    /// Lets a thread of the gate look at what others committed.
    pub(crate) fn look(&self) -> impl Fn() + Send + Sync + use<S> {
        let shared = Arc::downgrade(&self.shared);
        move || {
            if let Some(shared) = shared.upgrade() {
                shared.lanes.nudge();
            }
        }
    }

    /// Takes no further inputs; what waits is still decided and answered.
    pub(crate) fn close(&self) {
        self.shared.lanes.close();
    }
}

//! Hosted vacants: a call is accepted and on record, then its behaviour runs, then its signed answer is on record and
//! sent (CH-JRN-16).
//!
//! Once a call is accepted it is carried through to one outcome, whatever becomes of the caller's connection.

mod abroad;
mod behaviour;
mod bindings;
mod calls;
mod cards;
mod dispatch;
mod lookup;
mod resume;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use chancery_core::line::Seq;
use chancery_core::refusal::Refusal;
use chancery_vacant::id::VacantId;
use chancery_vacant::state::State;
use hashbrown::HashMap;
use tokio::sync::{oneshot, watch};

use crate::office::Office;
use crate::respond::Slot;

pub use abroad::{Awaited, Scout, Scouted};
pub use behaviour::Behaviour;
pub use bindings::{Binding, OpenedCall, Withdrawal};
pub use calls::NativeReply;
pub use lookup::{CapabilityMatch, RegistryQuery, VacantFace};

/// How long a behaviour may take (VA-SRV-9).
pub const BEHAVIOUR_TIMEOUT: Duration = Duration::from_secs(60);

/// What becomes of a call that a stop interrupted (CH-JRN-16).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnRestart {
    /// It is run again.
    Rerun,
    /// It is closed as interrupted.
    Close,
}

/// A vacant as the configuration describes it.
#[derive(Clone, Debug)]
pub struct HostedVacant {
    /// Its name in paths.
    pub name: String,
    /// Its id: the vault holds the key under its text form.
    pub id: VacantId,
    /// Its state when it is hosted for the first time; later the state on record holds.
    pub first_state: State,
    /// What it can do, in words.
    pub capability: String,
    /// What answers its calls.
    pub behaviour: Behaviour,
    /// What becomes of calls that a stop interrupted.
    pub on_restart: OnRestart,
    /// Its participant, when it is not its own (CH-ID-5).
    pub participant: Option<String>,
}

impl HostedVacant {
    /// A place for one more call whose behaviour runs; none where that needs no place.
    fn slot(&self) -> Result<Option<Slot>, Refusal> {
        match &self.behaviour {
            Behaviour::Asks(responder) => {
                let slot = responder.slot();
                slot.map(Some).ok_or_else(calls::busy)
            }
            Behaviour::Echo | Behaviour::Inbox => Ok(None),
        }
    }
}

/// The vacants of a node.
pub struct Vacants {
    office: Arc<Office>,
    hosted: Vec<Arc<HostedVacant>>,
    default: Option<usize>,
    timeout: Duration,
    /// Calls that wait for a vacant to answer from its inbox.
    waiting: Mutex<HashMap<Seq, oneshot::Sender<Bytes>>>,
    /// Calls of ours whose caller waits for an answer from elsewhere.
    asking: Mutex<HashMap<Seq, oneshot::Sender<Result<Bytes, Refusal>>>>,
    /// What finds vacants elsewhere.
    scout: Option<Arc<dyn Scout>>,
    /// Where callers reach this node.
    base_url: Mutex<String>,
    /// Whether an address that is on record stays.
    keeps_addresses: bool,
    /// Whether the node is stopping.
    stopping: watch::Sender<bool>,
}

impl Vacants {
    /// The vacants of a node; `default` is the one that the short paths mean.
    pub fn new(office: Arc<Office>, hosted: Vec<HostedVacant>, default: Option<usize>) -> Self {
        Self {
            office,
            default: default.filter(|index| *index < hosted.len()),
            hosted: hosted.into_iter().map(Arc::new).collect(),
            timeout: BEHAVIOUR_TIMEOUT,
            waiting: Mutex::default(),
            asking: Mutex::default(),
            scout: None,
            base_url: Mutex::default(),
            keeps_addresses: false,
            stopping: watch::Sender::new(false),
        }
    }

    /// The same with another limit on how long a behaviour may take.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// The same on a journal that other nodes share, none of which is the one where callers come in: an address that is
    /// on record stays.
    #[must_use]
    pub fn keeping_addresses(mut self) -> Self {
        self.keeps_addresses = true;
        self
    }

    /// The same with a way to vacants elsewhere.
    #[must_use]
    pub fn with_scout(mut self, scout: Arc<dyn Scout>) -> Self {
        self.scout = Some(scout);
        self
    }

    /// Ends the behaviours that run. Their calls stay open: the next start decides what becomes of them (CH-JRN-16).
    pub fn stop(&self) {
        self.stopping.send_replace(true);
    }

    /// Returns when the node stops.
    async fn stopped(&self) {
        let mut stopping = self.stopping.subscribe();
        // The other end is in this value.
        let _ = stopping.wait_for(|is_stopping| *is_stopping).await;
    }

    /// The node.
    pub fn office(&self) -> &Arc<Office> {
        &self.office
    }

    /// The vacant that the short paths mean.
    pub fn default_vacant(&self) -> Option<&Arc<HostedVacant>> {
        self.hosted.get(self.default?)
    }

    /// A vacant by its name, or by its id.
    pub fn find(&self, name: &str) -> Option<&Arc<HostedVacant>> {
        let by_name = self.hosted.iter().find(|vacant| vacant.name == name);
        by_name.or_else(|| {
            let id = VacantId::from_hex(name).ok()?;
            self.hosted.iter().find(|vacant| vacant.id == id)
        })
    }

    /// Where callers reach this node, without a slash at its end.
    pub fn base_url(&self) -> String {
        lock(&self.base_url).clone()
    }

    /// The address below which a vacant's six paths are: the default has the short ones (CH-NET).
    pub fn address_of(&self, vacant: &HostedVacant) -> String {
        let base = self.base_url();
        match self.default_vacant() {
            Some(default) if default.id == vacant.id => base,
            _ => format!("{base}/agents/{}", vacant.name),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

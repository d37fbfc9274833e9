//! Which AGH peers are connected, and the way to each: answers and receipts go there and not to a broker.

use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use chancery_agh::peer::PeerRecord;
use chancery_agh::subject;
use hashbrown::HashMap;
use tokio::sync::mpsc;

use crate::ws::Switchboard;

/// Answers and receipts that wait for one connection; beyond it they are lost, as any may be (AG-DLV-1).
const WAITING: usize = 64;

/// How the names of peers begin.
const CLAIM: &str = "agh ";

/// Connected peers, by the subject of each.
#[derive(Default)]
pub(crate) struct Connected(RwLock<HashMap<String, mpsc::Sender<Bytes>>>);

/// A peer's place among the connected. Dropping it leaves.
pub(crate) struct Place {
    switchboard: Arc<Switchboard>,
    subject: String,
    number: u64,
    /// What is said to it without a log.
    pub(crate) soft: mpsc::Receiver<Bytes>,
}

impl Place {
    /// A place for a peer; none while another connection has it, to this node or to another.
    pub(crate) fn take(switchboard: &Arc<Switchboard>, record: &PeerRecord) -> Option<Self> {
        let subject = subject_of(record);
        if switchboard.elsewhere.find(&claim(&subject)).is_some() {
            return None;
        }
        let (way, soft) = mpsc::channel(WAITING);
        if !switchboard.connected.add(&subject, way) {
            return None;
        }
        let number = switchboard.number();
        switchboard.elsewhere.came(&claim(&subject), number);
        Some(Self {
            switchboard: Arc::clone(switchboard),
            subject,
            number,
            soft,
        })
    }

    /// Whether the peer has come to another node meanwhile: then it is not this one's to say that it leaves.
    pub(crate) fn is_elsewhere(&self) -> bool {
        let elsewhere = &self.switchboard.elsewhere;
        elsewhere.find(&claim(&self.subject)).is_some()
    }
}

/// Where a peer is reached.
pub(super) fn subject_of(record: &PeerRecord) -> String {
    let workspace = record.workspace_id.as_deref();
    subject::direct(workspace, &record.channel, &record.card.peer_id)
}

/// The name of a peer among all that are connected; no agent of another protocol has such a one.
pub(crate) fn claim(subject: &str) -> String {
    format!("{CLAIM}{subject}")
}

/// Whether a name is that of a peer.
pub(crate) fn is_claim(name: &str) -> bool {
    name.starts_with(CLAIM)
}

impl Connected {
    fn add(&self, subject: &str, way: mpsc::Sender<Bytes>) -> bool {
        let mut peers = self.0.write().unwrap_or_else(PoisonError::into_inner);
        peers.try_insert(subject.to_owned(), way).is_ok()
    }

    fn remove(&self, subject: &str) {
        let mut peers = self.0.write().unwrap_or_else(PoisonError::into_inner);
        peers.remove(subject);
    }

    /// Whether a peer is connected to this node.
    pub(super) fn has(&self, subject: &str) -> bool {
        let peers = self.0.read().unwrap_or_else(PoisonError::into_inner);
        peers.contains_key(subject)
    }

    /// Says something to a connected peer; whether it is one of this node's.
    pub(crate) fn tell(&self, subject: &str, bytes: Bytes) -> bool {
        let peers = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let Some(way) = peers.get(subject) else {
            return false;
        };
        if way.try_send(bytes).is_err() {
            metrics::counter!("chancery_agh_ws_unsaid_total").increment(1);
        }
        true
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.switchboard.connected.remove(&self.subject);
        let elsewhere = &self.switchboard.elsewhere;
        elsewhere.went(&claim(&self.subject), self.number);
    }
}

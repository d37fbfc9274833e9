//! Which AGH peers are connected, and the way to each: answers and receipts go there and not to a broker.

use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use chancery_agh::peer::PeerRecord;
use chancery_agh::subject;
use chancery_core::delivery::Whisper;
use hashbrown::HashMap;
use tokio::sync::mpsc;

/// Answers and receipts that wait for one connection; beyond it they are lost, as any may be (AG-DLV-1).
const WAITING: usize = 64;

/// Connected peers, by the subject of each.
#[derive(Clone, Default)]
pub(crate) struct Connected(Arc<RwLock<HashMap<String, mpsc::Sender<Bytes>>>>);

/// A peer's place among the connected. Dropping it leaves.
pub(crate) struct Place {
    connected: Connected,
    subject: String,
    /// What is said to it without a log.
    pub(crate) soft: mpsc::Receiver<Bytes>,
}

impl Connected {
    /// A place for a peer; none while another connection has it.
    pub(crate) fn take(&self, record: &PeerRecord) -> Option<Place> {
        let workspace = record.workspace_id.as_deref();
        let subject = subject::direct(workspace, &record.channel, &record.card.peer_id);
        let mut peers = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if peers.contains_key(&subject) {
            return None;
        }
        let (way, soft) = mpsc::channel(WAITING);
        peers.insert(subject.clone(), way);
        Some(Place {
            connected: self.clone(),
            subject,
            soft,
        })
    }

    /// Says something to a connected peer; gives it back when it is for somebody else.
    pub(crate) fn tell(&self, whisper: Whisper) -> Option<Whisper> {
        let peers = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let Some(way) = peers.get(&whisper.to) else {
            return Some(whisper);
        };
        if way.try_send(whisper.bytes).is_err() {
            metrics::counter!("chancery_agh_ws_unsaid_total").increment(1);
        }
        None
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut peers = self
            .connected
            .0
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        peers.remove(&self.subject);
    }
}

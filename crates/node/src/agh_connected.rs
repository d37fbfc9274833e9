//! AGH peers that are hosted for as long as their connection lasts: they join, speak through it, and leave.

use bytes::Bytes;
use chancery_agh::fault::{ErrorName, Fault, Stage};
use chancery_agh::message::Message;
use chancery_agh::peer::PeerRecord;
use chancery_core::admin::{Act, agent_key};
use chancery_core::line::ProtocolName;
use chancery_core::protocol::Door;
use chancery_core::refusal::Refusal;
use chancery_store::StoreError;

use crate::agh_network::AghRead;
use crate::office::Office;

/// Why a peer cannot join.
#[derive(Debug, thiserror::Error)]
pub enum NotJoined {
    /// A peer of this name is hosted here already.
    #[error("this peer is here already")]
    Taken,
    /// The record was refused.
    #[error("{0}")]
    Refused(Refusal),
    /// The store cannot be read.
    #[error("{0}")]
    Store(StoreError),
}

impl Office {
    /// Hosts a peer until it leaves; on record when this returns. Two that join as the same one at once are the
    /// caller's to tell apart.
    pub async fn agh_join(&self, mut record: PeerRecord) -> Result<(), NotJoined> {
        let id = record.address();
        let hosted: Option<PeerRecord> = self
            .row(&agent_key(ProtocolName::Agh, &id))
            .map_err(NotJoined::Store)?;
        if hosted.is_some_and(|hosted| !hosted.connected) {
            return Err(NotJoined::Taken);
        }
        record.connected = true;
        self.forget_remote(&record);
        let record = serde_json::to_value(&record)
            .map_err(|error| NotJoined::Store(StoreError(error.to_string())))?;
        let joined = self.act(peer_act(id, Some(record))).await;
        joined.map(|_| ()).map_err(NotJoined::Refused)
    }

    /// Hosts a peer no more that joined by its connection. One that was put on record meanwhile stays.
    pub async fn agh_leave(&self, id: &str) -> Result<(), NotJoined> {
        let hosted: Option<PeerRecord> = self
            .row(&agent_key(ProtocolName::Agh, id))
            .map_err(NotJoined::Store)?;
        if !hosted.is_some_and(|hosted| hosted.connected) {
            return Ok(());
        }
        let left = self.act(peer_act(id.to_owned(), None)).await;
        left.map(|_| ()).map_err(NotJoined::Refused)
    }

    /// Returns once a peer is hosted here no more.
    pub async fn agh_left(&self, id: &str) {
        let key = agent_key(ProtocolName::Agh, id);
        let mut changed = self.peers_changed();
        // What cannot be read now is looked up after the next change.
        while !matches!(self.row::<PeerRecord>(&key), Ok(None)) {
            if changed.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// After a start nobody is connected: those whom a crash left on record leave. Gives their number.
    pub async fn agh_nobody_connected(&self) -> Result<usize, NotJoined> {
        let peers = self.agh_peers().map_err(NotJoined::Store)?;
        let mut left = 0;
        for peer in peers.iter().filter(|peer| peer.connected) {
            self.agh_leave(&peer.address()).await?;
            left += 1;
        }
        Ok(left)
    }

    /// Reads an envelope from the connection of a peer: nobody else speaks there, and nowhere else.
    pub async fn read_agh_of(&self, raw: Bytes, peer: &PeerRecord) -> AghRead {
        let read = self.read_agh(raw, Door::WebSocket { greeting: false });
        read.await.only_of(|message| stranger(message, peer))
    }
}

/// What is wrong with an envelope that is not of the peer whose connection it came over.
fn stranger(message: &Message, peer: &PeerRecord) -> Option<Fault> {
    let fault = |error, member| Some(Fault::new(error, Stage::Members).at(member));
    if *message.from != *peer.card.peer_id {
        fault(ErrorName::InvalidPeerId, "from")
    } else if *message.channel != *peer.channel {
        fault(ErrorName::InvalidChannel, "channel")
    } else if message.workspace.as_deref() != peer.workspace_id.as_deref() {
        fault(ErrorName::InvalidWorkspaceId, "workspace_id")
    } else {
        None
    }
}

fn peer_act(id: String, record: Option<serde_json::Value>) -> Act {
    Act::Agent {
        protocol: ProtocolName::Agh,
        id,
        record,
        run_state: None,
    }
}

//! Who an agent is, and the envelope that drives a turn.

use bytes::Bytes;
use chancery_core::digest::Sha256Digest;
use chancery_core::ids::v4;
use chancery_core::inbox::InboxName;
use chancery_core::line::Seq;
use chancery_vibe::address::{Address, Side};
use chancery_vibe::agent::AgentRecord;
use chancery_vibe::rules::inbox;
use chancery_vibe::world::read::Reader;
use serde_json::Value;

use crate::budget::Budget;
use crate::skill::Skills;

/// An agent that lives in the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agent {
    /// Its name: the principal that its lines name.
    pub name: String,
    /// What the record says about it.
    pub record: AgentRecord,
    /// What its role asks of it, in words.
    pub instructions: String,
    /// What it can look up.
    pub skills: Skills,
    /// What a turn may cost.
    pub budget: Budget,
}

/// The roles of a side that an agent without a role listens for (VC-ADR-5). The two persons are not among them.
const ROLES: [(Side, &[&str]); 2] = [
    (
        Side::Buyer,
        &["intent", "discovery", "negotiation", "authorization"],
    ),
    (
        Side::Merchant,
        &["catalog", "retrieval", "pricing", "fulfillment", "support"],
    ),
];

impl Agent {
    /// An agent with nothing but its place.
    pub fn new(name: &str, record: AgentRecord) -> Self {
        Self {
            name: name.to_owned(),
            record,
            instructions: String::new(),
            skills: Skills::default(),
            budget: Budget::default(),
        }
    }

    /// Its side.
    pub fn side(&self) -> Side {
        Address::sender(&self.record.address).map_or(Side::World, |address| address.side)
    }

    /// The consumer or merchant that it acts for.
    pub fn owner(&self) -> Option<&str> {
        let record = &self.record;
        record
            .consumer_id
            .as_deref()
            .or(record.merchant_id.as_deref())
    }

    /// The inboxes that it listens to.
    pub fn inboxes(&self) -> Vec<InboxName> {
        let address = self.record.address.as_str();
        let mut names = vec![inbox(address, self.owner())];
        let roles = ROLES.iter().filter(|(side, _)| side.as_str() == address);
        for role in roles.flat_map(|(_, roles)| roles.iter()) {
            names.push(inbox(&format!("{address}:{role}"), self.owner()));
        }
        names
    }

    /// What it may read of the world (VC-WLD-3).
    pub fn reader(&self) -> Reader {
        let record = &self.record;
        Reader::of_principal(
            std::slice::from_ref(&record.address),
            record.consumer_id.as_deref(),
            record.merchant_id.as_deref(),
        )
    }

    /// An identifier that follows from the agent and the envelope that it answers: the same when a turn runs again.
    pub fn derived_id(&self, of: &str, inbound_msg_id: &str) -> String {
        let material = format!("{of}:{}:{inbound_msg_id}", self.name);
        let mut first = [0; 16];
        first.copy_from_slice(&Sha256Digest::of(material.as_bytes()).0[..16]);
        v4(first).to_string()
    }
}

/// The envelope that drives a turn.
#[derive(Clone, Debug, PartialEq)]
pub struct Inbound {
    /// Its line.
    pub seq: Seq,
    /// Its identifier.
    pub msg_id: String,
    /// Its session.
    pub session_id: String,
    /// Its action.
    pub kind: String,
    /// The envelope, as the log has it.
    pub envelope: Value,
}

impl Inbound {
    /// The envelope of a line; none when it is no envelope of this protocol.
    pub fn read(seq: Seq, envelope: &Bytes) -> Option<Self> {
        let envelope: Value = serde_json::from_slice(envelope).ok()?;
        let text = |value: &Value| value.as_str().map(str::to_owned);
        Some(Self {
            seq,
            msg_id: text(envelope.get("msg_id")?)?,
            session_id: text(envelope.get("session_id")?)?,
            kind: text(envelope.get("action")?.get("kind")?)?,
            envelope,
        })
    }

    /// The payload of its action.
    pub fn payload(&self) -> &Value {
        &self.envelope["action"]["payload"]
    }

    /// A text of its payload.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.payload().get(name)?.as_str()
    }

    /// A number of its payload.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.payload().get(name)?.as_u64()
    }
}

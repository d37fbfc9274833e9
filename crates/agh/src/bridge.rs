//! The bridge between one channel of revision A and one of revision B (AG-B-46): what an envelope on one side is on the
//! other. The bridge is a peer of its own on both sides, and republishes under its own name.
//!
//! Guarantees: what was republished is never republished again, by this bridge or another; work keeps one name on both
//! sides, so that answers find their way back; a reason code is one of the side's registry.

use chancery_core::digest::{Sha256, hex};
use serde_json::{Map, Value, json};

use crate::conversation::direct_id;
use crate::fault::Reason;
use crate::grammar::is_sent_work_id;
use crate::revision::Revision;
use crate::settings::Bridge;

/// Marks what a bridge republished.
const BRIDGED: &str = "agh.bridged";
/// Names the peer of the other side that work is meant for; later messages of the work need it no more.
pub const TO: &str = "agh.bridge_to";
/// The name of an interaction that is none of a work.
const LEGACY: &str = "agh.legacy_interaction_id";
/// What the identifiers of republished envelopes begin with; the rest is the original's.
const PREFIX: &str = "bridge.";
/// Characters of a channel's name in its thread's.
const THREAD_CHARACTERS: usize = 89;

/// What is on record on the other side about the work that an envelope belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherSide {
    /// The work's name there.
    pub work: String,
    /// Who works with the bridge there.
    pub peer: String,
    /// Where, in revision B.
    pub container: Option<String>,
}

/// What becomes of an envelope that the bridge got.
#[derive(Clone, Debug, PartialEq)]
pub enum Crossing {
    /// What the bridge sends on the other side.
    Over(Value),
    /// Nothing: it is not for the other side, or has been there.
    Stays,
    /// It asks for work and names nobody on the other side.
    Nobody,
}

impl Bridge {
    /// Where the bridge is on one side: workspace and channel.
    pub fn place(&self, side: Revision) -> (Option<&str>, &str) {
        match side {
            Revision::A => (None, &self.channel_a),
            Revision::B => (Some(&self.workspace_id), &self.channel_b),
        }
    }

    /// The name of a work in revision B, for an interaction of A.
    pub fn work_of(&self, interaction: &str) -> String {
        if is_sent_work_id(interaction) {
            return interaction.to_owned();
        }
        let mut hash = Sha256::new();
        hash.update(self.channel_a.as_bytes());
        hash.update(&[0]);
        hash.update(interaction.as_bytes());
        format!("work_{}", hex::encode(&hash.finish().0[..16]))
    }

    /// What the bridge, having got an envelope on the side `from`, sends on the other. `known` is the work there, when
    /// it is on record.
    pub fn across(&self, envelope: &Value, from: Revision, known: Option<&OtherSide>) -> Crossing {
        let ext = envelope["ext"].as_object();
        let kind = envelope["kind"].as_str().unwrap_or_default();
        let crosses = matches!(kind, "say" | "direct" | "capability" | "receipt" | "trace");
        if !crosses || ext.is_some_and(|ext| ext.contains_key(BRIDGED)) {
            return Crossing::Stays;
        }
        let work = work(envelope, from);
        let directed = envelope["to"].is_string();
        let named = ext.and_then(|ext| ext.get(TO)).and_then(Value::as_str);
        let peer = known.map(|known| known.peer.as_str()).or(named);
        let to = match (directed, work, peer) {
            // Said to everybody; a `say` of revision A never belongs to work.
            (false, None, _) => None,
            (false, Some(_), _) if kind == "say" => None,
            (_, Some(_), Some(peer)) => Some(peer),
            // A report about work that is not on the other side tells nobody anything.
            (_, Some(_), None) if matches!(kind, "receipt" | "trace") => return Crossing::Stays,
            (true, Some(_), None) => return Crossing::Nobody,
            // Chat with the bridge itself.
            _ => return Crossing::Stays,
        };
        let work = work.filter(|_| to.is_some());
        let mut members = self.members(envelope, from, work);
        match from {
            Revision::A => self.say_in_b(&mut members, kind, to, work, known),
            Revision::B => self.say_in_a(&mut members, kind, to, work, known),
        }
        Crossing::Over(members.into())
    }

    /// What both directions have: the sender, a new identifier, what caused it, and what is kept.
    fn members(&self, envelope: &Value, from: Revision, work: Option<&str>) -> Map<String, Value> {
        let id = envelope["id"].as_str().unwrap_or_default();
        let mut members = Map::new();
        members.insert("from".to_owned(), self.peer.as_str().into());
        members.insert("id".to_owned(), format!("{PREFIX}{id}").into());
        members.insert("causation_id".to_owned(), id.into());
        for kept in ["trace_id", "expires_at"] {
            if let Some(value) = envelope.get(kept).filter(|value| !value.is_null()) {
                members.insert(kept.to_owned(), value.clone());
            }
        }
        if let Some(answered) = envelope["reply_to"].as_str() {
            members.insert("reply_to".to_owned(), original(answered).into());
        }
        members.insert("body".to_owned(), body(envelope, from));
        let mut ext = envelope["ext"].as_object().cloned().unwrap_or_default();
        ext.remove(TO);
        ext.insert(BRIDGED.to_owned(), envelope["from"].clone());
        if let Some(work) = work.filter(|work| from == Revision::A && !is_sent_work_id(work)) {
            ext.insert(LEGACY.to_owned(), work.into());
        }
        members.insert("ext".to_owned(), ext.into());
        members
    }

    fn say_in_b(
        &self,
        members: &mut Map<String, Value>,
        kind: &str,
        to: Option<&str>,
        work: Option<&str>,
        known: Option<&OtherSide>,
    ) {
        let kind = if kind == "direct" { "say" } else { kind };
        let thread = |id: &str| ("thread", "thread_id", id.to_owned());
        let room = |to: &str| {
            let id = direct_id(&self.workspace_id, &self.channel_b, &self.peer, to);
            ("direct", "direct_id", id.unwrap_or_default())
        };
        let container = known.and_then(|known| known.container.as_deref());
        let (surface, name, id) = match (container, to) {
            (Some(id), _) if id.starts_with("thread_") => thread(id),
            (_, Some(to)) => room(to),
            (_, None) => thread(&self.legacy_thread()),
        };
        let mut set = |name: &str, value: Value| members.insert(name.to_owned(), value);
        set("kind", kind.into());
        set("workspace_id", self.workspace_id.as_str().into());
        set("channel", self.channel_b.as_str().into());
        set("surface", surface.into());
        set(name, id.into());
        if let (Some(to), Some(work)) = (to, work) {
            set("to", to.into());
            let work = known.map_or_else(|| self.work_of(work), |known| known.work.clone());
            set("work_id", work.into());
        }
    }

    fn say_in_a(
        &self,
        members: &mut Map<String, Value>,
        kind: &str,
        to: Option<&str>,
        work: Option<&str>,
        known: Option<&OtherSide>,
    ) {
        let directed = to.is_some() && work.is_some();
        let kind = if kind == "say" && directed {
            "direct"
        } else {
            kind
        };
        let mut set = |name: &str, value: Value| members.insert(name.to_owned(), value);
        set("kind", kind.into());
        set("channel", self.channel_a.as_str().into());
        if let (Some(to), Some(work)) = (to, work) {
            set("to", to.into());
            let work = known.map_or(work, |known| &known.work);
            set("interaction_id", work.into());
        }
    }

    /// The thread that stands for the channel of revision A.
    fn legacy_thread(&self) -> String {
        let channel: String = self.channel_a.chars().take(THREAD_CHARACTERS).collect();
        format!("thread_legacy_{channel}")
    }

    /// The receipt for work that named nobody on the other side, or that could not be sent there.
    pub fn refusal(&self, envelope: &Value, side: Revision, reason: Reason) -> Value {
        let (workspace, channel) = self.place(side);
        let reason = match reason.is_of(side) {
            true => reason,
            false => said_in(side, reason.as_str()),
        };
        let mut receipt = json!({
            "from": self.peer, "channel": channel, "kind": "receipt", "to": envelope["from"],
            "reply_to": envelope["id"],
            "body": {"for_id": envelope["id"], "status": "rejected", "reason_code": reason.as_str()},
        });
        for name in [
            "interaction_id",
            "work_id",
            "surface",
            "thread_id",
            "direct_id",
            "trace_id",
        ] {
            if let Some(value) = envelope.get(name).filter(|value| !value.is_null()) {
                receipt[name] = value.clone();
            }
        }
        if let Some(workspace) = workspace {
            receipt["workspace_id"] = workspace.into();
        }
        receipt
    }
}

/// The work that an envelope names.
pub fn work(envelope: &Value, side: Revision) -> Option<&str> {
    match side {
        Revision::A => envelope["interaction_id"].as_str(),
        Revision::B => envelope["work_id"].as_str(),
    }
}

/// An envelope that came over the bridge, under the name it had on the other side.
fn original(id: &str) -> &str {
    id.strip_prefix(PREFIX).unwrap_or(id)
}

/// A body as the other side reads it: a receipt names the original, and a reason that the side knows.
fn body(envelope: &Value, from: Revision) -> Value {
    let mut body = envelope["body"].clone();
    if envelope["kind"] == "receipt" {
        if let Some(answered) = body["for_id"].as_str() {
            body["for_id"] = original(answered).into();
        }
        let side = match from {
            Revision::A => Revision::B,
            Revision::B => Revision::A,
        };
        if let Some(reason) = body["reason_code"].as_str() {
            body["reason_code"] = said_in(side, reason).as_str().into();
        }
    }
    body
}

/// A reason code in the words of a side (AG-B-11).
fn said_in(side: Revision, reason: &str) -> Reason {
    match (Reason::parse(reason), side) {
        (Some(Reason::InteractionClosed), Revision::B) => Reason::WorkClosed,
        (Some(Reason::WorkClosed), Revision::A) => Reason::InteractionClosed,
        (Some(reason), side) if reason.is_of(side) => reason,
        _ => Reason::Internal,
    }
}

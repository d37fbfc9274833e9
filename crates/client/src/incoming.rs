//! Messages that came in, and what a parent makes of a critical one.

use chancery_core::json::{Place, ReadRules, read};
use chancery_core::line::Seq;
use chancery_value_context::message::{Kind, Version};
use chancery_value_context::message_id::MessageId;
use chancery_value_context::payload::Payload;
use serde::Deserialize;
use serde_json::Value;

use crate::error::Error;

/// A message in an agent's inbox.
#[derive(Clone, Debug, PartialEq)]
pub struct Incoming {
    /// Its line: what [`Agent::acknowledge`](crate::Agent::acknowledge) takes.
    pub seq: Seq,
    /// Its identifier.
    pub message_id: MessageId,
    /// Who sent it; the node has proven that.
    pub sender: String,
    /// When it was made, as written.
    pub timestamp: String,
    /// What it carries.
    pub payload: Payload,
    /// What the node noted beside it.
    pub meta: Value,
}

/// What becomes of a critical escalation (VX-RUN-7).
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// It is resolved: the child goes on, under these constraints (type and value) besides those it has.
    Resolve(Vec<(String, Value)>),
    /// The child stays as it is until something else is said.
    Hold,
    /// The own parent is to judge.
    Escalate,
}

#[derive(Deserialize)]
struct Entry {
    seq: Seq,
    envelope: Value,
    #[serde(default)]
    meta: Value,
}

impl Incoming {
    pub(crate) fn read(entry: Value) -> Result<Self, Error> {
        let broken = |what: String| Error::Answer(format!("an entry of the inbox: {what}"));
        let entry: Entry =
            serde_json::from_value(entry).map_err(|error| broken(error.to_string()))?;
        let text = |name: &str| {
            let member = entry.envelope.get(name).and_then(Value::as_str);
            member
                .map(str::to_owned)
                .ok_or_else(|| broken(format!("it has no {name}")))
        };
        let kind = Kind::named(&text("type")?).ok_or_else(|| broken("its type".to_owned()))?;
        let id = text("message_id")?;
        let version = match text("vcp_message")?.as_str() {
            "2.0" => Version::V2_0,
            _ => Version::V1_2,
        };
        let payload = entry.envelope["payload"].to_string();
        let payload = read(payload.as_bytes(), &ReadRules::VALUE_CONTEXT)
            .map_err(|fault| broken(fault.to_string()))?;
        let payload = Payload::read(kind, version, &payload, &Place::ROOT)
            .map_err(|fault| broken(fault.to_string()))?;
        Ok(Self {
            seq: entry.seq,
            message_id: MessageId::parse_any(&id).ok_or_else(|| broken("its id".to_owned()))?,
            sender: text("sender")?,
            timestamp: text("timestamp")?,
            payload,
            meta: entry.meta,
        })
    }
}

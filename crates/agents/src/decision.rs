//! What an agent decides in one step: typed JSON, read strictly (VC-TURN-4).
//!
//! An output is one decision, or a list of them that are carried out in order. Numbers of an action stay as they are
//! written, because the rules judge how money is spelled (VC-MON-3).

use chancery_core::json::{self, Object, ReadRules, Value};

use crate::memory::{self, Entry, Type};

/// Decisions that one output may hold.
pub const MAX_DECISIONS: usize = 16;

/// What an agent decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Take a skill's whole text into context, for this turn only.
    LoadSkill {
        /// Its name.
        skill: String,
    },
    /// Keep something privately.
    MemoryUpdate {
        /// Under which name.
        key: String,
        /// What, and of which type; a fault of type is found when it is carried out.
        entry: Result<Entry, WrongType>,
    },
    /// Say something: at most once a turn.
    Emit(Emit),
    /// Say nothing.
    NoReply {
        /// Why.
        reason: String,
    },
}

/// A value that is not of the type it is said to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongType;

/// An envelope as far as the agent decides it; the runtime supplies the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Emit {
    /// The receiver.
    pub to: String,
    /// The envelope answered.
    pub in_reply_to: Option<String>,
    /// The idempotency key.
    pub idempotency_key: Option<String>,
    /// The action, as JSON with its numbers as written.
    pub action: Vec<u8>,
}

impl Decision {
    /// The word for it in outputs and turn records.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::LoadSkill { .. } => "load_skill",
            Self::MemoryUpdate { .. } => "memory_update",
            Self::Emit(_) => "emit_envelope",
            Self::NoReply { .. } => "no_reply",
        }
    }
}

/// Reads an output; none when it cannot be decoded as a whole, as when it holds two envelopes (VC-TURN-8).
pub fn decode(output: &str) -> Option<Vec<Decision>> {
    let root = json::read(output.as_bytes(), &ReadRules::VIBE).ok()?;
    let decisions = match &root {
        Value::Array(items) if (1..=MAX_DECISIONS).contains(&items.len()) => {
            items.iter().map(decode_one).collect::<Option<Vec<_>>>()?
        }
        one => vec![decode_one(one)?],
    };
    let emits = decisions
        .iter()
        .filter(|decision| matches!(decision, Decision::Emit(_)));
    (emits.count() <= 1).then_some(decisions)
}

fn decode_one(value: &Value<'_>) -> Option<Decision> {
    let members = value.as_object()?;
    let text = |name: &str| members.get(name)?.as_str().map(str::to_owned);
    match text("decision")?.as_str() {
        "load_skill" => {
            only(members, &["skill"])?;
            let skill = text("skill")?;
            Some(Decision::LoadSkill { skill })
        }
        "memory_update" => {
            only(members, &["key", "value", "type", "tag"])?;
            let key = text("key").filter(|key| memory::is_name(key))?;
            let kind = Type::parse(&text("type")?)?;
            let is_private = match members.get("tag") {
                None | Some(Value::Null) => false,
                Some(tag) => (tag.as_str()? == memory::PRIVATE_UTILITY).then_some(true)?,
            };
            let entry = Entry::read(members.get("value")?, kind, is_private).ok_or(WrongType);
            Some(Decision::MemoryUpdate { key, entry })
        }
        "emit_envelope" => {
            only(members, &["to", "in_reply_to", "idempotency_key", "action"])?;
            let mut action = Vec::new();
            members.get("action")?.write_as_read(&mut action);
            Some(Decision::Emit(Emit {
                to: text("to")?,
                in_reply_to: nullable(members, "in_reply_to")?,
                idempotency_key: nullable(members, "idempotency_key")?,
                action,
            }))
        }
        "no_reply" => {
            only(members, &["reason"])?;
            let reason = text("reason")?;
            Some(Decision::NoReply { reason })
        }
        _ => None,
    }
}

/// Whether a decision has no members but its own.
fn only(members: &Object<'_>, own: &[&str]) -> Option<()> {
    members
        .iter()
        .all(|(name, _)| name == "decision" || own.contains(&name))
        .then_some(())
}

fn nullable(members: &Object<'_>, name: &str) -> Option<Option<String>> {
    match members.get(name) {
        None | Some(Value::Null) => Some(None),
        Some(value) => value.as_str().map(|text| Some(text.to_owned())),
    }
}

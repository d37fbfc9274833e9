//! A line in a few words: what it is, from whom, to whom. Never its payload.

use chancery_core::line::{Line, ProtocolName};
use serde_json::Value;

/// What a line says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The identifier of its envelope.
    pub id: Option<String>,
    /// What kind of envelope it is.
    pub kind: String,
    /// The sender, or whom an act is about.
    pub from: Option<String>,
    /// The recipient.
    pub to: Option<String>,
}

impl Summary {
    /// The summary of a line.
    pub fn of(line: &Line) -> Self {
        let envelope: Value = serde_json::from_slice(&line.envelope).unwrap_or(Value::Null);
        let text = |path: &str| {
            envelope.pointer(path).and_then(|value| match value {
                Value::String(text) => Some(text.clone()),
                Value::Number(number) => Some(number.to_string()),
                _ => None,
            })
        };
        let [kind, from, to] = match line.protocol {
            ProtocolName::Vibe => ["/action/kind", "/from", "/to"],
            ProtocolName::ValueContext => ["/type", "/sender", "/recipient"],
            ProtocolName::Vacant => [
                "/role",
                "/metadata/urn:vacant:v1/from_vacant_id",
                "/metadata/urn:vacant:v1/to_vacant_id",
            ],
            ProtocolName::Agh => ["/kind", "/from", "/to"],
            ProtocolName::Node => ["/kind", "/about", "/code"],
            ProtocolName::Test => ["/verb", "/from", "/to"],
        };
        let owner = || text("/owner").or_else(|| text("/id"));
        Self {
            id: id_path(line.protocol).and_then(text),
            kind: text(kind).unwrap_or_default(),
            from: text(from).or_else(|| (line.protocol == ProtocolName::Node).then(owner)?),
            to: text(to),
        }
    }

    /// In one line.
    pub fn words(&self) -> String {
        let mut words = self.kind.clone();
        for (mark, part) in [(" ", &self.from), (" → ", &self.to), (" ", &self.id)] {
            if let Some(part) = part {
                words.push_str(mark);
                words.push_str(part);
            }
        }
        words
    }
}

/// The identifier that an envelope carries.
pub fn message_id(line: &Line) -> Option<String> {
    let envelope: Value = serde_json::from_slice(&line.envelope).ok()?;
    let id = envelope.pointer(id_path(line.protocol)?)?;
    id.as_str().map(str::to_owned)
}

const fn id_path(protocol: ProtocolName) -> Option<&'static str> {
    match protocol {
        ProtocolName::Vibe => Some("/msg_id"),
        ProtocolName::ValueContext => Some("/message_id"),
        ProtocolName::Vacant => Some("/messageId"),
        ProtocolName::Agh | ProtocolName::Test => Some("/id"),
        ProtocolName::Node => None,
    }
}

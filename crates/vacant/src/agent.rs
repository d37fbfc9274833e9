//! A hosted vacant as the record has it.

use chancery_core::admin::agent_key;
use chancery_core::decision::{Cx, Stop};
use chancery_core::line::ProtocolName;
use chancery_core::refusal::Refusal;
use chancery_core::rows::{RowKey, RowsDamaged};
use serde::{Deserialize, Serialize};

use crate::card::CapabilityCard;
use crate::error::ProtocolError;
use crate::id::VacantId;
use crate::rules::registry;
use crate::state::State;

/// All that rules read about a hosted vacant (CH-JRN-1).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentRecord {
    /// Its id, which is its key.
    pub id: VacantId,
    /// Its state.
    #[serde(default)]
    pub state: State,
    /// Its card as signed text: inside JSON its numbers would lose their spelling, and with it the signature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub card: Option<String>,
    /// Whether calls wait in its inbox until it answers them itself.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub inbox: bool,
    /// Its participant, when it is not its own (CH-ID-5).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
}

impl AgentRecord {
    /// Its card, taken apart.
    pub fn card(&self) -> Result<Option<CapabilityCard>, ProtocolError> {
        let text = self.card.as_deref();
        text.map(|text| CapabilityCard::deserialize(text.as_bytes()))
            .transpose()
    }
}

/// A hosted vacant as a call finds it, by its id.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hosted {
    /// Its name.
    pub name: String,
    /// Its state.
    pub state: State,
    /// Whether calls wait in its inbox.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub inbox: bool,
    /// Its participant, when it is not its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub participant: Option<String>,
}

impl Hosted {
    /// The participant whose run state counts.
    #[must_use]
    pub fn participant(&self) -> &str {
        self.participant.as_deref().unwrap_or(&self.name)
    }
}

/// The row of a hosted vacant by its id.
pub fn hosted_key(id: &VacantId) -> RowKey {
    RowKey::new("va-hosted", &[id.as_bytes()])
}

/// A hosted vacant by its id.
pub fn hosted(cx: &Cx<'_>, id: &VacantId) -> Result<Option<Hosted>, Stop> {
    cx.row(&hosted_key(id))
}

/// The record of a hosted vacant by its name.
pub fn record(cx: &Cx<'_>, name: &str) -> Result<Option<AgentRecord>, Stop> {
    cx.row(&agent_key(ProtocolName::Vacant, name))
}

/// Keeps the rows that follow from a record: the vacant by its id, and its place in the registry.
pub fn changed(
    name: &str,
    before: Option<&serde_json::Value>,
    after: Option<&serde_json::Value>,
    cx: &mut Cx<'_>,
) -> Result<(), Stop> {
    let (before, after) = (read(before)?, read(after)?);
    if let Some(before) = &before {
        cx.remove(hosted_key(&before.id));
    }
    if let Some(record) = &after {
        check(name, record, cx)?;
        let row = Hosted {
            name: name.to_owned(),
            state: record.state,
            inbox: record.inbox,
            participant: record.agent.clone(),
        };
        cx.put(hosted_key(&record.id), &row);
    }
    registry::follow_hosted(before.as_ref(), after.as_ref(), cx)
}

/// One name an id; a card is of the vacant it is attached to and verifies (VA-ID-9).
fn check(name: &str, record: &AgentRecord, cx: &Cx<'_>) -> Result<(), Stop> {
    if hosted(cx, &record.id)?.is_some_and(|other| other.name != name) {
        return Err(refused("another vacant of this node has the same key"));
    }
    let Some(card) = record.card().map_err(Refusal::from)? else {
        return Ok(());
    };
    if card.vacant_id != record.id {
        return Err(refused("the card is of another vacant"));
    }
    Ok(card.check_publishable().map_err(Refusal::from)?)
}

fn refused(message: &'static str) -> Stop {
    Refusal::new("agent_not_allowed", 409, "VA-ID-9", message).into()
}

fn read(record: Option<&serde_json::Value>) -> Result<Option<AgentRecord>, Stop> {
    let Some(record) = record else {
        return Ok(None);
    };
    serde_json::from_value(record.clone())
        .map(Some)
        .map_err(|error| {
            let mut refusal = Refusal::new("agent_not_allowed", 409, "CH-JRN-1", "");
            refusal.message = format!("the record cannot be read: {error}").into();
            Stop::Refused(refusal)
        })
}

/// A record in a row that cannot be read is damage, not a refusal.
pub fn parse_row(bytes: &[u8]) -> Result<AgentRecord, RowsDamaged> {
    serde_json::from_slice(bytes).map_err(|error| RowsDamaged(format!("a vacant: {error}")))
}

//! A hosted agent of this protocol as the record has it (CH-JRN-1).
//!
//! It is a principal: what it sends is checked like a token's envelope, and a token of the same name acts for the same
//! consumer or merchant. It never speaks for a person: the human gate stays shut to it.

use chancery_core::admin::{PrincipalRecord, agent_key, principal_key};
use chancery_core::decision::{Cx, Stop};
use chancery_core::line::{ProtocolName, Seq};
use chancery_core::refusal::Refusal;
use chancery_core::rows::RowsDamaged;
use serde::{Deserialize, Serialize};

use crate::address::{Address, Role, Side};
use crate::code::Code;
use crate::message::{Message, is_id};
use crate::settings::Settings;
use crate::state::key;

/// All that rules read about a hosted agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentRecord {
    /// The address that it speaks as; a bare side has all agent roles of that side (VC-ADR-5).
    pub address: String,
    /// The consumer that it acts for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumer_id: Option<String>,
    /// The merchant that it acts for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merchant_id: Option<String>,
    /// Its participant, when it is not its own (CH-ID-5).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
}

impl AgentRecord {
    /// The participant whose run state counts.
    pub fn participant<'r>(&'r self, name: &'r str) -> &'r str {
        self.agent.as_deref().unwrap_or(name)
    }

    /// What is wrong with it, if anything: an agent has an address that may send, is on the side that it acts for, and
    /// is nobody's person.
    pub fn fault(&self) -> Option<&'static str> {
        let Ok(address) = Address::sender(&self.address) else {
            return Some("address is no address that can send");
        };
        let is_ids = self.consumer_id.iter().chain(&self.merchant_id);
        if !is_ids.clone().all(|id| is_id(id)) {
            return Some("consumer_id and merchant_id are identifiers");
        }
        match (address.side, &self.consumer_id, &self.merchant_id) {
            (Side::Consumer, ..) => Some("consumer is a person, not an agent"),
            _ if address.role == Some(Role::Owner) => {
                Some("merchant:owner is a person, not an agent")
            }
            (Side::Buyer, Some(_), None) | (Side::Merchant, None, Some(_)) => None,
            (Side::Buyer, ..) => Some("an agent on the buyer's side has a consumer_id alone"),
            (Side::Merchant, ..) => Some("an agent on the merchant's side has a merchant_id alone"),
            (Side::Platform, None, None) if address.role.is_some() => None,
            (Side::Platform, ..) => {
                Some("an agent of the platform has a role, and acts for nobody")
            }
            (Side::World, ..) => Some("the world sends nothing"),
        }
    }
}

/// Follows a change of a hosted agent's record: it is a principal from here on.
pub(crate) fn changed(
    name: &str,
    after: Option<&serde_json::Value>,
    cx: &mut Cx<'_>,
) -> Result<(), Stop> {
    let Some(after) = after else {
        return Ok(());
    };
    let refuse =
        |message: &'static str| Refusal::new("agent_not_allowed", 409, "CH-JRN-1", message);
    let record: AgentRecord =
        serde_json::from_value(after.clone()).map_err(|_| refuse("not a record of an agent"))?;
    if let Some(fault) = record.fault() {
        return Err(refuse(fault).into());
    }
    let acts_for = PrincipalRecord {
        consumer_id: record.consumer_id.clone(),
        merchant_id: record.merchant_id.clone(),
        agent: Some(record.participant(name).to_owned()),
    };
    let known: Option<PrincipalRecord> = cx.row(&principal_key(name))?;
    // The participant may change; for whom it acts may not, because lines name the principal alone.
    let fits = known.is_none_or(|known| {
        known.consumer_id == acts_for.consumer_id && known.merchant_id == acts_for.merchant_id
    });
    if !fits {
        return Err(refuse("a principal of that name acts for somebody else").into());
    }
    cx.put(principal_key(name), &acts_for);
    Ok(())
}

/// Steps 4 to 6 for what a hosted agent sends, and that it answers an envelope once (CH-JRN-16).
pub(crate) fn check(
    name: &str,
    answers: Option<Seq>,
    message: &Message,
    settings: &Settings,
    cx: &Cx<'_>,
) -> Result<(), Stop> {
    for address in [&message.from, &message.to] {
        if let Err(fault) = address {
            return Err(fault.clone().into_refusal("address").into());
        }
    }
    let record: Option<serde_json::Value> = cx.row(&agent_key(ProtocolName::Vibe, name))?;
    let record: Option<AgentRecord> = record
        .map(serde_json::from_value)
        .transpose()
        .map_err(|error| RowsDamaged(format!("agent {name}: {error}")))?;
    if record.is_none_or(|record| record.address != message.from_text) {
        return Err(Code::SenderNotAuthorized
            .refuse()
            .in_check("principal")
            .into());
    }
    if settings.signed {
        return Err(Code::SignatureRequired
            .refuse()
            .in_check("signature")
            .into());
    }
    if let Some(answers) = answers
        && cx.bytes(&key::answered(name, answers))?.is_some()
    {
        return Err(Code::AlreadyAnswered.refuse().in_check("principal").into());
    }
    Ok(())
}

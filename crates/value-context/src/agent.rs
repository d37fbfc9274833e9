//! A hosted agent as the record has it, and who knows whom.
//!
//! The record is what an `agent` line holds. From all records follows, for each sender, which hosted agents know
//! it: that list is a row of its own, so that a broadcast finds its audience with one look.

use std::collections::BTreeSet;
use std::sync::Arc;

use chancery_core::admin::{KEYS, agent_key, key_key, participant_of};
use chancery_core::decision::{Cx, Stop};
use chancery_core::keys::KeyValidity;
use chancery_core::line::ProtocolName;
use chancery_core::rows::{RowKey, RowsDamaged};
use serde::{Deserialize, Serialize};

use crate::rules::own_context_key;
use crate::world::{LocalAgent, OperatorConstraint};

/// All that rules read about a hosted agent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentRecord {
    /// Who supervises it.
    pub parent: Option<String>,
    /// Whom it supervises.
    #[serde(default)]
    pub children: Vec<String>,
    /// Its other known agents.
    #[serde(default)]
    pub peers: Vec<String>,
    /// The ancestors after the parent.
    #[serde(default)]
    pub escalation_path: Vec<String>,
    /// Its current context.
    pub context: Option<String>,
    /// Its active constitution.
    pub constitution_ref: Option<String>,
    /// Constraints of the operator that no message removes.
    #[serde(default)]
    pub operator_constraints: Vec<ConstraintRecord>,
    /// Its participant, when it is not its own (CH-ID-5).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Whether the node holds its key and signs what the rules derive in its name (CH-JRN-10).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub signs: bool,
    /// Under which of its keys on record the node signs; a record that does not say counts as under a usable one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signs_with: Option<String>,
    /// Whether it came from a file: then it leaves when it is in the file no more (CH-JRN-1).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub from_file: bool,
}

/// A constraint on record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConstraintRecord {
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its value.
    pub value: serde_json::Value,
}

impl AgentRecord {
    /// The record of an agent of a world file.
    pub fn of(agent: &LocalAgent) -> Self {
        let names = |ids: &[crate::agent_id::AgentId]| {
            ids.iter().map(|id| id.as_str().to_owned()).collect()
        };
        Self {
            parent: agent.parent.as_ref().map(|id| id.as_str().to_owned()),
            children: names(&agent.children),
            peers: names(&agent.peers),
            escalation_path: names(&agent.escalation_path),
            context: agent.context.as_deref().map(str::to_owned),
            constitution_ref: agent.constitution_ref.as_deref().map(str::to_owned),
            operator_constraints: agent
                .operator_constraints
                .iter()
                .map(ConstraintRecord::of)
                .collect(),
            agent: agent.participant.as_deref().map(str::to_owned),
            signs: false,
            signs_with: None,
            from_file: true,
        }
    }

    /// Parent, children and peers: the audience of its broadcasts, sorted.
    pub fn known(&self) -> BTreeSet<&str> {
        let all = self.parent.iter().chain(&self.children).chain(&self.peers);
        all.map(String::as_str).collect()
    }
}

impl ConstraintRecord {
    fn of(constraint: &OperatorConstraint) -> Self {
        Self {
            kind: constraint.kind.to_string(),
            value: serde_json::from_str(&constraint.value).expect("a canonical value is JSON"),
        }
    }
}

/// The row of the hosted agents that know `sender`, sorted.
pub fn known_by_key(sender: &str) -> RowKey {
    RowKey::text("vx-known-by", &[sender])
}

/// Whether what the node would sign in an agent's name counts now (VX-KEY-5): a withdrawn key signs nothing more.
pub(crate) fn may_sign(id: &str, record: &AgentRecord, cx: &Cx<'_>) -> Result<bool, Stop> {
    let Some(key) = record.signs_with.as_deref() else {
        return Ok(true);
    };
    let validity: Option<KeyValidity> = cx.row(&key_key(id, key))?;
    Ok(validity.is_some_and(|validity| validity.usable_at(cx.now())))
}

/// The record of a hosted agent.
pub fn hosted(cx: &Cx<'_>, id: &str) -> Result<Option<Arc<AgentRecord>>, Stop> {
    cx.shared(&agent_key(ProtocolName::ValueContext, id))
}

/// The participant behind an agent: the one its record names, or itself.
pub fn participant<'a>(id: &'a str, record: Option<&'a AgentRecord>) -> &'a str {
    record
        .and_then(|record| record.agent.as_deref())
        .unwrap_or(id)
}

/// Keeps the lists of who knows whom when a record changes.
pub fn changed(
    id: &str,
    before: Option<&serde_json::Value>,
    after: Option<&serde_json::Value>,
    cx: &mut Cx<'_>,
) -> Result<(), Stop> {
    let ends = after.is_none();
    let (before, after) = (read(before)?, read(after)?);
    if ends {
        drop_spawn_keys(id, cx)?;
    }
    if ends || before.context != after.context {
        cx.remove(own_context_key(id));
    }
    let (knew, knows) = (before.known(), after.known());
    for sender in knew.symmetric_difference(&knows) {
        let key = known_by_key(sender);
        let mut agents: BTreeSet<String> = cx.row(&key)?.unwrap_or_default();
        if knows.contains(sender) {
            agents.insert(id.to_owned());
        } else {
            agents.remove(id);
        }
        if agents.is_empty() {
            cx.remove(key);
        } else {
            cx.put(key, &agents);
        }
    }
    Ok(())
}

/// What a short-lived key is called, before a part of its own.
pub const SPAWN_KEY: &str = "spawn-";

/// A short-lived key ends with its agent (VX-KEY-6).
fn drop_spawn_keys(id: &str, cx: &mut Cx<'_>) -> Result<(), Stop> {
    for (key, _) in cx.scan(&RowKey::text(KEYS, &[id]))? {
        let name = key.parts().pop().unwrap_or_default();
        if name.starts_with(SPAWN_KEY.as_bytes()) {
            cx.remove(key);
        }
    }
    Ok(())
}

fn read(record: Option<&serde_json::Value>) -> Result<AgentRecord, Stop> {
    let Some(record) = record else {
        return Ok(AgentRecord::default());
    };
    debug_assert!(participant_of(record).is_none_or(|name| !name.is_empty()));
    serde_json::from_value(record.clone())
        .map_err(|error| RowsDamaged(format!("an agent's record cannot be read: {error}")).into())
}

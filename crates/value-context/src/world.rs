//! The world file: the agents a node hosts, their relations, addresses and keys (CH-CFG-5).
//!
//! Members that the file may have for others are ignored; every member that is read is checked, and the
//! first fault refuses the file.

use crate::agent_id::AgentId;
use crate::context;
use crate::creed::CreedRef;
use crate::file::{
    FileFault, FileReason, agent_id, array, object, optional, read_file, required, required_text,
    text,
};
use crate::payload::is_value_of;
use crate::trust::read_trust;
use chancery_core::canonical::{Dialect, to_bytes};
use chancery_core::digest::hex;
use chancery_core::json::{Object, Place, Value};
use chancery_core::keys::KeyRecord;
use chancery_core::keys::ed25519::SigningKey;
use std::collections::{BTreeMap, BTreeSet};

const ADDRESS_SCHEMES: [&str; 4] = ["https://", "http://", "wss://", "ws://"];

/// A world file, read.
#[derive(Debug)]
pub struct World {
    /// The keys of every agent that is trusted.
    pub keys: Vec<KeyRecord>,
    /// The agents this node hosts, in the order of the file.
    pub agents: Vec<LocalAgent>,
    /// Where agents that are hosted elsewhere are reached.
    pub addresses: BTreeMap<AgentId, Box<str>>,
    /// Secret keys of hosted agents, written into the file itself; for development only (CH-CFG-2).
    pub secret_keys: BTreeMap<AgentId, SigningKey>,
}

/// One hosted agent and its relations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalAgent {
    /// Its name.
    pub id: AgentId,
    /// Who supervises it.
    pub parent: Option<AgentId>,
    /// Whom it supervises.
    pub children: Vec<AgentId>,
    /// Its other known agents.
    pub peers: Vec<AgentId>,
    /// The ancestors after the parent.
    pub escalation_path: Vec<AgentId>,
    /// Its current context.
    pub context: Option<Box<str>>,
    /// Its active constitution.
    pub constitution_ref: Option<Box<str>>,
    /// Constraints of the operator that no message removes (VX-CP-8).
    pub operator_constraints: Vec<OperatorConstraint>,
    /// The file that holds its secret key.
    pub key_file: Option<Box<str>>,
    /// The participant that it is one with (CH-ID-5).
    pub participant: Option<Box<str>>,
}

/// A constraint that the operator sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorConstraint {
    /// Its type.
    pub kind: Box<str>,
    /// Its value as RFC 8785 text.
    pub value: Box<str>,
}

impl World {
    /// Reads a world file.
    pub fn parse(file: &[u8]) -> Result<Self, FileFault> {
        let root = Place::ROOT;
        let value = read_file(file)?;
        let members = object(&value, &root)?;
        let keys = read_trust(required(members, "trust", &root)?, &root.child("trust"))?;
        let agents = read_agents(
            required(members, "local_agents", &root)?,
            &root.child("local_agents"),
        )?;
        Ok(Self {
            keys,
            addresses: read_addresses(members, &root)?,
            secret_keys: read_secret_keys(members, &agents, &root)?,
            agents,
        })
    }
}

fn read_agents(value: &Value<'_>, place: &Place<'_>) -> Result<Vec<LocalAgent>, FileFault> {
    let mut known = BTreeSet::new();
    let mut agents = Vec::new();
    for (index, agent) in array(value, place)?.iter().enumerate() {
        let place = place.item(index);
        let agent = read_agent(object(agent, &place)?, &place)?;
        if !known.insert(agent.id.clone()) {
            return Err(FileReason::Repeated.at(&place.child("id")));
        }
        agents.push(agent);
    }
    Ok(agents)
}

fn read_agent(agent: &Object<'_>, place: &Place<'_>) -> Result<LocalAgent, FileFault> {
    let id = agent_id(required_text(agent, "id", place)?, &place.child("id"))?;
    let parent = optional_text(agent, "parent", place)?
        .map(|parent| other_agent(parent, &id, &place.child("parent")))
        .transpose()?;
    Ok(LocalAgent {
        parent,
        children: read_relations(agent, "children", &id, place)?,
        peers: read_relations(agent, "peers", &id, place)?,
        escalation_path: read_relations(agent, "escalation_path", &id, place)?,
        context: read_context(agent, place)?,
        constitution_ref: read_constitution(agent, place)?,
        operator_constraints: read_constraints(agent, place)?,
        key_file: optional_text(agent, "key_file", place)?.map(Into::into),
        participant: read_participant(agent, place)?,
        id,
    })
}

/// Whoever has no name would be one with everybody else who has none.
fn read_participant(agent: &Object<'_>, place: &Place<'_>) -> Result<Option<Box<str>>, FileFault> {
    match optional_text(agent, "agent", place)? {
        Some("") => Err(FileReason::Expected("a name").at(&place.child("agent"))),
        name => Ok(name.map(Into::into)),
    }
}

fn optional_text<'v>(
    members: &'v Object<'_>,
    name: &str,
    place: &Place<'_>,
) -> Result<Option<&'v str>, FileFault> {
    optional(members, name)
        .map(|value| text(value, &place.child(name)))
        .transpose()
}

fn other_agent(name: &str, agent: &AgentId, place: &Place<'_>) -> Result<AgentId, FileFault> {
    let other = agent_id(name, place)?;
    if other == *agent {
        return Err(FileReason::Itself.at(place));
    }
    Ok(other)
}

fn read_relations(
    members: &Object<'_>,
    name: &str,
    agent: &AgentId,
    place: &Place<'_>,
) -> Result<Vec<AgentId>, FileFault> {
    let Some(value) = optional(members, name) else {
        return Ok(Vec::new());
    };
    let place = place.child(name);
    let mut others: Vec<AgentId> = Vec::new();
    let mut known = BTreeSet::new();
    for (index, item) in array(value, &place)?.iter().enumerate() {
        let place = place.item(index);
        let other = other_agent(text(item, &place)?, agent, &place)?;
        if !known.insert(other.clone()) {
            return Err(FileReason::Repeated.at(&place));
        }
        others.push(other);
    }
    Ok(others)
}

fn read_context(agent: &Object<'_>, place: &Place<'_>) -> Result<Option<Box<str>>, FileFault> {
    let Some(text) = optional_text(agent, "context", place)? else {
        return Ok(None);
    };
    context::validate(text).map_err(|fault| FileReason::from(fault).at(&place.child("context")))?;
    Ok(Some(text.into()))
}

fn read_constitution(agent: &Object<'_>, place: &Place<'_>) -> Result<Option<Box<str>>, FileFault> {
    let Some(text) = optional_text(agent, "constitution_ref", place)? else {
        return Ok(None);
    };
    CreedRef::parse(text)
        .map_err(|fault| FileReason::from(fault).at(&place.child("constitution_ref")))?;
    Ok(Some(text.into()))
}

fn read_constraints(
    agent: &Object<'_>,
    place: &Place<'_>,
) -> Result<Vec<OperatorConstraint>, FileFault> {
    let Some(value) = optional(agent, "operator_constraints") else {
        return Ok(Vec::new());
    };
    let place = place.child("operator_constraints");
    let read = |(index, item): (usize, &Value<'_>)| {
        let place = place.item(index);
        let constraint = object(item, &place)?;
        let kind = required_text(constraint, "type", &place)?;
        let value = required(constraint, "value", &place)?;
        if !is_value_of(kind, value) {
            let expected = "a value that its type allows";
            return Err(FileReason::Expected(expected).at(&place.child("value")));
        }
        let value = to_bytes(value, Dialect::Rfc8785);
        Ok(OperatorConstraint {
            kind: kind.into(),
            value: String::from_utf8(value)
                .expect("canonical JSON is UTF-8")
                .into(),
        })
    };
    array(value, &place)?.iter().enumerate().map(read).collect()
}

fn read_addresses(
    members: &Object<'_>,
    place: &Place<'_>,
) -> Result<BTreeMap<AgentId, Box<str>>, FileFault> {
    let Some(value) = optional(members, "addresses") else {
        return Ok(BTreeMap::new());
    };
    let place = place.child("addresses");
    let read = |(name, address): (&str, &Value<'_>)| {
        let place = place.child(name);
        let address = text(address, &place)?;
        let is_url = |scheme: &str| {
            address
                .strip_prefix(scheme)
                .is_some_and(|rest| !rest.is_empty())
        };
        if !ADDRESS_SCHEMES.into_iter().any(is_url) {
            let expected = "an http, https, ws or wss URL";
            return Err(FileReason::Expected(expected).at(&place));
        }
        Ok((agent_id(name, &place)?, address.into()))
    };
    object(value, &place)?.iter().map(read).collect()
}

/// Seeds of names that are not hosted here are ignored.
fn read_secret_keys(
    members: &Object<'_>,
    agents: &[LocalAgent],
    place: &Place<'_>,
) -> Result<BTreeMap<AgentId, SigningKey>, FileFault> {
    let Some(value) = optional(members, "secret_seeds_hex") else {
        return Ok(BTreeMap::new());
    };
    let place = place.child("secret_seeds_hex");
    let seeds = object(value, &place)?;
    let mut keys = BTreeMap::new();
    for agent in agents {
        let Some(seed) = seeds.get(agent.id.as_str()) else {
            continue;
        };
        let place = place.child(agent.id.as_str());
        let seed = hex::decode_array::<32>(text(seed, &place)?)
            .map_err(|_| FileReason::Expected("64 hex characters").at(&place))?;
        keys.insert(agent.id.clone(), SigningKey::from_seed(&seed));
    }
    Ok(keys)
}

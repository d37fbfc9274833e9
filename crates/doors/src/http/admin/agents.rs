//! Hosted agents: who they are, whom they know, whether they may act.

use std::sync::Arc;

use chancery_agh::peer::PeerRecord;
use chancery_agh::whois::Catalog;
use chancery_core::admin::{Act, RunState, agent_key, agents_prefix, participant_of};
use chancery_core::line::ProtocolName;
use chancery_node::{Office, hosting_protocol};
use chancery_store::StoreError;
use chancery_value_context::agent::AgentRecord;
use chancery_value_context::world::World;
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::super::door::{Call, HttpDoor, not_found};
use super::super::reply::{Reply, json, not_stored};
use super::{bad, on_record_at, record};

/// What an agent may be described by; keys are files of the node and are not set from outside.
const MEMBERS: [&str; 9] = [
    "id",
    "parent",
    "children",
    "peers",
    "escalation_path",
    "context",
    "constitution_ref",
    "operator_constraints",
    "agent",
];

/// Turns of an agent that are told with it.
const TURNS_SHOWN: usize = 10;

/// Lists hosted agents.
pub(crate) async fn list(door: Arc<HttpDoor>, _: Call) -> Reply {
    let read = door.read(|office| {
        let mut agents = Vec::new();
        for protocol in [ProtocolName::ValueContext, ProtocolName::Vibe] {
            let prefix = agents_prefix(protocol);
            let rows = office.gate().store().scan(&prefix, None, usize::MAX)?;
            let ids = rows
                .iter()
                .filter_map(|(key, _)| String::from_utf8(key.parts().pop()?).ok());
            for id in ids {
                agents.extend(describe(office, protocol, &id)?);
            }
        }
        Ok(agents)
    });
    match read.await {
        Ok(agents) => not_stored(json(StatusCode::OK, &json!({ "agents": agents }))),
        Err(reply) => reply,
    }
}

/// Tells one agent's record.
pub(crate) async fn show(door: Arc<HttpDoor>, call: Call) -> Reply {
    let Some((protocol, id)) = named(&call) else {
        return not_found();
    };
    let read = move |office: &Office| {
        let mut agent = describe(office, protocol, &id)?;
        if let (ProtocolName::Vibe, Some(agent)) = (protocol, &mut agent) {
            agent["turns"] = json!(office.turn_records(&id, TURNS_SHOWN)?);
        }
        Ok::<_, StoreError>(agent)
    };
    match door.read(read).await {
        Ok(Some(agent)) => not_stored(json(StatusCode::OK, &agent)),
        Ok(None) => not_found(),
        Err(reply) => reply,
    }
}

fn describe(
    office: &Office,
    protocol: ProtocolName,
    id: &str,
) -> Result<Option<Value>, StoreError> {
    let record: Option<Value> = office.row(&agent_key(protocol, id))?;
    let Some(record) = record else {
        return Ok(None);
    };
    let run_state = office.run_state(participant_of(&record).unwrap_or(id))?;
    Ok(Some(json!({
        "protocol": protocol.as_str(),
        "id": id,
        "run_state": run_state,
        "record": record,
    })))
}

/// Hosts an agent, or changes it. The body is an entry of a world's `local_agents` with `protocol` added.
pub(crate) async fn add(door: Arc<HttpDoor>, call: Call) -> Reply {
    let mut members: Map<String, Value> = match call.value(&door).await {
        Ok(members) => members,
        Err(reply) => return reply,
    };
    let protocol = members.remove("protocol");
    let served = protocol
        .as_ref()
        .and_then(Value::as_str)
        .and_then(hosting_protocol);
    let Some(protocol) = served else {
        return bad("protocol has to name one that this node serves");
    };
    if protocol == ProtocolName::Agh {
        return add_peer(&door, members).await;
    }
    if members
        .keys()
        .any(|member| !MEMBERS.contains(&member.as_str()))
    {
        return bad(&format!(
            "protocol and these are the members: {}",
            MEMBERS.join(", ")
        ));
    }
    match agent_of(members) {
        Ok((id, record)) => {
            let act = Act::Agent {
                protocol,
                id,
                record: Some(record),
                run_state: None,
            };
            self::record(&door, act).await
        }
        Err(detail) => bad(&detail),
    }
}

/// Hosts an AGH peer: the members of an `[[agh.peer]]`, but for what names a file.
async fn add_peer(door: &HttpDoor, members: Map<String, Value>) -> Reply {
    let peer: NewPeer = match serde_json::from_value(members.into()) {
        Ok(peer) => peer,
        Err(error) => return bad(&error.to_string()),
    };
    if peer.agent.as_deref() == Some("") {
        return bad("agent has to be a name");
    }
    let mut record = PeerRecord::new(
        &peer.id,
        &peer.channel,
        peer.workspace_id.as_deref(),
        peer.display_name.as_deref(),
        peer.capabilities,
        Catalog::default(),
    );
    record.agent = peer.agent;
    let id = record.address();
    match serde_json::to_value(record) {
        Ok(record) => {
            let act = Act::Agent {
                protocol: ProtocolName::Agh,
                id,
                record: Some(record),
                run_state: None,
            };
            self::record(door, act).await
        }
        Err(error) => bad(&error.to_string()),
    }
}

/// A peer as it is described from outside.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewPeer {
    id: String,
    channel: String,
    workspace_id: Option<String>,
    display_name: Option<String>,
    #[serde(default)]
    capabilities: Vec<String>,
    agent: Option<String>,
}

/// The agent's id and record, checked as in a world file.
fn agent_of(members: Map<String, Value>) -> Result<(String, Value), String> {
    let world = json!({ "trust": { "trust_anchors": {} }, "local_agents": [members] });
    let world = World::parse(world.to_string().as_bytes()).map_err(|fault| {
        let path = fault.path.to_pointer();
        let path = path.strip_prefix("/local_agents/0").unwrap_or(&path);
        format!("{path}: {}", fault.reason)
    })?;
    let agent = world.agents.first().ok_or("there is no agent")?;
    let record = AgentRecord {
        from_file: false,
        ..AgentRecord::of(agent)
    };
    let record = serde_json::to_value(record).map_err(|error| error.to_string())?;
    Ok((agent.id.as_str().to_owned(), record))
}

/// Hosts an agent no more.
pub(crate) async fn remove(door: Arc<HttpDoor>, call: Call) -> Reply {
    let Some((protocol, id)) = named(&call) else {
        return not_found();
    };
    match on_record(&door, protocol, &id).await {
        Ok(Some(_)) => on_record_at(door.office.end_agent(protocol, id).await),
        Ok(None) => not_found(),
        Err(reply) => reply,
    }
}

/// Suspends the participant behind an agent.
pub(crate) async fn suspend(door: Arc<HttpDoor>, call: Call) -> Reply {
    set_run_state(&door, named(&call), RunState::Suspended).await
}

/// Lets it run again.
pub(crate) async fn resume(door: Arc<HttpDoor>, call: Call) -> Reply {
    set_run_state(&door, named(&call), RunState::Running).await
}

async fn set_run_state(
    door: &HttpDoor,
    agent: Option<(ProtocolName, String)>,
    state: RunState,
) -> Reply {
    let Some((protocol, id)) = agent else {
        return not_found();
    };
    match on_record(door, protocol, &id).await {
        Ok(Some(agent)) => {
            let run_state = Some(state);
            record(
                door,
                Act::Agent {
                    protocol,
                    id,
                    record: Some(agent),
                    run_state,
                },
            )
            .await
        }
        Ok(None) => not_found(),
        Err(reply) => reply,
    }
}

async fn on_record(
    door: &HttpDoor,
    protocol: ProtocolName,
    id: &str,
) -> Result<Option<Value>, Reply> {
    let key = agent_key(protocol, id);
    door.read(move |office| office.row(&key)).await
}

fn named(call: &Call) -> Option<(ProtocolName, String)> {
    let protocol = call.param("protocol");
    let vibe = ProtocolName::Vibe;
    let protocol = hosting_protocol(protocol).or((protocol == vibe.as_str()).then_some(vibe))?;
    Some((protocol, call.param("agent").to_owned()))
}

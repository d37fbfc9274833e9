//! `[vacant]` and `[[vacant.agent]]`: the vacants that live in this node.

use std::collections::BTreeMap;
use std::path::PathBuf;

use chancery_node::vacants::OnRestart;
use chancery_vacant::state::State;

use super::agents::{self, AgentBehaviour, ModelEntry};
use super::settings::Settings;
use super::typed::{Typed, wrong};
use crate::exit::Failure;

/// The section of vacant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vacant {
    /// The largest call.
    pub max_bytes: u64,
    /// How far an envelope's time may be off in seconds; 0 asks nothing (VA-TS-5).
    pub max_clock_skew_s: u64,
    /// Whether A2A messages without an envelope are refused (VA-A2A-5).
    pub require_envelope: bool,
    /// Whether vacants at addresses of this machine and its network are called.
    pub call_private: bool,
    /// How long a behaviour may take (VA-SRV-9).
    pub behaviour_timeout_s: u64,
    /// How many calls of one vacant may be with its behaviour at once.
    pub behaviour_calls: u64,
    /// The hosted vacants, in the order of the file.
    pub agents: Vec<VacantAgent>,
}

/// A hosted vacant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VacantAgent {
    /// Its name.
    pub name: String,
    /// The file of its seed.
    pub seed: PathBuf,
    /// Its state at first.
    pub state: State,
    /// What it can do.
    pub capability: String,
    /// What answers its calls.
    pub behaviour: AgentBehaviour,
    /// The file of what its role asks, in words.
    pub instructions: Option<PathBuf>,
    /// Whether the short paths mean it.
    pub default: bool,
    /// Its participant, when it is not its own (CH-ID-5).
    pub agent: Option<String>,
    /// What becomes of calls that a stop interrupted.
    pub on_restart: OnRestart,
}

/// The section of a configuration.
pub(super) fn vacant(settings: &Settings) -> Result<Vacant, Failure> {
    let of = Typed(settings);
    let tables = settings.tables("vacant.agent");
    let agent = |table| vacant_agent(table, &settings.models);
    let agents: Vec<VacantAgent> = tables.iter().map(agent).collect::<Result<_, _>>()?;
    for (index, agent) in agents.iter().enumerate() {
        let place = || tables[index].get("name").place();
        let before = &agents[..index];
        if before.iter().any(|other| other.name == agent.name) {
            return Err(Failure::usage(format!(
                "{}: two vacants are called {}",
                place(),
                agent.name
            )));
        }
        if agent.default && before.iter().any(|other| other.default) {
            return Err(Failure::usage(format!(
                "{}: two vacants are the default",
                place()
            )));
        }
    }
    Ok(Vacant {
        max_bytes: of.integer("vacant.max_bytes"),
        max_clock_skew_s: of.integer("vacant.max_clock_skew"),
        require_envelope: of.switch("vacant.require_envelope"),
        call_private: of.switch("vacant.call_private"),
        behaviour_timeout_s: of.integer("vacant.behaviour_timeout_s"),
        behaviour_calls: of.integer("vacant.behaviour_calls"),
        agents,
    })
}

fn vacant_agent(
    table: &Settings,
    models: &BTreeMap<String, ModelEntry>,
) -> Result<VacantAgent, Failure> {
    let of = Typed(table);
    let name = of.text("name").to_owned();
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > 64 || !name.chars().all(is_letter) {
        let wanted = "1 to 64 letters, digits, - and _";
        return Err(wrong(table.get("name"), wanted));
    }
    let behaviour = agents::in_words(table, models, "seed")?;
    let on_restart = match of.text("on_restart") {
        "rerun" => OnRestart::Rerun,
        "close" | "" => OnRestart::Close,
        _ => return Err(wrong(table.get("on_restart"), "\"rerun\" or \"close\"")),
    };
    Ok(VacantAgent {
        seed: of
            .path("seed")
            .ok_or_else(|| wrong(table.get("seed"), "the file of a key"))?,
        state: State::parse(of.text("state"))
            .ok_or_else(|| wrong(table.get("state"), "one of the six states"))?,
        capability: of.text("capability").to_owned(),
        instructions: of.path("instructions"),
        default: of.switch("default"),
        agent: Some(of.text("agent").to_owned()).filter(|agent| !agent.is_empty()),
        behaviour,
        on_restart,
        name,
    })
}

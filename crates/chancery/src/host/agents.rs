//! The agents of vibe that the configuration describes: their behaviours, skills and instructions, and their lives;
//! and the behaviours of whoever else is hosted.

use std::path::Path;
use std::sync::Arc;

use chancery_agents::behaviour::http::{self, Http};
use chancery_agents::behaviour::mcp::McpSubstrate;
use chancery_agents::behaviour::model::{Model, ModelSettings};
use chancery_agents::behaviour::{Behaviour, Echo, InferElsewhere, Script, Words, roles};
use chancery_agents::host::{Agents, Hosted};
use chancery_agents::{Agent, Skills};
use chancery_node::Office;

use super::not_in_line;
use crate::config::{AgentBehaviour, Config, ModelEntry, VibeAgent};
use crate::exit::Failure;
use crate::secret_file;

/// The largest file of instructions.
const MAX_INSTRUCTIONS: usize = 65_536;

/// Puts the agents on record and lets them live.
pub(super) async fn begin(office: &Arc<Office>, config: &Config) -> Result<Agents, Failure> {
    let hosted = described(config)?;
    let settings = office.gate().settings();
    if !hosted.is_empty() && settings.vibe.signed {
        let reason =
            "agents of vibe that live in the node do not sign, and vibe.signed asks for it";
        return Err(
            Failure::usage(reason).next("set vibe.signed = false, or remove [[vibe.agent]]")
        );
    }
    if !hosted.is_empty() && settings.vibe.world.is_none() {
        return Err(
            Failure::usage("there are agents of vibe and no world for them")
                .next("set vibe.world, or remove [[vibe.agent]]"),
        );
    }
    Agents::start(office, hosted).await.map_err(not_in_line)
}

/// The agents with what they go by, read from their files.
pub(super) fn described(config: &Config) -> Result<Vec<Hosted>, Failure> {
    config.vibe.agents.iter().map(hosted).collect()
}

fn hosted(described: &VibeAgent) -> Result<Hosted, Failure> {
    let wrong = |reason: String| {
        let (place, name) = (&described.place, &described.name);
        Failure::usage(format!("{place}: agent {name}: {reason}"))
    };
    let mut agent = Agent::new(&described.name, described.record.clone());
    agent.budget = described.budget;
    agent.instructions = instructions(described.instructions.as_deref()).map_err(wrong)?;
    if let Some(path) = &described.skills {
        let skills = Skills::read(path, agent.side());
        agent.skills = skills.map_err(|error| wrong(error.to_string()))?;
    }
    let behaviour = match &described.behaviour {
        AgentBehaviour::Echo => Behaviour::Here(Arc::new(Echo)),
        AgentBehaviour::Script(path) => Behaviour::Here(Arc::new(script(path).map_err(wrong)?)),
        AgentBehaviour::Rules(name) => {
            let role = roles::role(name).ok_or_else(|| wrong(format!("no role {name}")))?;
            Behaviour::Here(role)
        }
        other => Behaviour::Elsewhere(elsewhere(other, &wrong)?),
    };
    Ok(Hosted { agent, behaviour })
}

/// What answers in words for a participant; none where nothing of this kind does.
pub(super) fn in_words(
    described: &AgentBehaviour,
    instructions_at: Option<&Path>,
    wrong: &dyn Fn(String) -> Failure,
) -> Result<Option<Words>, Failure> {
    Ok(match described {
        AgentBehaviour::Echo | AgentBehaviour::Inbox | AgentBehaviour::Rules(_) => None,
        AgentBehaviour::Script(path) => Some(Words::script(script(path).map_err(wrong)?)),
        other => {
            let told = instructions(instructions_at).map_err(wrong)?;
            Some(Words::elsewhere(elsewhere(other, wrong)?, &told))
        }
    })
}

fn instructions(path: Option<&Path>) -> Result<String, String> {
    let Some(path) = path else {
        return Ok(String::new());
    };
    let place = path.display();
    let text = std::fs::read_to_string(path).map_err(|error| format!("{place}: {error}"))?;
    if text.len() > MAX_INSTRUCTIONS {
        return Err(format!("{place}: more than {MAX_INSTRUCTIONS} bytes"));
    }
    Ok(text)
}

fn script(path: &Path) -> Result<Script, String> {
    Script::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// What is asked outside this process.
fn elsewhere(
    described: &AgentBehaviour,
    wrong: &dyn Fn(String) -> Failure,
) -> Result<Arc<dyn InferElsewhere>, Failure> {
    let client = || http::client().map_err(|error| wrong(error.to_string()));
    Ok(match described {
        AgentBehaviour::Http { url, key } => {
            let key = Arc::new(secret_file::read_key(key)?);
            Arc::new(Http::new(url, key, client()?))
        }
        AgentBehaviour::Model(entry) => {
            let settings = model_settings(entry).map_err(wrong)?;
            Arc::new(Model::new(settings, client()?))
        }
        AgentBehaviour::Mcp { place, tool } => {
            Arc::new(McpSubstrate::new(place.clone(), tool, client()?))
        }
        AgentBehaviour::Echo
        | AgentBehaviour::Inbox
        | AgentBehaviour::Script(_)
        | AgentBehaviour::Rules(_) => {
            return Err(wrong("its behaviour is not asked elsewhere".to_owned()));
        }
    })
}

/// How a model is reached; its key is read here, and told nowhere.
fn model_settings(entry: &ModelEntry) -> Result<ModelSettings, String> {
    let key = match (&entry.key_env, &entry.key_file) {
        (Some(name), _) => {
            let key = std::env::var(name);
            Some(key.map_err(|_| format!("the environment has no {name}"))?)
        }
        (None, Some(path)) => {
            let key = std::fs::read_to_string(path);
            Some(key.map_err(|error| format!("{}: {error}", path.display()))?)
        }
        (None, None) => None,
    };
    let key = key.map(|key| key.trim().to_owned());
    if key
        .as_ref()
        .is_some_and(|key| key.is_empty() || key.chars().any(char::is_control))
    {
        return Err("its key is empty, or has characters that no header can carry".to_owned());
    }
    let (price_in, price_out) = entry.prices();
    Ok(ModelSettings {
        url: entry.url.clone(),
        model: entry.model.clone(),
        key,
        price_in,
        price_out,
    })
}

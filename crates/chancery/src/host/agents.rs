//! The agents of vibe that the configuration describes: their behaviours, skills and instructions, and their lives.

use std::sync::Arc;

use chancery_agents::behaviour::http::{self, Http};
use chancery_agents::behaviour::model::{Model, ModelSettings};
use chancery_agents::behaviour::{Behaviour, Echo, Script, roles};
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
    let hosted = config.vibe.agents.iter().map(hosted);
    let hosted = hosted.collect::<Result<Vec<_>, _>>()?;
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

fn hosted(described: &VibeAgent) -> Result<Hosted, Failure> {
    let wrong = |reason: String| {
        let (place, name) = (&described.place, &described.name);
        Failure::usage(format!("{place}: agent {name}: {reason}"))
    };
    let mut agent = Agent::new(&described.name, described.record.clone());
    agent.budget = described.budget;
    if let Some(path) = &described.instructions {
        let text = std::fs::read_to_string(path)
            .map_err(|error| wrong(format!("{}: {error}", path.display())))?;
        if text.len() > MAX_INSTRUCTIONS {
            let reason = format!("{}: more than {MAX_INSTRUCTIONS} bytes", path.display());
            return Err(wrong(reason));
        }
        agent.instructions = text;
    }
    if let Some(path) = &described.skills {
        let skills = Skills::read(path, agent.side());
        agent.skills = skills.map_err(|error| wrong(error.to_string()))?;
    }
    let behaviour = match &described.behaviour {
        AgentBehaviour::Echo => Behaviour::Here(Arc::new(Echo)),
        AgentBehaviour::Script(path) => {
            let script = Script::read(path);
            let script = script.map_err(|error| wrong(format!("{}: {error}", path.display())))?;
            Behaviour::Here(Arc::new(script))
        }
        AgentBehaviour::Rules(name) => {
            let role = roles::role(name).ok_or_else(|| wrong(format!("no role {name}")))?;
            Behaviour::Here(role)
        }
        AgentBehaviour::Http { url, key } => {
            let key = Arc::new(secret_file::read_key(key)?);
            let client = http::client().map_err(|error| wrong(error.to_string()))?;
            Behaviour::Elsewhere(Arc::new(Http::new(url, key, client)))
        }
        AgentBehaviour::Model(entry) => {
            let settings = model_settings(entry).map_err(wrong)?;
            let client = http::client().map_err(|error| wrong(error.to_string()))?;
            Behaviour::Elsewhere(Arc::new(Model::new(settings, client)))
        }
    };
    Ok(Hosted { agent, behaviour })
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

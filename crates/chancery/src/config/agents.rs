//! `[[vibe.agent]]`: agents of vibe that live in this node.

use std::path::PathBuf;
use std::time::Duration;

use chancery_agents::behaviour::roles::ROLES;
use chancery_agents::budget::Budget;
use chancery_vibe::agent::AgentRecord;

use super::settings::{Setting, Settings, Source};
use super::typed::{Typed, text, wrong};
use crate::exit::Failure;

/// A hosted agent of vibe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VibeAgent {
    /// Its name.
    pub name: String,
    /// What goes on record.
    pub record: AgentRecord,
    /// What answers for it.
    pub behaviour: AgentBehaviour,
    /// The file of what its role asks, in words.
    pub instructions: Option<PathBuf>,
    /// The directory of skills.
    pub skills: Option<PathBuf>,
    /// What a turn may cost.
    pub budget: Budget,
    /// Where it is described.
    pub place: String,
}

/// What answers for an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentBehaviour {
    /// A question is answered with the question.
    Echo,
    /// Decisions that a file holds.
    Script(PathBuf),
    /// A ready role.
    Rules(String),
}

/// The agents of a configuration.
pub(super) fn agents(settings: &Settings) -> Result<Vec<VibeAgent>, Failure> {
    let tables = settings.tables("vibe.agent");
    let agents: Vec<VibeAgent> = tables.iter().map(agent).collect::<Result<_, _>>()?;
    for (index, agent) in agents.iter().enumerate() {
        if agents[..index].iter().any(|other| other.name == agent.name) {
            let place = &agent.place;
            let what = format!("{place}: two agents are called {}", agent.name);
            return Err(Failure::usage(what));
        }
    }
    Ok(agents)
}

fn agent(table: &Settings) -> Result<VibeAgent, Failure> {
    let of = Typed(table);
    let some = |name| Some(of.text(name).to_owned()).filter(|text: &String| !text.is_empty());
    let name = of.text("name").to_owned();
    if name.is_empty() || name.len() > 128 || name.chars().any(char::is_control) {
        let wanted = "1 to 128 bytes without control characters";
        return Err(wrong(table.get("name"), wanted));
    }
    let record = AgentRecord {
        address: of.text("address").to_owned(),
        consumer_id: some("consumer_id"),
        merchant_id: some("merchant_id"),
        agent: some("agent"),
    };
    let place = table.get("name").place();
    if let Some(fault) = record.fault() {
        let what = format!("{place}: agent {name}: {fault}");
        return Err(Failure::usage(what)
            .next("an agent is such as address = \"merchant\", merchant_id = \"m_keys\""));
    }
    let some_of = |number: u64| (number > 0).then_some(number);
    Ok(VibeAgent {
        behaviour: behaviour(table.get("behaviour"))?,
        instructions: of.path("instructions"),
        skills: of.path("skills"),
        budget: Budget {
            steps: u32::try_from(of.integer("max_steps")).unwrap_or(u32::MAX),
            time: Duration::from_secs(of.integer("turn_timeout_s")),
            tokens: some_of(of.integer("max_tokens")),
            micros: some_of(of.integer("max_cost_micros")),
        },
        name,
        record,
        place,
    })
}

fn behaviour(setting: &Setting) -> Result<AgentBehaviour, Failure> {
    let wanted =
        "\"echo\", \"script:FILE\" or \"rules:ROLE\" (buyer, merchant, support, adjudicator)";
    match text(setting).split_once(':') {
        None if text(setting) == "echo" => Ok(AgentBehaviour::Echo),
        Some(("script", file)) if !file.is_empty() => {
            Ok(AgentBehaviour::Script(beside(setting, file)))
        }
        Some(("rules", role)) if ROLES.contains(&role) => {
            Ok(AgentBehaviour::Rules(role.to_owned()))
        }
        _ => Err(wrong(setting, wanted)),
    }
}

/// A path that a setting names, relative to its file.
fn beside(setting: &Setting, path: &str) -> PathBuf {
    match &setting.source {
        Source::File { path: file, .. } => file
            .parent()
            .map_or_else(|| PathBuf::from(path), |folder| folder.join(path)),
        _ => PathBuf::from(path),
    }
}

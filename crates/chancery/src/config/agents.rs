//! `[[vibe.agent]]`: agents of vibe that live in this node.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use chancery_agents::behaviour::mcp::Place;
use chancery_agents::behaviour::roles::ROLES;
use chancery_agents::budget::Budget;
use chancery_vibe::agent::AgentRecord;
use serde::Deserialize;

use super::settings::{Settings, Source};
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
    /// Nothing in this process: its owner answers from the inbox.
    Inbox,
    /// Decisions that a file holds.
    Script(PathBuf),
    /// A ready role.
    Rules(String),
    /// A web service, and the file of the key that signs what it is asked.
    Http {
        /// Its address.
        url: String,
        /// The key.
        key: PathBuf,
    },
    /// A model of `[model.NAME]`.
    Model(ModelEntry),
    /// A tool of an MCP server.
    Mcp {
        /// Where the server is.
        place: Place,
        /// The tool.
        tool: String,
    },
}

/// One `[model.NAME]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelEntry {
    /// The address of an OpenAI-compatible interface, such as `https://api.example/v1`.
    pub url: String,
    /// The model's name there.
    pub model: String,
    /// The environment variable that holds the key.
    #[serde(default)]
    pub key_env: Option<String>,
    /// The file that holds the key.
    #[serde(default)]
    pub key_file: Option<PathBuf>,
    /// What a million tokens taken in cost, as a decimal; without it the cost is unknown.
    #[serde(default)]
    pub price_in: Option<String>,
    /// What a million tokens given out cost.
    #[serde(default)]
    pub price_out: Option<String>,
}

impl ModelEntry {
    /// The prices in millionths; none where one is not known.
    pub fn prices(&self) -> (Option<u64>, Option<u64>) {
        let of = |price: &Option<String>| price.as_deref().and_then(millionths);
        (of(&self.price_in), of(&self.price_out))
    }
}

/// A decimal such as `0.15` in millionths, exactly.
fn millionths(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || part.len() > 6 || !digits(whole) || !digits(part) {
        return None;
    }
    let whole: u64 = whole.parse().ok()?;
    let part: u64 = format!("{part:0<6}").parse().ok()?;
    whole.checked_mul(1_000_000)?.checked_add(part)
}

#[derive(Deserialize)]
struct Document {
    #[serde(default)]
    model: BTreeMap<String, ModelEntry>,
}

/// The models of a configuration file.
pub(super) fn models_of(text: &str, path: &Path) -> Result<BTreeMap<String, ModelEntry>, Failure> {
    let wrong = |reason: String| {
        Failure::usage(format!("{}: [model]: {reason}", path.display())).next(
            "a model has url, model, key_env or key_file, price_in and price_out such as \"0.15\"",
        )
    };
    let document: Document =
        toml::from_str(text).map_err(|error| wrong(error.message().to_owned()))?;
    let mut models = document.model;
    for (name, model) in &mut models {
        let is_web = model.url.starts_with("http://") || model.url.starts_with("https://");
        if !is_web || model.model.is_empty() {
            return Err(wrong(format!("{name}: url is an address and model a name")));
        }
        if model.key_env.is_some() && model.key_file.is_some() {
            return Err(wrong(format!("{name}: key_env or key_file, not both")));
        }
        let prices = model.price_in.iter().chain(&model.price_out);
        if prices.into_iter().any(|price| millionths(price).is_none()) {
            return Err(wrong(format!(
                "{name}: a price is a decimal such as \"0.15\""
            )));
        }
        if let (Some(file), Some(folder)) = (&mut model.key_file, path.parent()) {
            *file = folder.join(&*file);
        }
    }
    Ok(models)
}

/// The agents of a configuration.
pub(super) fn agents(settings: &Settings) -> Result<Vec<VibeAgent>, Failure> {
    let tables = settings.tables("vibe.agent");
    let agent = |table| agent(table, &settings.models);
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

fn agent(table: &Settings, models: &BTreeMap<String, ModelEntry>) -> Result<VibeAgent, Failure> {
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
    let behaviour = behaviour(table, models)?;
    let unpriced = match &behaviour {
        AgentBehaviour::Model(model) => model.price_in.is_none() || model.price_out.is_none(),
        _ => false,
    };
    if unpriced && of.integer("max_cost_micros") > 0 {
        let wanted = "possible without price_in and price_out of its model";
        return Err(wrong(table.get("max_cost_micros"), wanted));
    }
    Ok(VibeAgent {
        behaviour,
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

/// What answers for an agent of vibe.
fn behaviour(
    table: &Settings,
    models: &BTreeMap<String, ModelEntry>,
) -> Result<AgentBehaviour, Failure> {
    let setting = table.get("behaviour");
    match text(setting).split_once(':') {
        Some(("rules", role)) if ROLES.contains(&role) => {
            Ok(AgentBehaviour::Rules(role.to_owned()))
        }
        _ => {
            let own = "\"rules:ROLE\" (buyer, merchant, support, adjudicator), ";
            general(table, models, "key")?.ok_or_else(|| wrong(setting, &wanted(own)))
        }
    }
}

/// What answers in words for whoever is hosted; its own key is in the setting of that name.
pub(super) fn in_words(
    table: &Settings,
    models: &BTreeMap<String, ModelEntry>,
    key: &'static str,
) -> Result<AgentBehaviour, Failure> {
    let setting = table.get("behaviour");
    if text(setting) == "inbox" {
        return Ok(AgentBehaviour::Inbox);
    }
    general(table, models, key)?.ok_or_else(|| wrong(setting, &wanted("\"inbox\", ")))
}

pub(super) fn wanted(own: &str) -> String {
    format!(
        "{own}\"echo\", \"script:FILE\", \"http:URL\", \"model:NAME\" or \"mcp:URL or command\""
    )
}

/// The behaviours that everybody may have; none for another.
fn general(
    table: &Settings,
    models: &BTreeMap<String, ModelEntry>,
    key: &'static str,
) -> Result<Option<AgentBehaviour>, Failure> {
    let setting = table.get("behaviour");
    let folder = match &setting.source {
        Source::File { path: file, .. } => file.parent(),
        _ => None,
    };
    let of = Typed(table);
    let described = Described {
        text: text(setting),
        folder: folder.unwrap_or(Path::new("")),
        key: of.path(key),
        tool: of.text("tool"),
        models,
    };
    described.parse().map_err(|(what, wanted)| {
        let name = match what {
            Member::Behaviour => "behaviour",
            Member::Key => key,
            Member::Tool => "tool",
        };
        wrong(table.get(name), &wanted)
    })
}

/// A behaviour as a configuration describes it, wherever that is.
pub(super) struct Described<'d> {
    pub(super) text: &'d str,
    /// What files are relative to.
    pub(super) folder: &'d Path,
    /// The file of its key.
    pub(super) key: Option<PathBuf>,
    /// The tool of its MCP server.
    pub(super) tool: &'d str,
    pub(super) models: &'d BTreeMap<String, ModelEntry>,
}

/// What of a description is wrong.
pub(super) enum Member {
    /// The behaviour itself.
    Behaviour,
    /// The key.
    Key,
    /// The tool.
    Tool,
}

impl Described<'_> {
    /// Reads it; none where it is of no kind that everybody may have.
    pub(super) fn parse(self) -> Result<Option<AgentBehaviour>, (Member, String)> {
        let missing = |what, wanted: &str| (what, wanted.to_owned());
        Ok(Some(match self.text.split_once(':') {
            None if self.text == "echo" => AgentBehaviour::Echo,
            Some(("script", file)) if !file.is_empty() => {
                AgentBehaviour::Script(self.folder.join(file))
            }
            Some(("http", url)) if url.starts_with("http://") || url.starts_with("https://") => {
                let key = self.key;
                let key = key.ok_or_else(|| missing(Member::Key, "the file of a key"))?;
                let url = url.to_owned();
                AgentBehaviour::Http { url, key }
            }
            Some(("model", name)) => match self.models.get(name) {
                Some(model) => AgentBehaviour::Model(model.clone()),
                None => {
                    let wanted = format!("one of the models: there is no [model.{name}]");
                    return Err((Member::Behaviour, wanted));
                }
            },
            Some(("mcp", place)) => {
                let place =
                    Place::parse(place).map_err(|error| (Member::Behaviour, error.to_string()))?;
                let tool = self.tool.to_owned();
                if tool.is_empty() {
                    return Err(missing(Member::Tool, "the name of the server's tool"));
                }
                AgentBehaviour::Mcp { place, tool }
            }
            _ => return Ok(None),
        }))
    }
}

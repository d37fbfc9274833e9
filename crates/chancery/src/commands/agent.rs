//! `chancery agent`: the participants of a running node.

use std::io::Write as _;
use std::path::PathBuf;

use clap::Subcommand;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::client::{self, Answered, NodeArgs};
use crate::config::{Flags, Sources};
use crate::exit::{Exit, Failed, Failure, Outcome};
use crate::input;
use crate::terminal::Terminal;

/// The commands of `agent`.
#[derive(Debug, Subcommand)]
pub(crate) enum AgentCommand {
    /// Host an agent, or change whom it knows
    #[command(
        after_help = "Example:\n  chancery agent add agent://home.local/kitchen --parent agent://home.local/house \\\n    --peer agent://home.local/living-room"
    )]
    Add(AddArgs),
    /// The hosted agents and whether they may act
    #[command(after_help = "Example:\n  chancery agent list --json")]
    List(ListArgs),
    /// All that is on record about an agent
    #[command(after_help = "Example:\n  chancery agent show agent://home.local/kitchen")]
    Show(OneArgs),
    /// Let an agent say and do nothing until it is resumed
    #[command(after_help = "Example:\n  chancery agent suspend agent://home.local/kitchen")]
    Suspend(OneArgs),
    /// Let a suspended agent go on
    #[command(after_help = "Example:\n  chancery agent resume agent://home.local/kitchen")]
    Resume(OneArgs),
    /// Host an agent no more; what it said stays in the log
    #[command(after_help = "Example:\n  chancery agent remove agent://home.local/kitchen")]
    Remove(OneArgs),
}

/// What `agent add` is asked.
#[derive(Debug, clap::Args)]
pub(crate) struct AddArgs {
    /// The agent
    id: String,
    /// Its parent
    #[arg(long, value_name = "AGENT_ID")]
    parent: Option<String>,
    /// A child of it; may be repeated
    #[arg(long = "child", value_name = "AGENT_ID")]
    children: Vec<String>,
    /// A peer of it; may be repeated
    #[arg(long = "peer", value_name = "AGENT_ID")]
    peers: Vec<String>,
    /// Ancestors after the parent, nearest first; may be repeated
    #[arg(long = "escalate-to", value_name = "AGENT_ID")]
    escalation_path: Vec<String>,
    /// The rest of a world's local_agents entry, as JSON; - for standard input
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    #[command(flatten)]
    which: Which,
}

/// What `agent list` is asked.
#[derive(Debug, clap::Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    node: NodeArgs,
}

/// One agent.
#[derive(Debug, clap::Args)]
pub(crate) struct OneArgs {
    /// The agent
    id: String,
    #[command(flatten)]
    which: Which,
}

/// The protocol and the node.
#[derive(Debug, clap::Args)]
pub(crate) struct Which {
    /// The protocol it speaks
    #[arg(long, default_value = "value-context", value_parser = ["value-context", "vibe"])]
    protocol: String,
    #[command(flatten)]
    node: NodeArgs,
}

type SourcesOf<'s> = &'s dyn Fn(Flags) -> Sources;

/// Runs a command of `agent`.
pub(crate) fn run(
    command: AgentCommand,
    sources: SourcesOf<'_>,
    terminal: &mut Terminal,
) -> Outcome {
    match command {
        AgentCommand::Add(args) => {
            let body = args.body()?.to_string();
            let node = args.which.node.client(sources)?;
            let answered = client::block_on(node.post(&["admin", "agents"], body))?;
            on_record(&answered.done(&args.id)?, &args.id, "hosted", terminal)?;
        }
        AgentCommand::List(args) => {
            let node = args.node.client(sources)?;
            let answered = client::block_on(node.get(&["admin", "agents"]))?;
            listed(&answered.done("agents")?, terminal)?;
        }
        AgentCommand::Show(args) => show(&args, sources, terminal)?,
        AgentCommand::Suspend(args) => act(&args, "suspend", "suspended", sources, terminal)?,
        AgentCommand::Resume(args) => act(&args, "resume", "running", sources, terminal)?,
        AgentCommand::Remove(args) => {
            let node = args.which.node.client(sources)?;
            let path = ["admin", "agents", &args.which.protocol, &args.id];
            let answered = client::block_on(node.delete(&path))?.done(&args.id)?;
            on_record(&answered, &args.id, "not hosted any more", terminal)?;
        }
    }
    Ok(Exit::Done)
}

impl AddArgs {
    /// An entry of a world's `local_agents`, with the protocol; flags beat the file.
    fn body(&self) -> Result<Value, Failure> {
        let mut body: Map<String, Value> = match &self.record {
            Some(path) => serde_json::from_slice(&input::read(path)?)
                .map_err(|error| Failure::usage(format!("{}: {error}", input::name(path))))?,
            None => Map::new(),
        };
        body.insert("protocol".to_owned(), json!(self.which.protocol));
        body.insert("id".to_owned(), json!(self.id));
        if self.parent.is_some() || !body.contains_key("parent") {
            body.insert("parent".to_owned(), json!(self.parent));
        }
        let lists = [("children", &self.children), ("peers", &self.peers)];
        for (name, list) in lists {
            if !list.is_empty() || !body.contains_key(name) {
                body.insert(name.to_owned(), json!(list));
            }
        }
        if !self.escalation_path.is_empty() {
            body.insert("escalation_path".to_owned(), json!(self.escalation_path));
        }
        Ok(Value::Object(body))
    }
}

fn act(
    args: &OneArgs,
    verb: &str,
    now: &str,
    sources: SourcesOf<'_>,
    terminal: &mut Terminal,
) -> Result<(), Failed> {
    let node = args.which.node.client(sources)?;
    let path = ["admin", "agents", &args.which.protocol, &args.id, verb];
    let answered = client::block_on(node.post(&path, "{}"))?.done(&args.id)?;
    on_record(&answered, &args.id, now, terminal)
}

#[derive(Deserialize)]
struct OnRecord {
    seq: u64,
}

fn on_record(
    answered: &Answered,
    id: &str,
    now: &str,
    terminal: &mut Terminal,
) -> Result<(), Failed> {
    if terminal.json {
        return Ok(writeln!(terminal.out, "{}", answered.text())?);
    }
    let OnRecord { seq } = answered.value()?;
    Ok(writeln!(terminal.out, "{id} is {now}: line {seq}")?)
}

#[derive(Deserialize)]
struct Listed {
    agents: Vec<Described>,
}

#[derive(Deserialize)]
struct Described {
    protocol: String,
    id: String,
    run_state: String,
}

fn listed(answered: &Answered, terminal: &mut Terminal) -> Result<(), Failed> {
    if terminal.json {
        return Ok(writeln!(terminal.out, "{}", answered.text())?);
    }
    let listed: Listed = answered.value()?;
    let rows = listed
        .agents
        .into_iter()
        .map(|agent| [agent.id, agent.run_state, agent.protocol]);
    terminal.table(["AGENT", "STATE", "PROTOCOL"], rows)
}

fn show(args: &OneArgs, sources: SourcesOf<'_>, terminal: &mut Terminal) -> Result<(), Failed> {
    let node = args.which.node.client(sources)?;
    let path = ["admin", "agents", &args.which.protocol, &args.id];
    let answered = client::block_on(node.get(&path))?.done(&args.id)?;
    if terminal.json {
        return Ok(writeln!(terminal.out, "{}", answered.text())?);
    }
    let agent: Value = answered.value()?;
    Ok(writeln!(terminal.out, "{agent:#}")?)
}

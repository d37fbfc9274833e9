//! `chancery agh`: peers in channels, what they say and what they work on, for people.
//!
//! Whoever speaks here is a peer that the node hosts; the node adds identifier, time and proof, and checks. With `--ws`
//! or `--nats` it is one that no node hosts.

use std::io::Write as _;
use std::time::{Duration, Instant};

use chancery_agh::conversation::direct_id;
use chancery_agh::peer::{PeerRecord, address};
use clap::Subcommand;
use serde_json::{Value, json};

use super::agh_show::{interactions, peers, show_cards};
use super::agh_visit::{Visit, WayArgs, visitor};
use super::{agh_watch, explain};
use crate::client::{self, Answered, NodeArgs, NodeClient};
use crate::config::{Flags, Sources};
use crate::exit::{Exit, Failure, Outcome};
use crate::secret_file;
use crate::terminal::Terminal;

/// How long `whois` waits for answers from elsewhere.
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);
/// The pause between two looks at the inbox.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The commands of `agh`.
#[derive(Debug, Subcommand)]
pub(crate) enum AghCommand {
    /// Host a peer in a channel; it greets, and is reached from everywhere
    #[command(
        after_help = "Example:\n  chancery agh join builders patch-worker.session-19 --can test.run"
    )]
    Join(JoinArgs),
    /// Say something to everybody in a channel
    #[command(
        after_help = "Example:\n  chancery agh say builders 'The build is green.' --from planner.session-7"
    )]
    Say(SayArgs),
    /// Hand over a piece of work to one peer
    #[command(
        after_help = "Example:\n  chancery agh direct builders patch-worker.session-19 'Run the tests.' --from planner.session-7"
    )]
    Direct(DirectArgs),
    /// Ask who is in a channel, or who can do something
    #[command(
        after_help = "Example:\n  chancery agh whois builders test.run --from planner.session-7"
    )]
    Whois(WhoisArgs),
    /// Who is in a channel, here and elsewhere
    #[command(after_help = "Example:\n  chancery agh peers builders")]
    Peers(ChannelArgs),
    /// The pieces of work of a channel and how far they are
    #[command(after_help = "Example:\n  chancery agh interactions builders --json")]
    Interactions(ChannelArgs),
    /// Report how far a piece of work is
    #[command(
        after_help = "Example:\n  chancery agh trace builders planner.session-7 work_1 completed --from patch-worker.session-19"
    )]
    Trace(TraceArgs),
    /// End a piece of work before it is done
    #[command(
        after_help = "Example:\n  chancery agh cancel builders patch-worker.session-19 work_1 --from planner.session-7"
    )]
    Cancel(CancelArgs),
    /// Watch a channel: who comes and goes, and what is on record
    #[command(after_help = "Example:\n  chancery agh watch builders")]
    Watch(WatchArgs),
}

/// A channel, and the node.
#[derive(Debug, clap::Args)]
pub(crate) struct ChannelArgs {
    /// The channel
    pub(super) channel: String,
    #[command(flatten)]
    pub(super) place: Place,
}

/// The workspace and the node.
#[derive(Debug, clap::Args)]
pub(crate) struct Place {
    /// The workspace of the channel, for revision B
    #[arg(long, value_name = "W")]
    pub(super) workspace: Option<String>,
    #[command(flatten)]
    pub(super) way: WayArgs,
    #[command(flatten)]
    pub(super) node: NodeArgs,
}

impl Place {
    /// A visit of a peer that no node hosts; none when it is hosted.
    pub(super) fn visit<'a>(
        &'a self,
        channel: &str,
        peer: &str,
        sources: SourcesOf<'a>,
    ) -> Option<Visit<'a>> {
        let workspace = self.workspace.as_deref();
        let record = visitor(peer, channel, workspace, None, Vec::new());
        self.visit_of(record, sources)
    }

    fn visit_of<'a>(&'a self, record: PeerRecord, sources: SourcesOf<'a>) -> Option<Visit<'a>> {
        self.way.is_visit().then_some(Visit {
            way: &self.way,
            node: &self.node,
            sources,
            record,
        })
    }
}

/// Who speaks, and where.
#[derive(Debug, clap::Args)]
pub(crate) struct Speaker {
    /// The peer that speaks: a hosted one, unless --ws or --nats says otherwise
    #[arg(long, value_name = "PEER")]
    from: String,
    #[command(flatten)]
    place: Place,
}

/// What `join` is asked.
#[derive(Debug, clap::Args)]
pub(crate) struct JoinArgs {
    /// The channel
    channel: String,
    /// The peer
    peer: String,
    /// A label for people
    #[arg(long, value_name = "TEXT")]
    name: Option<String>,
    /// Something it can do; may be repeated
    #[arg(long = "can", value_name = "CAPABILITY")]
    capabilities: Vec<String>,
    /// With --ws or --nats: leave after so many seconds [default: never]
    #[arg(long, value_name = "S")]
    seconds: Option<u64>,
    #[command(flatten)]
    place: Place,
}

/// What `say` is asked.
#[derive(Debug, clap::Args)]
pub(crate) struct SayArgs {
    /// The channel
    channel: String,
    /// What is said
    text: String,
    /// The thread, for revision B
    #[arg(long, value_name = "THREAD", default_value = "thread_general")]
    thread: String,
    #[command(flatten)]
    speaker: Speaker,
}

/// What `direct` is asked.
#[derive(Debug, clap::Args)]
pub(crate) struct DirectArgs {
    /// The channel
    channel: String,
    /// Who is to do it
    to: String,
    /// What is to be done
    text: String,
    /// The name of the piece of work [default: a new one]
    #[arg(long, value_name = "NAME")]
    work: Option<String>,
    /// With --ws or --nats: how long its reports are waited for
    #[arg(long, value_name = "S", default_value_t = 10)]
    wait: u64,
    #[command(flatten)]
    speaker: Speaker,
}

/// What `whois` is asked.
#[derive(Debug, clap::Args)]
pub(crate) struct WhoisArgs {
    /// The channel
    channel: String,
    /// A Peer ID, a display name or a capability; without it everybody answers
    query: Option<String>,
    /// Ask this peer alone
    #[arg(long, value_name = "PEER")]
    to: Option<String>,
    #[command(flatten)]
    speaker: Speaker,
}

/// What `trace` is asked.
#[derive(Debug, clap::Args)]
pub(crate) struct TraceArgs {
    /// The channel
    channel: String,
    /// Who is told
    to: String,
    /// The piece of work
    work: String,
    /// How far it is
    #[arg(value_parser = ["working", "needs_input", "completed", "failed", "canceled"])]
    state: String,
    /// In words
    #[arg(long, value_name = "TEXT")]
    message: Option<String>,
    #[command(flatten)]
    speaker: Speaker,
}

/// What `cancel` is asked.
#[derive(Debug, clap::Args)]
pub(crate) struct CancelArgs {
    /// The channel
    channel: String,
    /// Who is told
    to: String,
    /// The piece of work
    work: String,
    /// Why
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    speaker: Speaker,
}

/// What `watch` is asked.
#[derive(Debug, clap::Args)]
pub(crate) struct WatchArgs {
    /// The channel
    channel: String,
    /// End after so many seconds [default: never]
    #[arg(long, value_name = "S")]
    seconds: Option<u64>,
    #[command(flatten)]
    place: Place,
}

pub(super) type SourcesOf<'s> = &'s dyn Fn(Flags) -> Sources;

/// Runs a command of `agh`.
pub(crate) fn run(command: AghCommand, sources: SourcesOf<'_>, terminal: &mut Terminal) -> Outcome {
    match command {
        AghCommand::Join(args) => join(&args, sources, terminal),
        AghCommand::Say(args) => {
            let mut envelope = args.speaker.envelope("say", &args.channel);
            envelope["body"] = json!({"text": args.text});
            if args.speaker.place.workspace.is_some() {
                envelope["surface"] = "thread".into();
                envelope["thread_id"] = args.thread.into();
            }
            args.speaker.send(&envelope, sources, terminal)
        }
        AghCommand::Direct(args) => {
            let work = match args.work {
                Some(work) => work,
                None => new_work()?,
            };
            let kind = args.speaker.asking_kind();
            let body = json!({"text": args.text});
            let speaker = &args.speaker;
            let envelope = speaker.about_work(kind, &args.channel, &args.to, &work, body)?;
            let place = &speaker.place;
            if let Some(visit) = place.visit(&args.channel, &speaker.from, sources) {
                let wait = Duration::from_secs(args.wait);
                return visit.say(&envelope, Some(wait), terminal);
            }
            speaker.send(&envelope, sources, terminal)
        }
        AghCommand::Whois(args) => whois(&args, sources, terminal),
        AghCommand::Peers(args) => peers(&args, sources, terminal),
        AghCommand::Interactions(args) => interactions(&args, sources, terminal),
        AghCommand::Trace(args) => {
            let body = match &args.message {
                Some(message) => json!({"state": args.state, "message": message}),
                None => json!({"state": args.state}),
            };
            let speaker = &args.speaker;
            let envelope =
                speaker.about_work("trace", &args.channel, &args.to, &args.work, body)?;
            speaker.send(&envelope, sources, terminal)
        }
        AghCommand::Cancel(args) => {
            let reason = args.reason.as_deref().unwrap_or("not wanted any more");
            let body = json!({"state": "canceled", "message": reason});
            let speaker = &args.speaker;
            let envelope =
                speaker.about_work("trace", &args.channel, &args.to, &args.work, body)?;
            speaker.send(&envelope, sources, terminal)
        }
        AghCommand::Watch(args) if args.place.way.is_broker() => {
            let from = new_visitor()?;
            let visit = args.place.visit(&args.channel, &from, sources);
            let visit = visit.ok_or_else(|| Failure::usage("a broker is watched with --nats"))?;
            visit.stay(until(args.seconds), terminal)
        }
        AghCommand::Watch(args) => {
            let node = args.place.node.client(sources)?;
            let workspace = args.place.workspace.as_deref();
            let until = until(args.seconds).map(tokio::time::Instant::into_std);
            agh_watch::run(&node, &args.channel, workspace, until, terminal)
        }
    }
}

impl Speaker {
    /// The members that every envelope of this peer has.
    fn envelope(&self, kind: &str, channel: &str) -> Value {
        let mut envelope = json!({"kind": kind, "channel": channel, "from": self.from});
        if let Some(workspace) = &self.place.workspace {
            envelope["workspace_id"] = workspace.as_str().into();
        }
        envelope
    }

    /// What asks for work in this revision.
    fn asking_kind(&self) -> &'static str {
        match self.place.workspace {
            None => "direct",
            Some(_) => "say",
        }
    }

    /// An envelope about a piece of work: in revision B it stands in the room of the two (AG-B-7).
    fn about_work(
        &self,
        kind: &str,
        channel: &str,
        to: &str,
        work: &str,
        body: Value,
    ) -> Result<Value, Failure> {
        let mut envelope = self.envelope(kind, channel);
        envelope["to"] = to.into();
        envelope["body"] = body;
        match &self.place.workspace {
            None => envelope["interaction_id"] = work.into(),
            Some(workspace) => {
                let room = direct_id(workspace, channel, &self.from, to);
                let room = room.ok_or_else(|| {
                    Failure::usage(format!("{to} cannot hand over work to itself"))
                })?;
                envelope["work_id"] = work.into();
                envelope["surface"] = "direct".into();
                envelope["direct_id"] = room.into();
            }
        }
        Ok(envelope)
    }

    fn send(&self, envelope: &Value, sources: SourcesOf<'_>, terminal: &mut Terminal) -> Outcome {
        let channel = envelope["channel"].as_str().unwrap_or_default();
        if let Some(visit) = self.place.visit(channel, &self.from, sources) {
            return visit.say(envelope, None, terminal);
        }
        let node = self.place.node.client(sources)?;
        let answered = client::block_on(sent(&node, envelope))?;
        tell(&answered, envelope, terminal)
    }
}

async fn sent(node: &NodeClient, envelope: &Value) -> Result<Answered, Failure> {
    node.post(&["send", "agh"], envelope.to_string()).await
}

/// Tells what became of an envelope; the exit says whether it was sent.
fn tell(answered: &Answered, envelope: &Value, terminal: &mut Terminal) -> Outcome {
    if terminal.json {
        writeln!(terminal.out, "{}", answered.text())?;
        return Ok(if answered.is_yes() {
            Exit::Done
        } else {
            Exit::No
        });
    }
    let told: Value = answered.clone().value()?;
    if !answered.is_yes() {
        return Err(refused(&told, answered).into());
    }
    let id = told["id"].as_str().unwrap_or_default();
    let done = terminal.good("sent");
    writeln!(terminal.out, "{done}  {id}")?;
    let work = envelope
        .get("interaction_id")
        .or_else(|| envelope.get("work_id"));
    if let Some(work) = work.and_then(Value::as_str) {
        writeln!(terminal.out, "  work  {work}")?;
    }
    Ok(Exit::Done)
}

/// Why something was not sent, and what to do about it.
fn refused(told: &Value, answered: &Answered) -> Failure {
    if !told["error"].is_string() {
        let failure = answered.clone().done("agh");
        return failure
            .err()
            .unwrap_or_else(|| Failure::no("it was not sent"));
    }
    if (told["error"].as_str(), answered.status) == (Some("not_found"), 404) {
        return Failure::no("not sent: not_found at from")
            .explained(explain::guide_of("agh", "not_found").as_ref())
            .next("the sender is hosted nowhere here: chancery agh join CHANNEL PEER");
    }
    refused_with(told)
}

/// The same, from the verdict alone.
pub(super) fn refused_with(told: &Value) -> Failure {
    let error = told["error"].as_str().unwrap_or_default();
    let at = told["path"]
        .as_str()
        .map(|path| format!(" at {path}"))
        .unwrap_or_default();
    let failure = Failure::no(format!("not sent: {error}{at}"));
    let failure = failure.explained(explain::guide_of("agh", error).as_ref());
    match error {
        "not_found" => failure.next("nobody of that name is there: chancery agh peers CHANNEL"),
        "busy" => {
            failure.next("the node or its broker takes nothing right now: try again in a moment")
        }
        _ => failure,
    }
}

fn join(args: &JoinArgs, sources: SourcesOf<'_>, terminal: &mut Terminal) -> Outcome {
    let workspace = args.place.workspace.as_deref();
    let (name, can) = (args.name.as_deref(), args.capabilities.clone());
    let record = visitor(&args.peer, &args.channel, workspace, name, can);
    if let Some(visit) = args.place.visit_of(record, sources) {
        return visit.stay(until(args.seconds), terminal);
    }
    let body = json!({
        "protocol": "agh", "id": args.peer, "channel": args.channel,
        "workspace_id": args.place.workspace, "display_name": args.name,
        "capabilities": args.capabilities,
    });
    let node = args.place.node.client(sources)?;
    let answered = client::block_on(node.post(&["admin", "agents"], body.to_string()))?;
    let answered = answered.done(&args.peer)?;
    if terminal.json {
        writeln!(terminal.out, "{}", answered.text())?;
    } else {
        let name = address(args.place.workspace.as_deref(), &args.channel, &args.peer);
        writeln!(terminal.out, "{}  {name}", terminal.good("joined"))?;
    }
    Ok(Exit::Done)
}

/// Asks, and shows the answers: those of peers hosted here are in the node's own answer, those from elsewhere come to
/// the asker's inbox.
fn whois(args: &WhoisArgs, sources: SourcesOf<'_>, terminal: &mut Terminal) -> Outcome {
    let place = &args.speaker.place;
    if let Some(visit) = place.visit(&args.channel, &args.speaker.from, sources) {
        let cards = visit.ask(args.to.as_deref(), args.query.as_deref())?;
        return show_cards(&cards, terminal);
    }
    let mut question = args.speaker.envelope("whois", &args.channel);
    question["body"] = match &args.query {
        Some(query) => json!({"type": "request", "query": query}),
        None => json!({"type": "request"}),
    };
    if let Some(to) = &args.to {
        question["to"] = to.as_str().into();
    }
    let node = args.speaker.place.node.client(sources)?;
    let workspace = args.speaker.place.workspace.as_deref();
    let cards = client::block_on(async {
        let answered = sent(&node, &question).await?;
        let told: Value = answered.value()?;
        if !answered.is_yes() {
            return Err(refused(&told, &answered));
        }
        let mut cards: Vec<Value> = Vec::new();
        let emitted = told["emitted"].as_array().cloned().unwrap_or_default();
        take(&emitted, &told["id"], &mut cards);
        let until = Instant::now() + ANSWERS_WITHIN;
        while Instant::now() < until {
            tokio::time::sleep(LOOK_EVERY).await;
            let heard = inbox(&node, &args.channel, &args.speaker.from, workspace).await?;
            take(&heard, &told["id"], &mut cards);
            if args.to.is_some() && !cards.is_empty() {
                break;
            }
        }
        Ok(cards)
    })?;
    show_cards(&cards, terminal)
}

/// The cards of answers to a question that are not there yet.
fn take(envelopes: &[Value], question: &Value, cards: &mut Vec<Value>) {
    for envelope in envelopes
        .iter()
        .filter(|envelope| envelope["reply_to"] == *question)
    {
        let card = &envelope["body"]["peer_card"];
        if !cards
            .iter()
            .any(|known| known["peer_id"] == card["peer_id"])
        {
            cards.push(card.clone());
        }
    }
}

/// The envelopes of a peer's inbox.
async fn inbox(
    node: &NodeClient,
    channel: &str,
    peer: &str,
    workspace: Option<&str>,
) -> Result<Vec<Value>, Failure> {
    let path = ["inbox", "agh", channel, peer];
    let read = node.get_where(&path, ("workspace", workspace.unwrap_or_default()));
    let page: Value = read.await?.done("the inbox")?.value()?;
    let entries = page["entries"].as_array().cloned().unwrap_or_default();
    Ok(entries
        .into_iter()
        .map(|entry| entry["envelope"].clone())
        .collect())
}

/// When something ends that lasts so long.
fn until(seconds: Option<u64>) -> Option<tokio::time::Instant> {
    seconds.map(|seconds| tokio::time::Instant::now() + Duration::from_secs(seconds))
}

/// A name for somebody who only looks.
pub(super) fn new_visitor() -> Result<String, Failure> {
    let random = secret_file::random::<4>()?;
    let run = chancery_core::digest::hex::encode(random.as_slice());
    Ok(format!("chancery-cli.{run}"))
}

/// A name for a piece of work that nobody has used (AG-B-8).
fn new_work() -> Result<String, Failure> {
    let random = secret_file::random::<8>()?;
    Ok(format!(
        "work_{}",
        chancery_core::digest::hex::encode(random.as_slice())
    ))
}

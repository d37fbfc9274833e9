//! `chancery agh` for peers that no node hosts: through a broker, or through a node's WebSocket door.
//!
//! Such a peer is there for as long as the command runs. What a node adds to the envelopes of its own peers is added
//! here: protocol, identifier, time.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chancery_agh::peer::PeerRecord;
use chancery_agh::whois::Catalog;
use chancery_doors::OutgoingTls;
use chancery_doors::nats::{BrokerOptions, Secret};
use chancery_doors::visitor::{Taken, Visitor};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::agh::{SourcesOf, refused_with};
use super::agh_watch;
use crate::client::{self, NodeArgs};
use crate::exit::{Exit, Failed, Failure, Outcome};
use crate::secret_file;
use crate::terminal::Terminal;

/// How long answers to a question are waited for.
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);
/// How often a peer on a broker says that it is there (AG-GRT-2).
const GREET_EVERY: Duration = Duration::from_secs(30);

/// How a peer that no node hosts speaks.
#[derive(Debug, clap::Args)]
pub(crate) struct WayArgs {
    /// Speak through this broker, as a peer that no node hosts
    #[arg(long, value_name = "URL", conflicts_with = "ws")]
    nats: Option<String>,
    /// File with the broker's token, or user:password
    #[arg(long, value_name = "FILE", requires = "nats")]
    nats_token_file: Option<PathBuf>,
    /// Speak through the node's WebSocket door, as a peer that no node hosts
    #[arg(long)]
    ws: bool,
}

impl WayArgs {
    /// Whether the peer is hosted nowhere.
    pub(super) const fn is_visit(&self) -> bool {
        self.ws || self.nats.is_some()
    }

    /// Whether there is a broker and no node.
    pub(super) const fn is_broker(&self) -> bool {
        self.nats.is_some()
    }
}

/// A visit: who, and how.
pub(super) struct Visit<'a> {
    pub(super) way: &'a WayArgs,
    pub(super) node: &'a NodeArgs,
    pub(super) sources: SourcesOf<'a>,
    pub(super) record: PeerRecord,
}

/// The record of a visiting peer.
pub(super) fn visitor(
    peer: &str,
    channel: &str,
    workspace: Option<&str>,
    name: Option<&str>,
    capabilities: Vec<String>,
) -> PeerRecord {
    PeerRecord::new(
        peer,
        channel,
        workspace,
        name,
        capabilities,
        Catalog::default(),
    )
}

impl Visit<'_> {
    /// Joins, and greets where nobody does it for the peer.
    async fn join(&self) -> Result<Visitor, Failure> {
        let tls = OutgoingTls::new(None).map_err(|error| Failure::usage(error.to_string()))?;
        let record = self.record.clone();
        let mut visitor = match &self.way.nats {
            Some(url) => {
                let options = BrokerOptions {
                    servers: vec![url.clone()],
                    secret: self.secret()?,
                    plaintext: false,
                    jetstream: false,
                };
                Visitor::through_broker(record, &options, &tls)
                    .await
                    .map_err(|error| {
                        Failure::usage(format!("the broker at {url} does not let it in: {error}"))
                            .next("an address is like nats://127.0.0.1:4222; --nats-token-file names what lets it in")
                    })?
            }
            None => {
                let (base, authorization) = self.node.place(self.sources)?;
                Visitor::through_node(record, &base, authorization.as_ref(), &tls)
                    .await
                    .map_err(|error| {
                        Failure::no(format!("the node does not let it in: {error}"))
                            .next("409: that peer is here already; 401 or 403: a token with the scope send:CHANNEL/PEER")
                    })?
            }
        };
        self.greet(&mut visitor).await?;
        Ok(visitor)
    }

    fn secret(&self) -> Result<Option<Secret>, Failure> {
        let Some(path) = &self.way.nats_token_file else {
            return Ok(None);
        };
        let text = secret_file::read_secret(path, "the broker's token")?;
        let text = text.trim();
        Ok(Some(match text.split_once(':') {
            Some((user, password)) => Secret::User(user.to_owned(), password.to_owned()),
            None => Secret::Token(text.to_owned()),
        }))
    }

    /// What the peer can do is news to a node too; without it the node has greeted already.
    async fn greet(&self, visitor: &mut Visitor) -> Result<(), Failure> {
        let card = &self.record.card;
        let is_plain = card.display_name.is_none() && card.capabilities.is_empty();
        if visitor.is_spoken_for() && is_plain {
            return Ok(());
        }
        let body = json!({"peer_card": card, "summary": card.greeting()});
        let greeting = self.whole(&json!({"kind": "greet", "body": body}))?;
        self.publish(visitor, &greeting).await.map(|_| ())
    }

    /// An envelope with what its sender has to add.
    fn whole(&self, members: &Value) -> Result<Value, Failure> {
        let mut envelope = members.clone();
        let random = secret_file::random::<12>()?;
        let id = chancery_core::digest::hex::encode(random.as_slice());
        envelope["protocol"] = chancery_agh::envelope::PROTOCOL.into();
        envelope["id"] = format!("msg_{id}").into();
        envelope["channel"] = self.record.channel.as_str().into();
        envelope["from"] = self.record.card.peer_id.as_str().into();
        envelope["ts"] = now().into();
        envelope["proof"] = Value::Null;
        if let Some(workspace) = &self.record.workspace_id {
            envelope["workspace_id"] = workspace.as_str().into();
        }
        if envelope.get("to").is_none() {
            envelope["to"] = Value::Null;
        }
        Ok(envelope)
    }

    /// Publishes; what a node refuses is a failure.
    async fn publish(&self, visitor: &mut Visitor, envelope: &Value) -> Result<Taken, Failure> {
        let taken = visitor.publish(envelope).await.map_err(gone)?;
        match &taken {
            Taken::Verdict(told) if told["verdict"] != "accept" => Err(refused_with(told)),
            _ => Ok(taken),
        }
    }

    /// Says one thing; work that is handed over is followed for a while.
    pub(super) fn say(
        &self,
        members: &Value,
        follow: Option<Duration>,
        terminal: &mut Terminal,
    ) -> Outcome {
        let (envelope, reports) = client::block_on(async {
            let mut visitor = self.join().await?;
            let envelope = self.whole(members)?;
            self.publish(&mut visitor, &envelope).await?;
            let reports = match follow {
                None => Vec::new(),
                Some(within) => follow_work(&mut visitor, &envelope, within).await?,
            };
            Ok((envelope, reports))
        })?;
        if terminal.json {
            terminal.json_line(&json!({"envelope": envelope, "answers": reports}))?;
            return Ok(Exit::Done);
        }
        let id = envelope["id"].as_str().unwrap_or_default();
        writeln!(terminal.out, "{}  {id}", terminal.good("sent"))?;
        let work = work_of(&envelope).and_then(Value::as_str);
        if let Some(work) = work {
            writeln!(terminal.out, "  work  {work}")?;
        }
        for report in &reports {
            agh_watch::show_envelope(report, terminal)?;
        }
        Ok(Exit::Done)
    }

    /// Asks who is there; gives the cards.
    pub(super) fn ask(&self, to: Option<&str>, query: Option<&str>) -> Result<Vec<Value>, Failure> {
        client::block_on(async {
            let mut visitor = self.join().await?;
            let mut body = json!({"type": "request"});
            if let Some(query) = query {
                body["query"] = query.into();
            }
            let question = self.whole(&json!({"kind": "whois", "to": to, "body": body}))?;
            self.publish(&mut visitor, &question).await?;
            let until = Instant::now() + ANSWERS_WITHIN;
            let mut cards: Vec<Value> = Vec::new();
            while let Some(heard) = visitor.next(until).await.map_err(gone)? {
                let card = &heard["body"]["peer_card"];
                let is_new = !cards
                    .iter()
                    .any(|known| known["peer_id"] == card["peer_id"]);
                if heard["reply_to"] == question["id"] && is_new {
                    cards.push(card.clone());
                }
                if to.is_some() && !cards.is_empty() {
                    break;
                }
            }
            Ok(cards)
        })
    }

    /// Stays in the channel and shows what it hears, until the time is over or for ever.
    pub(super) fn stay(&self, until: Option<Instant>, terminal: &mut Terminal) -> Outcome {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let mut visitor = runtime.block_on(self.join())?;
        let record = &self.record;
        let name = record.address();
        match terminal.json {
            true => terminal.json_line(&json!({"joined": name}))?,
            false => writeln!(terminal.out, "{}  {name}", terminal.good("joined"))?,
        }
        terminal.out.flush()?;
        let mut greeted = Instant::now();
        loop {
            let next_greeting = greeted + GREET_EVERY;
            let wake = until.map_or(next_greeting, |until| until.min(next_greeting));
            let heard = runtime.block_on(async { self.hear(&mut visitor, wake).await })?;
            if let Some(envelope) = heard {
                agh_watch::show_envelope(&envelope, terminal)?;
                terminal.out.flush()?;
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                return Ok(Exit::Done);
            }
            if Instant::now() >= next_greeting {
                greeted = Instant::now();
                if !visitor.is_spoken_for() {
                    runtime.block_on(self.greet(&mut visitor))?;
                }
            }
        }
    }

    /// The next envelope; a question about the peer is answered, where nobody else does.
    async fn hear(&self, visitor: &mut Visitor, until: Instant) -> Result<Option<Value>, Failure> {
        let heard = visitor.next(until).await.map_err(gone)?;
        if let Some(question) = &heard
            && let Some(body) = visitor.answer_to(question)
        {
            let answer = json!({
                "kind": "whois", "to": question["from"], "reply_to": question["id"], "body": body,
            });
            let answer = self.whole(&answer)?;
            self.publish(visitor, &answer).await?;
        }
        Ok(heard)
    }
}

/// What is reported about a piece of work until its end, or until the time is over.
async fn follow_work(
    visitor: &mut Visitor,
    envelope: &Value,
    within: Duration,
) -> Result<Vec<Value>, Failure> {
    let until = Instant::now() + within;
    let mut reports = Vec::new();
    while let Some(heard) = visitor.next(until).await.map_err(gone)? {
        if work_of(&heard) != work_of(envelope) {
            continue;
        }
        let body = &heard["body"];
        let word = body["state"].as_str().or(body["status"].as_str());
        let is_end = matches!(word, Some("completed" | "failed" | "canceled" | "rejected"));
        reports.push(heard);
        if is_end {
            break;
        }
    }
    Ok(reports)
}

fn work_of(envelope: &Value) -> Option<&Value> {
    let work = envelope.get("interaction_id");
    work.or_else(|| envelope.get("work_id"))
}

fn gone(error: std::io::Error) -> Failure {
    Failure::no(format!("the connection is gone: {error}"))
        .next("what was said last may have been heard all the same")
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// Nothing but a failure.
pub(super) fn no_node(what: &str) -> Failed {
    Failure::usage(format!("{what} are kept by a node, not by a broker"))
        .next("leave out --nats, and name a node with --url")
        .into()
}

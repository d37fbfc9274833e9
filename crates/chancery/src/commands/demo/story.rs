//! The value-context story: a share and its evidence, a repeat, a forgery, a suspension and its end, a broadcast.

use bytes::Bytes;
use chancery_core::digest::Sha256Digest;
use chancery_core::keys::ed25519::SigningKey;
use chancery_node::Clock;
use serde_json::{Value, json};

use super::stage::{HALLWAY, KITCHEN, LIVING_ROOM, Stage};
use super::{Playbill, Shown, Step, chain, deal, handover, supervision};
use crate::client::{Answered, NodeClient};
use crate::commands::send::{MESSAGES, signed};
use crate::exit::{Failed, Failure};
use crate::host::Host;

/// The first step.
const SERVES: &str = "a node serves";
const MORNING: &str = "⏰🌅|📍🏡|👥👶";
pub(super) const CONSTITUTION: &str = "creed://creed.space/family.safe.guide@1.2.0";
pub(super) const EVENING: &str = "⏰🌆|📍🏡|👥👶";

/// Starts the node, plays, and stops it, also when a step failed.
pub(super) async fn play(stage: &Stage, playbill: &mut Playbill<'_>) -> Result<(), Failed> {
    let host = playbill.need(SERVES, Host::start(&stage.config).await)?;
    let played = act(stage, &host, playbill).await;
    let stopped = host.stop().await;
    played?;
    playbill.need("the node stops", stopped)
}

async fn act(stage: &Stage, host: &Host, playbill: &mut Playbill<'_>) -> Result<(), Failed> {
    let address = host.start_line().http;
    let base = format!("http://{address}/").parse();
    let base = base.map_err(|_| Failure::damaged(format!("{address} is no address")));
    let node = base.and_then(|base| NodeClient::new(base, None));
    let scene = Scene {
        node: playbill.need(SERVES, node)?,
    };
    let shown = Shown::new()
        .line(format!(
            "http://{address}, three agents, two of them with a key"
        ))
        .with("http", address);
    playbill.show(SERVES, Ok(shown))?;

    let name = "the living room shares its context with the kitchen: accepted";
    let share = envelope(LIVING_ROOM, KITCHEN, MORNING, &stage.living_room);
    let share = playbill.need(name, share)?;
    let step = scene.accepted(&share, &[KITCHEN]).await;
    playbill.show(name, step)?;
    let step = scene.duplicate(&share).await;
    playbill.show("the same bytes again: a duplicate, no second effect", step)?;

    let name = "the kitchen signs in the living room's name: refused";
    let forged = envelope(LIVING_ROOM, KITCHEN, EVENING, &stage.kitchen);
    let forged = playbill.need(name, forged)?;
    let step = scene.refused(&forged, 401, "signature_invalid").await;
    playbill.show(name, step)?;

    let step = scene.set_run_state("suspend").await;
    playbill.show("an administrator suspends the living room", step)?;
    let name = "it speaks while suspended: refused";
    let silenced = envelope(LIVING_ROOM, KITCHEN, EVENING, &stage.living_room);
    let silenced = playbill.need(name, silenced)?;
    let step = scene.refused(&silenced, 423, "sender_suspended").await;
    playbill.show(name, step)?;
    let step = scene.set_run_state("resume").await;
    playbill.show("an administrator resumes it", step)?;
    let step = scene.accepted(&silenced, &[KITCHEN]).await;
    playbill.show("the refused bytes again: accepted now", step)?;

    let name = "the kitchen broadcasts: one line, a copy for each who knows it";
    let broadcast = envelope(KITCHEN, "broadcast", EVENING, &stage.kitchen);
    let broadcast = playbill.need(name, broadcast)?;
    let step = scene.accepted(&broadcast, &[LIVING_ROOM, HALLWAY]).await;
    playbill.show(name, step)?;
    supervision::play(stage, &scene, playbill).await?;
    playbill.title("vibe: an agent buys a keyboard for a person")?;
    deal::act(&scene.node, playbill).await?;
    playbill.title("vacant: a caller and a vacant talk in chains that neither can deny")?;
    chain::act(&scene.node, playbill).await?;
    playbill.title("agh: a planner hands over work to a peer in its channel")?;
    handover::act(&scene.node, playbill).await
}

pub(super) fn envelope(
    sender: &str,
    to: &str,
    context: &str,
    key: &SigningKey,
) -> Result<Bytes, Failure> {
    let members = json!({
        "type": "context_share",
        "sender": sender,
        "recipient": to,
        "payload": {"context": context, "constitution_ref": CONSTITUTION},
    });
    signed(&members.to_string(), key, Clock::System.now()).map_err(Failure::damaged)
}

/// The node as the agents see it.
pub(super) struct Scene {
    node: NodeClient,
}

impl Scene {
    /// Sends, and finds the envelope in the log and in each inbox.
    pub(super) async fn accepted(&self, envelope: &Bytes, inboxes: &[&str]) -> Step {
        let answer = self.send(envelope, 200, "accepted").await?;
        let id = answer["message_id"].as_str().unwrap_or_default();
        let mut found = None;
        for agent in inboxes {
            let seq = self.in_inbox(agent, id).await?;
            if found.is_some_and(|found| found != seq) {
                return Err(format!("two lines hold {id}"));
            }
            found = Some(seq);
        }
        let seq = found.ok_or("nobody was asked")?;
        let line = self.get(&["log", &seq.to_string()]).await?.text();
        if !line.contains(id) {
            return Err(format!("line {seq} does not hold {id}"));
        }
        let hash = Sha256Digest::of(line.as_bytes()).hex();
        let names: Vec<&str> = inboxes.iter().map(|agent| short(agent)).collect();
        Ok(Shown::new()
            .line(format!("message {id}"))
            .line(format!("line {seq}, sha256 {hash}"))
            .line(format!("in the inbox of: {}", names.join(", ")))
            .with("message_id", id)
            .with("seq", seq)
            .with("line_sha256", hash)
            .with("inboxes", json!(inboxes)))
    }

    async fn duplicate(&self, envelope: &Bytes) -> Step {
        let before = self.entries(KITCHEN).await?.len();
        self.send(envelope, 200, "duplicate").await?;
        let after = self.entries(KITCHEN).await?.len();
        if after != before {
            return Err(format!("the inbox had {before} entries and has {after}"));
        }
        Ok(Shown::new()
            .line(format!("answered duplicate; the inbox still has {after}"))
            .with("status", "duplicate")
            .with("inbox_entries", after))
    }

    pub(super) async fn refused(&self, envelope: &Bytes, status: u16, code: &str) -> Step {
        let answer = self.send(envelope, status, "rejected").await?;
        let error = &answer["error"];
        if error["code"] != code {
            return Err(format!(
                "the reason should be {code} and is {}",
                error["code"]
            ));
        }
        let message = error["message"].as_str().unwrap_or_default();
        Ok(Shown::new()
            .line(format!("{status} {code}: {message}"))
            .with("http_status", status)
            .with("error", error.clone()))
    }

    async fn set_run_state(&self, verb: &str) -> Step {
        let path = ["admin", "agents", "value-context", LIVING_ROOM, verb];
        let answered = self.node.post(&path, "{}").await.map_err(told)?;
        let record: Value = answered
            .done(verb)
            .and_then(|it| it.value())
            .map_err(told)?;
        let seq = record["seq"].as_u64().ok_or("the answer names no line")?;
        Ok(Shown::new()
            .line(format!("on record as line {seq}"))
            .with("seq", seq))
    }

    /// Posts an envelope; anything but this status is a step gone wrong.
    pub(super) async fn send(
        &self,
        envelope: &Bytes,
        status: u16,
        says: &str,
    ) -> Result<Value, String> {
        let answered = self
            .node
            .post(&MESSAGES, envelope.clone())
            .await
            .map_err(told)?;
        let answer: Value = answered.value().map_err(told)?;
        if answered.status != status || answer["status"] != says {
            return Err(format!(
                "the answer should be {status} {says} and is {} {}",
                answered.status,
                answered.text()
            ));
        }
        Ok(answer)
    }

    /// The line that brought this message into an inbox.
    async fn in_inbox(&self, agent: &str, id: &str) -> Result<u64, String> {
        let entries = self.entries(agent).await?;
        let entry = entries
            .iter()
            .find(|entry| entry["envelope"]["message_id"] == id);
        entry
            .and_then(|entry| entry["seq"].as_u64())
            .ok_or_else(|| format!("{id} is not in the inbox of {agent}"))
    }

    pub(super) async fn entries(&self, agent: &str) -> Result<Vec<Value>, String> {
        let answered = self.get(&["inbox", "value-context", agent]).await?;
        let mut page: Value = answered.value().map_err(told)?;
        match page["entries"].take() {
            Value::Array(entries) => Ok(entries),
            _ => Err("an inbox has entries".to_owned()),
        }
    }

    /// What the node holds about an agent.
    pub(super) async fn state(&self, agent: &str) -> Result<Value, String> {
        let answered = self.get(&["state", "value-context", agent]).await?;
        answered.value().map_err(told)
    }

    async fn get(&self, path: &[&str]) -> Result<Answered, String> {
        let answered = self.node.get(path).await.map_err(told)?;
        answered.done(path[0]).map_err(told)
    }
}

fn told(failure: Failure) -> String {
    failure.what
}

/// An agent's name without its home.
fn short(agent: &str) -> &str {
    agent.rsplit('/').next().unwrap_or(agent)
}

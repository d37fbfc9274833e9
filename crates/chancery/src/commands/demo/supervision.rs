//! The second part of the value-context story: a parent constrains its child, the child asks for help, and is let go on.

use bytes::Bytes;
use chancery_core::keys::ed25519::SigningKey;
use chancery_node::Clock;
use serde_json::{Value, json};

use super::stage::{KITCHEN, LIVING_ROOM, Stage};
use super::story::{CONSTITUTION, EVENING, Scene, envelope};
use super::{Playbill, Shown, Step};
use crate::commands::send::signed;
use crate::exit::{Failed, Failure};

/// Plays it on a node that serves.
pub(super) async fn play(
    stage: &Stage,
    scene: &Scene,
    playbill: &mut Playbill<'_>,
) -> Result<(), Failed> {
    let step = constrained(stage, scene).await;
    playbill.show("the kitchen forbids its child a topic: in force", step)?;

    let step = escalated(stage, scene, "critical", "paused").await;
    playbill.show(
        "the living room escalates, critical: acknowledged, and it is paused",
        step,
    )?;
    let step = resumed(stage, scene).await;
    playbill.show("the kitchen has resolved it: it goes on", step)?;

    let step = escalated(stage, scene, "emergency", "suspended").await;
    playbill.show(
        "the living room escalates, emergency: acknowledged, and it is suspended",
        step,
    )?;
    let name = "it shares its context all the same: refused";
    let silenced = envelope(LIVING_ROOM, KITCHEN, EVENING, &stage.living_room);
    let silenced = playbill.need(name, silenced)?;
    let step = scene.refused(&silenced, 423, "sender_suspended").await;
    playbill.show(name, step)?;
    let step = resumed(stage, scene).await;
    playbill.show("the kitchen resumes it: it goes on", step)?;
    let step = scene.accepted(&silenced, &[KITCHEN]).await;
    playbill.show("the refused share again: accepted now", step)
}

async fn constrained(stage: &Stage, scene: &Scene) -> Step {
    let constraint = json!({
        "type": "topic_block",
        "value": ["surprise party"],
        "source_constitution_ref": CONSTITUTION,
    });
    let payload = json!({ "constraints": [constraint], "propagation_mode": "merge" });
    let sent = of_parent(stage, "constraint_propagate", &payload)?;
    scene.send(&sent, 200, "accepted").await?;
    let state = scene.state(LIVING_ROOM).await?;
    let constraints = &state["constraints"];
    if *constraints != json!([{ "type": "topic_block", "value": ["surprise party"] }]) {
        return Err(format!("the child is under {constraints}"));
    }
    Ok(Shown::new()
        .line(format!("effective for the living room: {constraints}"))
        .with("constraints", constraints.clone()))
}

/// Asks for help: the child holds itself, the parent's node acknowledges at once (VX-RUN-2, VX-ACK-2).
async fn escalated(stage: &Stage, scene: &Scene, severity: &str, holds: &str) -> Step {
    let payload = json!({
        "severity": severity,
        "reason": "smoke from the stove, and nobody is near",
        "context": EVENING,
        "requires_ack": true,
        "blocked_action": "play music",
    });
    let sent = message(
        LIVING_ROOM,
        KITCHEN,
        "escalation",
        &payload,
        &stage.living_room,
    )?;
    let answer = scene.send(&sent, 200, "accepted").await?;
    let id = answer["message_id"].as_str().unwrap_or_default();
    let state = scene.state(LIVING_ROOM).await?;
    if state["run_state"] != holds {
        return Err(format!("the child is {}", state["run_state"]));
    }
    let acknowledges = |entry: &&Value| {
        let reason = entry["envelope"]["payload"]["reason"].as_str();
        reason.is_some_and(|reason| reason.starts_with(&format!("ACK:{id}")))
    };
    let entries = scene.entries(LIVING_ROOM).await?;
    let acknowledged = entries.iter().find(acknowledges);
    let seq = acknowledged
        .and_then(|entry| entry["seq"].as_u64())
        .ok_or("nobody acknowledged it")?;
    Ok(Shown::new()
        .line(format!("message {id}"))
        .line(format!("acknowledged in line {seq}; the child is {holds}"))
        .with("message_id", id)
        .with("acknowledged_in", seq)
        .with("run_state", holds))
}

async fn resumed(stage: &Stage, scene: &Scene) -> Step {
    let constraint = json!({
        "type": "x-vcp-resume",
        "value": { "resume": true },
        "source_constitution_ref": CONSTITUTION,
    });
    let payload = json!({ "constraints": [constraint], "propagation_mode": "merge" });
    let sent = of_parent(stage, "constraint_propagate", &payload)?;
    scene.send(&sent, 200, "accepted").await?;
    let state = scene.state(LIVING_ROOM).await?;
    if state["run_state"] != "running" {
        return Err(format!("the child is {}", state["run_state"]));
    }
    Ok(Shown::new()
        .line("the child is running; its constraint still holds")
        .with("run_state", "running"))
}

fn of_parent(stage: &Stage, kind: &str, payload: &Value) -> Result<Bytes, String> {
    message(KITCHEN, LIVING_ROOM, kind, payload, &stage.kitchen)
}

fn message(
    sender: &str,
    to: &str,
    kind: &str,
    payload: &Value,
    key: &SigningKey,
) -> Result<Bytes, String> {
    let members = json!({
        "type": kind,
        "sender": sender,
        "recipient": to,
        "payload": payload,
    });
    let made = signed(&members.to_string(), key, Clock::System.now());
    made.map_err(Failure::damaged)
        .map_err(|failure| failure.what)
}

//! Envelopes one after another at a node: lifecycles, duplicates, routing.

use serde_json::{Map, Value, json};

use super::host::Host;
use super::{File, expect};
use crate::answer::{Outcome, Verdict};
use crate::lifecycle::Move;
use crate::settings::Settings;
use chancery_core::conformance::Case;

const CHANNEL: &str = "builders";
const WORKSPACE: &str = "ws_alpha";
const NOW: i64 = 1_776_366_010;
const PEERS: [&str; 3] = [
    "ops-coordinator.session-42",
    "patch-worker.session-19",
    "intruder.session-1",
];

/// Messages of one interaction of revision A.
pub(super) fn interaction(case: &mut Case, _: &File) -> Result<(), String> {
    let base = json!({"channel": CHANNEL, "interaction_id": "int_1"});
    lifecycle(case, None, &base)
}

/// Messages of one work of revision B.
pub(super) fn work(case: &mut Case, _: &File) -> Result<(), String> {
    let base = json!({"channel": CHANNEL, "workspace_id": WORKSPACE});
    lifecycle(case, Some(WORKSPACE), &base)
}

fn lifecycle(case: &mut Case, workspace: Option<&str>, base: &Value) -> Result<(), String> {
    let mut host = Host::new(Settings::default());
    let mut hosted = Vec::new();
    for (index, mut step) in case.cases("steps")?.into_iter().enumerate() {
        let mut envelope = envelope(base, &format!("m{index}"), NOW);
        envelope.extend(step.case("send")?.rest());
        let text = |name: &str| envelope.get(name).and_then(Value::as_str);
        let channel = text("channel").unwrap_or_default().to_owned();
        let name = text("interaction_id").or_else(|| text("work_id"));
        let name = name.unwrap_or_default().to_owned();
        if !hosted.contains(&channel) {
            for peer in PEERS {
                host.host_named(workspace, &channel, peer)?;
            }
            hosted.push(channel.clone());
        }
        let outcome = host.receive(Value::Object(envelope).to_string(), NOW);
        let mut expected = step.case("expect")?;
        expect(
            "action",
            action(&outcome),
            expected.text("action")?.as_str(),
        )
        .map_err(|reason| format!("step {index}: {reason}: {:?}", outcome.fault))?;
        let record = host.interaction(workspace, &channel, &name);
        let state = record.map(|record| record.interaction.state.as_str().to_owned());
        expect("state", state, expected.text_if_any("state")?)
            .map_err(|reason| format!("step {index}: {reason}"))?;
        if let Some(code) = expected.text_if_any("reason_code")? {
            expect("reason_code", reason(&outcome), Some(code.as_str()))?;
        }
        expected.finish()?;
        step.finish()?;
    }
    Ok(())
}

fn action(outcome: &Outcome) -> &'static str {
    match (outcome.verdict, outcome.step) {
        (Verdict::Reject, _) => "rejected",
        (Verdict::Ignore, _) => "ignored",
        (Verdict::Accept, Some(Move::Open)) => "opened",
        (Verdict::Accept, Some(Move::Advance(_))) => "advanced",
        (Verdict::Accept, _) => "unchanged",
    }
}

fn reason(outcome: &Outcome) -> Option<&'static str> {
    outcome.fault.as_ref().map(|fault| fault.reason().as_str())
}

fn envelope(base: &Value, id: &str, ts: i64) -> Map<String, Value> {
    let mut envelope = base.as_object().cloned().unwrap_or_default();
    envelope.insert("protocol".to_owned(), "agh-network/v0".into());
    envelope.insert("id".to_owned(), id.into());
    envelope.insert("ts".to_owned(), ts.into());
    envelope.insert("proof".to_owned(), Value::Null);
    envelope
}

/// The same identifiers over time.
pub(super) fn duplicates(case: &mut Case, _: &File) -> Result<(), String> {
    let settings: Settings =
        serde_json::from_value(case.take("config")?).map_err(|error| error.to_string())?;
    let mut host = Host::new(settings);
    host.host_named(None, CHANNEL, "listener")?;
    let base = json!({"channel": CHANNEL, "kind": "say", "to": null, "body": {"text": "x"}});
    for (index, mut step) in case.cases("steps")?.into_iter().enumerate() {
        let now = step.integer("now")?;
        let expected = step.text("expect")?;
        let mut envelope = envelope(&base, "", 0);
        envelope.extend(step.rest());
        let outcome = host.receive(Value::Object(envelope).to_string(), now);
        let found = reason(&outcome).unwrap_or("accept");
        expect("outcome", found, expected.as_str())
            .map_err(|reason| format!("step {index}: {reason}"))?;
    }
    Ok(())
}

/// One envelope at a node with some local peers.
pub(super) fn routing(case: &mut Case, file: &File) -> Result<(), String> {
    let now = file.now.ok_or("the file says no time")?;
    let mut host = Host::new(Settings::default());
    for mut peer in case.cases("local_peers")? {
        host.host_named(None, &peer.text("channel")?, &peer.text("peer_id")?)?;
        peer.finish()?;
    }
    let envelope = case.take("envelope")?;
    let outcome = host.receive(envelope.to_string(), now);
    let emitted: Vec<Value> = outcome
        .emitted
        .iter()
        .filter_map(|bytes| serde_json::from_slice(bytes).ok())
        .collect();
    let mut expected = case.case("expect")?;
    if let Some(code) = expected.text_if_any("reject")? {
        expect("verdict", outcome.verdict, Verdict::Reject)?;
        expect("reason_code", reason(&outcome), Some(code.as_str()))?;
    } else {
        expect("rejected", outcome.verdict == Verdict::Reject, false)?;
    }
    if expected.optional("ignored") == Some(Value::Bool(true)) {
        expect("verdict", outcome.verdict, Verdict::Ignore)?;
    }
    if let Some(peers) = expected.optional("deliver_to") {
        expect("deliver_to", json!(outcome.deliver_to), peers)?;
    }
    if let Some(receipt) = expected.optional("receipt") {
        expect("receipt", receipt_of(&emitted), receipt)?;
    }
    if let Some(peers) = expected.optional("replies_from") {
        let from: Vec<&Value> = emitted
            .iter()
            .filter_map(|answer| answer.get("from"))
            .collect();
        expect("replies_from", json!(from), peers)?;
    }
    if let Some(id) = expected.optional("reply_to") {
        let all = emitted
            .iter()
            .all(|answer| answer.get("reply_to") == Some(&id));
        expect("all reply to it", all, true)?;
    }
    if let Some(peer) = expected.optional("presence") {
        let seen = host.soft().presence.list(None, CHANNEL, now);
        let seen = seen.first().map(|(_, known)| known.card.peer_id.clone());
        expect("presence", json!(seen), peer)?;
    }
    expected.finish()
}

/// Status and code of the receipt, `null` when there is none.
fn receipt_of(emitted: &[Value]) -> Value {
    let Some(body) = emitted.first().and_then(|receipt| receipt.get("body")) else {
        return Value::Null;
    };
    json!({"status": body["status"], "reason_code": body["reason_code"]})
}

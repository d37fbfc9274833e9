//! Envelopes and nodes for tests.

use chancery_agh::answer::{Answer, Outcome};
use chancery_agh::conformance::host::Host;
use chancery_agh::settings::Settings;
use serde_json::{Value, json};

pub const NOW: i64 = 1_776_366_000;
pub const CHANNEL: &str = "builders";
pub const OPS: &str = "ops-coordinator.session-42";
pub const WORKER: &str = "patch-worker.session-19";
pub const ECHO: &str = "echo.demo";

/// An envelope of revision A from [`OPS`], with these members changed.
pub fn envelope(id: &str, members: Value) -> Value {
    let mut envelope = json!({
        "protocol": "agh-network/v0", "id": id, "channel": CHANNEL, "from": OPS, "to": null,
        "ts": NOW, "proof": null,
    });
    for (name, value) in members.as_object().unwrap() {
        envelope[name] = value.clone();
    }
    envelope
}

pub fn direct(id: &str, interaction: &str) -> Value {
    envelope(
        id,
        json!({"kind": "direct", "to": WORKER, "interaction_id": interaction, "body": {"text": "do it"}}),
    )
}

pub fn card(peer: &str) -> Value {
    json!({
        "peer_id": peer, "profiles_supported": ["agh-network/v0"], "capabilities": [],
        "artifacts_supported": [], "trust_modes_supported": [],
    })
}

pub fn greet(id: &str, peer: &str) -> Value {
    envelope(
        id,
        json!({"kind": "greet", "from": peer, "body": {"peer_card": card(peer)}}),
    )
}

/// A node that hosts [`WORKER`] and [`ECHO`].
pub fn host() -> Host {
    host_with(Settings::default())
}

pub fn host_with(settings: Settings) -> Host {
    let mut host = Host::new(settings).keeping_units();
    for peer in [WORKER, ECHO] {
        host.host_named(None, CHANNEL, peer).unwrap();
    }
    host
}

pub fn receive(host: &mut Host, envelope: &Value) -> Outcome {
    host.receive(envelope.to_string(), NOW)
}

/// The error of an outcome; empty when there is none.
pub fn error(outcome: &Outcome) -> &'static str {
    outcome
        .fault
        .as_ref()
        .map_or("", |fault| fault.error.as_str())
}

pub fn emitted(outcome: &Outcome) -> Vec<Value> {
    let read = |bytes: &bytes::Bytes| serde_json::from_slice(bytes).unwrap();
    outcome.emitted.iter().map(read).collect()
}

/// What a local peer sends, decided; the code when it is refused.
pub fn send(host: &mut Host, body: &Value) -> Result<Outcome, &'static str> {
    match host.send(body.to_string().as_bytes(), NOW) {
        Ok(Answer::Decided(outcome)) => Ok(*outcome),
        Ok(other) => panic!("{other:?}"),
        Err(refusal) => Err(refusal.code),
    }
}

/// The envelope of the last line.
pub fn last_line(host: &Host) -> Value {
    let unit = host.units().last().unwrap();
    serde_json::from_slice(unit.drafts[0].envelope.bytes()).unwrap()
}

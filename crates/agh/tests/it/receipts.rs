//! Automatic receipts: which refusals are told, to whom, and how.

use serde_json::{Value, json};

use crate::support::{ECHO, NOW, OPS, WORKER, direct, emitted, envelope, error, host, receive};

fn receipt(envelope: &Value) -> Option<Value> {
    let mut host = host();
    emitted(&receive(&mut host, envelope)).pop()
}

fn body(envelope: &Value) -> Value {
    receipt(envelope).map_or(Value::Null, |receipt| receipt["body"].clone())
}

// AG-RCT-1, AG-RCT-2, AG-RCT-3
#[test]
fn causes_and_their_receipts() {
    let with = |name: &str, value: Value| {
        let mut envelope = direct("m1", "int_1");
        envelope[name] = value;
        envelope
    };
    let told = |status: &str, reason: &str| json!({"for_id": "m1", "status": status, "reason_code": reason});
    assert_eq!(
        body(&with("expires_at", 1.into())),
        told("expired", "expired")
    );
    assert_eq!(
        body(&with("body", json!({}))),
        told("rejected", "malformed")
    );
    assert_eq!(
        body(&with("kind", "recipe".into())),
        told("unsupported", "unsupported_kind")
    );
    // Nobody to speak for, nothing to speak about, or a kind that is never answered.
    for silent in [
        with("to", "nobody.x".into()),
        with("channel", "Bad".into()),
        with("ts", "x".into()),
        with("kind", "trace".into()),
        envelope("m1", json!({"kind": "recipe", "to": WORKER, "body": {}})),
        envelope(
            "m1",
            json!({"kind": "say", "expires_at": 1, "body": {"text": "x"}}),
        ),
        envelope(
            "m1",
            json!({"kind": "receipt", "to": WORKER, "interaction_id": "i", "body": {}}),
        ),
    ] {
        assert_eq!(receipt(&silent), None, "{silent}");
    }
}

// AG-RCT-4, AG-RCT-5
#[test]
fn a_receipt_comes_from_the_addressed_peer_and_moves_nothing() {
    let mut host = host();
    receive(&mut host, &direct("m1", "int_1"));
    let lines = host.units().len();
    let mut again = direct("m1", "int_1");
    again["trace_id"] = "t".into();
    let outcome = receive(&mut host, &again);
    assert_eq!(error(&outcome), "duplicate");
    let receipt = &emitted(&outcome)[0];
    for (name, value) in [
        ("from", json!(WORKER)),
        ("to", json!(OPS)),
        ("kind", json!("receipt")),
        ("channel", json!("builders")),
        ("interaction_id", json!("int_1")),
        ("reply_to", json!("m1")),
        ("trace_id", json!("t")),
        ("ts", json!(NOW)),
        ("proof", Value::Null),
    ] {
        assert_eq!(receipt[name], value, "{name}");
    }
    assert_ne!(receipt["id"], "m1");
    assert_eq!(host.units().len(), lines);
    let state = host
        .interaction(None, "builders", "int_1")
        .unwrap()
        .interaction
        .state;
    assert_eq!(state.as_str(), "submitted");
}

// AG-RTE-4, AG-LIF-4, AG-LIF-5, AG-LIF-13
#[test]
fn reports_without_a_target_reach_the_local_participant() {
    let mut host = host();
    receive(&mut host, &direct("m1", "int_1"));
    let report = |id: &str, from: &str| {
        envelope(
            id,
            json!({"kind": "trace", "from": from, "interaction_id": "int_1", "body": {"state": "working"}}),
        )
    };
    assert_eq!(receive(&mut host, &report("t1", OPS)).deliver_to, [WORKER]);
    let stranger = receive(&mut host, &report("t2", "stranger.x"));
    assert_eq!(
        (error(&stranger), stranger.emitted.len()),
        ("not_target", 0)
    );
    let mut elsewhere = direct("m2", "int_1");
    elsewhere["to"] = ECHO.into();
    assert_eq!(error(&receive(&mut host, &elsewhere)), "not_target");
    let mut to_itself = direct("m3", "int_3");
    to_itself["from"] = WORKER.into();
    assert_eq!(error(&receive(&mut host, &to_itself)), "not_target");
    assert!(host.interaction(None, "builders", "int_3").is_none());
}

// AG-LIF-12
#[test]
fn an_ended_interaction_is_remembered_for_its_retention_and_then_forgotten() {
    let mut host = host();
    receive(&mut host, &direct("m1", "int_1"));
    let done = envelope(
        "t1",
        json!({"kind": "trace", "to": WORKER, "interaction_id": "int_1", "body": {"state": "failed"}}),
    );
    receive(&mut host, &done);
    let at = |id: &str, now: i64| {
        let mut late = direct(id, "int_1");
        late["ts"] = now.into();
        late.to_string()
    };
    let closed = host.receive(at("m2", NOW + 3_600), NOW + 3_600);
    assert_eq!(error(&closed), "interaction_closed");
    let opened = host.receive(at("m3", NOW + 3_601), NOW + 3_601);
    assert_eq!(error(&opened), "");
}

//! What local peers send: checked as a receiver would, and more strictly.

use chancery_agh::answer::Answer;
use chancery_agh::body::State;
use chancery_agh::subject;
use serde_json::{Value, json};

use crate::support::{CHANNEL, ECHO, NOW, OPS, WORKER, greet, host, last_line, receive, send};

fn say(members: Value) -> Value {
    let mut body =
        json!({"from": WORKER, "channel": CHANNEL, "kind": "say", "body": {"text": "hi"}});
    for (name, value) in members.as_object().unwrap() {
        body[name] = value.clone();
    }
    body
}

// AG-SND-1, AG-SND-2, AG-ENV-20, AG-FRS-7
#[test]
fn the_node_adds_protocol_identifier_and_time() {
    let mut host = host();
    let outcome = send(&mut host, &say(json!({}))).unwrap();
    let line = last_line(&host);
    assert_eq!(line["protocol"], "agh-network/v0");
    assert_eq!(
        (&line["id"], &line["ts"]),
        (&json!(outcome.id), &json!(NOW))
    );
    assert_eq!((&line["to"], &line["proof"]), (&Value::Null, &Value::Null));
    assert!(line.get("expires_at").is_none());
    assert_eq!(outcome.deliver_to, [ECHO]);
    send(&mut host, &say(json!({"id": "mine"}))).unwrap();
    assert_eq!(last_line(&host)["id"], "mine");
    assert_eq!(
        send(&mut host, &say(json!({"id": "mine"}))).unwrap_err(),
        "duplicate"
    );
    let work = say(json!({"kind": "direct", "to": ECHO, "interaction_id": "i"}));
    send(&mut host, &work).unwrap();
    assert_eq!(last_line(&host)["expires_at"], json!(NOW + 300));
}

// AG-SND-1, AG-VAL-8, AG-RCP-3, AG-TRC-2, AG-PRS-7
#[test]
fn what_a_receiver_would_refuse_is_not_sent() {
    let mut host = host();
    receive(&mut host, &greet("g", OPS));
    for (members, code) in [
        (json!({"from": OPS}), "not_found"),
        (json!({"channel": "ops"}), "not_found"),
        (json!({"ts": 5}), "unknown_field"),
        (json!({"proof": {}}), "unknown_field"),
        (json!({"kind": "shout"}), "unsupported_kind"),
        (json!({"body": {}}), "invalid_body"),
        (json!({"to": ECHO}), "to_forbidden"),
        (json!({"id": " "}), "empty_identifier"),
        (
            json!({"kind": "direct", "to": "nobody.x", "interaction_id": "i"}),
            "not_found",
        ),
        (
            json!({"kind": "direct", "to": WORKER, "interaction_id": "i"}),
            "not_target",
        ),
        (
            json!({"kind": "trace", "interaction_id": "i", "body": {"state": "working"}}),
            "to_required",
        ),
        (
            json!({"kind": "trace", "to": OPS, "interaction_id": "i", "body": {"state": "working"}}),
            "not_found",
        ),
    ] {
        assert_eq!(
            send(&mut host, &say(members.clone())).unwrap_err(),
            code,
            "{members}"
        );
    }
    assert!(host.take_whispers().is_empty());
}

// AG-SND-4
#[test]
fn what_looks_like_a_credential_does_not_leave() {
    let mut host = host();
    for secret in [
        json!({"body": {"text": "use Bearer abc123def"}}),
        json!({"body": {"text": "agh_claim_xyz"}}),
        json!({"body": {"text": "set API_KEY = hunter2"}}),
        json!({"body": {"text": "x", "artifacts": [{"Access-Token": "t"}]}}),
        json!({"ext": {"acme.password": {"password": "p"}}}),
        json!({"body": {"text": "x", "client.secret": 7}}),
    ] {
        assert_eq!(
            send(&mut host, &say(secret.clone())).unwrap_err(),
            "secret_found",
            "{secret}"
        );
    }
    for harmless in [
        json!({"body": {"text": "the bearer of this letter"}}),
        json!({"body": {"text": "a token of thanks", "token_hash": "abc", "password": ""}}),
        json!({"body": {"text": "secretary = ann"}}),
    ] {
        assert!(
            send(&mut host, &say(harmless.clone())).is_ok(),
            "{harmless}"
        );
    }
}

// AG-LIF-10, CH-JRN-11
#[test]
fn a_publication_that_fails_puts_the_interaction_back() {
    let mut host = host();
    receive(&mut host, &greet("g", OPS));
    let ask = say(json!({"kind": "direct", "to": OPS, "interaction_id": "int 1"}));
    send(&mut host, &ask).unwrap();
    let unit = host.units().last().unwrap();
    let (_, delivery) = &unit.deliveries[0];
    let about = delivery.to.clone();
    assert!(about.starts_with(&subject::direct(None, CHANNEL, OPS)));
    let state = |host: &chancery_agh::conformance::host::Host| {
        Some(host.interaction(None, CHANNEL, "int 1")?.interaction.state)
    };
    let first = host.interaction(None, CHANNEL, "int 1").unwrap().last_seq;
    let cancel = say(
        json!({"kind": "receipt", "to": OPS, "interaction_id": "int 1", "body": {"for_id": "m", "status": "canceled"}}),
    );
    send(&mut host, &cancel).unwrap();
    assert_eq!(state(&host), Some(State::Canceled));
    let last = host.interaction(None, CHANNEL, "int 1").unwrap().last_seq;
    // The first is not the last any more: nothing is put back.
    assert_eq!(host.fail(first, &about, NOW).unwrap(), Answer::Noted);
    assert_eq!(state(&host), Some(State::Canceled));
    host.fail(last, &about, NOW).unwrap();
    assert_eq!(state(&host), Some(State::Submitted));
}

// AG-NAT-4, CH-JRN-10
#[test]
fn what_stays_here_is_not_published() {
    let mut host = host();
    send(
        &mut host,
        &say(json!({"kind": "direct", "to": ECHO, "interaction_id": "i"})),
    )
    .unwrap();
    assert!(host.units().last().unwrap().deliveries.is_empty());
    send(&mut host, &say(json!({}))).unwrap();
    let (_, delivery) = &host.units().last().unwrap().deliveries[0];
    assert_eq!(delivery.to, subject::broadcast(None, CHANNEL));
}

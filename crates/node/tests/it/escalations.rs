//! Escalations through the office: timers from the moment of delivery, the stop button, restarts, the record.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use chancery_core::admin::RunState;
use chancery_core::time::Time;
use chancery_node::SoftLimits;
use chancery_node::suite::Chancery;
use chancery_value_context::Answer;
use serde_json::{Value, json};

use crate::support::bureau::{Bureau, CHILD, MONITOR, PARENT, vectors};
use crate::support::{Step, assert_log_gives, until};

const ROOT: &str = "agent://orchestrator.prod/root-000";

async fn office(dir: &tempfile::TempDir) -> Bureau {
    Bureau::open(dir.path(), SoftLimits::default()).await
}

fn escalation(severity: &str, reason: &str) -> Value {
    let grave = matches!(severity, "critical" | "emergency");
    json!({"severity": severity, "reason": reason, "context": "📍💻", "requires_ack": grave})
}

async fn send(bureau: &Bureau, from: &str, to: &str, kind: &str, payload: Value) -> String {
    let body = json!({"sender": from, "recipient": to, "type": kind, "payload": payload});
    let sent = bureau
        .office
        .send_value_context(body.to_string().as_bytes(), None)
        .await;
    sent.unwrap().message_id
}

async fn judge(bureau: &Bureau, body: Value) -> Result<String, &'static str> {
    let sent = bureau
        .office
        .send_value_context(body.to_string().as_bytes(), None)
        .await;
    sent.map(|sent| sent.message_id)
        .map_err(|refusal| refusal.code)
}

fn state(bureau: &Bureau, agent: &str) -> Value {
    bureau.office.value_context_state(agent).unwrap().unwrap()
}

fn reason(envelope: &[u8]) -> String {
    let envelope: Value = serde_json::from_slice(envelope).unwrap();
    envelope["payload"]["reason"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_state_tells_who_is_held_and_by_what() {
    // VX-RUN-1, VX-RUN-2, VX-RUN-5, VX-CP-11
    let dir = tempfile::tempdir().unwrap();
    let bureau = office(&dir).await;
    let constraints = json!({
        "constraints": [
            {"type": "token_limit", "value": 7, "source_constitution_ref": "creed://a.example/b"},
            {"type": "x-tone", "value": "soft", "source_constitution_ref": "creed://a.example/b"},
        ],
        "propagation_mode": "merge",
    });
    send(&bureau, PARENT, CHILD, "constraint_propagate", constraints).await;
    let id = send(
        &bureau,
        CHILD,
        PARENT,
        "escalation",
        escalation("emergency", "fire"),
    )
    .await;
    let check = |bureau: &Bureau| {
        let child = state(bureau, CHILD);
        assert_eq!(child["run_state"], "suspended");
        assert_eq!(child["open_escalations"], json!([id]));
        assert_eq!(
            child["constraints"],
            json!([{"type": "token_limit", "value": 7}, {"type": "x-tone", "value": ["soft"]}])
        );
        let parent = state(bureau, PARENT);
        assert_eq!(parent["children"][CHILD], "suspended");
        assert!(
            parent["open_escalations"]
                .as_array()
                .unwrap()
                .contains(&json!(id))
        );
    };
    check(&bureau);
    // The root is elsewhere: the forward leaves, and what the parent sent is exempt.
    let made = bureau.carrier.made_at_least(1).await;
    assert_eq!(made[0].to, ROOT);
    assert!(reason(&made[0].envelope).starts_with(&format!("FWD:{id} {CHILD}: ")));
    bureau.stop().await;
    let bureau = office(&dir).await;
    check(&bureau);
    let refusal = bureau.send(CHILD, PARENT, None).await.unwrap_err();
    assert_eq!((refusal.code, refusal.status), ("sender_suspended", 423));
    judge(
        &bureau,
        json!({"sender": PARENT, "verdict": "resolve", "escalation_id": id}),
    )
    .await
    .unwrap();
    assert_eq!(state(&bureau, CHILD)["run_state"], "running");
    assert_eq!(state(&bureau, PARENT)["children"][CHILD], "running");
    bureau.send(CHILD, PARENT, None).await.unwrap();
    assert_log_gives(&Chancery::default(), &**bureau.store());
    bureau.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_lets_an_agent_go_on_whatever_is_open() {
    // VX-RUN-5: never by itself; the operator may.
    let dir = tempfile::tempdir().unwrap();
    let bureau = office(&dir).await;
    send(
        &bureau,
        CHILD,
        PARENT,
        "escalation",
        escalation("critical", "x"),
    )
    .await;
    send(
        &bureau,
        CHILD,
        PARENT,
        "escalation",
        escalation("emergency", "y"),
    )
    .await;
    let key =
        chancery_core::admin::agent_key(chancery_core::line::ProtocolName::ValueContext, CHILD);
    let resume = chancery_core::admin::Act::Agent {
        protocol: chancery_core::line::ProtocolName::ValueContext,
        id: CHILD.to_owned(),
        record: bureau.office.row(&key).unwrap(),
        run_state: Some(RunState::Running),
    };
    bureau.office.act(resume).await.unwrap();
    assert_eq!(state(&bureau, CHILD)["open_escalations"], json!([]));
    assert_eq!(state(&bureau, PARENT)["children"][CHILD], "running");
    bureau.send(CHILD, PARENT, None).await.unwrap();
    assert_log_gives(&Chancery::default(), &**bureau.store());
    bureau.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn grave_escalations_are_kept_in_full_for_the_owner_alone() {
    // VX-AUD-2, VX-AUD-3
    let dir = tempfile::tempdir().unwrap();
    let bureau = office(&dir).await;
    send(
        &bureau,
        CHILD,
        PARENT,
        "escalation",
        escalation("warning", "quiet words"),
    )
    .await;
    let id = send(
        &bureau,
        CHILD,
        PARENT,
        "escalation",
        escalation("critical", "loud words"),
    )
    .await;
    bureau.stop().await;
    let file = dir.path().join("escalations.jsonl");
    let mode = std::fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let text = std::fs::read_to_string(&file).unwrap();
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0]["event"], "critical");
    assert_eq!(lines[0]["envelope"]["message_id"], id);
    assert_eq!(lines[0]["envelope"]["payload"]["reason"], "loud words");
    assert!(!text.contains("quiet words"));
    let events = std::fs::read_to_string(dir.path().join("events.jsonl")).unwrap();
    for event in ["ack_sent", "ack_received", "paused"] {
        assert!(
            events.contains(&format!("\"{event}\"")),
            "{event}: {events}"
        );
    }
    assert!(!events.contains("words"), "{events}");
}

#[tokio::test(start_paused = true)]
async fn an_acknowledgement_is_waited_for_six_seconds_from_the_delivery() {
    // VX-ACK-6, VX-ACK-7, VX-RTY-1
    let dir = tempfile::tempdir().unwrap();
    let bureau = office(&dir).await;
    bureau.carrier.script(ROOT, [Step::Fail, Step::Deliver]);
    let id = send(
        &bureau,
        PARENT,
        ROOT,
        "escalation",
        escalation("critical", "x"),
    )
    .await;
    let made = bureau.carrier.made_at_least(2).await;
    assert_eq!((made[1].at - made[0].at).as_secs(), 1);
    let again = bureau.carrier.made_at_least(3).await;
    assert_eq!((again[2].at - made[1].at).as_millis(), 6_000);
    // The world names nobody above the root: the parent is asked once more.
    assert_eq!(again[2].to, ROOT);
    assert_eq!(reason(&again[2].envelope), format!("UNACKED:{id} x"));
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert_eq!(bureau.carrier.made().len(), 3);
    until(|| bureau.office.outbox_len() == 0).await;
    assert_eq!(state(&bureau, PARENT)["run_state"], "paused");
    assert_log_gives(&Chancery::default(), &**bureau.store());
    bureau.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_delivery_that_fails_is_unacknowledged_at_once() {
    // VX-RTY-1, VX-RTY-6, VX-ACK-6
    let dir = tempfile::tempdir().unwrap();
    let bureau = office(&dir).await;
    bureau.carrier.script(
        ROOT,
        [
            Step::Fail,
            Step::Fail,
            Step::Fail,
            Step::Fail,
            Step::Deliver,
        ],
    );
    send(
        &bureau,
        PARENT,
        ROOT,
        "escalation",
        escalation("critical", "x"),
    )
    .await;
    let made = bureau.carrier.made_at_least(5).await;
    let pauses: Vec<u64> = made
        .windows(2)
        .map(|pair| (pair[1].at - pair[0].at).as_secs())
        .collect();
    assert_eq!(pauses, [1, 2, 4, 0]);
    assert!(reason(&made[4].envelope).starts_with("UNACKED:"));
    assert_log_gives(&Chancery::default(), &**bureau.store());
    bureau.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_critical_is_passed_on_after_a_minute_without_a_judgement() {
    // VX-RUN-7
    let dir = tempfile::tempdir().unwrap();
    let bureau = office(&dir).await;
    let begun = tokio::time::Instant::now();
    let id = send(
        &bureau,
        CHILD,
        PARENT,
        "escalation",
        escalation("critical", "x"),
    )
    .await;
    let made = bureau.carrier.made_at_least(1).await;
    assert_eq!((made[0].at - begun).as_secs(), 60);
    assert_eq!(
        (made[0].to.as_str(), reason(&made[0].envelope)),
        (ROOT, format!("FWD:{id} {CHILD}: x"))
    );
    assert_log_gives(&Chancery::default(), &**bureau.store());
    bureau.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_judgement_becomes_a_message() {
    // VX-RUN-7
    let dir = tempfile::tempdir().unwrap();
    let bureau = office(&dir).await;
    let mut ids = Vec::new();
    for word in ["a", "b", "c"] {
        let payload = escalation("critical", word);
        ids.push(send(&bureau, CHILD, PARENT, "escalation", payload).await);
    }
    let judgement = |verdict: &str, id: &str| json!({"sender": PARENT, "verdict": verdict, "escalation_id": id});
    judge(&bureau, judgement("hold", &ids[0])).await.unwrap();
    let last = |bureau: &Bureau| {
        let seq = bureau.store().head().seq;
        let line =
            chancery_journal::line::parse(&bureau.store().lines(seq, 1).unwrap()[0]).unwrap();
        serde_json::from_slice::<Value>(&line.envelope).unwrap()
    };
    assert_eq!(
        last(&bureau)["payload"]["reason"],
        format!("ACK:{};state=paused", ids[0])
    );
    assert_eq!(state(&bureau, CHILD)["run_state"], "paused");
    judge(&bureau, judgement("escalate", &ids[1]))
        .await
        .unwrap();
    let made = bureau.carrier.made_at_least(1).await;
    assert_eq!(
        reason(&made[0].envelope),
        format!("FWD:{} {CHILD}: b", ids[1])
    );
    assert_eq!(state(&bureau, PARENT)["run_state"], "running");
    let limit = json!([{"type": "token_limit", "value": 3, "source_constitution_ref": "creed://a.example/b"}]);
    let mut resolve = judgement("resolve", &ids[2]);
    resolve["constraints"] = limit;
    judge(&bureau, resolve).await.unwrap();
    assert_eq!(
        state(&bureau, CHILD)["open_escalations"],
        json!([ids[0], ids[1]])
    );
    assert_eq!(
        state(&bureau, CHILD)["constraints"],
        json!([{"type": "token_limit", "value": 3}])
    );
    // An answer was given: there is nothing to hold or pass on any more.
    for verdict in ["hold", "escalate"] {
        assert_eq!(
            judge(&bureau, judgement(verdict, &ids[0])).await,
            Err("not_found")
        );
    }
    assert_eq!(
        judge(&bureau, judgement("ponder", &ids[0])).await,
        Err("schema_invalid")
    );
    judge(
        &bureau,
        json!({"sender": PARENT, "verdict": "resolve", "recipient": CHILD}),
    )
    .await
    .unwrap();
    assert_eq!(state(&bureau, CHILD)["run_state"], "running");
    assert_log_gives(&Chancery::default(), &**bureau.store());
    bureau.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_stop_button_holds_what_is_under_way_and_lets_cries_for_help_out() {
    // VX-RUN-1, VX-RUN-3
    let dir = tempfile::tempdir().unwrap();
    let bureau = office(&dir).await;
    let leave = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
    bureau.carrier.script(
        MONITOR,
        [Step::FailWhenAllowed(std::sync::Arc::clone(&leave))],
    );
    bureau.send(PARENT, MONITOR, None).await.unwrap();
    bureau.carrier.made_at_least(1).await;
    send(
        &bureau,
        PARENT,
        ROOT,
        "escalation",
        escalation("emergency", "fire"),
    )
    .await;
    assert_eq!(
        bureau.office.run_state(PARENT).unwrap(),
        RunState::Suspended
    );
    let made = bureau.carrier.made_at_least(2).await;
    assert_eq!(made[1].to, ROOT);
    // The attempt to the monitor is cut off: nobody holds the other end any more.
    until(|| std::sync::Arc::strong_count(&leave) == 1).await;
    send(
        &bureau,
        PARENT,
        ROOT,
        "escalation",
        escalation("info", "still here"),
    )
    .await;
    let made = bureau.carrier.made_at_least(3).await;
    assert_eq!(made[2].to, ROOT);
    assert!(made.iter().skip(1).all(|made| made.to != MONITOR));
    bureau.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_short_lived_key_counts_for_a_day_at_most_and_ends_with_its_agent() {
    // VX-KEY-6
    use chancery_core::keys::ed25519::SigningKey;
    let dir = tempfile::tempdir().unwrap();
    let bureau = office(&dir).await;
    let key = SigningKey::from_seed(&[42; 32]);
    let public = *key.verifying_key().as_bytes();
    let now =
        chancery_core::time::parse_value_context(vectors("world.json")["now"].as_str().unwrap())
            .unwrap();
    let in_a_year = now.saturating_add(Duration::from_secs(365 * 86_400));
    bureau
        .office
        .register_key(CHILD, public, Some(in_a_year))
        .await
        .unwrap();
    let until_of = |bureau: &Bureau| -> Option<Time> {
        let keys = bureau.office.gate().keyring();
        let found = keys
            .records(CHILD)
            .find(|record| record.id.starts_with("spawn-"));
        found.and_then(|record| record.valid_until)
    };
    assert_eq!(
        until_of(&bureau),
        Some(now.saturating_add(Duration::from_secs(86_400)))
    );
    let end = chancery_core::admin::Act::Agent {
        protocol: chancery_core::line::ProtocolName::ValueContext,
        id: CHILD.to_owned(),
        record: None,
        run_state: None,
    };
    bureau.office.act(end).await.unwrap();
    assert_eq!(until_of(&bureau), None);
    assert_log_gives(&Chancery::default(), &**bureau.store());
    bureau.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_in_process_needs_no_signature_and_is_taken_once() {
    // VX-INP-1, VX-INP-2, VX-DUP-7, VX-SIG-3
    let dir = tempfile::tempdir().unwrap();
    let bureau = office(&dir).await;
    let mut envelope = vectors("examples.json")["messages"][3].clone();
    envelope["timestamp"] = vectors("world.json")["now"].clone();
    let raw = bytes::Bytes::from(envelope.to_string());
    let door = chancery_core::protocol::Door::InProcess;
    let office = &bureau.office;
    let accepted = office
        .receive_value_context(raw.clone(), door)
        .await
        .unwrap();
    assert!(matches!(accepted, Answer::Accepted(_)));
    let again = office.receive_value_context(raw, door).await.unwrap();
    assert!(matches!(again, Answer::Duplicate(_)));
    assert_eq!(state(&bureau, PARENT)["children"][CHILD], "paused");
    envelope["signature"] = format!("base64:{}", "A".repeat(86) + "==").into();
    envelope["message_id"] = "019502a4-ad0f-7000-8000-000000000005".into();
    let refusal = office
        .receive_value_context(envelope.to_string().into(), door)
        .await
        .unwrap_err();
    assert_eq!(refusal.code, "signature_invalid");
    assert_log_gives(&Chancery::default(), &**bureau.store());
    bureau.stop().await;
}

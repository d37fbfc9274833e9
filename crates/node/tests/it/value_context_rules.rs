//! Rules of value-context that need a node around them: its memory, its clock, its keys, its disk.

use std::sync::Arc;
use std::time::Duration;

use chancery_core::admin::{Act, RunState};
use chancery_core::digest::hex;
use chancery_core::json::Object;
use chancery_core::line::ProtocolName;
use chancery_core::protocol::Door;
use chancery_core::time::{Time, parse_value_context};
use chancery_node::suite::{AllSettings, Chancery};
use chancery_node::{
    Clock, Entropy, GateLimits, Hands, InProcess, Node, Office, Options, SideLogs, SoftLimits,
    Vault,
};
use chancery_store::{Memory, Store};
use chancery_value_context::Answer;
use chancery_value_context::agent_id::AgentId;
use chancery_value_context::message::{Kind, Recipient};
use chancery_value_context::message_id::MessageId;
use serde_json::{Value, json};

use crate::support::bureau::{Bureau, CHILD, KITCHEN, MONITOR, PARENT, of_monitor, vectors, world};
use crate::support::{Awaited, HeldStore, Scripted, assert_log_gives, until};

fn world_now() -> Time {
    parse_value_context(vectors("world.json")["now"].as_str().unwrap()).unwrap()
}

/// An office over a store, with a clock that goes as the runtime's time does.
async fn office_over(store: Arc<dyn Store>) -> (Arc<Office>, Arc<Scripted>) {
    let vault = Arc::new(Vault::new());
    for (agent, key) in world().secret_keys {
        vault.hold(agent.as_str(), key);
    }
    let carrier = Arc::new(Scripted::default());
    let office = Node::start(Options {
        suite: Arc::new(Chancery::default()),
        store,
        vault,
        clock: Clock::of_runtime(world_now()),
        entropy: Entropy::System,
        gate_limits: GateLimits::default(),
        soft_limits: SoftLimits::default(),
        carrier: Arc::clone(&carrier) as Arc<_>,
        side_logs: SideLogs::default(),
        hands: Hands::Own,
        spans: None,
    });
    let office = Arc::new(office.unwrap());
    let settings = AllSettings::default();
    office.reconcile_settings(&settings).await.unwrap();
    office.reconcile_world(&world()).await.unwrap();
    (office, carrier)
}

/// A share of the monitor's, in process, stamped `at`.
fn share_at(number: u64, at: Time) -> InProcess {
    let id = format!("019502a4-7e5c-7000-8000-{number:012x}");
    InProcess {
        kind: Kind::ContextShare,
        message_id: MessageId::parse(&id).unwrap(),
        sender: AgentId::parse(MONITOR).unwrap(),
        recipient: Recipient::Directed(AgentId::parse(KITCHEN).unwrap()),
        timestamp: at,
        payload: Object::new()
            .with("context", "📍🏡")
            .with("constitution_ref", "creed://creed.space/home@1.0.0"),
    }
}

fn escalation(severity: &str) -> Value {
    json!({"severity": severity, "reason": "fire", "context": "📍💻", "requires_ack": true})
}

#[tokio::test(start_paused = true)]
async fn after_a_start_without_memory_what_is_older_than_it_may_be_a_replay() {
    // VX-RPL-4
    let (office, _) = office_over(Arc::new(Memory::new())).await;
    let started = world_now();
    let before = |seconds| started.saturating_sub(Duration::from_secs(seconds));
    let refused = office.receive_in_process(share_at(1, before(2))).await;
    let refused = refused.unwrap_err();
    assert_eq!(
        (refused.code, refused.requirement),
        ("timestamp_stale", "VX-RPL-4")
    );
    office
        .receive_in_process(share_at(2, before(1)))
        .await
        .unwrap();
    office
        .receive_in_process(share_at(3, started))
        .await
        .unwrap();
    // The first 330 s: what is stamped before the start is refused for its age alone by then.
    tokio::time::sleep(Duration::from_secs(200)).await;
    let refused = office.receive_in_process(share_at(4, before(2))).await;
    assert_eq!(refused.unwrap_err().requirement, "VX-RPL-4");
    tokio::time::sleep(Duration::from_secs(131)).await;
    let refused = office.receive_in_process(share_at(5, before(2))).await;
    assert_eq!(refused.unwrap_err().requirement, "VX-RPL-1");
    office.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_memory_that_is_full_refuses_and_forgets_nothing() {
    // VX-DUP-6
    let dir = tempfile::tempdir().unwrap();
    let bureau = Bureau::open(dir.path(), SoftLimits::default()).await;
    for number in 0..3 {
        bureau.receive(of_monitor(number, KITCHEN)).await.unwrap();
    }
    bureau.stop().await;
    let limits = SoftLimits {
        window_records: 5,
        ..SoftLimits::default()
    };
    let bureau = Bureau::open(dir.path(), limits).await;
    let mut refused = None;
    for number in 3..20 {
        match bureau.receive(of_monitor(number, KITCHEN)).await {
            Ok(_) => assert!(refused.is_none(), "{number} is taken after one was not"),
            Err(refusal) => refused = Some(refusal),
        }
    }
    let refused = refused.expect("there is a bound");
    assert_eq!((refused.code, refused.status), ("overloaded", 503));
    let entries = bureau.inbox(KITCHEN).len();
    for number in 0..3 {
        let again = bureau.receive(of_monitor(number, KITCHEN)).await.unwrap();
        assert!(matches!(
            again,
            chancery_value_context::Answer::Duplicate(_)
        ));
    }
    assert_eq!(bureau.inbox(KITCHEN).len(), entries);
    bureau.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_leaves_the_process_is_signed_and_what_stays_need_not_be() {
    // VX-SIG-1, VX-SIG-3
    const KEYLESS: &str = "keyless";
    let dir = tempfile::tempdir().unwrap();
    let bureau = Bureau::open(dir.path(), SoftLimits::default()).await;
    let act = Act::Agent {
        protocol: ProtocolName::ValueContext,
        id: KEYLESS.to_owned(),
        record: Some(json!({"parent": null, "peers": [MONITOR, KITCHEN]})),
        run_state: None,
    };
    bureau.office.act(act).await.unwrap();
    let refused = bureau.send(KEYLESS, MONITOR, None).await.unwrap_err();
    assert_eq!(refused.code, "signature_missing");
    bureau.send(KEYLESS, KITCHEN, None).await.unwrap();
    assert!(bureau.carrier.made().is_empty());
    bureau.send(KITCHEN, MONITOR, None).await.unwrap();
    let made = bureau.carrier.made_at_least(1).await;
    let envelope: Value = serde_json::from_slice(&made[0].envelope).unwrap();
    assert!(
        envelope["signature"]
            .as_str()
            .unwrap()
            .starts_with("base64:")
    );
    assert_log_gives(&Chancery::default(), &**bureau.store());
    bureau.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_audit_names_nobody_and_the_line_its_checks() {
    // VX-AUD-1, VX-AUD-3
    let dir = tempfile::tempdir().unwrap();
    let bureau = Bureau::open(dir.path(), SoftLimits::default()).await;
    bureau.receive(of_monitor(1, KITCHEN)).await.unwrap();
    let seq = bureau.store().head().seq;
    let line = bureau.store().lines(seq, 1).unwrap().remove(0);
    let line: Value = serde_json::from_slice(&line).unwrap();
    let checks = [
        "parse",
        "schema",
        "temporal",
        "signature",
        "recipient",
        "replay",
        "direction",
    ];
    assert_eq!(line["meta"]["checks_passed"], json!(checks));
    bureau.send(KITCHEN, MONITOR, None).await.unwrap();
    until(|| bureau.office.outbox_len() == 0).await;
    bureau.stop().await;
    let events = std::fs::read_to_string(dir.path().join("events.jsonl")).unwrap();
    assert!(!events.contains("agent://"), "{events}");
    let delivered: Value = serde_json::from_str(events.lines().last().unwrap()).unwrap();
    assert_eq!(delivered["event"], "delivered");
    let hash = delivered["recipient_hash"].as_str().unwrap();
    // Salted: nobody finds the name by trying names.
    let plain = chancery_core::digest::Sha256Digest::of(MONITOR.as_bytes());
    assert!(hash.starts_with("sha256:") && !hash.ends_with(&hex::encode(&plain.0)));
}

#[tokio::test]
async fn an_emergency_that_cannot_be_put_on_record_stops_its_sender_all_the_same() {
    // VX-AUD-4, CH-JRN-11: no acknowledgement without a record, and no further word of the sender either.
    let held = HeldStore::new(Arc::new(Memory::new()));
    let (office, carrier) = office_over(Arc::clone(&held) as Arc<_>).await;
    let share = json!({
        "sender": PARENT, "recipient": MONITOR, "type": "context_share",
        "payload": {"context": "📍🏡", "constitution_ref": "creed://creed.space/home@1.0.0"},
    });
    let leave = Arc::new(tokio::sync::Semaphore::new(0));
    carrier.script(
        MONITOR,
        [crate::support::Step::FailWhenAllowed(Arc::clone(&leave))],
    );
    let body = share.to_string();
    office
        .send_value_context(body.as_bytes(), None)
        .await
        .unwrap();
    carrier.made_at_least(1).await;
    held.fail();
    let emergency = json!({
        "sender": PARENT, "recipient": "agent://orchestrator.prod/root-000", "type": "escalation",
        "payload": escalation("emergency"),
    });
    let body = emergency.to_string();
    let (deciding, first) = (Arc::clone(&office), body.clone());
    let never =
        tokio::spawn(async move { deciding.send_value_context(first.as_bytes(), None).await });
    office.gate().failed().await;
    // What was under way is cut off, and nothing else leaves: no acknowledgement, no forward.
    until(|| Arc::strong_count(&leave) == 1).await;
    assert_eq!(carrier.made().len(), 1);
    assert_eq!(
        office.run_state(PARENT).unwrap(),
        RunState::Running,
        "nothing is on record"
    );
    for body in [body, share.to_string()] {
        let refused = office.send_value_context(body.as_bytes(), None).await;
        assert_eq!(refused.unwrap_err().code, "overloaded");
    }
    assert!(!never.is_finished());
    never.abort();
}

#[tokio::test]
async fn the_suspended_are_refused_however_many_wait_to_be_decided() {
    // VX-RUN-4, VX-DUP-2: nothing is committed meanwhile, and a duplicate is still told first.
    let held = HeldStore::new(Arc::new(Memory::new()));
    let (office, _) = office_over(Arc::clone(&held) as Arc<_>).await;
    let share = |number| InProcess {
        sender: AgentId::parse(CHILD).unwrap(),
        recipient: Recipient::Directed(AgentId::parse(PARENT).unwrap()),
        ..share_at(number, world_now())
    };
    office.receive_in_process(share(1)).await.unwrap();
    let suspended = Act::Agent {
        protocol: ProtocolName::ValueContext,
        id: CHILD.to_owned(),
        record: None,
        run_state: Some(RunState::Suspended),
    };
    office.act(suspended).await.unwrap();
    held.hold(0);
    let begun = held.begun(0).await.len();
    let act = Act::Agent {
        protocol: ProtocolName::ValueContext,
        id: KITCHEN.to_owned(),
        record: None,
        run_state: Some(RunState::Paused),
    };
    let waiting = {
        let office = Arc::clone(&office);
        tokio::spawn(async move { office.act(act).await })
    };
    held.begun(begun + 1).await;
    let refused = office.receive_in_process(share(2)).await;
    let refused = refused.unwrap_err();
    assert_eq!(
        (refused.code, refused.status, refused.message_id.as_deref()),
        (
            "sender_suspended",
            423,
            Some("019502a4-7e5c-7000-8000-000000000002")
        )
    );
    let again = {
        let office = Arc::clone(&office);
        let share = share(1);
        tokio::spawn(async move { office.receive_in_process(share).await })
    };
    held.open();
    let again = again.await.unwrap().unwrap();
    assert!(matches!(again, Answer::Duplicate(_)), "{again:?}");
    waiting.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parents_greeting_lets_no_child_go_on() {
    // VX-RUN-6, VX-WS-5
    const REMOTE_CHILD: &str = "agent://orchestrator.prod/child-003";
    let dir = tempfile::tempdir().unwrap();
    let bureau = Bureau::open(dir.path(), SoftLimits::default()).await;
    let held = |bureau: &Bureau| {
        let state = bureau.office.value_context_state(PARENT).unwrap().unwrap();
        state["children"][REMOTE_CHILD].clone()
    };
    let mut record: Value = bureau
        .office
        .row(&chancery_core::admin::agent_key(
            ProtocolName::ValueContext,
            PARENT,
        ))
        .unwrap()
        .unwrap();
    record["context"] = json!("🎭💼");
    record["constitution_ref"] = json!("creed://creed.space/home@1.0.0");
    let act = Act::Agent {
        protocol: ProtocolName::ValueContext,
        id: PARENT.to_owned(),
        record: Some(record),
        run_state: None,
    };
    bureau.office.act(act).await.unwrap();
    // Its current context is what it shared last.
    let resolved = json!({
        "sender": PARENT, "recipient": CHILD, "type": "context_share",
        "payload": {"context": "🎭➖", "constitution_ref": "creed://creed.space/home@1.0.0"},
    });
    let body = resolved.to_string();
    bureau
        .office
        .send_value_context(body.as_bytes(), None)
        .await
        .unwrap();
    let cry = json!({
        "vcp_message": "1.2", "type": "escalation", "sender": REMOTE_CHILD, "recipient": PARENT,
        "message_id": "019c60dc-5b60-7000-8000-0000000000aa",
        "timestamp": vectors("world.json")["now"], "payload": escalation("emergency"),
    });
    let raw = cry.to_string();
    let door = Door::InProcess;
    bureau
        .office
        .receive_value_context(raw.into(), door)
        .await
        .unwrap();
    assert_eq!(held(&bureau), "suspended");
    let greeting = bureau
        .office
        .greet_value_context(PARENT, REMOTE_CHILD)
        .await;
    let greeting = greeting.unwrap().unwrap();
    // The acknowledgement, the forward, the greeting.
    let made = bureau.carrier.made_at_least(3).await;
    let sent = made.iter().find_map(|made| {
        let envelope: Value = serde_json::from_slice(&made.envelope).unwrap();
        (envelope["message_id"] == greeting.message_id.as_str()).then_some(envelope)
    });
    assert_eq!(sent.unwrap()["payload"]["context"], "🎭➖");
    assert_eq!(held(&bureau), "suspended");
    assert_log_gives(&Chancery::default(), &**bureau.store());
    bureau.stop().await;
}

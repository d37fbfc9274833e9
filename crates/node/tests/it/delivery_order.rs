//! The outbox: whose turn it is, what a restart keeps, who gets one copy.

use std::sync::Arc;
use std::time::Duration;

use chancery_core::delivery::{Delivery, outbox_key};
use chancery_core::line::ProtocolName;
use chancery_node::SoftLimits;
use chancery_store::Memory;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::deliveries::{PAUSES_MS, add, set_pauses, settled};
use crate::support::bureau::{Bureau, MONITOR, PARENT, vectors};
use crate::support::{Setup, Step, start_of_tests, until, verbs};

/// What each answer of the vectors is to the outbox.
fn step(response: &str) -> Step {
    match response {
        "200 accepted" => Step::Deliver,
        "503 Retry-After 0" => Step::FailFor(Duration::ZERO),
        "503" | "404" | "307" | "refused" | "200 accepted other-id" => Step::Fail,
        other => panic!("an answer that this test does not know: {other}"),
    }
}

#[tokio::test(start_paused = true)]
async fn attempts_are_made_at_the_instants_of_the_vectors() {
    // VX-RTY-1, VX-RTY-2, VX-RTY-5
    for case in vectors("retry.json")["vectors"].as_array().unwrap() {
        let rig = Setup::default().in_memory();
        set_pauses(&rig, &PAUSES_MS).await;
        let responses = case["responses"].as_array().unwrap();
        let steps = responses.iter().map(|one| step(one.as_str().unwrap()));
        rig.carrier.script("far", steps);
        rig.said("s-1", "ann", "far", "send", None).await;
        tokio::time::sleep(Duration::from_secs(600)).await;
        settled(&rig).await;
        let made = rig.carrier.made();
        let times: Vec<u64> = made
            .iter()
            .map(|one| u64::try_from((one.at - made[0].at).as_millis()).unwrap())
            .collect();
        assert_eq!(serde_json::json!(times), case["attempt_times_ms"], "{case}");
        let failed = verbs(&**rig.store()).contains(&"failed".to_owned());
        assert_eq!(failed, case["result"] == "failed", "{case}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_first_attempted_when_the_one_before_was() {
    // VX-ORD-3
    let rig = Setup::default().in_memory();
    set_pauses(&rig, &[3_600_000]).await;
    let leave = Arc::new(Semaphore::new(0));
    let held = Step::FailWhenAllowed(Arc::clone(&leave));
    rig.carrier.script("far", [held, Step::Deliver]);
    // The held step is for the first one: the others come when it has it.
    rig.said("s-1", "ann", "far", "send", None).await;
    rig.carrier.made_at_least(1).await;
    for (id, from, to) in [
        ("s-2", "ann", "far"),
        ("s-3", "ann", "near"),
        ("s-4", "cyd", "far"),
    ] {
        rig.said(id, from, to, "send", None).await;
    }
    // Another recipient and another sender do not wait.
    let made = rig.carrier.made_at_least(3).await;
    until(|| rig.node.outbox_len() == 2).await;
    let ids = |made: &[crate::support::Made]| -> Vec<String> {
        let id = |one: &crate::support::Made| {
            let envelope: serde_json::Value = serde_json::from_slice(&one.envelope).unwrap();
            envelope["id"].as_str().unwrap().to_owned()
        };
        let mut ids: Vec<_> = made.iter().map(id).collect();
        ids.sort_unstable();
        ids
    };
    assert_eq!(ids(&made), ["s-1", "s-3", "s-4"]);
    // The end of the first attempt is enough: its retry comes much later.
    leave.add_permits(1);
    assert_eq!(ids(&rig.carrier.made_at_least(4).await[3..]), ["s-2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_exempt_overtakes_everything_that_waits() {
    // VX-ORD-3
    let store = Memory::new();
    let setup = Setup::default();
    let rig = setup.over(Arc::new(store.clone())).unwrap();
    for id in ["n-1", "n-2", "n-3"] {
        rig.said(id, "ann", "far", "note", None).await;
    }
    let delivery = |exempt| Delivery {
        protocol: ProtocolName::Test,
        from: "ann".to_owned(),
        to: "far".to_owned(),
        exempt,
        pauses_ms: vec![],
        attempt_ms: 3_600_000,
        within_ms: None,
        then_ask: None,
    };
    // No rule of the tests' protocol exempts, so its rows are put there by hand.
    let store = Memory::new();
    add(&store, rig.store().lines(1, 3).unwrap(), |rows| {
        for (seq, exempt) in [(1, false), (2, false), (3, true)] {
            let row = serde_json::to_vec(&delivery(exempt)).unwrap();
            rows.push((outbox_key(seq, 0), Some(row.into())));
        }
    });
    rig.carrier.script("far", [Step::Hang, Step::Hang]);
    let rig = setup.over(Arc::new(store)).unwrap();
    let made = rig.carrier.made_at_least(2).await;
    let texts: Vec<_> = made
        .iter()
        .map(|one| String::from_utf8(one.envelope.to_vec()).unwrap())
        .collect();
    assert!(texts.iter().any(|text| text.contains("n-1")), "{texts:?}");
    assert!(texts.iter().any(|text| text.contains("n-3")), "{texts:?}");
}

#[tokio::test]
async fn a_restart_keeps_the_pause() {
    // VX-RTY-1, VX-RTY-2: the pause runs from the end of the attempt, whatever process waits for it.
    let dir = tempfile::tempdir().unwrap();
    let setup = Setup::default();
    let rig = setup.on_disk(dir.path());
    set_pauses(&rig, &[60_000, 40_000]).await;
    rig.carrier
        .script("far", [Step::Fail, Step::Hang, Step::Fail]);
    rig.said("s-1", "ann", "far", "send", None).await;
    rig.carrier.made_at_least(1).await;
    let recorded = || {
        let rows = rig
            .store()
            .ops_scan(&chancery_core::rows::RowKey::text("outbox-attempts", &[]));
        rows.unwrap().iter().any(|(_, row)| row.len() == 16)
    };
    until(recorded).await;
    rig.crash().await;
    setup
        .clock
        .set(start_of_tests().saturating_add(Duration::from_secs(45)));
    // From here on the time is our own.
    tokio::time::pause();
    let restarted = Instant::now();
    let rig = setup.on_disk(dir.path());
    let second = rig.carrier.made_at_least(2).await[1].at;
    assert_eq!((second - restarted).as_secs(), 15);
    // The second attempt is under way when the node crashes: it ends with the start.
    rig.crash().await;
    let restarted = Instant::now();
    let rig = setup.on_disk(dir.path());
    let third = rig.carrier.made_at_least(3).await[2].at;
    assert_eq!((third - restarted).as_secs(), 40);
    settled(&rig).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn peers_at_one_place_get_one_copy_and_each_its_own_result() {
    // VX-BC-1, VX-BC-3
    let dir = tempfile::tempdir().unwrap();
    let bureau = Bureau::open(dir.path(), SoftLimits::default()).await;
    let root = "agent://orchestrator.prod/root-000";
    let sibling = "agent://orchestrator.prod/child-003";
    for agent in [root, sibling] {
        bureau.carrier.is_at(agent, "https://orchestrator.prod/");
    }
    bureau.carrier.script(MONITOR, [Step::Refuse]);
    bureau.send(PARENT, "broadcast", None).await.unwrap();
    let sent = bureau.store().head().seq;
    until(|| bureau.office.outbox_len() == 0).await;
    let mut made: Vec<_> = bureau
        .carrier
        .made()
        .into_iter()
        .map(|one| one.to)
        .collect();
    made.sort_unstable();
    assert_eq!(made, [MONITOR, sibling]);
    bureau.stop().await;
    let events = std::fs::read_to_string(dir.path().join("events.jsonl")).unwrap();
    let events: Vec<serde_json::Value> = events
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|event: &serde_json::Value| event["seq"] == sent)
        .collect();
    let count = |name: &str| events.iter().filter(|event| event["event"] == name).count();
    assert_eq!((count("delivered"), count("delivery_failed")), (2, 1));
    let hashes: std::collections::BTreeSet<_> = events
        .iter()
        .map(|event| event["recipient_hash"].as_str().unwrap())
        .collect();
    assert_eq!(hashes.len(), 3);
    assert!(hashes.iter().all(|hash| hash.starts_with("sha256:")));
}

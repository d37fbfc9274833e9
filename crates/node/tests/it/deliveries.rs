//! The outbox: attempts, pauses, giving up, suspended senders, restarts.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use chancery_core::admin::RunState;
use chancery_core::delivery::{Delivery, OUTBOX, outbox_key};
use chancery_core::digest::Sha256Digest;
use chancery_core::line::ProtocolName;
use chancery_core::rows::RowKey;
use chancery_journal::line::parse;
use chancery_journal::{Head, Lines};
use chancery_node::Overloaded;
use chancery_store::{Batch, Memory, Store, StoredUnit};
use chancery_testkit::inputs::{config_act, run_state_act, unsigned};
use chancery_testkit::{TestAnswer, TestSettings, TestSuite};
use tokio::sync::Semaphore;

use crate::restarts::delete_index;
use crate::support::{
    Awaited, Rig, Setup, Step, assert_log_gives, free, start_of_tests, started, until, verbs,
};

/// The pauses of VX-RTY-1.
pub const PAUSES_MS: [u32; 3] = [1_000, 2_000, 4_000];

pub async fn set_pauses(rig: &Rig, pauses_ms: &[u32]) {
    let settings = TestSettings {
        pauses_ms: pauses_ms.to_vec(),
        attempt_ms: 5_000,
        ..TestSettings::default()
    };
    rig.act(config_act(&settings)).await;
}

fn outbox_rows(store: &dyn Store) -> usize {
    let rows = store.scan(&RowKey::text(OUTBOX, &[]), None, usize::MAX);
    rows.unwrap().len()
}

pub async fn settled(rig: &Rig) {
    until(|| rig.node.outbox_len() == 0 && outbox_rows(&**rig.store()) == 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_delivery_is_tried_after_each_pause_and_given_up_after_the_last() {
    // VX-RTY-1, VX-RTY-2, VX-RTY-6
    let rig = Setup::default().in_memory();
    set_pauses(&rig, &PAUSES_MS).await;
    rig.carrier.script(
        "far",
        [Step::Fail, Step::Hang, Step::Fail, Step::Fail, Step::Fail],
    );
    let seq = rig.said("s-1", "ann", "far", "send", None).await;
    let told = rig.arrived("ann", 0).await;
    let made = rig.carrier.made();
    let pauses: Vec<u64> = made
        .windows(2)
        .map(|pair| (pair[1].at - pair[0].at).as_secs())
        .collect();
    // A pause runs from the end of an attempt, and one that hangs ends after five seconds.
    assert_eq!(pauses, [1, 5 + 2, 4]);
    assert_eq!(told, seq + 2);
    assert_eq!(
        verbs(&**rig.store()),
        ["config", "send", "failed", "undelivered"]
    );
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(rig.carrier.made().len(), 4);
    settled(&rig).await;
    assert_log_gives(&TestSuite::default(), &**rig.store());
}

#[tokio::test(start_paused = true)]
async fn a_recipient_may_lengthen_a_pause_and_never_shorten_it() {
    // VX-RTY-5
    let rig = Setup::default().in_memory();
    set_pauses(&rig, &PAUSES_MS).await;
    let wait = |seconds| Step::FailFor(Duration::from_secs(seconds));
    rig.carrier
        .script("far", [wait(30), wait(0), Step::Deliver]);
    rig.said("s-1", "ann", "far", "send", None).await;
    let made = rig.carrier.made_at_least(3).await;
    let pauses: Vec<u64> = made
        .windows(2)
        .map(|pair| (pair[1].at - pair[0].at).as_secs())
        .collect();
    assert_eq!(pauses, [30, 2]);
    settled(&rig).await;
    assert_eq!(verbs(&**rig.store()), ["config", "send"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_attempt_carries_the_bytes_that_came() {
    // VX-RTY-7
    let rig = Setup::default().in_memory();
    rig.carrier
        .script("far", [Step::Fail, Step::Fail, Step::Deliver]);
    rig.said("s-1", "ann", "far", "send", Some("x")).await;
    let sent = unsigned("s-1", "ann", "far", "send", Some("x"));
    for attempt in rig.carrier.made_at_least(3).await {
        assert_eq!((attempt.to.as_str(), &attempt.envelope), ("far", &sent));
    }
    settled(&rig).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_ends_the_attempts_at_once() {
    // VX-RTY-4
    let rig = Setup::default().in_memory();
    rig.carrier.script("far", [Step::Refuse]);
    rig.said("s-1", "ann", "far", "send", None).await;
    rig.arrived("ann", 0).await;
    settled(&rig).await;
    assert_eq!(rig.carrier.made().len(), 1);
    assert_eq!(verbs(&**rig.store()), ["send", "failed", "undelivered"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_adds_no_attempts() {
    // CH-JRN-15: an attempt is counted before it is made.
    let dir = tempfile::tempdir().unwrap();
    let setup = Setup::default();
    let rig = setup.on_disk(dir.path());
    set_pauses(&rig, &[3_600_000, 1, 1]).await;
    rig.carrier
        .script("far", [Step::Fail, Step::Hang, Step::Fail, Step::Fail]);
    rig.said("s-1", "ann", "far", "send", None).await;
    rig.carrier.made_at_least(1).await;
    rig.stop().await;
    // The pause is over, and the second attempt is under way when the node crashes.
    let over = start_of_tests().saturating_add(Duration::from_secs(3_600));
    setup.clock.set(over);
    let rig = setup.on_disk(dir.path());
    rig.carrier.made_at_least(2).await;
    rig.crash().await;
    let rig = setup.on_disk(dir.path());
    rig.arrived("ann", 0).await;
    settled(&rig).await;
    assert_eq!(rig.carrier.made().len(), 4);
    assert_eq!(
        verbs(&**rig.store()),
        ["config", "send", "failed", "undelivered"]
    );
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_given_up_while_stopping_is_put_on_record_at_the_next_start() {
    let dir = tempfile::tempdir().unwrap();
    let setup = Setup::default();
    let (rig, held) = setup.held(Arc::new(setup.open(dir.path())));
    set_pauses(&rig, &[]).await;
    let leave = Arc::new(Semaphore::new(0));
    rig.carrier.script(
        "far",
        [Step::FailWhenAllowed(Arc::clone(&leave)), Step::Deliver],
    );
    rig.said("s-1", "ann", "far", "send", None).await;
    rig.carrier.made_at_least(1).await;
    // The stop waits for a commit; meanwhile the only attempt fails and nobody takes that any more.
    held.hold(0);
    let mut note = rig.say("n-1", "ann", "bob", "note", None);
    started(&mut note).await;
    held.begun(3).await;
    let node = Arc::clone(&rig.node);
    let stopping = tokio::spawn(async move { node.stop().await });
    let mut queued = Vec::new();
    loop {
        let mut refused = rig.say("r-1", "ann", "bob", "refuse", None);
        tokio::select! {
            biased;
            closed = &mut refused => {
                assert_eq!(closed.unwrap_err(), Overloaded);
                break;
            }
            () = tokio::task::yield_now() => queued.push(refused),
        }
    }
    leave.add_permits(1);
    until(|| leave.available_permits() == 0).await;
    held.open();
    stopping.await.unwrap().unwrap();
    drop((rig, held, queued, note));
    free(dir.path()).await;
    let rig = setup.on_disk(dir.path());
    rig.arrived("ann", 0).await;
    settled(&rig).await;
    assert_eq!(rig.carrier.made().len(), 1);
    assert_eq!(
        verbs(&**rig.store()),
        ["config", "send", "note", "failed", "undelivered"]
    );
    rig.stop().await;
}

#[tokio::test]
async fn what_a_suspended_sender_has_in_the_outbox_waits() {
    // CH-ID-5
    let rig = Setup::default().in_memory();
    set_pauses(&rig, &PAUSES_MS).await;
    let leave = Arc::new(Semaphore::new(0));
    rig.carrier
        .script("far", [Step::FailWhenAllowed(Arc::clone(&leave))]);
    rig.said("s-1", "ann", "far", "send", None).await;
    rig.said("s-2", "cyd", "near", "send", None).await;
    rig.carrier.made_at_least(2).await;
    rig.act(run_state_act("ann", None, RunState::Suspended))
        .await;
    // From here on an hour is nothing; before, the first attempt must not have been cut off by it.
    tokio::time::pause();
    leave.add_permits(1);
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert_eq!(rig.carrier.made().len(), 2);
    assert_eq!(rig.node.outbox_len(), 1);
    rig.act(run_state_act("ann", None, RunState::Running)).await;
    assert_eq!(rig.carrier.made_at_least(3).await[2].to, "far");
    settled(&rig).await;
    assert_log_gives(&TestSuite::default(), &**rig.store());
}

#[tokio::test(start_paused = true)]
async fn an_exempt_delivery_leaves_although_its_sender_is_suspended() {
    let store = Memory::new();
    let setup = Setup::default();
    let rig = setup.over(Arc::new(store.clone())).unwrap();
    rig.said("n-1", "ann", "far", "note", None).await;
    rig.act(run_state_act("ann", None, RunState::Suspended))
        .await;
    let delivery = |exempt| Delivery {
        protocol: ProtocolName::Test,
        from: "ann".to_owned(),
        to: if exempt { "exempt" } else { "held" }.to_owned(),
        exempt,
        pauses_ms: vec![],
        attempt_ms: 1_000,
        within_ms: None,
        then_ask: None,
    };
    // No rule of the tests' protocol exempts, so its rows are put there by hand.
    let store = Memory::new();
    add(&store, rig.store().lines(1, 2).unwrap(), |rows| {
        let suspended = serde_json::to_vec(&RunState::Suspended).unwrap();
        rows.push((
            chancery_core::admin::run_state_key("ann"),
            Some(suspended.into()),
        ));
        for (number, exempt) in [false, true].into_iter().enumerate() {
            let row = serde_json::to_vec(&delivery(exempt)).unwrap();
            rows.push((outbox_key(1, number), Some(row.into())));
        }
    });
    let rig = setup.over(Arc::new(store)).unwrap();
    assert_eq!(rig.carrier.made_at_least(1).await[0].to, "exempt");
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert_eq!((rig.carrier.made().len(), rig.node.outbox_len()), (1, 1));
}

#[tokio::test]
async fn an_attempt_under_way_is_cut_off_when_its_sender_is_suspended() {
    // VX-RUN-1, VX-RUN-3
    let rig = Setup::default().in_memory();
    set_pauses(&rig, &PAUSES_MS).await;
    let leave = Arc::new(Semaphore::new(0));
    rig.carrier
        .script("far", [Step::FailWhenAllowed(Arc::clone(&leave))]);
    rig.said("s-1", "ann", "far", "send", None).await;
    let first = rig.carrier.made_at_least(1).await[0].at;
    rig.act(run_state_act("ann", None, RunState::Suspended))
        .await;
    // From here on an hour is nothing; before, the attempt must not have been cut off by it.
    tokio::time::pause();
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    // Only the attempt held the other end: it is cut off when this is the last.
    assert_eq!(Arc::strong_count(&leave), 1);
    assert_eq!(rig.carrier.made().len(), 1);
    rig.act(run_state_act("ann", None, RunState::Running)).await;
    let second = rig.carrier.made_at_least(2).await[1].at;
    assert!(second - first >= Duration::from_secs(3_600));
    settled(&rig).await;
}

/// A node whose log has one line, and for it a delivery that no rule of the tests' protocol asks for.
async fn with_delivery(setup: &Setup, change: impl FnOnce(&mut Delivery)) -> Rig {
    let store = Memory::new();
    let before = setup.over(Arc::new(Memory::new())).unwrap();
    before.said("n-1", "ann", "far", "note", None).await;
    let mut delivery = Delivery {
        protocol: ProtocolName::Test,
        from: "ann".to_owned(),
        to: "far".to_owned(),
        exempt: false,
        pauses_ms: PAUSES_MS.to_vec(),
        attempt_ms: 5_000,
        within_ms: None,
        then_ask: None,
    };
    change(&mut delivery);
    add(&store, before.store().lines(1, 1).unwrap(), |rows| {
        let row = serde_json::to_vec(&delivery).unwrap();
        rows.push((outbox_key(1, 0), Some(row.into())));
    });
    setup.over(Arc::new(store)).unwrap()
}

#[tokio::test(start_paused = true)]
async fn no_attempt_begins_after_its_time() {
    // VX-RTY-7
    let setup = Setup::default();
    setup.carrier.script(
        "far",
        [Step::FailFor(Duration::from_secs(30)), Step::Deliver],
    );
    let rig = with_delivery(&setup, |delivery| delivery.within_ms = Some(20_000)).await;
    tokio::time::sleep(Duration::from_secs(29)).await;
    assert_eq!(rig.node.outbox_len(), 1);
    tokio::time::sleep(Duration::from_secs(2)).await;
    until(|| rig.node.outbox_len() == 0).await;
    assert_eq!(rig.carrier.made().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn rules_are_asked_so_long_after_the_delivery() {
    // VX-ACK-6: from the moment of delivery, not of sending.
    let setup = Setup::default();
    setup.carrier.script("far", [Step::Fail, Step::Deliver]);
    let begun = tokio::time::Instant::now();
    let rig = with_delivery(&setup, |delivery| {
        delivery.then_ask = Some(chancery_core::delivery::Ask {
            after_ms: 6_000,
            timer: r#"{"id":"l-1","from":"ann","to":"bob"}"#.to_owned(),
        });
    })
    .await;
    let delivered = rig.carrier.made_at_least(2).await[1].at;
    assert_eq!((delivered - begun).as_secs(), 1);
    tokio::time::sleep_until(delivered + Duration::from_millis(5_999)).await;
    assert_eq!(rig.node.outbox_len(), 1);
    tokio::time::sleep_until(delivered + Duration::from_millis(6_001)).await;
    until(|| rig.node.outbox_len() == 0).await;
}

pub fn add(
    store: &Memory,
    lines: Vec<bytes::Bytes>,
    rows: impl FnOnce(&mut Vec<chancery_core::rows::RowChange>),
) {
    let mut changes = Vec::new();
    rows(&mut changes);
    let head = Head {
        seq: lines.len() as u64,
        hash: Sha256Digest::of(lines.last().unwrap()),
        time: parse(&lines[0]).unwrap().eval_ts,
    };
    let mut written = Lines::default();
    lines.iter().for_each(|line| written.push(line));
    let unit = StoredUnit {
        rows: changes,
        remembered: Vec::new(),
    };
    let batch = Batch {
        base: Head::EMPTY,
        head,
        lines: written,
        units: vec![unit],
        spent: Vec::new(),
    };
    store.commit(batch).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_settled_delivery_is_not_made_again() {
    // CH-JRN-15: also when the index is built anew, out of order, and with one before it still open.
    let dir = tempfile::tempdir().unwrap();
    let setup = Setup::default();
    let rig = setup.on_disk(dir.path());
    set_pauses(&rig, &[3_600_000]).await;
    rig.carrier.script("far", [Step::Fail]);
    for (id, to) in [("s-1", "a"), ("s-2", "far"), ("s-3", "b"), ("s-4", "c")] {
        rig.said(id, "ann", to, "send", None).await;
    }
    rig.carrier.made_at_least(4).await;
    until(|| rig.node.outbox_len() == 1).await;
    rig.stop().await;
    let over = start_of_tests().saturating_add(Duration::from_secs(3_600));
    setup.clock.set(over);
    for round in 0..3 {
        if round < 2 {
            delete_index(dir.path());
        }
        let rig = setup.on_disk(dir.path());
        if round == 0 {
            // The open one is made; nothing else.
            assert_eq!(rig.carrier.made_at_least(5).await[4].to, "far");
        }
        settled(&rig).await;
        rig.said(&format!("n-{round}"), "ann", "bob", "note", None)
            .await;
        assert_eq!(rig.carrier.made().len(), 5, "round {round}");
        rig.stop().await;
    }
    assert!(
        ops_left(dir.path()).is_empty(),
        "{:?}",
        ops_left(dir.path())
    );
}

/// Rows of progress about single deliveries.
fn ops_left(dir: &Path) -> Vec<RowKey> {
    let store = Setup::default().open(dir);
    let spaces = ["outbox-settled", "outbox-attempts"];
    let rows = |space| store.ops_scan(&RowKey::text(space, &[])).unwrap();
    spaces
        .into_iter()
        .flat_map(rows)
        .map(|(key, _)| key)
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_duplicate_of_a_send_delivers_once_more() {
    let rig = Setup::default().in_memory();
    let seq = rig.said("s-1", "ann", "far", "send", None).await;
    settled(&rig).await;
    let again = rig.say("s-1", "ann", "far", "send", None).await.unwrap();
    assert_eq!(again.result.unwrap(), TestAnswer::Duplicate { seq });
    let made = rig.carrier.made_at_least(2).await;
    assert_eq!(made[0].envelope, made[1].envelope);
    assert_eq!(rig.store().head().seq, seq);
    // It is one attempt, whatever comes of it.
    rig.carrier.script("far", [Step::Fail]);
    rig.say("s-1", "ann", "far", "send", None)
        .await
        .unwrap()
        .result
        .unwrap();
    rig.carrier.made_at_least(3).await;
    assert_eq!(rig.node.outbox_len(), 0);
    assert_eq!(verbs(&**rig.store()), ["send"]);
}

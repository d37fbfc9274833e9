//! AGH behind the gate: what is on the log, what is soft, and that the log gives it all again.

use chancery_agh::answer::{Outcome, Verdict};
use chancery_agh::peer::{PeerRecord, inbox as inbox_of};
use chancery_agh::whois::Catalog;
use chancery_core::protocol::Door;
use chancery_core::refusal::Refusal;
use chancery_node::SoftLimits;
use chancery_node::suite::Chancery;
use serde_json::{Value, json};

use crate::support::bureau::Bureau;
use crate::support::{assert_log_gives, verbs};

const WORKER: &str = "patch-worker.session-19";
const ECHO: &str = "echo.demo";
const REMOTE: &str = "ops-coordinator.session-42";
const CHANNEL: &str = "builders";

fn peer(id: &str, workspace: Option<&str>) -> PeerRecord {
    PeerRecord::new(
        id,
        CHANNEL,
        workspace,
        None,
        vec!["test.run".to_owned()],
        Catalog::default(),
    )
}

async fn open(dir: &std::path::Path) -> Bureau {
    let bureau = Bureau::open(dir, SoftLimits::default()).await;
    let peers = [
        peer(WORKER, None),
        peer(ECHO, None),
        peer(WORKER, Some("ws_alpha")),
    ];
    bureau.office.reconcile_peers(&peers).await.unwrap();
    bureau
}

fn now(bureau: &Bureau) -> i64 {
    bureau.office.gate().clock().now().unix_seconds()
}

/// An envelope of revision A from the remote peer, with these members changed.
fn envelope(bureau: &Bureau, id: &str, members: Value) -> Vec<u8> {
    let mut envelope = json!({
        "protocol": "agh-network/v0", "id": id, "channel": CHANNEL, "from": REMOTE, "to": null,
        "ts": now(bureau), "proof": null,
    });
    for (name, value) in members.as_object().unwrap() {
        envelope[name] = value.clone();
    }
    envelope.to_string().into_bytes()
}

async fn receive(bureau: &Bureau, id: &str, members: Value) -> Outcome {
    let raw = envelope(bureau, id, members);
    bureau.office.receive_agh(raw.into(), Door::Http).await
}

async fn send(bureau: &Bureau, body: Value) -> Result<Outcome, Refusal> {
    bureau
        .office
        .send_agh(body.to_string().as_bytes(), None)
        .await
}

fn direct(id: &str) -> Value {
    json!({"kind": "direct", "to": WORKER, "interaction_id": id, "body": {"text": "do it"}})
}

fn card(peer: &str) -> Value {
    json!({
        "peer_id": peer, "profiles_supported": ["agh-network/v0"], "capabilities": [],
        "artifacts_supported": [], "trust_modes_supported": [],
    })
}

fn emitted(outcome: &Outcome) -> Vec<Value> {
    let read = |bytes: &bytes::Bytes| serde_json::from_slice(bytes).unwrap();
    outcome.emitted.iter().map(read).collect()
}

fn state_of(bureau: &Bureau, workspace: Option<&str>, index: usize) -> String {
    let state = bureau.office.agh_state(workspace, CHANNEL).unwrap();
    state["interactions"][index]["state"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

// CH-JRN-1, CH-JRN-13, AG-LIF-2, AG-LIF-10, AG-RTE-2, AG-SND-1
#[tokio::test(flavor = "multi_thread")]
async fn work_from_direct_to_completed_is_on_the_log_and_the_log_gives_it_again() {
    let dir = tempfile::tempdir().unwrap();
    let bureau = open(dir.path()).await;
    let before = bureau.store().head().seq;
    let opened = receive(&bureau, "m1", direct("int_1")).await;
    assert_eq!(
        (opened.verdict, opened.deliver_to),
        (Verdict::Accept, vec![WORKER.to_owned()])
    );
    let greeted = receive(
        &bureau,
        "g1",
        json!({"kind": "greet", "body": {"peer_card": card(REMOTE)}}),
    );
    assert_eq!(greeted.await.verdict, Verdict::Accept);
    for (kind, body) in [
        ("receipt", json!({"for_id": "m1", "status": "accepted"})),
        (
            "trace",
            json!({"state": "completed", "result": {"ok": true}}),
        ),
    ] {
        let sent = send(
            &bureau,
            json!({"from": WORKER, "channel": CHANNEL, "kind": kind, "to": REMOTE, "interaction_id": "int_1", "body": body}),
        );
        assert_eq!(sent.await.unwrap().verdict, Verdict::Accept);
    }
    assert_eq!(state_of(&bureau, None, 0), "completed");
    // The greeting is soft; the work is on record.
    assert_eq!(
        verbs(&**bureau.store())[before as usize..],
        ["direct", "receipt", "trace"]
    );
    assert_log_gives(&Chancery::default(), &**bureau.store());
    // After the end nothing moves it, here and after a restart.
    let late = send(
        &bureau,
        json!({"from": WORKER, "channel": CHANNEL, "kind": "trace", "to": REMOTE, "interaction_id": "int_1", "body": {"state": "working"}}),
    );
    assert_eq!(late.await.unwrap_err().code, "interaction_closed");
    bureau.stop().await;
    let bureau = open(dir.path()).await;
    let closed = receive(&bureau, "m2", direct("int_1")).await;
    assert_eq!(
        closed.fault.as_ref().unwrap().error.as_str(),
        "interaction_closed"
    );
    assert_eq!(
        emitted(&closed)[0]["body"]["reason_code"],
        "interaction_closed"
    );
    assert_eq!(state_of(&bureau, None, 0), "completed");
    bureau.stop().await;
}

// AG-DUP-1, AG-DUP-5, AG-RCT-2, AG-VAL-7, CH-JRN-13
#[tokio::test(flavor = "multi_thread")]
async fn what_is_rejected_ignored_or_soft_leaves_no_line() {
    let dir = tempfile::tempdir().unwrap();
    let bureau = open(dir.path()).await;
    receive(&bureau, "m1", direct("int_1")).await;
    let lines = bureau.store().head().seq;
    let again = receive(&bureau, "m1", direct("int_1")).await;
    assert_eq!(again.fault.as_ref().unwrap().error.as_str(), "duplicate");
    assert_eq!(emitted(&again)[0]["body"]["status"], "duplicate");
    assert_eq!(emitted(&again)[0]["to"], REMOTE);
    let stale = receive(&bureau, "m3", {
        let mut stale = direct("int_2");
        stale["expires_at"] = 1.into();
        stale
    });
    assert_eq!(emitted(&stale.await)[0]["body"]["status"], "expired");
    let question = json!({"kind": "whois", "body": {"type": "request", "query": "test.run"}});
    let asked = receive(&bureau, "q1", question.clone()).await;
    assert_eq!(emitted(&asked).len(), 2);
    // Soft state remembers it all the same.
    let asked = receive(&bureau, "q1", question).await;
    assert_eq!(asked.fault.as_ref().unwrap().error.as_str(), "duplicate");
    let unknown = json!({"kind": "trace", "to": WORKER, "interaction_id": "int_9", "body": {"state": "working"}});
    let ignored = receive(&bureau, "t1", unknown.clone()).await;
    assert_eq!(ignored.verdict, Verdict::Ignore);
    let ignored = receive(&bureau, "t1", unknown).await;
    assert_eq!(ignored.fault.as_ref().unwrap().error.as_str(), "duplicate");
    assert_eq!(bureau.store().head().seq, lines);
    bureau.stop().await;
}

// AG-PRS-7, AG-PRS-3, AG-B-43, CH-JRN-10
#[tokio::test(flavor = "multi_thread")]
async fn a_hosted_peer_reaches_who_is_there_and_nobody_else() {
    let dir = tempfile::tempdir().unwrap();
    let bureau = open(dir.path()).await;
    let to = |peer: &str| json!({"from": WORKER, "channel": CHANNEL, "kind": "direct", "to": peer, "interaction_id": "int_1", "body": {"text": "x"}});
    assert_eq!(
        send(&bureau, to(REMOTE)).await.unwrap_err().code,
        "not_found"
    );
    let sent = send(&bureau, to(ECHO)).await.unwrap();
    assert_eq!(sent.deliver_to, [ECHO]);
    let entries = bureau
        .office
        .inboxes()
        .read(&inbox_of(None, CHANNEL, ECHO), 0, 10)
        .unwrap();
    assert_eq!(entries.len(), 1);
    // Its return over a door is a duplicate.
    let line: Value = serde_json::from_slice(&entries[0].line).unwrap();
    let back = line["envelope"].to_string().into_bytes();
    let back = bureau.office.receive_agh(back.into(), Door::Nats).await;
    assert_eq!(back.fault.as_ref().unwrap().error.as_str(), "duplicate");
    assert!(back.emitted.is_empty());
    let unknown =
        json!({"from": "nobody", "channel": CHANNEL, "kind": "say", "body": {"text": "x"}});
    assert_eq!(send(&bureau, unknown).await.unwrap_err().status, 404);
    // A peer of a workspace is another peer.
    let in_b = json!({"kind": "say", "workspace_id": "ws_alpha", "surface": "thread", "thread_id": "thread_abc", "body": {"text": "x"}});
    assert_eq!(receive(&bureau, "b1", in_b).await.deliver_to, [WORKER]);
    assert_log_gives(&Chancery::default(), &**bureau.store());
    bureau.stop().await;
}

// AG-ENV-19, CH-JRN-3
#[tokio::test(flavor = "multi_thread")]
async fn values_are_kept_as_received() {
    let dir = tempfile::tempdir().unwrap();
    let bureau = open(dir.path()).await;
    let now = now(&bureau);
    let raw = format!(
        r#"{{"protocol":"agh-network/v0","id":"n","kind":"say","channel":"builders","from":"a.b","ts":{now}.0,"body":{{"text":"x","n":[1.50,1e400,-0]}}}}"#
    );
    let outcome = bureau
        .office
        .receive_agh(raw.clone().into(), Door::Http)
        .await;
    assert_eq!(outcome.deliver_to.len(), 2);
    let line = bureau
        .store()
        .lines(bureau.store().head().seq, 1)
        .unwrap()
        .pop()
        .unwrap();
    let line = chancery_journal::line::parse(&line).unwrap();
    assert_eq!(line.received(), raw.as_bytes());
    assert_log_gives(&Chancery::default(), &**bureau.store());
    bureau.stop().await;
}

// AG-AUD-2, CH-JRN-6
#[tokio::test(flavor = "multi_thread")]
async fn what_is_rejected_or_ignored_is_noted_by_its_name_and_without_its_body() {
    let dir = tempfile::tempdir().unwrap();
    let bureau = open(dir.path()).await;
    let stale = json!({"kind": "say", "expires_at": 1, "body": {"text": "not to be kept"}});
    assert_eq!(receive(&bureau, "m1", stale).await.verdict, Verdict::Reject);
    let of_nothing = json!({
        "kind": "trace", "to": WORKER, "interaction_id": "int_none",
        "body": {"state": "working", "message": "not to be kept"},
    });
    assert_eq!(
        receive(&bureau, "m2", of_nothing).await.verdict,
        Verdict::Ignore
    );
    bureau.stop().await;
    let text = std::fs::read_to_string(dir.path().join("events.jsonl")).unwrap();
    let noted: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for (id, name) in [("m1", "expired"), ("m2", "not_found")] {
        assert!(
            noted
                .iter()
                .any(|line| line["message_id"] == id && line["event"] == name),
            "{id}: {text}"
        );
    }
    assert!(!text.contains("not to be kept"));
}

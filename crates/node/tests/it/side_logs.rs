//! The two logs beside the log: what was refused, and what happened without a line (CH-JRN-6).

use std::path::Path;

use chancery_core::line::ProtocolName;
use chancery_node::SoftLimits;

use crate::support::Setup;
use crate::support::bureau::{Bureau, CHILD, KITCHEN, of_monitor};

fn lines(dir: &Path, name: &str) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(dir.join(name)).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_is_noted_without_a_body() {
    // CH-JRN-6, CH-ID-3
    let dir = tempfile::tempdir().unwrap();
    let bureau = Bureau::open(dir.path(), SoftLimits::default()).await;
    let mut forged = of_monitor(7, KITCHEN).to_vec();
    let place = forged.windows(4).position(|four| four == "👥".as_bytes());
    forged[place.unwrap() + 3] = "👨".as_bytes()[3];
    let refusal = bureau.receive(forged).await.unwrap_err();
    assert_eq!(bureau.receive("{").await.unwrap_err().status, 400);
    let head = bureau.store().head();
    bureau.stop().await;
    let noted = lines(dir.path(), "rejections.jsonl");
    assert_eq!(noted.len(), 2);
    assert_eq!(noted[0]["code"], refusal.code);
    assert_eq!(noted[0]["protocol"], "value-context");
    assert_eq!(
        noted[0]["message_id"],
        "019502a4-7e5c-7000-8000-000000000007"
    );
    let text = std::fs::read_to_string(dir.path().join("rejections.jsonl")).unwrap();
    for body in ["creed://", "⏰", "agent://", "signature\":"] {
        assert!(!text.contains(body), "{body}: {text}");
    }
    // Never into the journal.
    let bureau = Bureau::open(dir.path(), SoftLimits::default()).await;
    assert_eq!(bureau.store().head(), head);
    bureau.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_duplicate_is_an_event() {
    // VX-AUD-3, VX-DUP-2
    let dir = tempfile::tempdir().unwrap();
    let bureau = Bureau::open(dir.path(), SoftLimits::default()).await;
    for _ in 0..2 {
        bureau.receive(of_monitor(1, CHILD)).await.unwrap();
    }
    // The same identifier for everybody is another message to the one who has it.
    bureau.receive(of_monitor(1, "broadcast")).await.unwrap();
    bureau.receive(of_monitor(1, "broadcast")).await.unwrap();
    bureau.stop().await;
    let events = lines(dir.path(), "events.jsonl");
    let names: Vec<_> = events.iter().map(|event| event["event"].as_str()).collect();
    assert_eq!(names.len(), 2, "{events:?}");
    assert_eq!(names[0], Some("duplicate"));
    assert!(lines(dir.path(), "rejections.jsonl").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_door_notes_refusals_of_any_protocol() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Setup::default().with_logs_beside(dir.path());
    let refusal = rig.refused("r-1", "ann", "bob", "refuse", None).await;
    rig.node.note_rejection(ProtocolName::Test, &refusal);
    rig.stop().await;
    let noted = lines(dir.path(), "rejections.jsonl");
    assert_eq!(
        (noted.len(), noted[0]["code"].as_str()),
        (1, Some("refused"))
    );
}

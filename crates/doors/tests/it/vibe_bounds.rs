//! Vibe where a node can take nothing more: it is full, its log cannot be written, or the same is under way already.

use std::sync::Arc;

use chancery_node::GateLimits;
use chancery_store::testing::HeldStore;
use chancery_store::{Memory, Store as _};
use reqwest::Response;
use serde_json::{Value, json};

use crate::support::answer;
use crate::vibe_support::{Market, mandate, offer, world};

fn market() -> Market {
    Market::over(world().to_string().as_bytes())
}

/// A mandate of a session of its own.
fn of_session(session: &str) -> Value {
    mandate(session, "c_ada", "acc_ada")
}

/// Checks an answer that says "not now": its code, and the shape of VC-HTTP-4.
async fn is_not_now(response: Response, code: &str, msg_id: Option<&str>) {
    assert_eq!(response.headers()["retry-after"], "1");
    let (status, body) = answer(response).await;
    assert_eq!(
        (status, &body["type"], &body["code"]),
        (503, &json!("service_unavailable"), &json!(code)),
        "{body}"
    );
    assert_eq!(body["msg_id"].as_str(), msg_id);
}

// VC-AUD-4, VC-PIPE-1, VC-ERR-1, CH-JRN-2
#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_cannot_be_written_takes_nothing_more() {
    let store = HeldStore::new(Arc::new(Memory::new()));
    let node = market().start(Arc::clone(&store) as _).await;
    node.must(&of_session("s1")).await;
    let (head, before) = (store.head(), node.read("/vcp/world/ledger").await);
    store.fail();
    let unanswered = node.post("/vcp", of_session("s2").to_string());
    let unanswered = tokio::spawn(unanswered.send());
    node.office.gate().failed().await;
    // A disk that works again changes nothing.
    store.open();

    let code = "audit_unavailable";
    let late = of_session("s3");
    is_not_now(node.said(&late).await, code, Some("s3-mandate")).await;
    is_not_now(
        node.said(&offer("s1", 11_900)).await,
        code,
        Some("s1-offer"),
    )
    .await;
    // What is refused before step 16 of the pipeline is told so.
    let mut odd = late.clone();
    odd["protocol"] = json!("other");
    assert_eq!(node.say(&odd).await.1["code"], "unsupported_protocol");
    // The same by the other ways in.
    let mut sent = late;
    for made in ["msg_id", "ts"] {
        sent.as_object_mut().unwrap().remove(made);
    }
    let sent = node.post("/send/vibe", sent.to_string()).send().await;
    let sent = answer(sent.unwrap()).await;
    assert_eq!((sent.0, &sent.1["code"]), (503, &json!(code)));
    let change =
        json!({"inventory": [{"merchant_id": "m_keys", "sku_id": "sku_quiet", "on_hand": 3}]});
    let change = node.post("/admin/world", change.to_string()).send().await;
    assert_eq!(change.unwrap().status(), 503);

    // Nothing was applied, and what was in the batch that failed has no answer.
    assert_eq!(store.head(), head);
    assert_eq!(node.read("/vcp/world/ledger").await, before);
    for session in ["s2", "s3"] {
        let path = format!("/vcp/sessions/{session}");
        assert_eq!(node.get(&path).send().await.unwrap().status(), 404);
    }
    assert_eq!(node.read("/vcp/sessions/s1").await["offers"], json!([]));
    assert!(!unanswered.is_finished());
    unanswered.abort();
    node.stop().await;
}

// CH-LIM-2, CH-LIM-3, VC-ERR-1, VC-PIPE-3
#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_is_full_says_so_and_takes_the_same_bytes_later() {
    let store = HeldStore::new(Arc::new(Memory::new()));
    let limits = GateLimits {
        requests: 1,
        ..GateLimits::default()
    };
    let node = market().start_within(Arc::clone(&store) as _, limits).await;
    store.hold(0);
    let first = node.post("/vcp", of_session("s1").to_string());
    let first = tokio::spawn(async move { answer(first.send().await.unwrap()).await });
    while node.office.gate().free_permits() > 0 {
        tokio::task::yield_now().await;
    }
    let one_more = of_session("s2");
    is_not_now(node.said(&one_more).await, "overloaded", Some("s2-mandate")).await;
    store.open();
    assert_eq!(first.await.unwrap().0, 200);
    // Its place is free a moment after its answer has left.
    while node.office.gate().free_permits() == 0 {
        tokio::task::yield_now().await;
    }
    // It changed nothing: neither its name nor its key is used up.
    node.must(&one_more).await;
    node.stop().await;
}

// VC-IDEM-1, VC-IDEM-3, VC-IDEM-4, VC-IDEM-6, VC-PIPE-1
#[tokio::test(flavor = "multi_thread")]
async fn what_comes_again_before_its_answer_is_in_flight_and_later_a_replay() {
    let store = HeldStore::new(Arc::new(Memory::new()));
    let node = market().start(Arc::clone(&store) as _).await;
    let begun = store.wait_for_begun(0).len();
    store.hold(0);
    let wanted = of_session("s1");
    let first = node.post("/vcp", wanted.to_string());
    let first = tokio::spawn(async move { first.send().await.unwrap() });
    let held = Arc::clone(&store);
    let awaited = tokio::task::spawn_blocking(move || held.wait_for_begun(begun + 1));
    awaited.await.unwrap();

    // Stamped anew it is the same request.
    let mut stamped = wanted.clone();
    stamped["msg_id"] = json!("another");
    stamped["ts"] = json!("2026-05-15T12:00:01Z");
    for again in [&wanted, &stamped] {
        let response = node.said(again).await;
        assert_eq!(response.headers()["retry-after"], "1");
        assert!(!response.headers().contains_key("idempotent-replayed"));
        let (status, body) = answer(response).await;
        assert_eq!(
            (status, &body["type"], &body["code"], &body["msg_id"]),
            (
                409,
                &json!("invalid_request"),
                &json!("idempotency_in_flight"),
                &again["msg_id"]
            )
        );
    }
    assert!(!first.is_finished());

    store.open();
    let first = first.await.unwrap();
    assert_eq!(first.status(), 200);
    assert!(!first.headers().contains_key("idempotent-replayed"));
    let first = first.bytes().await.unwrap();
    let head = store.head();
    for again in [&wanted, &stamped] {
        let response = node.said(again).await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["idempotent-replayed"], "true");
        assert_eq!(response.bytes().await.unwrap(), first);
    }
    assert_eq!(store.head(), head);
    node.stop().await;
}

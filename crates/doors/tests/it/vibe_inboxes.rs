//! Inboxes of vibe over HTTP: whose they are, page by page, and as a stream.

use serde_json::json;

use crate::inboxes::Events;
use crate::vibe_http::{get, guarded, post};
use crate::vibe_support::{Served, mandate, offer};

/// A node with a mandate of Ada's and an offer to her.
async fn with_an_offer() -> Served {
    let node = guarded().await;
    assert_eq!(
        post(&node, "ada", "/vcp", &mandate("s1", "c_ada", "acc_ada"))
            .await
            .0,
        200
    );
    assert_eq!(
        post(&node, "keys", "/vcp", &offer("s1", 11_900)).await.0,
        200
    );
    node
}

// VC-ADR-9, VC-HTTP-5
#[tokio::test(flavor = "multi_thread")]
async fn an_inbox_holds_what_is_addressed_to_its_owner() {
    let node = with_an_offer().await;
    for (who, path, seen) in [
        ("ada", "/inbox/vibe/buyer%3Anegotiation", Some(1)),
        (
            "ada",
            "/inbox/vibe/buyer%3Anegotiation?session_id=s1",
            Some(1),
        ),
        (
            "ada",
            "/inbox/vibe/buyer%3Anegotiation?session_id=s2",
            Some(0),
        ),
        ("ada", "/inbox/vibe/buyer%3Aintent", Some(1)),
        // Another's session does not make it one's own.
        (
            "bob",
            "/inbox/vibe/buyer%3Anegotiation?session_id=s1",
            Some(0),
        ),
        (
            "keys",
            "/inbox/vibe/buyer%3Anegotiation?session_id=s1",
            None,
        ),
        (
            "keys",
            "/inbox/vibe/merchant%3Apricing?merchant_id=m_other",
            Some(0),
        ),
        (
            "nobody",
            "/inbox/vibe/buyer%3Anegotiation?session_id=s1",
            None,
        ),
        ("ada", "/inbox/vibe/nowhere", None),
    ] {
        let (status, body) = get(&node, who, path).await;
        match seen {
            Some(count) => {
                assert_eq!(status, 200, "{who} {path}: {body}");
                assert_eq!(
                    body["entries"].as_array().unwrap().len(),
                    count,
                    "{who} {path}: {body}"
                );
            }
            None => assert_eq!(status, 404, "{who} {path}: {body}"),
        }
    }
    node.stop().await;
}

// VC-ADR-9, VC-HTTP-5
#[tokio::test(flavor = "multi_thread")]
async fn an_inbox_is_paged_streamed_and_acknowledged() {
    let node = with_an_offer().await;
    let own = "/vcp/inbox?address=buyer:negotiation&session_id=s1&after_seq=0";
    let (_, body) = get(&node, "ada", own).await;
    assert_eq!(body["entries"][0]["envelope"]["msg_id"], "s1-offer");
    assert_eq!(body["next_seq"], body["entries"][0]["meta"]["seq"]);
    let mut stream = node
        .get("/inbox/vibe/buyer%3Anegotiation")
        .bearer_auth("tok_ada")
        .header("accept", "text/event-stream")
        .send()
        .await
        .unwrap();
    assert_eq!(stream.headers()["content-type"], "text/event-stream");
    let mut events = String::new();
    while !events.contains("s1-offer") {
        events.push_str(std::str::from_utf8(&stream.chunk().await.unwrap().unwrap()).unwrap());
    }
    assert!(events.contains("event: envelope\nid: "), "{events}");
    drop(stream);
    let through = body["next_seq"].clone();
    let ack = post(
        &node,
        "ada",
        "/inbox/vibe/buyer%3Anegotiation/ack",
        &json!({"through": through}),
    )
    .await;
    assert_eq!(ack, (200, json!({"through": through})));
    let (_, body) = get(&node, "ada", "/inbox/vibe/buyer%3Anegotiation").await;
    assert_eq!(body["entries"], json!([]));
    node.stop().await;
}

/// What is said to somebody's negotiation, as it comes.
async fn stream(node: &Served, who: &str, last: Option<u64>) -> Events {
    let mut request = node
        .get("/inbox/vibe/buyer%3Anegotiation")
        .bearer_auth(format!("tok_{who}"))
        .header("accept", "text/event-stream");
    if let Some(last) = last {
        request = request.header("last-event-id", last);
    }
    Events::of(request).await
}

/// Sends an offer to a session.
async fn offered(node: &Served, session: &str) {
    let offer = offer(session, 11_900);
    assert_eq!(post(node, "keys", "/vcp", &offer).await.0, 200);
}

// VC-ADR-9, VC-HTTP-5, CH-JRN-15
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_tells_what_comes_and_goes_on_where_its_reader_was() {
    let node = guarded().await;
    for (who, session) in [("ada", "s1"), ("bob", "s2"), ("ada", "s3")] {
        let mandate = mandate(session, &format!("c_{who}"), &format!("acc_{who}"));
        assert_eq!(post(&node, who, "/vcp", &mandate).await.0, 200);
    }
    let mut of_ada = stream(&node, "ada", None).await;
    let mut of_bob = stream(&node, "bob", None).await;
    offered(&node, "s1").await;
    let (first, entry) = of_ada.next().await;
    assert_eq!(entry["envelope"]["msg_id"], "s1-offer");
    assert_eq!(entry["meta"]["seq"], first);
    // Nothing of it is Bob's: the first that he hears is his own.
    offered(&node, "s2").await;
    assert_eq!(of_bob.next().await.1["envelope"]["msg_id"], "s2-offer");
    offered(&node, "s3").await;
    let (second, entry) = of_ada.next().await;
    assert_eq!(entry["envelope"]["msg_id"], "s3-offer");
    assert!(second > first);
    // Who comes back goes on behind the last event that it had.
    drop(of_ada);
    for (last, expected) in [(0, first), (first, second)] {
        let mut again = stream(&node, "ada", Some(last)).await;
        assert_eq!(again.next().await.0, expected);
    }
    node.stop().await;
}

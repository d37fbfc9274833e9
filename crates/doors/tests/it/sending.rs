//! A hosted agent sends, here and to another node.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::support::{
    CHILD, KITCHEN, LIVING_ROOM, PARENT, Running, Setup, answer, encoded, inbox_of,
};

fn outgoing(sender: &str, recipient: &str) -> Value {
    json!({
        "sender": sender, "recipient": recipient, "type": "context_share",
        "payload": {"context": "📍🏡", "constitution_ref": "creed://creed.space/a@1.0.0"},
    })
}

async fn send(node: &Running, body: &Value, key: Option<&str>) -> (u16, Value) {
    let mut request = node.post("/send/value-context", body.to_string());
    if let Some(key) = key {
        request = request.header("idempotency-key", key);
    }
    answer(request.send().await.unwrap()).await
}

async fn inbox(node: &Running, agent: &str) -> Value {
    answer(node.get(&inbox_of(agent)).send().await.unwrap())
        .await
        .1["entries"]
        .clone()
}

// interface section 2: POST /send/PROTOCOL
#[tokio::test(flavor = "multi_thread")]
async fn a_hosted_agent_sends_to_another_one_here() {
    let node = Setup::default().start().await;
    let (status, body) = send(&node, &outgoing(PARENT, CHILD), None).await;
    assert_eq!(
        (status, &body["status"]),
        (200, &json!("accepted")),
        "{body}"
    );
    let entries = inbox(&node, CHILD).await;
    assert_eq!(entries[0]["envelope"]["message_id"], body["message_id"]);
    assert_eq!(entries[0]["meta"]["origin"], "agent");
    assert!(
        entries[0]["envelope"]["signature"]
            .as_str()
            .unwrap()
            .starts_with("base64:")
    );
    node.stop().await;
}

// interface section 2: Idempotency-Key
#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_under_the_same_key_sends_nothing_more() {
    let node = Setup::default().start().await;
    let message = outgoing(PARENT, CHILD);
    let (_, first) = send(&node, &message, Some("k-1")).await;
    let (status, again) = send(&node, &message, Some("k-1")).await;
    assert_eq!((status, &again["message_id"]), (200, &first["message_id"]));
    let (_, other) = send(&node, &message, Some("k-2")).await;
    assert_ne!(other["message_id"], first["message_id"]);
    let entries = inbox(&node, CHILD).await;
    assert_eq!(entries.as_array().unwrap().len(), 2);
    assert_eq!(entries[0]["meta"]["idempotency"], "k-1");
    for bad in ["", &"x".repeat(256)] {
        let (status, body) = send(&node, &message, Some(bad)).await;
        assert_eq!(
            (status, &body["error"]["code"]),
            (400, &json!("schema_invalid"))
        );
    }
    node.stop().await;
}

// interface section 2: 404 not hosted, 423 suspended
#[tokio::test(flavor = "multi_thread")]
async fn who_is_not_hosted_or_suspended_sends_nothing() {
    let node = Setup::default().start().await;
    let (status, body) = send(&node, &outgoing(LIVING_ROOM, KITCHEN), None).await;
    assert_eq!((status, &body["error"]["code"]), (404, &json!("not_found")));
    let agent = format!("/admin/agents/value-context/{}", encoded(PARENT));
    let suspended = node
        .post(&format!("{agent}/suspend"), "")
        .send()
        .await
        .unwrap();
    assert_eq!(suspended.status(), 200);
    let (status, body) = send(&node, &outgoing(PARENT, CHILD), None).await;
    assert_eq!(
        (status, &body["error"]["code"]),
        (423, &json!("sender_suspended"))
    );
    let resumed = node
        .post(&format!("{agent}/resume"), "")
        .send()
        .await
        .unwrap();
    assert_eq!(resumed.status(), 200);
    assert_eq!(send(&node, &outgoing(PARENT, CHILD), None).await.0, 200);
    for bad in [json!([]), json!({"sender": PARENT})] {
        let (status, body) = send(&node, &bad, None).await;
        assert_eq!(
            (status, &body["error"]["code"]),
            (400, &json!("schema_invalid"))
        );
    }
    node.stop().await;
}

// VX-RTY-3, VX-RTY-7
#[tokio::test(flavor = "multi_thread")]
async fn a_message_travels_from_one_node_to_another() {
    let there = Setup::default().start().await;
    // The sending node knows an agent that only the other one hosts.
    let addresses = BTreeMap::from([(
        "agent://elsewhere/child".to_owned(),
        there.url("/.well-known/vcp/messages"),
    )]);
    let here = Setup {
        addresses,
        ..Setup::default()
    }
    .start()
    .await;
    let agent = json!({
        "protocol": "value-context", "id": "agent://elsewhere/child",
        "peers": [KITCHEN],
    });
    assert_eq!(
        there
            .post("/admin/agents", agent.to_string())
            .send()
            .await
            .unwrap()
            .status(),
        200
    );
    let (status, body) = send(&here, &outgoing(KITCHEN, "agent://elsewhere/child"), None).await;
    assert_eq!(status, 200, "{body}");
    let arrived = there.get(&format!("{}?wait=30", inbox_of("agent://elsewhere/child")));
    let (_, arrived) = answer(arrived.send().await.unwrap()).await;
    assert_eq!(
        arrived["entries"][0]["envelope"]["message_id"],
        body["message_id"]
    );
    assert_eq!(arrived["entries"][0]["meta"]["origin"], "external");
    here.stop().await;
    there.stop().await;
}

/// Answers one request with this, whatever it is.
async fn answering(response: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/in", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = vec![0; 4096];
        let _ = stream.read(&mut request).await.unwrap();
        stream.write_all(response.as_bytes()).await.unwrap();
    });
    address
}

async fn carried(status: &str, headers: &str, body: &str) -> chancery_node::Carried {
    use chancery_node::Carrier as _;
    let length = body.len();
    let response = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n{headers}\r\n{body}");
    let address = answering(response).await;
    let known = BTreeMap::from([("there".to_owned(), address)]);
    let carrier = chancery_doors::HttpCarrier::new(known).unwrap();
    let delivery = chancery_core::delivery::Delivery {
        protocol: chancery_core::line::ProtocolName::ValueContext,
        from: "here".to_owned(),
        to: "there".to_owned(),
        exempt: false,
        pauses_ms: Vec::new(),
        attempt_ms: 5_000,
        within_ms: None,
        then_ask: None,
    };
    carrier
        .carry(
            delivery,
            bytes::Bytes::from_static(b"{\"message_id\":\"m-1\"}"),
            chancery_node::Leave::always(),
        )
        .await
}

// VX-RTY-3, VX-RTY-4, VX-RTY-5
#[tokio::test(flavor = "multi_thread")]
async fn only_the_right_answer_counts_as_delivered() {
    use chancery_node::Carried::{Delivered, Failed, Refused};
    use std::time::Duration;
    let failed = Failed { at_least: None };
    let accepted = r#"{"status":"accepted","message_id":"m-1"}"#;
    assert_eq!(carried("200 OK", "", accepted).await, Delivered);
    let duplicate = r#"{"status":"duplicate","message_id":"m-1"}"#;
    assert_eq!(carried("200 OK", "", duplicate).await, Delivered);
    let other = r#"{"status":"accepted","message_id":"m-2"}"#;
    assert_eq!(carried("200 OK", "", other).await, failed);
    assert_eq!(carried("202 Accepted", "", accepted).await, failed);
    assert_eq!(carried("200 OK", "", "ok").await, failed);
    assert_eq!(
        carried("307 Temporary Redirect", "location: /there\r\n", "").await,
        failed
    );
    let rejected = |retryable| {
        format!(
            r#"{{"status":"rejected","message_id":"m-1","error":{{"code":"x","message":"y","retryable":{retryable}}}}}"#
        )
    };
    assert_eq!(
        carried("401 Unauthorized", "", &rejected(false)).await,
        Refused
    );
    assert_eq!(
        carried("503 Service Unavailable", "", &rejected(true)).await,
        failed
    );
    assert_eq!(carried("400 Bad Request", "", "no").await, failed);
    let later = |seconds| Failed {
        at_least: Some(Duration::from_secs(seconds)),
    };
    assert_eq!(
        carried("503 X", "retry-after: 7\r\n", &rejected(true)).await,
        later(7)
    );
    assert_eq!(
        carried("503 X", "retry-after: 700\r\n", &rejected(true)).await,
        later(30)
    );
}

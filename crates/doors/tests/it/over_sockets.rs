//! What the spec times, once over real sockets: a retry and an acknowledgement. The instants are shown on virtual time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::recorder::{Recorder, Reply};
use crate::support::{
    CHILD, KITCHEN, LIVING_ROOM, MESSAGES, PARENT, Running, Setup, answer, encoded, inbox_of,
};

async fn send(node: &Running, body: Value) -> String {
    let sent = node.post("/send/value-context", body.to_string());
    let (status, answer) = answer(sent.send().await.unwrap()).await;
    assert_eq!(status, 200, "{answer}");
    answer["message_id"].as_str().unwrap().to_owned()
}

// VX-RTY-1, VX-RTY-2, VX-RTY-3, VX-RTY-7, VX-ID-5
#[tokio::test(flavor = "multi_thread")]
async fn a_retry_brings_the_same_bytes_after_a_second() {
    // When each attempt came, whatever this test was doing then.
    let came = Arc::new(Mutex::new(Vec::new()));
    let stamps = Arc::clone(&came);
    let recorder = Recorder::listen(move |_| {
        let mut came = stamps.lock().unwrap();
        came.push(Instant::now());
        match came.len() {
            1 => Reply::Busy,
            _ => Reply::Accepted,
        }
    })
    .await;
    let node = Setup {
        addresses: BTreeMap::from([(LIVING_ROOM.to_owned(), recorder.url(MESSAGES))]),
        ..Setup::default()
    }
    .start()
    .await;
    let id = send(
        &node,
        json!({"sender": KITCHEN, "recipient": LIVING_ROOM, "type": "context_share",
            "payload": {"context": "📍🏡", "constitution_ref": "creed://creed.space/a@1.0.0"}}),
    )
    .await;
    recorder.got(&id, 2).await;
    while node.office.outbox_len() > 0 {
        tokio::task::yield_now().await;
    }
    let came = came.lock().unwrap().clone();
    // A slow machine makes it later, nothing makes it sooner: the wait begins when the first was answered.
    assert!(came[1] - came[0] >= Duration::from_secs(1), "{came:?}");
    let attempts = recorder.envelopes(&id);
    assert_eq!(attempts.len(), 2);
    assert_eq!(attempts[0], attempts[1]);
    node.stop().await;
}

// VX-ACK-1, VX-ACK-2, VX-ACK-5, VX-ACK-6, VX-RUN-2, VX-RUN-4
#[tokio::test(flavor = "multi_thread")]
async fn an_acknowledgement_comes_back_over_http() {
    let there = Setup {
        without: vec![CHILD],
        ..Setup::default()
    }
    .start()
    .await;
    let here = Setup {
        addresses: BTreeMap::from([(PARENT.to_owned(), there.url(MESSAGES))]),
        without: vec![PARENT],
        ..Setup::default()
    }
    .start()
    .await;
    let back = BTreeMap::from([(CHILD.to_owned(), here.url(MESSAGES))]);
    there.carrier.set_addresses(back);
    let id = send(
        &here,
        json!({"sender": CHILD, "recipient": PARENT, "type": "escalation",
            "payload": {"severity": "emergency", "reason": "smoke", "context": "📍🏡", "requires_ack": true}}),
    )
    .await;
    let wait = format!("{}?after=0&wait=30", inbox_of(CHILD));
    let (_, inbox) = answer(here.get(&wait).send().await.unwrap()).await;
    let acknowledgement = &inbox["entries"][0]["envelope"];
    assert_eq!(acknowledgement["sender"], PARENT);
    assert_eq!(acknowledgement["type"], "escalation");
    let payload = &acknowledgement["payload"];
    assert_eq!(payload["reason"], format!("ACK:{id};state=suspended"));
    assert_eq!(
        (&payload["severity"], &payload["requires_ack"]),
        (&json!("emergency"), &json!(false))
    );
    let signature = acknowledgement["signature"].as_str().unwrap();
    assert!(signature.starts_with("base64:"));
    let state = |node: &Running, agent: &str| {
        let request = node.get(&format!("/state/value-context/{}", encoded(agent)));
        async move { answer(request.send().await.unwrap()).await.1 }
    };
    assert_eq!(state(&there, PARENT).await["children"][CHILD], "suspended");
    assert_eq!(state(&here, CHILD).await["run_state"], "suspended");
    here.stop().await;
    there.stop().await;
}

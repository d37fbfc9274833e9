//! Messages over open WebSocket connections: to whoever is behind one, and between two nodes.

use std::collections::BTreeMap;

use futures_util::SinkExt as _;
use serde_json::{Value, json};

use crate::support::{KITCHEN, LIVING_ROOM, Running, Setup, answer, inbox_of, share};
use crate::websockets::{connect, next, status, text};

const CREED: &str = "creed://creed.space/family.safe.guide@1.2.0";

async fn send(node: &Running, from: &str, to: &str) -> Value {
    let body = json!({
        "sender": from, "recipient": to, "type": "context_share",
        "payload": {"context": "📍🏡", "constitution_ref": CREED},
    });
    let sent = node.post("/send/value-context", body.to_string());
    let (status, body) = answer(sent.send().await.unwrap()).await;
    assert_eq!(status, 200, "{body}");
    body["message_id"].clone()
}

/// Entries of an inbox once there are so many.
async fn arrived(node: &Running, agent: &str, count: usize) -> Vec<Value> {
    let (mut after, mut all) = (json!(0), Vec::new());
    while all.len() < count {
        let wait = format!("{}?after={after}&wait=30", inbox_of(agent));
        let (_, page) = answer(node.get(&wait).send().await.unwrap()).await;
        after = page["next"].clone();
        all.extend(page["entries"].as_array().unwrap().iter().cloned());
    }
    all
}

// VX-WS-3, VX-WS-10, VX-WS-11
#[tokio::test(flavor = "multi_thread")]
async fn a_message_goes_over_the_open_connection_of_its_recipient() {
    // An address is known, and nobody is there: the connection is preferred.
    let nowhere = BTreeMap::from([(LIVING_ROOM.to_owned(), "http://127.0.0.1:9/".to_owned())]);
    let node = Setup {
        addresses: nowhere,
        ..Setup::default()
    }
    .start()
    .await;
    for with_status in [true, false] {
        let mut socket = connect(&node, with_status).await;
        let greeting = share(u64::from(with_status));
        socket.send(text(&greeting)).await.unwrap();
        if with_status {
            assert_eq!(status(&mut socket).await["status"], "accepted");
        } else {
            let ping = tokio_tungstenite::tungstenite::Message::Ping("x".into());
            socket.send(ping).await.unwrap();
            next(&mut socket).await;
        }
        let id = send(&node, KITCHEN, LIVING_ROOM).await;
        let message = status(&mut socket).await;
        assert_eq!(message["message_id"], id);
        assert_eq!(message["vcp_message"], "1.2");
        if with_status {
            let body = json!({"status": "accepted", "message_id": id});
            socket
                .send(text(body.to_string().as_bytes()))
                .await
                .unwrap();
        } else {
            // Reading on answers the Ping that followed; nothing else comes.
            let quiet =
                tokio::time::timeout(std::time::Duration::from_millis(50), next(&mut socket));
            let _ = quiet.await;
        }
        while node.office.outbox_len() > 0 {
            tokio::task::yield_now().await;
        }
    }
    let line = node.office.gate().store().head().seq;
    let last = answer(node.get(&format!("/log/{line}")).send().await.unwrap())
        .await
        .1;
    assert_ne!(last["envelope"]["kind"], "failed");
    node.stop().await;
}

async fn host(node: &Running, id: &str, peers: &[&str], context: &str) {
    let agent = json!({
        "protocol": "value-context", "id": id, "peers": peers,
        "context": context, "constitution_ref": CREED,
    });
    let added = node.post("/admin/agents", agent.to_string());
    assert_eq!(added.send().await.unwrap().status(), 200);
}

// VX-WS-5, VX-WS-7, VX-WS-10
#[tokio::test(flavor = "multi_thread")]
async fn two_nodes_greet_and_talk_over_one_connection_both_ways() {
    let there = Setup::default().start().await;
    let url = format!("ws://{}/vcp/ws", there.address);
    host(&there, KITCHEN, &[LIVING_ROOM], "⏰🌅|📍🏡").await;
    let here = Setup {
        addresses: BTreeMap::from([(KITCHEN.to_owned(), url)]),
        without: vec![KITCHEN],
        ..Setup::default()
    }
    .start()
    .await;
    host(&here, LIVING_ROOM, &[KITCHEN], "⏰🌙|📍🏡").await;
    let id = send(&here, LIVING_ROOM, KITCHEN).await;
    let got = arrived(&there, KITCHEN, 1).await;
    assert!(
        got.iter()
            .any(|entry| entry["envelope"]["message_id"] == id)
    );
    // The way back is the same connection: nothing says where the living room is.
    let id = send(&there, KITCHEN, LIVING_ROOM).await;
    loop {
        let got = arrived(&here, LIVING_ROOM, 1).await;
        if got
            .iter()
            .any(|entry| entry["envelope"]["message_id"] == id)
        {
            break;
        }
    }
    here.stop().await;
    there.stop().await;
}

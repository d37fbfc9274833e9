//! The stop button: after the line that suspends an agent no byte of what it says leaves by any way, and what VX-RUN-3
//! exempts still does. Sockets here record every byte that comes.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

use crate::recorder::{Recorder, Reply};
use crate::support::{
    CHILD, KITCHEN, MESSAGES, PARENT, Running, Setup, answer, encoded, envelope, inbox_of, signed,
};
use crate::websockets::text;

const ROOT: &str = "agent://orchestrator.prod/root-000";
const MONITOR: &str = "agent://cluster.prod/safety-monitor";
const CREED: &str = "creed://creed.space/family.safe.guide@1.2.0";

fn share(from: &str, to: &str) -> Value {
    json!({
        "sender": from, "recipient": to, "type": "context_share",
        "payload": {"context": "📍🏡", "constitution_ref": CREED},
    })
}

fn escalation(from: &str, to: &str, severity: &str) -> Value {
    json!({
        "sender": from, "recipient": to, "type": "escalation",
        "payload": {"severity": severity, "reason": "smoke", "context": "📍🏡",
            "requires_ack": severity == "emergency"},
    })
}

async fn send(node: &Running, body: &Value) -> (u16, Value) {
    let sent = node.post("/send/value-context", body.to_string());
    answer(sent.send().await.unwrap()).await
}

async fn sent(node: &Running, body: &Value) -> String {
    let (status, answer) = send(node, body).await;
    assert_eq!(status, 200, "{body}: {answer}");
    answer["message_id"].as_str().unwrap().to_owned()
}

/// What the agent says by itself is refused: to somebody elsewhere, to somebody here, and past its own node.
async fn says_nothing_new(node: &Running, agent: &str, number: u64) {
    for to in [MONITOR, CHILD, "broadcast"] {
        let (status, refused) = send(node, &share(agent, to)).await;
        assert_eq!(
            (status, &refused["error"]["code"]),
            (423, &json!("sender_suspended"))
        );
    }
    let mut past_its_node = envelope(number);
    past_its_node["sender"] = json!(agent);
    past_its_node["recipient"] = json!(CHILD);
    let (status, refused) = node.share(signed(&past_its_node)).await;
    assert_eq!(
        (status, &refused["error"]["code"]),
        (423, &json!("sender_suspended"))
    );
    // In process, with native values and no signature.
    past_its_node["message_id"] = json!(crate::support::message_id(number + 1));
    let raw = past_its_node.to_string();
    let in_process = chancery_core::protocol::Door::InProcess;
    let refused = node.office.receive_value_context(raw.into(), in_process);
    assert_eq!(refused.await.unwrap_err().code, "sender_suspended");
    let (_, inbox) = answer(node.get(&inbox_of(CHILD)).send().await.unwrap()).await;
    let entries = inbox["entries"].as_array().unwrap();
    assert!(
        entries
            .iter()
            .all(|entry| entry["envelope"]["type"] != "context_share")
    );
}

async fn resume(node: &Running, agent: &str) {
    let path = format!("/admin/agents/value-context/{}/resume", encoded(agent));
    assert_eq!(node.post(&path, "").send().await.unwrap().status(), 200);
}

// VX-RUN-1, VX-RUN-2, VX-RUN-3, VX-RUN-4, VX-RUN-8, VX-RTY-7
#[tokio::test(flavor = "multi_thread")]
async fn over_http_nothing_leaves_but_cries_for_help() {
    let recorder = Recorder::listen(|envelope| match envelope["sender"].as_str() {
        // What the parent shares is under way for as long as it takes; the kitchen is always told to try again.
        Some(PARENT) if envelope["type"] == "context_share" => Reply::Nothing,
        Some(KITCHEN) => Reply::Busy,
        _ => Reply::Accepted,
    })
    .await;
    let url = recorder.url(MESSAGES);
    let node = Setup {
        addresses: BTreeMap::from([(MONITOR.to_owned(), url.clone()), (ROOT.to_owned(), url)]),
        ..Setup::default()
    }
    .start()
    .await;
    let under_way = sent(&node, &share(PARENT, MONITOR)).await;
    recorder.got(&under_way, 1).await;
    // A second one waits for its turn.
    let waiting = sent(&node, &share(PARENT, MONITOR)).await;

    // The line that suspends. The attempt under way is cut off: its connection ends.
    let emergency = sent(&node, &escalation(PARENT, ROOT, "emergency")).await;
    recorder.cut_off(&under_way).await;
    recorder.got(&emergency, 1).await;
    says_nothing_new(&node, PARENT, 1).await;

    // Still it cries for help, and forwards and acknowledges what its own child cries.
    let info = sent(&node, &escalation(PARENT, ROOT, "info")).await;
    recorder.got(&info, 1).await;
    let of_child = sent(&node, &escalation(CHILD, PARENT, "emergency")).await;
    recorder
        .got(&format!("FWD:{of_child} {CHILD}: smoke"), 1)
        .await;
    let (_, inbox) = answer(node.get(&inbox_of(CHILD)).send().await.unwrap()).await;
    assert!(
        inbox
            .to_string()
            .contains(&format!("ACK:{of_child};state=suspended"))
    );

    // Somebody else, who began later, is tried three times: by then both would have been tried again too.
    let other = sent(&node, &share(KITCHEN, MONITOR)).await;
    recorder.got(&other, 3).await;
    assert_eq!(recorder.count(&under_way), 1);
    assert_eq!(recorder.count(&waiting), 0);

    // Released, it says what it had to say, in the same bytes.
    resume(&node, PARENT).await;
    recorder.got(&under_way, 2).await;
    let twice = recorder.envelopes(&under_way);
    assert_eq!(twice[0], twice[1]);
    node.stop().await;
}

/// A stream that keeps what it reads.
struct Tapped {
    stream: TcpStream,
    read: Arc<Mutex<Vec<u8>>>,
}

impl AsyncRead for Tapped {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.read
            .lock()
            .unwrap()
            .extend_from_slice(&buffer.filled()[before..]);
        polled
    }
}

impl AsyncWrite for Tapped {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// The root behind a WebSocket connection, with every byte that came over it.
struct RootByWebSocket {
    socket: WebSocketStream<Tapped>,
    read: Arc<Mutex<Vec<u8>>>,
}

impl RootByWebSocket {
    /// Connects and is known: its first share is verified.
    async fn connect(node: &Running) -> Self {
        let mut request = format!("ws://{}/vcp/ws", node.address)
            .into_client_request()
            .unwrap();
        let protocol = "vcp.status.v1".parse().unwrap();
        request
            .headers_mut()
            .insert("sec-websocket-protocol", protocol);
        let read = Arc::default();
        let stream = Tapped {
            stream: TcpStream::connect(node.address).await.unwrap(),
            read: Arc::clone(&read),
        };
        let connected = tokio_tungstenite::client_async(request, stream).await;
        let mut root = Self {
            socket: connected.unwrap().0,
            read,
        };
        let mut greeting = envelope(1_000);
        greeting["sender"] = json!(ROOT);
        greeting["recipient"] = json!(PARENT);
        root.socket.send(text(&signed(&greeting))).await.unwrap();
        assert_eq!(root.next().await["status"], "accepted");
        root
    }

    /// The next text frame.
    async fn next(&mut self) -> Value {
        loop {
            match self.socket.next().await {
                Some(Ok(Message::Text(text))) => return serde_json::from_str(&text).unwrap(),
                Some(Ok(_)) => {}
                other => panic!("the connection ended: {other:?}"),
            }
        }
    }

    /// Waits for the message `id`, answers it; others are not answered.
    async fn answers(&mut self, id: &str, status: &str) {
        while self.next().await["message_id"] != id {}
        let mut answer = json!({"status": status, "message_id": id});
        if status == "rejected" {
            answer["error"] = json!({"code": "overloaded", "message": "busy", "retryable": true});
        }
        let answer = text(answer.to_string().as_bytes());
        self.socket.send(answer).await.unwrap();
    }

    /// How often an identifier came, as the member that names a message.
    fn count(&self, id: &str) -> usize {
        let read = self.read.lock().unwrap();
        let named = format!("\"message_id\":\"{id}\"");
        String::from_utf8_lossy(&read).matches(&named).count()
    }
}

// VX-RUN-1, VX-RUN-3, VX-WS-11
#[tokio::test(flavor = "multi_thread")]
async fn over_websocket_nothing_leaves_but_cries_for_help() {
    let node = Setup::default().start().await;
    let mut root = RootByWebSocket::connect(&node).await;
    let under_way = sent(&node, &share(PARENT, ROOT)).await;
    while root.next().await["message_id"] != under_way.as_str() {}
    let waiting = sent(&node, &share(PARENT, ROOT)).await;
    let emergency = sent(&node, &escalation(PARENT, ROOT, "emergency")).await;
    root.answers(&emergency, "accepted").await;
    says_nothing_new(&node, PARENT, 1).await;
    let info = sent(&node, &escalation(PARENT, ROOT, "info")).await;
    root.answers(&info, "accepted").await;

    // Somebody else, who began later, is tried four times, seven seconds long: by then the one that nobody answers
    // would have been tried again after its five, and the other would have had its turn.
    let other = sent(&node, &share(KITCHEN, ROOT)).await;
    for _ in 0..4 {
        root.answers(&other, "rejected").await;
    }
    assert_eq!((root.count(&under_way), root.count(&waiting)), (1, 0));

    resume(&node, PARENT).await;
    root.answers(&under_way, "accepted").await;
    root.answers(&waiting, "accepted").await;
    node.stop().await;
}

//! One WebSocket connection to a live node: what is answered, what is confirmed, what ends it.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Bytes, Message};

use crate::support::{
    KITCHEN, Running, Setup, answer, envelope, inbox_of, message_id, share, signed,
};

pub type Socket = WebSocketStream<TcpStream>;

/// Connects; with the status subprotocol or without.
pub async fn connect(node: &Running, status: bool) -> Socket {
    let url = format!("ws://{}/vcp/ws", node.address);
    let mut request = url.into_client_request().unwrap();
    if status {
        let protocols = "chat, vcp.status.v1".parse().unwrap();
        request
            .headers_mut()
            .insert("sec-websocket-protocol", protocols);
    }
    let stream = TcpStream::connect(node.address).await.unwrap();
    let (socket, response) = tokio_tungstenite::client_async(request, stream)
        .await
        .unwrap();
    let protocol = response.headers().get("sec-websocket-protocol");
    assert_eq!(protocol.is_some(), status);
    assert!(protocol.is_none_or(|protocol| protocol == "vcp.status.v1"));
    socket
}

pub fn text(bytes: &[u8]) -> Message {
    Message::text(String::from_utf8(bytes.to_vec()).unwrap())
}

/// The next frame that is no Ping.
pub async fn next(socket: &mut Socket) -> Message {
    loop {
        match socket.next().await {
            Some(Ok(Message::Ping(_))) => {}
            Some(Ok(message)) => return message,
            other => panic!("the connection ended: {other:?}"),
        }
    }
}

/// The next text frame as JSON.
pub async fn status(socket: &mut Socket) -> Value {
    match next(socket).await {
        Message::Text(text) => serde_json::from_str(text.as_str()).unwrap(),
        other => panic!("no text: {other:?}"),
    }
}

async fn close_code(socket: &mut Socket) -> CloseCode {
    loop {
        match next(socket).await {
            Message::Close(Some(frame)) => return frame.code,
            Message::Text(_) => {}
            other => panic!("no close: {other:?}"),
        }
    }
}

async fn entries(node: &Running, agent: &str) -> Vec<Value> {
    let (_, inbox) = answer(node.get(&inbox_of(agent)).send().await.unwrap()).await;
    inbox["entries"].as_array().unwrap().clone()
}

// VX-WS-1, VX-WS-2, VX-WS-4, VX-WS-5
#[tokio::test(flavor = "multi_thread")]
async fn with_the_subprotocol_each_envelope_is_answered_as_over_http() {
    let node = Setup::default().start().await;
    let mut socket = connect(&node, true).await;
    let said = |status, number| json!({"status": status, "message_id": message_id(number)});
    for (number, word) in [(1, "accepted"), (2, "accepted"), (1, "duplicate")] {
        socket.send(text(&share(number))).await.unwrap();
        assert_eq!(status(&mut socket).await, said(word, number));
    }
    let mut unsigned = envelope(3);
    unsigned["recipient"] = json!("nobody");
    socket.send(text(&signed(&unsigned))).await.unwrap();
    let refused = status(&mut socket).await;
    assert_eq!(refused["status"], "rejected");
    assert_eq!(refused["error"]["code"], "recipient_unknown");
    assert_eq!(refused["message_id"], message_id(3));
    // The first share of a sender on a connection is its greeting, and no other is.
    let vias: Vec<_> = entries(&node, KITCHEN)
        .await
        .iter()
        .map(|entry| entry["meta"].get("via").cloned())
        .collect();
    assert_eq!(vias, [Some(json!("greeting")), None]);
    node.stop().await;
    assert_eq!(close_code(&mut socket).await, CloseCode::Away);
}

// VX-WS-3, VX-WS-4
#[tokio::test(flavor = "multi_thread")]
async fn without_it_a_pong_confirms_that_the_frames_before_were_read() {
    let node = Setup::default().start().await;
    let mut socket = connect(&node, false).await;
    for number in 1..4 {
        socket.feed(text(&share(number))).await.unwrap();
        let ping = Message::Ping(Bytes::from(message_id(number)));
        socket.feed(ping).await.unwrap();
    }
    socket.flush().await.unwrap();
    let mut confirmed = Vec::new();
    while confirmed.last() != Some(&message_id(3)) {
        match next(&mut socket).await {
            Message::Pong(id) => confirmed.push(String::from_utf8(id.to_vec()).unwrap()),
            other => panic!("a frame that nobody asked for: {other:?}"),
        }
    }
    let wait = node.get(&format!("{}?after=0&wait=30", inbox_of(KITCHEN)));
    wait.send().await.unwrap();
    while entries(&node, KITCHEN).await.len() < 3 {
        tokio::task::yield_now().await;
    }
    node.stop().await;
}

// VX-WS-1
#[tokio::test(flavor = "multi_thread")]
async fn a_fragmented_message_is_put_together_and_a_plain_get_told_to_upgrade() {
    let node = Setup::default().start().await;
    let plain = node.get("/vcp/ws").send().await.unwrap();
    assert_eq!(plain.status(), 426);
    assert_eq!(plain.headers()["upgrade"], "websocket");
    let mut old = node.get("/vcp/ws").build().unwrap();
    for (name, value) in [
        ("connection", "upgrade"),
        ("upgrade", "websocket"),
        ("sec-websocket-version", "8"),
        ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ] {
        old.headers_mut().insert(name, value.parse().unwrap());
    }
    assert_eq!(node.client.execute(old).await.unwrap().status(), 426);
    let mut socket = connect(&node, true).await;
    use tokio_tungstenite::tungstenite::protocol::frame::Frame;
    use tokio_tungstenite::tungstenite::protocol::frame::coding::{Data, OpCode};
    let body = share(1);
    let (first, rest) = body.split_at(100);
    let frame = |bytes: &[u8], code, last| {
        Message::Frame(Frame::message(
            Bytes::copy_from_slice(bytes),
            OpCode::Data(code),
            last,
        ))
    };
    socket.send(frame(first, Data::Text, false)).await.unwrap();
    socket
        .send(frame(rest, Data::Continue, true))
        .await
        .unwrap();
    assert_eq!(status(&mut socket).await["status"], "accepted");
    node.stop().await;
}

// VX-WS-9
#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_envelope_at_all_ends_the_connection_with_its_code() {
    let node = Setup::default().start().await;
    let large = format!("{{\"a\":\"{}\"}}", "x".repeat(70_000));
    let cases = [
        (Message::binary(share(1)), CloseCode::Unsupported),
        (Message::text("no JSON"), CloseCode::Invalid),
        (Message::text("[1]"), CloseCode::Invalid),
        (Message::text("\"text\""), CloseCode::Invalid),
        (Message::text(large), CloseCode::Size),
    ];
    for (frame, code) in cases {
        for with_status in [true, false] {
            let mut socket = connect(&node, with_status).await;
            socket.send(frame.clone()).await.unwrap();
            assert_eq!(close_code(&mut socket).await, code);
        }
    }
    node.stop().await;
}

// VX-WS-9, VX-ERR-4
#[tokio::test(flavor = "multi_thread")]
async fn ten_dropped_frames_end_the_connection() {
    let node = Setup::default().start().await;
    let mut socket = connect(&node, true).await;
    for number in 0..10 {
        let mut message = envelope(number);
        message["recipient"] = json!("nobody");
        socket.send(text(&signed(&message))).await.unwrap();
    }
    let mut answers = 0;
    let code = loop {
        match next(&mut socket).await {
            Message::Text(_) => answers += 1,
            Message::Close(Some(frame)) => break frame.code,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!((answers, code), (10, CloseCode::Policy));
    node.stop().await;
}

/// Reads what the node sends without answering anything; tells when each piece came, and when it ended.
async fn arrivals(stream: &mut TcpStream) -> (Vec<(Instant, Vec<u8>)>, Instant) {
    let mut pieces = Vec::new();
    let mut buffer = [0; 1024];
    loop {
        let read = stream.read(&mut buffer).await.unwrap_or_default();
        let at = Instant::now();
        match read {
            0 => return (pieces, at),
            read => pieces.push((at, buffer[..read].to_vec())),
        }
    }
}

// VX-WS-6
#[tokio::test]
async fn a_silent_connection_is_pinged_after_20_s_and_ends_after_45() {
    /// Timers go by whole milliseconds.
    const TICKS: Duration = Duration::from_millis(2);
    let node = Setup::default().start().await;
    let asked = Instant::now();
    let mut stream = TcpStream::connect(node.address).await.unwrap();
    let request = "GET /vcp/ws HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(stream.read_u8().await.unwrap());
    }
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.contains("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="), "{answer}");
    // Time that is not real passes whenever all wait: not before the node has the connection, which is real.
    let connected = Instant::now();
    tokio::time::pause();
    let (pieces, ended) = arrivals(&mut stream).await;
    let [(first, one), (second, two)] = &pieces[..] else {
        panic!("two pieces: {pieces:?}");
    };
    assert_eq!((&one[..], &two[..]), (&[0x89, 0x00][..], &[0x89, 0x00][..]));
    // The node's time began in between.
    let after = |since: Instant, seconds: u64| since + Duration::from_secs(seconds);
    assert!(*first >= after(asked, 20) && *first <= after(connected, 20) + TICKS);
    for (at, seconds) in [(*second, 20), (ended, 25)] {
        let due = after(*first, seconds);
        assert!(at + TICKS >= due && at <= due + TICKS, "{:?}", at - *first);
    }
}

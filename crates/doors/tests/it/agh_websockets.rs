//! AGH peers over WebSocket: a real client, in both revisions, with and without a broker.

use std::sync::Arc;
use std::time::Duration;

use chancery_agh::revision::Mode;
use chancery_agh::settings::Settings as AghSettings;
use chancery_node::Clock;
use chancery_node::suite::AllSettings;
use chancery_store::{Memory, Store};
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message};

use crate::kept::fresh;
use crate::nats_support::{CHANNEL, WORKER, must, now, peer, until};
use crate::support::{Running, Setup, answer};
use crate::websockets::{Socket, next, status, text};

pub const VISITOR: &str = "visitor.session-7";

fn settings(revision: Mode) -> AllSettings {
    AllSettings {
        agh: AghSettings {
            revision,
            ..AghSettings::default()
        },
        ..AllSettings::default()
    }
}

/// A node with one hosted peer.
async fn node_with(setup: Setup, workspace: Option<&str>) -> Running {
    let setup = Setup {
        clock: Clock::System,
        ..setup
    };
    let node = setup.start().await;
    let hosted = [peer(WORKER, workspace)];
    node.office.reconcile_peers(&hosted).await.unwrap();
    node
}

fn place(peer: &str, workspace: Option<&str>) -> String {
    let workspace = workspace.map(|name| format!("&workspace={name}"));
    let workspace = workspace.unwrap_or_default();
    format!("/agh/ws?channel={CHANNEL}&peer={peer}{workspace}")
}

/// Connects, or gives the status of the refusal.
pub async fn try_connect(
    address: std::net::SocketAddr,
    path: &str,
    token: Option<&str>,
    protocol: Option<&str>,
) -> Result<Socket, u16> {
    let mut request = format!("ws://{address}{path}")
        .into_client_request()
        .unwrap();
    let headers = request.headers_mut();
    if let Some(token) = token {
        headers.insert("authorization", format!("Bearer {token}").parse().unwrap());
    }
    if let Some(protocol) = protocol {
        headers.insert("sec-websocket-protocol", protocol.parse().unwrap());
    }
    let stream = TcpStream::connect(address).await.unwrap();
    match tokio_tungstenite::client_async(request, stream).await {
        Ok((socket, _)) => Ok(socket),
        Err(Error::Http(response)) => Err(response.status().as_u16()),
        Err(error) => panic!("{error}"),
    }
}

async fn connect(node: &Running, workspace: Option<&str>) -> Socket {
    let path = place(VISITOR, workspace);
    try_connect(node.address, &path, None, None).await.unwrap()
}

/// An envelope of the visitor, with these members changed.
pub fn envelope(id: &str, workspace: Option<&str>, members: Value) -> Value {
    let mut envelope = json!({
        "protocol": "agh-network/v0", "id": id, "channel": CHANNEL, "from": VISITOR, "to": null,
        "ts": now(), "proof": null,
    });
    if let Some(workspace) = workspace {
        envelope["workspace_id"] = json!(workspace);
    }
    for (name, value) in members.as_object().unwrap() {
        envelope[name] = value.clone();
    }
    envelope
}

pub fn say(id: &str, workspace: Option<&str>) -> Value {
    let mut members = json!({"kind": "say", "body": {"text": id}});
    if workspace.is_some() {
        members["surface"] = json!("thread");
        members["thread_id"] = json!("thread_main-1");
    }
    envelope(id, workspace, members)
}

async fn send(socket: &mut Socket, envelope: &Value) {
    let frame = text(envelope.to_string().as_bytes());
    socket.send(frame).await.unwrap();
}

/// What the worker is told to send: work for the visitor, named in the words of the revision.
fn work(workspace: Option<&str>, number: usize) -> Value {
    let mut body = json!({
        "from": WORKER, "channel": CHANNEL, "to": VISITOR, "body": {"text": format!("do {number}")},
    });
    match workspace {
        None => {
            body["kind"] = json!("direct");
            body["interaction_id"] = json!(format!("int-{number}"));
        }
        Some(workspace) => {
            body["kind"] = json!("say");
            body["workspace_id"] = json!(workspace);
            body["surface"] = json!("thread");
            body["thread_id"] = json!("thread_main-1");
            body["work_id"] = json!(format!("work_{number}"));
        }
    }
    body
}

async fn node_sends(node: &Running, body: &Value) {
    let body = body.to_string();
    node.office.send_agh(body.as_bytes(), None).await.unwrap();
}

async fn inbox(node: &Running, workspace: Option<&str>, count: usize) -> Vec<Value> {
    let name = chancery_agh::peer::inbox(workspace, CHANNEL, WORKER);
    let read = || node.office.inboxes().read(&name, 0, 1_000).unwrap();
    until("the worker's inbox fills", async || read().len() >= count).await;
    let envelope = |line: &[u8]| serde_json::from_slice::<Value>(line).unwrap()["envelope"].clone();
    read().iter().map(|entry| envelope(&entry.line)).collect()
}

pub fn standing(node: &Running, workspace: Option<&str>, peer: &str) -> Value {
    let state = node.office.agh_state(workspace, CHANNEL).unwrap();
    let peers = state["peers"].as_array().unwrap();
    let found = peers.iter().find(|known| known["peer_id"] == peer);
    found.map_or(Value::Null, |known| known["state"].clone())
}

async fn gone(node: &Running, workspace: Option<&str>) {
    until("the visitor leaves", async || {
        standing(node, workspace, VISITOR).is_null()
    })
    .await;
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

/// The whole visit: joined, heard, answered, worked with, asked about, left.
async fn visit(mode: Mode, workspace: Option<&str>) {
    visit_on(Arc::new(Memory::new()), mode, workspace).await;
}

async fn visit_on(store: Arc<dyn Store>, mode: Mode, workspace: Option<&str>) {
    let setup = Setup {
        settings: settings(mode),
        store,
        ..Setup::default()
    };
    let node = node_with(setup, workspace).await;
    let mut socket = connect(&node, workspace).await;
    assert_eq!(standing(&node, workspace, VISITOR), "local");
    // What it says reaches those who are hosted here.
    send(&mut socket, &say("hello", workspace)).await;
    assert_eq!(inbox(&node, workspace, 1).await[0]["id"], "hello");
    // What they send reaches it, as they made it.
    node_sends(&node, &work(workspace, 1)).await;
    let asked = status(&mut socket).await;
    assert_eq!(asked["body"]["text"], "do 1");
    assert_eq!(asked["from"], WORKER);
    // It takes the work on: the interaction moves for both.
    let mut receipt = json!({
        "kind": "receipt", "to": WORKER, "reply_to": asked["id"],
        "body": {"for_id": asked["id"], "status": "accepted"},
    });
    for name in ["interaction_id", "work_id", "surface", "thread_id"] {
        if let Some(value) = asked.get(name) {
            receipt[name] = value.clone();
        }
    }
    send(&mut socket, &envelope("r1", workspace, receipt)).await;
    let heard = inbox(&node, workspace, 2).await;
    assert_eq!(heard[1]["body"]["status"], "accepted");
    let state = node.office.agh_state(workspace, CHANNEL).unwrap();
    assert_eq!(state["interactions"][0]["state"], "working");
    // The node answers its question for the hosted peer, and others' questions for it.
    let question = json!({"kind": "whois", "body": {"type": "request", "query": "test.run"}});
    send(&mut socket, &envelope("q1", workspace, question)).await;
    let told = status(&mut socket).await;
    assert_eq!(
        (&told["kind"], &told["from"]),
        (&json!("whois"), &json!(WORKER))
    );
    assert_eq!(told["reply_to"], "q1");
    let mut ask = json!({
        "from": WORKER, "channel": CHANNEL, "kind": "whois", "to": VISITOR, "body": {"type": "request"},
    });
    if let Some(workspace) = workspace {
        ask["workspace_id"] = json!(workspace);
    }
    let ask = ask.to_string();
    let asked = node.office.send_agh(ask.as_bytes(), None).await;
    let emitted: Value = serde_json::from_slice(&asked.unwrap().emitted[0]).unwrap();
    assert_eq!(emitted["body"]["peer_card"]["peer_id"], VISITOR);
    drop(socket);
    gone(&node, workspace).await;
    // Whoever is gone cannot be written to (AG-PRS-7).
    let body = work(workspace, 2).to_string();
    let refused = node.office.send_agh(body.as_bytes(), None).await;
    assert_eq!(refused.unwrap_err().code, "not_found");
    node.stop().await;
}

// AG-NAT-12, AG-PRS-5, AG-LIF-10, AG-WHO-3, AG-WHO-4, AG-SND-1
#[tokio::test(flavor = "multi_thread")]
async fn a_peer_visits_in_revision_a() {
    visit(Mode::A, None).await;
}

// AG-NAT-12, AG-B-25
#[tokio::test(flavor = "multi_thread")]
async fn a_peer_visits_in_revision_b() {
    visit(Mode::B, Some("w1")).await;
}

// AG-NAT-12, AG-B-25, CH-JRN-5
#[tokio::test(flavor = "multi_thread")]
async fn a_peer_visits_a_node_on_postgresql() {
    visit_on(fresh("visit-a"), Mode::A, None).await;
    visit_on(fresh("visit-b"), Mode::B, Some("w1")).await;
}

// AG-B-40, AG-B-43
#[tokio::test(flavor = "multi_thread")]
async fn a_peer_visits_a_node_that_speaks_both() {
    visit(Mode::Dual, None).await;
    visit(Mode::Dual, Some("w1")).await;
}

// interface 2: `/agh/ws`
#[tokio::test(flavor = "multi_thread")]
async fn ten_bad_frames_in_a_minute_end_the_connection() {
    let node = node_with(Setup::default(), None).await;
    let mut socket = connect(&node, None).await;
    let changed = |name: &str, value: Value| {
        let mut envelope = say(&format!("bad-{name}"), None);
        envelope[name] = value;
        envelope.to_string()
    };
    let bad = [
        ("not json".to_owned(), "not_json"),
        ("[]".to_owned(), "not_object"),
        (changed("from", json!(WORKER)), "invalid_peer_id"),
        (changed("channel", json!("others")), "invalid_channel"),
        (changed("workspace_id", json!("w1")), "invalid_workspace_id"),
        (changed("ts", json!(1)), "too_old"),
        (changed("body", json!({})), "invalid_body"),
        (changed("kind", json!("shout")), "unsupported_kind"),
        (changed("extra", json!(1)), "unknown_field"),
    ];
    for (frame, error) in &bad {
        socket.send(text(frame.as_bytes())).await.unwrap();
        let told = status(&mut socket).await;
        assert_eq!(
            (&told["verdict"], &told["error"]),
            (&json!("reject"), &json!(error)),
            "{frame}"
        );
    }
    // What is wrong with the world and not with the frame is told and does not count.
    let nobody =
        json!({"kind": "direct", "to": "nobody.x", "interaction_id": "i", "body": {"text": "?"}});
    for number in 0..10 {
        let id = format!("d{number}");
        send(&mut socket, &envelope(&id, None, nobody.clone())).await;
        let told = status(&mut socket).await;
        assert_eq!(
            (&told["error"], &told["id"]),
            (&json!("not_found"), &json!(id))
        );
    }
    send(&mut socket, &say("fine", None)).await;
    assert_eq!(inbox(&node, None, 1).await[0]["id"], "fine");
    socket.send(text(b"{")).await.unwrap();
    assert_eq!(close_code(&mut socket).await, CloseCode::Policy);
    gone(&node, None).await;
    node.stop().await;
}

// interface 2: `/agh/ws`, AG-PRS-5
#[tokio::test(flavor = "multi_thread")]
async fn a_peer_has_one_connection_and_a_configured_one_has_none() {
    let node = node_with(Setup::default(), None).await;
    let refused = async |path: &str| {
        try_connect(node.address, path, None, None)
            .await
            .err()
            .unwrap_or(101)
    };
    let socket = connect(&node, None).await;
    assert_eq!(refused(&place(VISITOR, None)).await, 409);
    assert_eq!(refused(&place(WORKER, None)).await, 409);
    // The other revision's addresses are others (AG-B-43).
    let in_b = try_connect(node.address, &place(VISITOR, Some("w1")), None, None).await;
    assert!(in_b.is_ok());
    for wrong in [
        "/agh/ws",
        "/agh/ws?channel=builders",
        "/agh/ws?peer=a",
        "/agh/ws?channel=B&peer=a",
        "/agh/ws?channel=b&peer=A",
        "/agh/ws?channel=b&peer=a&workspace=w.1",
    ] {
        assert_eq!(refused(wrong).await, 400, "{wrong}");
    }
    let plain = node.get(&place("a", None)).send().await.unwrap();
    assert_eq!(plain.status(), 426);
    drop(socket);
    gone(&node, None).await;
    connect(&node, None).await;
    node.stop().await;
}

// AG-B-40
#[tokio::test(flavor = "multi_thread")]
async fn a_node_of_one_revision_hosts_visitors_of_that_one_alone() {
    for (mode, wrong) in [(Mode::A, Some("w1")), (Mode::B, None)] {
        let setup = Setup {
            settings: settings(mode),
            ..Setup::default()
        };
        let node = setup.start().await;
        let path = place(VISITOR, wrong);
        let refused = try_connect(node.address, &path, None, None).await;
        assert_eq!(refused.err(), Some(400));
        node.stop().await;
    }
}

// CH-NET-4, CH-ID-2, AG-DLV-6
#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_token_ends_its_connection_and_its_event_stream() {
    let setup = Setup {
        dev: false,
        ..Setup::default()
    };
    let node = node_with(setup, None).await;
    let scopes = vec![
        format!("send:{CHANNEL}/{VISITOR}"),
        format!("read:inbox:{CHANNEL}/{WORKER}"),
    ];
    let (record, token) = node.office.issue_token("tester", scopes).await.unwrap();
    let (_, other) = node
        .office
        .issue_token("other", vec![format!("send:{CHANNEL}/{WORKER}")])
        .await
        .unwrap();
    let path = place(VISITOR, None);
    let refused = try_connect(node.address, &path, Some(&other), None).await;
    assert_eq!(refused.err(), Some(403));
    assert_eq!(
        try_connect(node.address, &path, None, None).await.err(),
        Some(401)
    );
    let mut socket = try_connect(node.address, &path, Some(&token), None)
        .await
        .unwrap();
    let stream = node
        .get(&format!("/inbox/agh/{CHANNEL}/{WORKER}"))
        .header("accept", "text/event-stream")
        .bearer_auth(&token);
    let mut stream = stream.send().await.unwrap();
    assert!(stream.chunk().await.unwrap().is_some());
    // Another token's change ends nothing.
    node.office.issue_token("third", Vec::new()).await.unwrap();
    send(&mut socket, &say("still here", None)).await;
    let event = must("an event", stream.chunk()).await.unwrap().unwrap();
    assert!(String::from_utf8_lossy(&event).contains("still here"));
    node.office.revoke_token(&record.id).await.unwrap();
    assert_eq!(
        must("the end", close_code(&mut socket)).await,
        CloseCode::Policy
    );
    let end = must("the end of the stream", stream.chunk()).await;
    assert!(end.is_err() || end.unwrap().is_none());
    gone(&node, None).await;
    node.stop().await;
}

// AG-DLV-2, AG-DLV-3, AG-DLV-4, CH-LIM-1
#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_stalls_is_let_go_and_finds_the_rest_later() {
    let setup = Setup {
        options: |options| {
            options.ws_limits.outgoing_bytes = 64 << 10;
            options.ws_limits.write_timeout = Duration::from_secs(5);
        },
        ..Setup::default()
    };
    let node = node_with(setup, None).await;
    let socket = connect(&node, None).await;
    // More than the buffers of both systems hold, in fewer envelopes than an inbox shows.
    let padding = "x".repeat(512 << 10);
    let mut sent = 0;
    while standing(&node, None, VISITOR) == "local" && sent < 90 {
        let mut body = work(None, sent);
        body["body"]["artifacts"] = json!([padding]);
        let body = body.to_string();
        if node.office.send_agh(body.as_bytes(), None).await.is_err() {
            break;
        }
        sent += 1;
    }
    gone(&node, None).await;
    drop(socket);
    let mut socket = connect(&node, None).await;
    let first = status(&mut socket).await;
    let first = first["interaction_id"].as_str().unwrap().to_owned();
    println!("{sent} were sent; {first} is the first that was not handed over");
    let mut last = first;
    while last != format!("int-{}", sent - 1) {
        last = must("the rest", status(&mut socket)).await["interaction_id"]
            .as_str()
            .unwrap()
            .to_owned();
    }
    node.stop().await;
}

// interface 2: `/agh/ws`
#[tokio::test(flavor = "multi_thread")]
async fn a_silent_connection_is_pinged_and_ends_without_an_answer() {
    let setup = Setup {
        options: |options| {
            options.ws_limits.ping_after = Duration::from_millis(500);
            options.ws_limits.silence = Duration::from_secs(4);
        },
        ..Setup::default()
    };
    let node = node_with(setup, None).await;
    let mut socket = connect(&node, None).await;
    // A client that reads answers the pings, and stays for longer than the silence that is allowed.
    let mut pings = 0;
    while pings < 12 {
        match must("a ping", socket.next()).await {
            Some(Ok(Message::Ping(_))) => pings += 1,
            other => panic!("no ping: {other:?}"),
        }
    }
    assert_eq!(standing(&node, None, VISITOR), "local");
    // One that reads nothing answers nothing.
    gone(&node, None).await;
    node.stop().await;
}

// interface 2: `/agh/ws`, CH-NET-3
#[tokio::test(flavor = "multi_thread")]
async fn each_end_has_its_code() {
    let setup = Setup {
        settings: AllSettings {
            agh: AghSettings {
                max_payload: 4_096,
                ..AghSettings::default()
            },
            ..AllSettings::default()
        },
        ..Setup::default()
    };
    let node = node_with(setup, None).await;
    let frames = [
        (Message::binary(b"{}".to_vec()), CloseCode::Unsupported),
        (Message::text("x".repeat(5_000)), CloseCode::Size),
    ];
    for (frame, code) in frames {
        let mut socket = connect(&node, None).await;
        socket.send(frame).await.unwrap();
        assert_eq!(close_code(&mut socket).await, code);
        gone(&node, None).await;
    }
    let mut socket = connect(&node, None).await;
    node.stop().await;
    assert_eq!(close_code(&mut socket).await, CloseCode::Away);
}

// With the subprotocol a peer is told of everything it sends; without it, of what did not count.
#[tokio::test(flavor = "multi_thread")]
async fn with_the_subprotocol_each_frame_is_answered() {
    let node = node_with(Setup::default(), None).await;
    let path = place(VISITOR, None);
    let mut socket = try_connect(node.address, &path, None, Some("agh.status.v1"))
        .await
        .unwrap();
    for (id, verdict) in [("one", "accept"), ("two", "accept"), ("one", "reject")] {
        send(&mut socket, &say(id, None)).await;
        let told = status(&mut socket).await;
        assert_eq!(
            (&told["id"], &told["verdict"]),
            (&json!(id), &json!(verdict))
        );
    }
    node.stop().await;
}

// CH-ID-5
#[tokio::test(flavor = "multi_thread")]
async fn a_suspended_visitor_says_nothing() {
    let node = node_with(Setup::default(), None).await;
    let mut socket = connect(&node, None).await;
    let agent = format!("/admin/agents/agh/{CHANNEL}%2F{VISITOR}");
    let (code, _) = answer(
        node.post(&format!("{agent}/suspend"), "{}")
            .send()
            .await
            .unwrap(),
    )
    .await;
    assert_eq!(code, 200);
    send(&mut socket, &say("psst", None)).await;
    assert_eq!(status(&mut socket).await["error"], "sender_suspended");
    let (code, _) = answer(
        node.post(&format!("{agent}/resume"), "{}")
            .send()
            .await
            .unwrap(),
    )
    .await;
    assert_eq!(code, 200);
    send(&mut socket, &say("again", None)).await;
    assert_eq!(inbox(&node, None, 1).await[0]["id"], "again");
    node.stop().await;
}

// AG-GRT-4, CH-JRN-13
#[tokio::test(flavor = "multi_thread")]
async fn a_visitors_own_greeting_changes_its_card() {
    let node = node_with(Setup::default(), None).await;
    let mut socket = connect(&node, None).await;
    let greet = |id: &str| {
        let card = json!({
            "peer_id": VISITOR, "display_name": "Visitor", "profiles_supported": [],
            "capabilities": ["look.around"], "artifacts_supported": [], "trust_modes_supported": [],
        });
        envelope(
            id,
            None,
            json!({"kind": "greet", "body": {"peer_card": card}}),
        )
    };
    let before = node.office.gate().store().head().seq;
    send(&mut socket, &greet("g1")).await;
    until("the card", async || {
        let state = node.office.agh_state(None, CHANNEL).unwrap();
        state["peers"].to_string().contains("look.around")
    })
    .await;
    // Only the first says something new.
    send(&mut socket, &greet("g2")).await;
    send(&mut socket, &say("after", None)).await;
    inbox(&node, None, 1).await;
    assert_eq!(node.office.gate().store().head().seq, before + 2);
    node.stop().await;
}

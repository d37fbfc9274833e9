//! Two nodes on one journal: whoever is connected to one gets what the other took (CH-JRN-5).

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, ErrorKind, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use chancery_testkit::postgres_server::PostgresServer;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{Error, Message, WebSocket, client};

use crate::agh_house::until;
use crate::on_postgres::is_whole;
use crate::served::{HOSTED, Served, share, share_from, signal};
use crate::support::Place;
use crate::two_nodes::two;
use crate::two_nodes_bus::broker;
use crate::two_nodes_duties::{ELSEWHERE, ELSEWHERE_SEED, SPEAKER, place as family};
use crate::wire::segment;

const CHANNEL: &str = "builders";
const WORKER: &str = "worker.session-1";
const VISITOR: &str = "visitor.session-7";
/// No frame takes longer to come, on however busy a machine.
const PATIENCE: Duration = Duration::from_secs(90);

fn connect(node: &Served, path: &str) -> WebSocket<TcpStream> {
    let stream = TcpStream::connect(node.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let url = format!("ws://{}{path}", node.address);
    client(url, stream).unwrap().0
}

/// The next envelope that comes over a connection; Pings are answered.
fn next(socket: &mut WebSocket<TcpStream>) -> Value {
    loop {
        match socket.read().expect("the connection lasts") {
            Message::Text(text) => return serde_json::from_str(text.as_str()).unwrap(),
            _ => socket.flush().unwrap(),
        }
    }
}

/// Reads what has come over a connection, so that it does not seem silent to its node; Pings are answered.
fn stays(socket: &mut WebSocket<TcpStream>) {
    let patience = |socket: &WebSocket<TcpStream>, patience| {
        socket.get_ref().set_read_timeout(Some(patience)).unwrap();
    };
    patience(socket, Duration::from_millis(10));
    let ended = loop {
        if let Err(error) = socket.read().and_then(|_| socket.flush()) {
            break error;
        }
    };
    let nothing_more = |error: &std::io::Error| {
        [ErrorKind::WouldBlock, ErrorKind::TimedOut].contains(&error.kind())
    };
    assert!(
        matches!(&ended, Error::Io(error) if nothing_more(error)),
        "the connection lasts: {ended}"
    );
    patience(socket, PATIENCE);
}

/// The speaker says something to the listener elsewhere; gives its identifier.
pub fn speak(node: &Served) -> String {
    let says = json!({
        "sender": SPEAKER, "recipient": ELSEWHERE, "type": "context_share",
        "payload": {"context": "📍🏡", "constitution_ref": "creed://creed.space/home@1.0.0"},
    });
    let sent = node
        .wire()
        .post("/send/value-context", says.to_string().as_bytes());
    let sent = sent.unwrap().ok();
    sent["message_id"].as_str().unwrap().to_owned()
}

#[test]
fn a_listener_connected_to_either_node_gets_what_either_takes() {
    // VX-WS-10, VX-WS-11, CH-JRN-5
    let server = PostgresServer::start();
    connected_to_either(&family(&server, "listeners", NOBODY));
}

#[test]
fn a_listener_connected_to_either_node_gets_what_either_takes_with_a_bus() {
    // VX-WS-10, VX-WS-11, CH-JRN-5: an order is taken by any node, and the recipient is connected to one of them.
    let (server, broker) = (PostgresServer::start(), broker());
    let place = family(&server, "listeners", NOBODY).with("CHANCERY_BUS", &broker.url());
    connected_to_either(&place);
}

/// Nobody answers there: the connection is the only way.
const NOBODY: &str = "http://127.0.0.1:1";

fn connected_to_either(place: &Place) {
    let nodes = two(place);
    // One of the two does not deliver by itself.
    for at in &nodes {
        let mut socket = connect(at, "/vcp/ws");
        let hello = share_from(ELSEWHERE, ELSEWHERE_SEED, SPEAKER);
        let hello = String::from_utf8(hello.bytes).unwrap();
        socket.send(Message::text(hello)).unwrap();
        let mut wanted: BTreeSet<String> = nodes.iter().map(speak).collect();
        while !wanted.is_empty() {
            let envelope = next(&mut socket);
            wanted.remove(envelope["message_id"].as_str().unwrap());
        }
        socket.close(None).unwrap();
        // The answer to the close is the last frame: then the node knows it too.
        while socket.read().is_ok() {}
    }
    nodes.into_iter().for_each(Served::stop_well);
    is_whole(place);
}

/// A place whose nodes host one AGH peer.
pub fn agh_place(server: &PostgresServer, journal: &str) -> Place {
    let place = Place::new()
        .with("CHANCERY_LISTEN", "127.0.0.1:0")
        .with("CHANCERY_DATA", "data")
        .with("CHANCERY_DEV", "true")
        .on(server, journal);
    let peer = format!(
        "[agh]\nrevision = \"a\"\n[[agh.peer]]\nid = \"{WORKER}\"\nchannel = \"{CHANNEL}\"\n"
    );
    place.write("chancery.toml", peer);
    place
}

#[test]
fn a_peer_connected_to_one_node_gets_what_the_other_takes() {
    // AG-DLV-4, interface 2, CH-JRN-5
    let server = PostgresServer::start();
    let place = agh_place(&server, "visitors");
    let [a, b] = two(&place);
    let path = format!("/agh/ws?channel={CHANNEL}&peer={VISITOR}");
    let mut socket = connect(&b, &path);
    for (number, node) in [(1, &a), (2, &b)] {
        let work = json!({
            "from": WORKER, "channel": CHANNEL, "to": VISITOR, "kind": "direct",
            "interaction_id": format!("int-{number}"), "body": {"text": "do it"},
        });
        let work = work.to_string();
        until("the visitor is on record", || {
            let sent = node.wire().post("/send/agh", work.as_bytes()).unwrap();
            (sent.status == 200).then_some(())
        });
        let envelope = next(&mut socket);
        assert_eq!(envelope["interaction_id"], format!("int-{number}"));
    }
    // One connection for a peer, on whichever node.
    let taken = until("the other node knows of the connection", || {
        let stream = TcpStream::connect(a.address).unwrap();
        client(format!("ws://{}{path}", a.address), stream).err()
    });
    assert!(taken.to_string().contains("409"), "{taken}");
    socket.close(None).unwrap();
    while socket.read().is_ok() {}
    [a, b].into_iter().for_each(Served::stop_well);
    is_whole(&place);
}

fn visit(node: &Served, peer: &str) -> WebSocket<TcpStream> {
    connect(node, &format!("/agh/ws?channel={CHANNEL}&peer={peer}"))
}

/// Whether a peer is on record, as a node tells it.
fn is_there(node: &Served, peer: &str) -> bool {
    let state = node.wire().get(&format!("/state/agh/{CHANNEL}"));
    let state = state.unwrap().ok();
    let mut peers = state["peers"].as_array().unwrap().iter();
    peers.any(|one| one["peer_id"] == peer)
}

#[test]
fn a_peer_whose_node_is_killed_is_gone_and_the_others_stay() {
    // AG-DLV-4, interface 2, CH-JRN-5
    const OTHER: &str = "visitor.session-8";
    let server = PostgresServer::start();
    let place = agh_place(&server, "killed-under-peers");
    let [a, b] = two(&place);
    let (_there, mut here) = (visit(&b, VISITOR), visit(&a, OTHER));
    until("both are on record", || {
        stays(&mut here);
        (is_there(&a, VISITOR) && is_there(&a, OTHER)).then_some(())
    });
    b.kill();
    until("the peer of the node that was killed is gone", || {
        stays(&mut here);
        (!is_there(&a, VISITOR)).then_some(())
    });
    assert!(is_there(&a, OTHER), "it is connected");
    // It comes back to another node.
    let _again = visit(&a, VISITOR);
    assert!(is_there(&a, VISITOR));
    here.close(None).unwrap();
    while here.read().is_ok() {}
    until("it has left", || (!is_there(&a, OTHER)).then_some(()));
    // A node that has the journal for itself finds its own peers of before the kill, and they are gone as well.
    a.kill();
    let a = place.serve();
    assert!(is_there(&a, VISITOR), "nobody has said that it left");
    until("the peer of the node before is gone", || {
        (!is_there(&a, VISITOR)).then_some(())
    });
    assert!(is_there(&a, WORKER), "it is hosted");
    a.stop_well();
    is_whole(&place);
}

#[test]
fn a_peer_that_was_seen_out_while_its_node_was_paused_can_come_again() {
    // AG-DLV-4, interface 2, CH-JRN-5
    let server = PostgresServer::start();
    let place = agh_place(&server, "paused-under-peers");
    let [a, b] = two(&place);
    let mut socket = visit(&b, VISITOR);
    until("it is on record", || is_there(&a, VISITOR).then_some(()));
    signal("STOP", b.pid());
    until("the peer of the node that is paused is gone", || {
        (!is_there(&a, VISITOR)).then_some(())
    });
    signal("CONT", b.pid());
    // Its node closes the connection, which nobody would be reached over.
    while socket.read().is_ok() {}
    until("it may come again", || {
        let stream = TcpStream::connect(b.address).unwrap();
        let path = format!("/agh/ws?channel={CHANNEL}&peer={VISITOR}");
        client(format!("ws://{}{path}", b.address), stream).ok()
    });
    [a, b].into_iter().for_each(Served::stop_well);
    is_whole(&place);
}

#[test]
fn an_event_stream_at_one_node_tells_what_the_other_takes() {
    // interface 2, CH-JRN-5
    let server = PostgresServer::start();
    let place = Place::for_dev_node().on(&server, "events");
    let [a, b] = two(&place);
    let mut stream = BufReader::new(TcpStream::connect(b.address).unwrap());
    stream.get_ref().set_read_timeout(Some(PATIENCE)).unwrap();
    let path = format!("/inbox/value-context/{}?after=0", segment(HOSTED[1]));
    let ask =
        format!("GET {path} HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n");
    stream.get_mut().write_all(ask.as_bytes()).unwrap();
    for _ in 0..3 {
        let sent = share(HOSTED[1]);
        a.wire().share(&sent.bytes).unwrap().ok();
        let mut line = String::new();
        while !line.contains(&sent.id) {
            line.clear();
            assert_ne!(stream.read_line(&mut line).unwrap(), 0, "the stream ended");
        }
        assert!(line.starts_with("data:"), "{line}");
    }
    drop(stream);
    [a, b].into_iter().for_each(Served::stop_well);
    is_whole(&place);
}

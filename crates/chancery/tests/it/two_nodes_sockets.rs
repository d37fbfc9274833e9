//! Two nodes on one journal: whoever is connected to one gets what the other took (CH-JRN-5).

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use chancery_testkit::postgres_server::PostgresServer;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{Message, WebSocket, client};

use crate::agh_house::until;
use crate::on_postgres::is_whole;
use crate::served::{HOSTED, Served, share, share_from};
use crate::support::Place;
use crate::two_nodes::two;
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
    // Nobody answers at its address: the connection is the only way.
    let place = family(&server, "listeners", "http://127.0.0.1:1");
    let nodes = two(&place);
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
    is_whole(&place);
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

//! What one of two nodes does for both: timers and deliveries. When it dies the other sees to them.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use chancery_core::keys::ed25519::SigningKey;
use chancery_testkit::postgres_server::PostgresServer;
use serde_json::{Value, json};

use crate::on_postgres::is_whole;
use crate::served::trusted;
use crate::support::Place;

pub const CHILD: &str = "agent://home.test/child";
pub const PARENT: &str = "agent://home.test/parent";
pub const SPEAKER: &str = "agent://home.test/speaker";
pub const ELSEWHERE: &str = "agent://away.test/listener";
/// Secret of [`ELSEWHERE`].
pub const ELSEWHERE_SEED: [u8; 32] = [0x44; 32];
/// No event of these stories takes longer, on however busy a machine.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// A place whose nodes host a family, and a speaker that knows somebody at an address.
pub fn place(server: &PostgresServer, journal: &str, address: &str) -> Place {
    let hosted = [(CHILD, 0x41), (PARENT, 0x42), (SPEAKER, 0x43)];
    let anchor = |byte: u8| {
        let key = SigningKey::from_seed(&[byte; 32]);
        json!({"type": "agent", "keys": [trusted("k-01", &key)]})
    };
    let mut anchors = serde_json::Map::new();
    let mut seeds = serde_json::Map::new();
    for (id, byte) in hosted {
        anchors.insert(id.to_owned(), anchor(byte));
        seeds.insert(id.to_owned(), format!("{byte:02x}").repeat(32).into());
    }
    anchors.insert(ELSEWHERE.to_owned(), anchor(ELSEWHERE_SEED[0]));
    let world = json!({
        "trust": {"trust_anchors": anchors},
        "local_agents": [
            {"id": CHILD, "parent": PARENT, "children": [], "peers": []},
            {"id": PARENT, "parent": null, "children": [CHILD], "peers": []},
            {"id": SPEAKER, "parent": null, "children": [], "peers": [ELSEWHERE]},
        ],
        "addresses": {ELSEWHERE: address},
        "secret_seeds_hex": seeds,
    });
    let place = Place::for_dev_node().on(server, journal);
    place.write("world.json", world.to_string());
    place
}

/// Lines of the log that are about a timer that fired.
fn fired(place: &Place) -> usize {
    let is_timer = |line: &&String| {
        let line: Value = serde_json::from_str(line).unwrap();
        line["envelope"]["kind"] == "timer"
    };
    place.log_lines().iter().filter(is_timer).count()
}

#[test]
fn a_timer_that_was_set_on_a_node_fires_once_although_that_node_is_killed() {
    // VX-RUN-7, CH-JRN-1, CH-JRN-5
    let server = PostgresServer::start();
    let place = place(&server, "timers", "http://127.0.0.1:1");
    let a = place.serve();
    // The other's clock is ahead: it need not wait the whole minute that a judgement may take.
    let b = place.serve_with(&["--data", "data-2", "--clock", "offset:+50s"]);
    let escalation = json!({
        "sender": CHILD, "recipient": PARENT, "type": "escalation",
        "payload": {"severity": "critical", "reason": "smoke", "context": "📍🏡", "requires_ack": true},
    });
    let sent = a
        .wire()
        .post("/send/value-context", escalation.to_string().as_bytes());
    sent.unwrap().ok();
    a.kill();
    let started = Instant::now();
    while fired(&place) == 0 {
        assert!(started.elapsed() < PATIENCE, "it never fired");
        std::thread::sleep(Duration::from_millis(200));
    }
    // A node that starts afterwards finds nothing that is due.
    let again = place.serve_with(&["--clock", "offset:+50s"]);
    b.kill();
    std::thread::sleep(Duration::from_secs(8));
    again.stop_well();
    assert_eq!(fired(&place), 1);
    is_whole(&place);
}

/// Somebody elsewhere: takes every message, and tells which.
pub fn listen(listener: TcpListener) -> Receiver<String> {
    let (told, messages) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let (mut length, mut line) = (0, String::new());
            while stream.read_line(&mut line).is_ok_and(|read| read > 2) {
                let lower = line.to_ascii_lowercase();
                if let Some(value) = lower.strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                line.clear();
            }
            let mut body = vec![0; length];
            if stream.read_exact(&mut body).is_err() {
                continue;
            }
            let message: Value = serde_json::from_slice(&body).unwrap_or_default();
            let id = message["message_id"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            let answer = json!({"status": "accepted", "message_id": id}).to_string();
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
                answer.len()
            );
            let _ = stream.get_mut().write_all((head + &answer).as_bytes());
            if told.send(id).is_err() {
                return;
            }
        }
    });
    messages
}

#[test]
fn what_a_dead_node_had_to_deliver_another_delivers() {
    // CH-JRN-5, CH-JRN-15, VX-RTY-1
    let server = PostgresServer::start();
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    // Nobody is there yet.
    drop(free);
    let place = place(&server, "deliveries", &format!("http://{address}"));
    let a = place.serve();
    let b = place.serve_with(&["--data", "data-2"]);
    let share = json!({
        "sender": SPEAKER, "recipient": ELSEWHERE, "type": "context_share",
        "payload": {"context": "📍🏡", "constitution_ref": "creed://creed.space/home@1.0.0"},
    });
    let sent = a
        .wire()
        .post("/send/value-context", share.to_string().as_bytes());
    let sent = sent.unwrap().ok();
    a.kill();
    let messages = listen(TcpListener::bind(address).unwrap());
    let delivered = messages
        .recv_timeout(PATIENCE)
        .expect("nobody delivered it");
    assert_eq!(delivered, sent["message_id"].as_str().unwrap());
    b.stop_well();
    assert!(messages.try_recv().is_err(), "it was delivered once");
    is_whole(&place);
}

//! What one of two nodes does for both: timers and deliveries. When it dies the other sees to them.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use chancery_core::keys::ed25519::SigningKey;
use chancery_testkit::postgres_server::PostgresServer;
use serde_json::{Value, json};

use crate::agh_house::until;
use crate::on_postgres::is_whole;
use crate::reserved::Reserved;
use crate::served::{Served, signal, trusted};
use crate::support::Place;

pub const CHILD: &str = "agent://home.test/child";
pub const PARENT: &str = "agent://home.test/parent";
pub const SPEAKER: &str = "agent://home.test/speaker";
/// Its parent is [`ELSEWHERE`].
const LODGER: &str = "agent://home.test/lodger";
pub const ELSEWHERE: &str = "agent://away.test/listener";
/// Secret of [`ELSEWHERE`].
pub const ELSEWHERE_SEED: [u8; 32] = [0x44; 32];
/// No event of these stories takes longer, on however busy a machine.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// A place whose nodes host a family, and a speaker that knows somebody at an address.
pub fn place(server: &PostgresServer, journal: &str, address: &str) -> Place {
    let hosted = [
        (CHILD, 0x41),
        (PARENT, 0x42),
        (SPEAKER, 0x43),
        (LODGER, 0x45),
    ];
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
            {"id": LODGER, "parent": ELSEWHERE, "children": [], "peers": []},
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

/// How often a story is told anew that on a busy machine is over before it begins.
const ATTEMPTS: usize = 5;

#[test]
fn a_timer_that_was_set_on_a_node_fires_once_although_that_node_is_killed() {
    // VX-RUN-7, CH-JRN-1, CH-JRN-5
    let server = PostgresServer::start();
    let is_told = |attempt| fires_after_the_kill(&server, &format!("timers-{attempt}"));
    assert!(
        (0..ATTEMPTS).any(is_told),
        "each time it fired before the kill"
    );
}

/// The story of a timer and a node that is killed. On a busy machine it may have fired before: then it says nothing, and
/// gives false.
fn fires_after_the_kill(server: &PostgresServer, journal: &str) -> bool {
    let place = place(server, journal, "http://127.0.0.1:1");
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
    if fired(&place) > 0 {
        return false;
    }
    let started = Instant::now();
    while fired(&place) == 0 {
        assert!(started.elapsed() < PATIENCE, "it never fired");
        std::thread::sleep(Duration::from_millis(200));
    }
    // A node that starts afterwards and gets the duties finds nothing that is due.
    let lease = |of: &str| server.answer(&format!("SELECT {of} FROM chancery.duty"));
    let dead = lease("holder");
    let again = place.serve_with(&["--clock", "offset:+50s"]);
    b.kill();
    until("the other has the duties", || {
        (lease("holder") != dead).then_some(())
    });
    // It has looked at what is due by the time that it has renewed them.
    for _ in 0..2 {
        let before = lease("until");
        until("they are renewed", || {
            (lease("until") != before).then_some(())
        });
    }
    again.stop_well();
    assert_eq!(fired(&place), 1);
    is_whole(&place);
    true
}

#[test]
fn a_deadline_that_passes_while_its_node_is_paused_is_seen_to_by_the_other() {
    // VX-ACK-6, CH-JRN-5
    let server = PostgresServer::start();
    let is_told = |attempt| seen_to_while_paused(&server, &format!("deadlines-{attempt}"));
    assert!(
        (0..ATTEMPTS).any(is_told),
        "each time it was noticed before its node was paused"
    );
}

/// The story of a deadline and a node that is paused. On a busy machine the deadline may have passed before: then it says
/// nothing, and gives false.
fn seen_to_while_paused(server: &PostgresServer, journal: &str) -> bool {
    let parent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", parent.local_addr().unwrap());
    let messages = listen(parent);
    let place = place(server, journal, &address);
    let a = place.serve();
    let b = place.serve_with(&["--data", "data-2"]);
    let escalation = json!({
        "sender": LODGER, "recipient": ELSEWHERE, "type": "escalation",
        "payload": {"severity": "warning", "reason": "draught", "context": "📍🏡", "requires_ack": true},
    });
    let sent = a
        .wire()
        .post("/send/value-context", escalation.to_string().as_bytes());
    let sent = sent.unwrap().ok();
    let delivered = messages.recv_timeout(PATIENCE).expect("it did not arrive");
    assert_eq!(delivered, sent["message_id"].as_str().unwrap());
    // It is never acknowledged, which is noticed after six seconds.
    signal("STOP", a.pid());
    if fired(&place) > 0 {
        return false;
    }
    let started = Instant::now();
    while fired(&place) == 0 {
        if started.elapsed() > PATIENCE {
            signal("CONT", a.pid());
            panic!("nobody noticed");
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    signal("CONT", a.pid());
    a.wire().get("/healthz").unwrap().text();
    // What the node had in mind when it was paused is overdue: it had time to do it once more.
    std::thread::sleep(Duration::from_secs(2));
    [a, b].into_iter().for_each(Served::stop_well);
    assert_eq!(fired(&place), 1);
    is_whole(&place);
    true
}

/// Somebody elsewhere: takes every message, and tells which.
pub fn listen(listener: TcpListener) -> Receiver<String> {
    let (told, messages) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            if let Some(id) = take(stream.unwrap())
                && told.send(id).is_err()
            {
                return;
            }
        }
    });
    messages
}

/// Takes the message of a connection; gives its identifier, if it came whole.
pub fn take(stream: TcpStream) -> Option<String> {
    let mut stream = BufReader::new(stream);
    let (mut length, mut line) = (0, String::new());
    while stream.read_line(&mut line).is_ok_and(|read| read > 2) {
        let lower = line.to_ascii_lowercase();
        if let Some(value) = lower.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        line.clear();
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).ok()?;
    let message: Value = serde_json::from_slice(&body).unwrap_or_default();
    let id = message["message_id"].as_str().unwrap_or_default();
    let answer = json!({"status": "accepted", "message_id": id}).to_string();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        answer.len()
    );
    let _ = stream.get_mut().write_all((head + &answer).as_bytes());
    Some(id.to_owned())
}

#[test]
fn what_a_dead_node_had_to_deliver_another_delivers() {
    // CH-JRN-5, CH-JRN-15, VX-RTY-1
    let server = PostgresServer::start();
    let elsewhere = Reserved::new();
    let address = format!("http://{}", elsewhere.address());
    let place = place(&server, "deliveries", &address);
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
    let messages = listen(elsewhere.listen());
    let delivered = messages
        .recv_timeout(PATIENCE)
        .expect("nobody delivered it");
    assert_eq!(delivered, sent["message_id"].as_str().unwrap());
    b.stop_well();
    assert!(messages.try_recv().is_err(), "it was delivered once");
    is_whole(&place);
}

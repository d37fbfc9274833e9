//! Whoever is not reached stands in the log of the process (VX-RTY-6), by a name that says nothing to others.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use chancery_core::keys::ed25519::SigningKey;
use serde_json::{Value, json};

use crate::agh_house::until;
use crate::collector::header;
use crate::served::{HOSTED, SENDER, Served, trusted, world};
use crate::support::Place;

const SEED: [u8; 32] = [0x71; 32];

/// A node elsewhere that refuses whatever comes, for good; where it is.
fn elsewhere() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || refuse(BufReader::new(stream)));
        }
    });
    url
}

fn refuse(mut stream: BufReader<TcpStream>) {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).unwrap_or(0) == 0 {
            return;
        }
    }
    let length = header(&head.to_ascii_lowercase(), "content-length")
        .unwrap()
        .parse();
    stream.read_exact(&mut vec![0; length.unwrap()]).unwrap();
    let answer =
        json!({"status": "rejected", "error": {"code": "signature_invalid", "retryable": false}});
    let answer = answer.to_string();
    let head = format!(
        "HTTP/1.1 401 No\r\ncontent-length: {}\r\nconnection: close",
        answer.len()
    );
    // Whoever asked may have gone.
    let _ = write!(stream.get_mut(), "{head}\r\n\r\n{answer}");
}

/// A place whose first agent has a key, and a peer at `url`.
fn place(url: &str) -> Place {
    let place = Place::for_dev_node().with("NO_COLOR", "1");
    let mut world = world();
    let key = SigningKey::from_seed(&SEED);
    let anchor = json!({"type": "agent", "keys": [trusted("k-01", &key)]});
    world["trust"]["trust_anchors"][HOSTED[0]] = anchor;
    world["secret_seeds_hex"] = json!({HOSTED[0]: SEED.map(|byte| format!("{byte:02x}")).concat()});
    world["addresses"] = json!({ SENDER: url });
    place.write("world.json", world.to_string());
    place
}

fn share(node: &Served) {
    let share = json!({"sender": HOSTED[0], "recipient": SENDER, "type": "context_share", "payload": {
        "context": "⏰🌅|📍🏡", "constitution_ref": "creed://creed.space/family.safe.guide@1.2.0"}});
    let path = "/send/value-context";
    let answer = node.wire().post(path, share.to_string().as_bytes());
    assert_eq!(answer.unwrap().status, 200);
}

/// The events of deliveries that failed.
fn failed(place: &Place) -> Vec<Value> {
    let events = std::fs::read_to_string(place.path("data/events.jsonl")).unwrap_or_default();
    let is_failed =
        |line: &&str| line.contains("\"delivery_failed\"") && line.contains("\"recipient_hash\"");
    let events = events.lines().filter(is_failed);
    events
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

// VX-RTY-6, VX-RTY-4, CH-JRN-11
#[test]
fn a_recipient_that_is_not_reached_is_told_once_and_hashed() {
    let place = place(&elsewhere());
    let node = place.serve();
    for _ in 0..3 {
        share(&node);
    }
    let failed = until("all are given up", || {
        Some(failed(&place)).filter(|failed| failed.len() == 3)
    });
    node.stop_well();
    let log = place.read("stderr.log");
    let told: Vec<&str> = log
        .lines()
        .filter(|line| line.contains("a recipient was not reached"))
        .collect();
    let [told] = told.as_slice() else {
        panic!("it is told {} times: {log}", told.len());
    };
    let recipient = failed[0]["recipient_hash"].as_str().unwrap();
    for part in [
        " WARN ",
        "protocol=\"value-context\"",
        &format!("seq={}", failed[0]["seq"]),
        &format!("recipient=\"{recipient}\""),
        "outcome=\"refused\"",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    for name in [SENDER, HOSTED[0]] {
        assert!(!log.contains(name), "{name}: {log}");
    }
}

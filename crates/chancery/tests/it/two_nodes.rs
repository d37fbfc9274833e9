//! Two nodes on one journal (CH-JRN-5): one order, whoever decides; what one has on record the other goes by.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chancery_core::keys::ed25519::SigningKey;
use chancery_testkit::postgres_server::PostgresServer;
use chancery_vacant::envelope::EMPTY_PREV_HASH;
use serde_json::{Value, json};

use crate::letters::{CALLS, Link, bob, letter, place_of_bob};
use crate::on_postgres::{is_whole, recorded};
use crate::served::{HOSTED, Served, share, signal};
use crate::support::Place;
use crate::two_nodes_duties::{CHILD, PARENT, place as family};
use crate::vibe_storm;
use crate::wire::{Wire, segment};

/// Writers that claim the same at once, half of them on each node.
const WRITERS: usize = 16;
/// How often, unless the environment says it.
const ROUNDS: usize = 1_000;

fn rounds() -> usize {
    std::env::var("CHANCERY_RACE_ROUNDS").map_or(ROUNDS, |rounds| {
        rounds.parse().expect("CHANCERY_RACE_ROUNDS is a number")
    })
}

/// Two nodes of one configuration.
pub fn two(place: &Place) -> [Served; 2] {
    [place.serve(), place.serve_with(&["--data", "data-2"])]
}

/// Sends all bodies at once, by turns to each node.
fn race(wires: &mut [Wire], path: &str, bodies: &[Vec<u8>]) -> Vec<(u16, Value)> {
    std::thread::scope(|scope| {
        let sending = wires.iter_mut().zip(bodies).map(|(wire, body)| {
            scope.spawn(move || {
                let answer = wire.post(path, body).unwrap();
                (answer.status, answer.json())
            })
        });
        let sending: Vec<_> = sending.collect();
        sending.into_iter().map(|one| one.join().unwrap()).collect()
    })
}

fn wires(nodes: &[Served; 2]) -> Vec<Wire> {
    (0..WRITERS).map(|n| nodes[n % 2].wire()).collect()
}

#[test]
fn of_many_writers_on_two_nodes_one_has_each_number() {
    // VA-REP-4, VA-REP-10, CH-JRN-5, CH-JRN-11
    let server = PostgresServer::start();
    let place =
        place_of_bob("capability = \"echoes\"\nbehaviour = \"echo\"\n").on(&server, "numbers");
    let nodes = two(&place);
    let bob = bob(&nodes[0]);
    let key = SigningKey::from_seed(&[0x61; 32]);
    let mut wires = wires(&nodes);
    let (mut prev, mut taken) = (EMPTY_PREV_HASH, [0; 2]);
    for number in 1..=rounds() as u64 {
        let letters = (0..WRITERS).map(|writer| {
            let (name, text) = (
                format!("{number}-{writer}"),
                format!("{number} is mine, says {writer}"),
            );
            letter(&key, bob, Link { number, prev }, &name, &text)
        });
        let (bodies, hashes): (Vec<_>, Vec<_>) = letters.unzip();
        let told = race(&mut wires, CALLS, &bodies);
        let accepted: Vec<usize> = (0..WRITERS).filter(|n| told[*n].0 == 200).collect();
        assert_eq!(accepted.len(), 1, "number {number}: {told:?}");
        let refused = told.iter().filter(|(status, _)| *status == 409);
        assert_eq!(refused.count(), WRITERS - 1, "number {number}: {told:?}");
        prev = hashes[accepted[0]];
        taken[accepted[0] % 2] += 1;
    }
    println!("numbers taken on each node: {taken:?}");
    nodes.into_iter().for_each(Served::stop_well);
    is_whole(&place);
}

#[test]
fn of_many_writers_on_two_nodes_one_binds_each_key() {
    // VC-IDEM-1, VC-IDEM-2, VC-IDEM-4, CH-JRN-5
    let server = PostgresServer::start();
    let place = Place::new()
        .with("CHANCERY_LISTEN", "127.0.0.1:0")
        .with("CHANCERY_DATA", "data")
        .with("CHANCERY_DEV", "true")
        .with("CHANCERY_VIBE_WORLD", "world.json")
        .on(&server, "keys");
    place.write("world.json", vibe_storm::world().to_string());
    let nodes = two(&place);
    let mut wires = wires(&nodes);
    for round in 0..rounds() {
        let body = |writer| {
            let id = format!("r{round}-w{writer}");
            let envelope = json!({
                "protocol": "vcp", "version": "1.0", "msg_id": id, "ts": "2026-05-15T12:00:00Z",
                "from": "consumer:persona", "to": "buyer:intent", "session_id": format!("r{round}"),
                "in_reply_to": null, "idempotency_key": format!("k{round}"),
                "action": {"kind": "delegate.create_purchase_mandate", "payload": vibe_storm::mandate(&id, 0)},
            });
            envelope.to_string().into_bytes()
        };
        let bodies: Vec<Vec<u8>> = (0..WRITERS).map(body).collect();
        let told = race(&mut wires, "/vcp", &bodies);
        let accepted = told.iter().filter(|(status, _)| *status == 200).count();
        assert_eq!(accepted, 1, "round {round}: {told:?}");
        let refused = told.iter().filter(|(_, told)| {
            let code = told["code"].as_str();
            matches!(code, Some("idempotency_conflict" | "idempotency_in_flight"))
        });
        assert_eq!(refused.count(), WRITERS - 1, "round {round}: {told:?}");
    }
    nodes.into_iter().for_each(Served::stop_well);
    is_whole(&place);
}

#[test]
fn a_suspension_on_one_node_holds_on_the_other_at_once() {
    // CH-ID-5, VX-RUN-1, CH-JRN-5
    let server = PostgresServer::start();
    let place = family(&server, "stopped", "http://127.0.0.1:1");
    let [a, b] = two(&place);
    let (mut at_a, mut at_b) = (a.wire(), b.wire());
    let path = |what: &str| format!("/admin/agents/value-context/{}/{what}", segment(CHILD));
    let says = json!({
        "sender": CHILD, "recipient": PARENT, "type": "context_share",
        "payload": {"context": "📍🏡", "constitution_ref": "creed://creed.space/home@1.0.0"},
    });
    let says = says.to_string();
    for _ in 0..20 {
        let accepted = at_b.post("/send/value-context", says.as_bytes()).unwrap();
        assert_eq!(accepted.status, 200, "{}", accepted.text());
        at_a.post(&path("suspend"), b"").unwrap().ok();
        let refused = at_b.post("/send/value-context", says.as_bytes()).unwrap();
        assert_eq!(refused.status, 423, "{}", refused.text());
        at_a.post(&path("resume"), b"").unwrap().ok();
    }
    [a, b].into_iter().for_each(Served::stop_well);
    is_whole(&place);
}

#[test]
fn a_message_that_one_node_takes_reaches_a_reader_at_the_other() {
    // CH-JRN-5, interface 2
    let server = PostgresServer::start();
    let place = Place::for_dev_node().on(&server, "streams");
    let [a, b] = two(&place);
    let path = format!(
        "/inbox/value-context/{}?after=0&wait=50",
        segment(HOSTED[1])
    );
    let mut reading = b.wire();
    let reader = std::thread::spawn(move || reading.get(&path).unwrap().ok());
    // It may begin to wait before or after: either way it is told.
    let sent = share(HOSTED[1]);
    a.wire().share(&sent.bytes).unwrap().ok();
    let page = reader.join().unwrap();
    assert_eq!(
        page["entries"][0]["envelope"]["message_id"],
        sent.id.as_str()
    );
    // What one took is a duplicate at the other.
    let again = b.wire().share(&sent.bytes).unwrap().ok();
    assert_eq!(again["status"], "duplicate");
    [a, b].into_iter().for_each(Served::stop_well);
    is_whole(&place);
}

/// Sends to one node until it is over; gives what was acknowledged.
fn send(address: SocketAddr, agent: &str, over: &AtomicBool) -> Vec<String> {
    let mut told = Vec::new();
    let mut wire = Wire::connect(address).unwrap();
    while !over.load(Ordering::SeqCst) {
        let share = share(agent);
        wire.share(&share.bytes).unwrap().ok();
        told.push(share.id);
    }
    told
}

/// Acknowledges everything in an inbox, again and again; gives how often.
fn acknowledge(address: SocketAddr, agent: &str, over: &AtomicBool) -> usize {
    let mut wire = Wire::connect(address).unwrap();
    let path = format!("/inbox/value-context/{}/ack", segment(agent));
    let mut times = 0;
    while !over.load(Ordering::SeqCst) {
        let through = json!({"through": 1_000_000}).to_string();
        wire.post(&path, through.as_bytes()).unwrap().ok();
        times += 1;
    }
    times
}

#[test]
fn inboxes_are_acknowledged_on_both_nodes_while_both_decide() {
    // CH-JRN-5, CH-LIM-3: a cursor moves while a decision asks how full its inbox is.
    let server = PostgresServer::start();
    let place = Place::for_dev_node()
        .on(&server, "acknowledged")
        .with("CHANCERY_INBOX_DEPTH", "20000")
        // So little that rows are read again and again.
        .with("CHANCERY_ROW_CACHE_BYTES", "1");
    let [a, b] = two(&place);
    let over = AtomicBool::new(false);
    let (sent, times) = std::thread::scope(|scope| {
        let at = |n: usize| [a.address, b.address][n % 2];
        let sender = |(n, agent)| {
            let over = &over;
            scope.spawn(move || send(at(n), agent, over).len())
        };
        let reader = |(n, agent)| {
            let over = &over;
            scope.spawn(move || acknowledge(at(n + 1), agent, over))
        };
        let senders: Vec<_> = HOSTED.into_iter().enumerate().map(sender).collect();
        let readers: Vec<_> = HOSTED.into_iter().enumerate().map(reader).collect();
        // Long enough for many of both: how many is printed.
        std::thread::sleep(Duration::from_secs(5));
        over.store(true, Ordering::SeqCst);
        let sum = |threads: Vec<std::thread::ScopedJoinHandle<'_, usize>>| -> usize {
            threads.into_iter().map(|one| one.join().unwrap()).sum()
        };
        (sum(senders), sum(readers))
    });
    println!("{sent} sent, {times} acknowledgements");
    assert!(sent > 0 && times > 0);
    [a, b].into_iter().for_each(Served::stop_well);
    assert_eq!(recorded(&is_whole(&place)).len(), sent);
}

#[test]
fn a_node_that_was_paused_longer_than_every_timeout_commits_nothing_wrong() {
    // CH-JRN-5
    let server = PostgresServer::start();
    let place = Place::for_dev_node().on(&server, "paused");
    let [a, b] = two(&place);
    let over = AtomicBool::new(false);
    let acknowledged: Vec<String> = std::thread::scope(|scope| {
        let sender = |(n, agent)| {
            let (address, over) = ([a.address, b.address][n % 2], &over);
            scope.spawn(move || send(address, agent, over))
        };
        let senders: Vec<_> = HOSTED.into_iter().enumerate().map(sender).collect();
        std::thread::sleep(Duration::from_millis(500));
        signal("STOP", a.pid());
        // Longer than the lease of the duties and than a session may stand idle in a transaction: time is the matter here.
        std::thread::sleep(Duration::from_secs(12));
        signal("CONT", a.pid());
        std::thread::sleep(Duration::from_secs(1));
        over.store(true, Ordering::SeqCst);
        let join = |sender: std::thread::ScopedJoinHandle<'_, _>| sender.join().unwrap();
        senders.into_iter().flat_map(join).collect()
    });
    [a, b].into_iter().for_each(Served::stop_well);
    let on_record = recorded(&is_whole(&place));
    let once: BTreeSet<&String> = on_record.iter().collect();
    println!(
        "{} acknowledged, {} on record",
        acknowledged.len(),
        on_record.len()
    );
    assert_eq!(once.len(), on_record.len(), "nothing twice");
    assert!(acknowledged.iter().all(|id| once.contains(id)), "lost");
}

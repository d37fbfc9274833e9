//! Nodes of one journal that hand deliveries out through NATS: each is made by one of them, whoever dies (CH-JRN-5).

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::mpsc::Receiver;

use chancery_testkit::nats_server::{Build, NatsServer};
use chancery_testkit::postgres_server::PostgresServer;
use serde_json::Value;

use crate::on_postgres::is_whole;
use crate::served::Served;
use crate::support::Place;
use crate::two_nodes::two;
use crate::two_nodes_duties::{PATIENCE, listen, place as family};
use crate::two_nodes_sockets::speak;

/// A broker that keeps streams over a restart.
fn broker() -> NatsServer {
    NatsServer::start(Build::Debian, "jetstream { store_dir: streams }")
}

/// A place whose nodes deliver to an address through a broker.
fn place(server: &PostgresServer, broker: &NatsServer, journal: &str, address: &str) -> Place {
    family(server, journal, address).with("CHANCERY_BUS", &broker.url())
}

/// Waits for all of these; gives how often each came.
fn received(messages: &Receiver<String>, wanted: &[String]) -> BTreeMap<String, usize> {
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    while !wanted.iter().all(|id| times.contains_key(id)) {
        let id = messages.recv_timeout(PATIENCE);
        *times.entry(id.expect("a delivery is lost")).or_default() += 1;
    }
    times
}

/// How many deliveries a node has made.
fn delivered(place: &Place, data: &str) -> usize {
    let events = place.read(&format!("{data}/events.jsonl"));
    let is_delivery = |line: &&str| {
        let event: Value = serde_json::from_str(line).unwrap();
        event["event"] == "delivered"
    };
    events.lines().filter(is_delivery).count()
}

#[test]
fn each_delivery_is_made_once_by_one_of_the_nodes() {
    // CH-JRN-5, CH-JRN-15, VX-ORD-3
    let (server, broker) = (PostgresServer::start(), broker());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let messages = listen(listener);
    let place = place(&server, &broker, "handed-out", &address);
    let nodes = two(&place);
    let sent: Vec<String> = (0..40).map(|n| speak(&nodes[n % 2])).collect();
    let mut came = Vec::new();
    while came.len() < sent.len() {
        came.push(messages.recv_timeout(PATIENCE).expect("a delivery is lost"));
    }
    assert_eq!(came, sent, "in order, each once");
    nodes.into_iter().for_each(Served::stop_well);
    assert!(messages.try_recv().is_err(), "no more came");
    let made = ["data", "data-2"].map(|data| delivered(&place, data));
    println!("made by each node: {made:?}");
    assert_eq!(made.iter().sum::<usize>(), sent.len());
    assert!(made.iter().all(|made| *made > 0), "one had nothing to do");
    is_whole(&place);
}

#[test]
fn what_a_node_had_in_hand_when_it_died_another_delivers() {
    // CH-JRN-5, CH-JRN-15, VX-RTY-1
    let (server, broker) = (PostgresServer::start(), broker());
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    // Nobody is there yet: what is handed out stays in the nodes' hands.
    drop(free);
    let place = place(&server, &broker, "in-hand", &format!("http://{address}"));
    let [a, b] = two(&place);
    let sent: Vec<String> = (0..8).map(|_| speak(&b)).collect();
    a.kill();
    let messages = listen(TcpListener::bind(address).unwrap());
    received(&messages, &sent);
    b.stop_well();
    is_whole(&place);
}

#[test]
fn a_broker_that_stops_or_forgets_loses_no_delivery() {
    // CH-JRN-5, CH-JRN-11, CH-JRN-15
    let (server, mut broker) = (PostgresServer::start(), broker());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let messages = listen(listener);
    let place = place(&server, &broker, "forgotten", &address);
    let nodes = two(&place);
    let speak_all = || -> Vec<String> { nodes.iter().map(speak).collect() };
    received(&messages, &speak_all());
    // Killed and started again: what was sent meanwhile comes.
    broker.kill();
    let sent = speak_all();
    broker.restart();
    received(&messages, &sent);
    // The same, and its stream is gone: the journal knows.
    broker.kill();
    let sent = speak_all();
    std::fs::remove_dir_all(broker.dir().join("streams")).unwrap();
    broker.restart();
    received(&messages, &sent);
    // It stays away: whoever has the duty goes on without it.
    broker.kill();
    received(&messages, &speak_all());
    nodes.into_iter().for_each(Served::stop_well);
    is_whole(&place);
}

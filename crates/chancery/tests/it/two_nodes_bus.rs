//! Nodes of one journal that hand deliveries out through NATS: each is made by one of them, whoever dies (CH-JRN-5).

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::Receiver;

use chancery_testkit::nats_server::{Build, NatsServer};
use chancery_testkit::postgres_server::PostgresServer;
use serde_json::Value;

use crate::agh_house::until;
use crate::on_postgres::is_whole;
use crate::served::Served;
use crate::support::Place;
use crate::two_nodes::two;
use crate::two_nodes_duties::{PATIENCE, listen, place as family};
use crate::two_nodes_sockets::speak;

/// A broker that keeps streams over a restart.
pub fn broker() -> NatsServer {
    NatsServer::of_its_own(Build::Debian, "jetstream { store_dir: streams }")
}

/// A place whose nodes deliver to an address through a broker.
pub fn place(server: &PostgresServer, broker: &NatsServer, journal: &str, address: &str) -> Place {
    family(server, journal, address).with("CHANCERY_BUS", &broker.url())
}

/// Waits until a node hands out and takes orders.
pub fn bus_is_up(node: &Served) {
    until("the bus is up", || {
        let figures = node.wire().get("/metrics").unwrap().text();
        let mut lines = figures.lines();
        lines.any(|line| line == "chancery_bus_up 1").then_some(())
    });
}

/// Asks a broker for something of its streams.
pub fn asked(broker: &NatsServer, what: &str) -> Value {
    let stream = TcpStream::connect(("127.0.0.1", broker.port())).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut stream = BufReader::new(stream);
    let ask =
        format!("CONNECT {{\"verbose\":false}}\r\nSUB told 1\r\nPUB $JS.API.{what} told 0\r\n\r\n");
    stream.get_mut().write_all(ask.as_bytes()).unwrap();
    loop {
        let mut line = String::new();
        assert_ne!(stream.read_line(&mut line).unwrap(), 0, "it hung up");
        if line.starts_with("MSG told ") {
            let length = line.trim().rsplit(' ').next().unwrap();
            let mut answer = vec![0; length.parse().unwrap()];
            stream.read_exact(&mut answer).unwrap();
            return serde_json::from_slice(&answer).unwrap();
        }
    }
}

/// What a broker says of who takes the orders of the only journal on it: how many are in hand, how many nodes wait for one.
fn takers(broker: &NatsServer) -> (u64, u64) {
    let names = asked(broker, "STREAM.NAMES");
    let Some(stream) = names["streams"][0].as_str() else {
        return (0, 0);
    };
    let told = asked(broker, &format!("CONSUMER.INFO.{stream}.ordinary"));
    let count = |name: &str| told[name].as_u64().unwrap_or_default();
    (count("num_ack_pending"), count("num_waiting"))
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
    nodes.iter().for_each(bus_is_up);
    until("both wait for orders", || {
        (takers(&broker).1 == 2).then_some(())
    });
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

/// Ends what was begun at an address where nobody answered: of it nothing has arrived.
pub fn hang_up(listener: &TcpListener) {
    listener.set_nonblocking(true).unwrap();
    while listener.accept().is_ok() {}
    listener.set_nonblocking(false).unwrap();
}

#[test]
fn what_a_node_had_in_hand_when_it_died_another_delivers() {
    // CH-JRN-5, CH-JRN-15, VX-RTY-1
    let (server, broker) = (PostgresServer::start(), broker());
    // Nobody answers yet: what is handed out stays in the nodes' hands.
    let elsewhere = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", elsewhere.local_addr().unwrap());
    let place = place(&server, &broker, "in-hand", &address);
    let a = place.serve();
    bus_is_up(&a);
    let mut sent: Vec<String> = (0..4).map(|_| speak(&a)).collect();
    until("it has all of them in hand", || {
        (takers(&broker).0 == 4).then_some(())
    });
    let b = place.serve_with(&["--data", "data-2"]);
    bus_is_up(&b);
    sent.extend((0..4).map(|_| speak(&b)));
    a.kill();
    hang_up(&elsewhere);
    let messages = listen(elsewhere);
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
    nodes.iter().for_each(bus_is_up);
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

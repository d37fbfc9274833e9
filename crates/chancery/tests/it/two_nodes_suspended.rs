//! Whoever is suspended keeps nothing in the hands of the nodes: what it has to deliver is on record, and leaves when it
//! runs again (CH-ID-5, CH-JRN-5).

use std::net::TcpListener;

use chancery_testkit::postgres_server::PostgresServer;
use serde_json::json;

use crate::agh_house::until;
use crate::on_postgres::is_whole;
use crate::served::Served;
use crate::support::{Place, Ran};
use crate::two_nodes::two;
use crate::two_nodes_bus::{asked, broker, bus_is_up, hang_up, place};
use crate::two_nodes_duties::{ELSEWHERE, PATIENCE, SPEAKER, listen};
use crate::two_nodes_sockets::speak;

/// More than wait for their turn in the hands of both nodes.
const SENT: usize = 150;

/// Another agent of the same world.
const LODGER: &str = "agent://home.test/lodger";

/// Says to a node who may send.
fn tell(place: &Place, node: &Served, word: &str) {
    let mut command = place.command(&["agent", word, SPEAKER]);
    command.env("CHANCERY_URL", format!("http://{}", node.address));
    Ran::from(command.output().unwrap()).exits(0);
}

/// Another one says something to the same listener; gives its identifier.
fn other_speaks(node: &Served) -> String {
    let says = json!({
        "sender": LODGER, "recipient": ELSEWHERE, "type": "context_share",
        "payload": {"context": "📍🏡", "constitution_ref": "creed://creed.space/home@1.0.0"},
    });
    let sent = node
        .wire()
        .post("/send/value-context", says.to_string().as_bytes());
    let sent = sent.unwrap().ok();
    sent["message_id"].as_str().unwrap().to_owned()
}

#[test]
fn what_a_suspended_agent_has_to_deliver_leaves_the_bus_and_comes_when_it_runs_again() {
    let (server, broker) = (PostgresServer::start(), broker());
    // Nobody answers yet.
    let elsewhere = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", elsewhere.local_addr().unwrap());
    let place = place(&server, &broker, "suspended", &address);
    let nodes = two(&place);
    nodes.iter().for_each(bus_is_up);
    let sent: Vec<String> = (0..SENT).map(|n| speak(&nodes[n % 2])).collect();
    let orders = || {
        let names = asked(&broker, "STREAM.NAMES");
        let stream = names["streams"][0].as_str().unwrap_or_default().to_owned();
        let told = asked(&broker, &format!("STREAM.INFO.{stream}"));
        told["state"]["messages"].as_u64().unwrap_or(u64::MAX)
    };
    until("all are handed out", || {
        (orders() == SENT as u64).then_some(())
    });
    tell(&place, &nodes[0], "suspend");
    until("the bus has no order of it", || {
        (orders() == 0).then_some(())
    });
    hang_up(&elsewhere);
    let messages = listen(elsewhere);
    let other = other_speaks(&nodes[1]);
    let came = messages.recv_timeout(PATIENCE);
    assert_eq!(came.expect("the other's delivery is held up"), other);
    tell(&place, &nodes[1], "resume");
    let mut came = Vec::new();
    while came.len() < sent.len() {
        came.push(messages.recv_timeout(PATIENCE).expect("a delivery is lost"));
    }
    // The first was attempted before, which was all that the next had to wait for.
    came.retain(|id| *id != sent[0]);
    assert_eq!(came, sent[1..], "in order, each once");
    nodes.into_iter().for_each(Served::stop_well);
    is_whole(&place);
}

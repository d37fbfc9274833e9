//! The stop button of a participant on several nodes: whoever presses it, no node lets anything more of it out (CH-ID-5).

use std::io::{ErrorKind, Read as _};
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use chancery_testkit::postgres_server::PostgresServer;
use serde_json::json;

use crate::on_postgres::is_whole;
use crate::reserved::Reserved;
use crate::served::Served;
use crate::support::Place;
use crate::two_nodes::two;
use crate::two_nodes_bus::{broker, bus_is_up};
use crate::two_nodes_duties::{ELSEWHERE, PATIENCE, SPEAKER, listen, place as family};
use crate::two_nodes_sockets::speak;
use crate::wire::segment;

/// Asks a node to suspend the speaker, or to let it go on.
fn tell(node: &Served, what: &str) {
    let path = format!("/admin/agents/value-context/{}/{what}", segment(SPEAKER));
    node.wire().post(&path, b"").unwrap().ok();
}

/// Returns when every node refuses what the speaker says: it has followed then.
fn is_refused(nodes: &[Served]) {
    let says = json!({
        "sender": SPEAKER, "recipient": ELSEWHERE, "type": "context_share",
        "payload": {"context": "📍🏡", "constitution_ref": "creed://creed.space/home@1.0.0"},
    });
    for node in nodes {
        let refused = node
            .wire()
            .post("/send/value-context", says.to_string().as_bytes());
        assert_eq!(refused.unwrap().status, 423);
    }
}

/// The story of a message that waits when its sender is suspended, at a place that makes deliveries to an address.
fn stays_while_suspended(suspends: usize, make: impl FnOnce(SocketAddr) -> Place, has_bus: bool) {
    let elsewhere = Reserved::new();
    let place = make(elsewhere.address());
    let nodes = two(&place);
    if has_bus {
        nodes.iter().for_each(bus_is_up);
    }
    let sent = speak(&nodes[1 - suspends]);
    tell(&nodes[suspends], "suspend");
    is_refused(&nodes);
    let messages = listen(elsewhere.listen());
    // Longer than the pause between two attempts: that none is made is the matter here.
    let early = messages.recv_timeout(Duration::from_secs(5));
    assert!(early.is_err(), "it left although its sender is suspended");
    tell(&nodes[suspends], "resume");
    let delivered = messages.recv_timeout(PATIENCE);
    assert_eq!(delivered.expect("nobody delivered it"), sent);
    nodes.into_iter().for_each(Served::stop_well);
    is_whole(&place);
}

#[test]
fn what_waits_to_be_delivered_stays_whichever_node_suspends_its_sender() {
    // CH-ID-5, VX-RUN-1, CH-JRN-5
    let server = PostgresServer::start();
    // One of the two has to stop what it delivers itself, the other what another delivers.
    for suspends in 0..2 {
        let journal = format!("stopped-{suspends}");
        let make = |address| family(&server, &journal, &format!("http://{address}"));
        stays_while_suspended(suspends, make, false);
    }
}

#[test]
fn what_waits_to_be_delivered_stays_with_a_bus_too() {
    // CH-ID-5, VX-RUN-1, CH-JRN-5: either node may have the order.
    let (server, broker) = (PostgresServer::start(), broker());
    let make = |address| {
        let place = family(&server, "stopped", &format!("http://{address}"));
        place.with("CHANCERY_BUS", &broker.url())
    };
    stays_while_suspended(0, make, true);
}

/// How long an attempt may take anyway, less what may have passed before its connection was seen.
const ATTEMPT: Duration = Duration::from_secs(4);

/// Somebody elsewhere who takes a connection and never answers: returns when the other side has ended it, with what came
/// and how long it lasted.
fn never_answered(listener: &TcpListener, under_way: impl FnOnce()) -> (String, Duration) {
    let (mut stream, _) = listener.accept().unwrap();
    let begun = Instant::now();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let (mut came, mut part) = (Vec::new(), [0; 4_096]);
    while !came.windows(4).any(|end| end == b"\r\n\r\n") {
        let read = stream.read(&mut part).unwrap();
        assert_ne!(read, 0, "it ended by itself");
        came.extend_from_slice(&part[..read]);
    }
    under_way();
    loop {
        match stream.read(&mut part) {
            Ok(read @ 1..) => came.extend_from_slice(&part[..read]),
            Ok(0) => break,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => break,
            other => panic!("it goes on: {other:?}"),
        }
    }
    let came = String::from_utf8_lossy(&came).into_owned();
    (came, begun.elapsed())
}

/// The story of an attempt that is under way when a node suspends its sender; whether it was cut off before it would have
/// ended by itself.
fn is_cut_off(server: &PostgresServer, journal: &str, suspends: usize) -> bool {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let place = family(server, journal, &address);
    let nodes = two(&place);
    let sent = speak(&nodes[0]);
    let (came, lasted) = never_answered(&listener, || tell(&nodes[suspends], "suspend"));
    println!("{journal}: it lasted for {lasted:?}");
    assert!(came.contains(&sent), "{came}");
    is_refused(&nodes);
    tell(&nodes[suspends], "resume");
    let delivered = listen(listener).recv_timeout(PATIENCE);
    assert_eq!(delivered.expect("nobody delivered it"), sent);
    nodes.into_iter().for_each(Served::stop_well);
    is_whole(&place);
    lasted < ATTEMPT
}

#[test]
fn an_attempt_under_way_is_cut_off_whichever_node_suspends_its_sender() {
    // CH-ID-5, VX-RUN-1, CH-JRN-5
    const TIMES: usize = 4;
    let server = PostgresServer::start();
    // One of the two makes the attempt: once it has to follow the other.
    for suspends in 0..2 {
        // On a busy machine its time may be over first, which says nothing.
        let mut times = (0..TIMES).map(|time| format!("under-way-{suspends}-{time}"));
        assert!(
            times.any(|journal| is_cut_off(&server, &journal, suspends)),
            "it went on although its sender was suspended"
        );
    }
}

//! The stop button of a participant on several nodes: whoever presses it, no node lets anything more of it out (CH-ID-5).

use std::net::TcpListener;
use std::time::Duration;

use chancery_testkit::postgres_server::PostgresServer;
use serde_json::json;

use crate::on_postgres::is_whole;
use crate::served::Served;
use crate::two_nodes::two;
use crate::two_nodes_duties::{ELSEWHERE, PATIENCE, SPEAKER, listen, place as family};
use crate::two_nodes_sockets::speak;
use crate::wire::segment;

#[test]
fn what_waits_to_be_delivered_stays_whichever_node_suspends_its_sender() {
    // CH-ID-5, VX-RUN-1, CH-JRN-5
    let server = PostgresServer::start();
    let path = |what: &str| format!("/admin/agents/value-context/{}/{what}", segment(SPEAKER));
    // One of the two has to stop what it delivers itself, the other what another delivers.
    for suspends in 0..2 {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let journal = format!("stopped-{suspends}");
        let place = family(&server, &journal, &format!("http://{address}"));
        let nodes = two(&place);
        let sent = speak(&nodes[1 - suspends]);
        let mut wire = nodes[suspends].wire();
        wire.post(&path("suspend"), b"").unwrap().ok();
        // Whoever refuses it has followed.
        let says = json!({
            "sender": SPEAKER, "recipient": ELSEWHERE, "type": "context_share",
            "payload": {"context": "📍🏡", "constitution_ref": "creed://creed.space/home@1.0.0"},
        });
        for node in &nodes {
            let refused = node
                .wire()
                .post("/send/value-context", says.to_string().as_bytes());
            assert_eq!(refused.unwrap().status, 423);
        }
        let messages = listen(TcpListener::bind(address).unwrap());
        // Longer than the pause between two attempts: that none is made is the matter here.
        let early = messages.recv_timeout(Duration::from_secs(5));
        assert!(early.is_err(), "it left although its sender is suspended");
        wire.post(&path("resume"), b"").unwrap().ok();
        let delivered = messages.recv_timeout(PATIENCE);
        assert_eq!(delivered.expect("nobody delivered it"), sent);
        nodes.into_iter().for_each(Served::stop_well);
        is_whole(&place);
    }
}

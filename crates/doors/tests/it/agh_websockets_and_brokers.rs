//! A peer over WebSocket whose channel goes on over a real broker, and one whose node dies.

use chancery_agh::peer::PeerRecord;
use chancery_agh::whois::Catalog;
use chancery_doors::http::{ServeOptions, serve};
use chancery_node::Clock;
use chancery_testkit::nats_server::{Build, NatsServer};
use futures_util::SinkExt as _;
use serde_json::json;
use std::sync::Arc;

use crate::agh_websockets::{VISITOR, envelope, say, standing, try_connect};
use crate::kept::Kept;
use crate::nats_support::{CHANNEL, House, REMOTE, Raw, WORKER, options, peer, until};
use crate::on_both_brokers;
use crate::support::Setup;
use crate::websockets::{status, text};

on_both_brokers!(a_visitor_is_a_peer_of_the_network_too);

// AG-NAT-5, AG-NAT-12, AG-GRT-2: the node greets for it, carries what it says, and brings what is meant for it.
async fn a_visitor_is_a_peer_of_the_network_too(build: Build) {
    let server = NatsServer::start(build, "");
    let mut remote = Raw::join(&server.url()).await;
    let house = House::open(&[], options(&server.url())).await;
    let serving = ServeOptions {
        dev: true,
        switchboard: Arc::clone(&house.switchboard),
        ..ServeOptions::new("127.0.0.1:0".parse().unwrap())
    };
    let door = serve(Arc::clone(&house.office), serving).unwrap();
    let address = door.listening().address;
    let path = format!("/agh/ws?channel={CHANNEL}&peer={VISITOR}");
    let mut socket = try_connect(address, &path, None, None).await.unwrap();
    let (_, greeting) = remote.hears("greet", VISITOR).await;
    assert_eq!(greeting["body"]["peer_card"]["peer_id"], VISITOR);
    // It is heard.
    let frame = say("over the broker", None).to_string();
    socket.send(text(frame.as_bytes())).await.unwrap();
    let (subject, heard) = remote.hears("say", VISITOR).await;
    assert!(subject.ends_with(".broadcast"));
    assert_eq!(heard["id"], "over the broker");
    // It hears, and answers.
    remote.greet(&house).await;
    let asked = crate::nats_support::envelope(
        "d1",
        json!({"kind": "direct", "to": VISITOR, "interaction_id": "i1", "body": {"text": "do"}}),
    );
    remote.publish(&asked).await;
    assert_eq!(status(&mut socket).await, asked);
    let done = envelope(
        "t1",
        None,
        json!({
            "kind": "trace", "to": REMOTE, "interaction_id": "i1", "reply_to": "d1",
            "body": {"state": "completed", "message": "done"},
        }),
    );
    socket
        .send(text(done.to_string().as_bytes()))
        .await
        .unwrap();
    let (_, heard) = remote.hears("trace", VISITOR).await;
    assert_eq!(heard, done);
    assert_eq!(house.interaction("i1"), "completed");
    // Gone, it gets nothing more.
    drop(socket);
    until("it leaves", async || {
        house.standing(None, VISITOR).is_null()
    })
    .await;
    door.stop().await;
    house.stop().await;
}

// CH-NET-3, CH-JRN-1
#[tokio::test(flavor = "multi_thread")]
async fn whoever_a_crash_left_on_record_is_not_there_after_the_start() {
    left_on_record(Kept::on_files()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_a_crash_left_on_record_is_not_there_after_the_start_also_in_postgresql() {
    left_on_record(Kept::in_postgresql()).await;
}

async fn left_on_record(kept: Kept) {
    let stored = || Setup {
        store: kept.open(),
        clock: Clock::System,
        ..Setup::default()
    };
    let node = stored().start().await;
    let visitor = PeerRecord::new(VISITOR, CHANNEL, None, None, Vec::new(), Catalog::default());
    node.office.agh_join(visitor.clone()).await.unwrap();
    node.office
        .reconcile_peers(&[peer(WORKER, None)])
        .await
        .unwrap();
    // Nobody says that the connection is gone.
    node.stop().await;
    let node = stored().start().await;
    assert_eq!(node.office.agh_nobody_connected().await.unwrap(), 1);
    assert_eq!(node.office.agh_nobody_connected().await.unwrap(), 0);
    assert!(standing(&node, None, VISITOR).is_null());
    assert_eq!(standing(&node, None, WORKER), "local");
    // A configured one is not put out by a visitor of its name.
    let worker = PeerRecord::new(WORKER, CHANNEL, None, None, Vec::new(), Catalog::default());
    assert!(node.office.agh_join(worker).await.is_err());
    node.office
        .agh_leave(&format!("{CHANNEL}/{WORKER}"))
        .await
        .unwrap();
    assert_eq!(standing(&node, None, WORKER), "local");
    node.stop().await;
}

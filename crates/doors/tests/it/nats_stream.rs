//! JetStream changes no meaning; what it adds is that a broker keeps what a node misses.

use async_nats::jetstream::stream::{Config, DiscardPolicy};
use chancery_doors::nats::BrokerOptions;
use chancery_testkit::nats_server::{Build, NatsServer};
use serde_json::{Value, json};

use crate::nats_support::{CHANNEL, House, Raw, WORKER, direct, options, peer, report, until};
use crate::on_both_brokers;

on_both_brokers!(
    the_same_work_gives_the_same_answers,
    what_came_while_the_node_was_down_is_read_and_judged_like_everything,
    a_full_stream_is_told,
);

const KEEPING: &str = "jetstream { store_dir: \"streams\" }";

fn keeping(url: &str) -> BrokerOptions {
    BrokerOptions {
        jetstream: true,
        ..options(url)
    }
}

// AG-NAT-10
async fn the_same_work_gives_the_same_answers(build: Build) {
    let server = NatsServer::start(build, KEEPING);
    let mut raw = Raw::join(&server.url()).await;
    let house = House::open(&[peer(WORKER, None)], keeping(&server.url())).await;
    raw.hears("greet", WORKER).await;
    raw.greet(&house).await;
    raw.publish(&direct("d1", "int_1")).await;
    house.inbox(None, WORKER, 1).await;
    house
        .send(report(
            "receipt",
            "int_1",
            json!({"for_id": "d1", "status": "accepted"}),
        ))
        .await
        .unwrap();
    assert_eq!(
        raw.hears("receipt", WORKER).await.1["body"]["status"],
        "accepted"
    );
    raw.publish(&direct("d1", "int_1")).await;
    assert_eq!(
        raw.hears("receipt", WORKER).await.1["body"]["status"],
        "duplicate"
    );
    // A question of a hosted peer is answered by envelopes, not by the acknowledgement of its publication.
    let asks =
        json!({"from": WORKER, "channel": CHANNEL, "kind": "whois", "body": {"type": "request"}});
    house.send(asks).await.unwrap();
    until("it is published", async || house.office.outbox_len() == 0).await;
    house.stop().await;
}

// AG-NAT-10, AG-DUP-1
async fn what_came_while_the_node_was_down_is_read_and_judged_like_everything(build: Build) {
    let dir = tempfile::tempdir().unwrap();
    let server = NatsServer::start(build, KEEPING);
    let mut raw = Raw::join(&server.url()).await;
    let peers = [peer(WORKER, None)];
    let house = House::in_dir(dir.path(), &peers, keeping(&server.url())).await;
    raw.hears("greet", WORKER).await;
    raw.publish(&direct("d1", "int_1")).await;
    house.inbox(None, WORKER, 1).await;
    house.stop().await;
    raw.publish(&direct("d2", "int_2")).await;
    raw.publish(&direct("d2", "int_2")).await;
    let mut expired = direct("d3", "int_3");
    expired["expires_at"] = 1.into();
    raw.publish(&expired).await;
    let house = House::in_dir(dir.path(), &peers, keeping(&server.url())).await;
    let heard = house.inbox(None, WORKER, 2).await;
    let ids: Vec<&Value> = heard.iter().map(|envelope| &envelope["id"]).collect();
    assert_eq!(ids, ["d1", "d2"]);
    let mut told = Vec::new();
    while told.len() < 2 {
        told.push(raw.hears("receipt", WORKER).await.1["body"]["status"].clone());
    }
    // In whatever order (AG-DLV-1).
    told.sort_by_key(Value::to_string);
    assert_eq!(told, ["duplicate", "expired"]);
    assert_eq!(house.interaction("int_3"), Value::Null);
    house.stop().await;
}

// AG-NAT-10, AG-LIF-10, CH-JRN-11
async fn a_full_stream_is_told(build: Build) {
    let server = NatsServer::start(build, KEEPING);
    let mut raw = Raw::join(&server.url()).await;
    let house = House::open(&[peer(WORKER, None)], keeping(&server.url())).await;
    raw.hears("greet", WORKER).await;
    raw.greet(&house).await;
    // From here on the stream takes nothing more.
    let context = async_nats::jetstream::new(raw.client.clone());
    let stream = context.get_stream("AGH_NETWORK_V0").await.unwrap();
    let full = Config {
        max_messages: 1,
        discard: DiscardPolicy::New,
        ..stream.cached_info().config.clone()
    };
    context.update_stream(full).await.unwrap();
    let asks = report("direct", "int_1", json!({"text": "do it"}));
    house.send(asks).await.unwrap();
    assert_eq!(house.interaction("int_1"), "submitted");
    until("it is put back", async || {
        house.interaction("int_1") == Value::Null
    })
    .await;
    house.stop().await;
}

//! A broker that is down, restarted, slow or full: state is kept, peers greet again, callers are told.

use chancery_testkit::nats_server::{Build, NatsServer};
use serde_json::{Value, json};

use crate::nats_support::{
    CHANNEL, House, Raw, WORKER, direct, must, options, peer, report, until,
};
use crate::on_both_brokers;

on_both_brokers!(
    a_broker_that_comes_back_finds_everything_as_it_was,
    without_a_broker_callers_are_told_and_local_peers_go_on,
    a_silent_broker_counts_as_down_until_it_answers,
    what_the_broker_does_not_take_is_on_record_and_put_back,
    a_node_restarted_in_the_middle_goes_on_with_the_interaction,
);

fn say(text: &str) -> Value {
    json!({"from": WORKER, "channel": CHANNEL, "kind": "say", "body": {"text": text}})
}

// AG-NAT-6, AG-GRT-2, AG-LIF-10, CH-JRN-11
async fn a_broker_that_comes_back_finds_everything_as_it_was(build: Build) {
    let mut server = NatsServer::of_its_own(build, "");
    let mut raw = Raw::join(&server.url()).await;
    let house = House::open(&[peer(WORKER, None)], options(&server.url())).await;
    raw.hears("greet", WORKER).await;
    raw.greet(&house).await;
    raw.publish(&direct("d1", "int_1")).await;
    house.inbox(None, WORKER, 1).await;
    server.kill();
    until("callers are told", async || {
        house.send(say("x")).await.err().map(|refusal| refusal.code) == Some("busy")
    })
    .await;
    assert_eq!(house.interaction("int_1"), "submitted");
    server.restart();
    let mut raw = Raw::join(&server.url()).await;
    raw.hears("greet", WORKER).await;
    raw.greet(&house).await;
    house
        .send_when_up(report("trace", "int_1", json!({"state": "completed"})))
        .await;
    let (_, trace) = raw.hears("trace", WORKER).await;
    assert_eq!(trace["body"]["state"], "completed");
    // A repetition of what came before is one after, too.
    raw.publish(&direct("d1", "int_1")).await;
    let (_, receipt) = raw.hears("receipt", WORKER).await;
    assert_eq!(receipt["body"]["status"], "duplicate");
    house.stop().await;
}

// CH-JRN-11, CH-LIM-2, AG-LIF-10
async fn without_a_broker_callers_are_told_and_local_peers_go_on(build: Build) {
    let mut server = NatsServer::of_its_own(build, "");
    let url = server.url();
    server.kill();
    let peers = [peer(WORKER, None), peer("echo.demo", None)];
    let house = House::open(&peers, options(&url)).await;
    let refusal = house.send(say("x")).await.unwrap_err();
    assert_eq!((refusal.code, refusal.status), ("busy", 503));
    let lines = house.office.gate().store().head().seq;
    let mut local = report("direct", "int_1", json!({"text": "x"}));
    local["to"] = "echo.demo".into();
    house.send(local).await.unwrap();
    house.inbox(None, "echo.demo", 1).await;
    assert_eq!(house.office.gate().store().head().seq, lines + 1);
    server.restart();
    house.send_when_up(say("y")).await;
    house.stop().await;
}

// AG-NAT-7, CH-JRN-11
async fn a_silent_broker_counts_as_down_until_it_answers(build: Build) {
    let server = NatsServer::of_its_own(build, "");
    let mut raw = Raw::join(&server.url()).await;
    let house = House::open(&[peer(WORKER, None)], options(&server.url())).await;
    raw.hears("greet", WORKER).await;
    server.pause();
    until("callers are told", async || {
        house.send(say("x")).await.err().map(|refusal| refusal.code) == Some("busy")
    })
    .await;
    server.resume();
    house.send_when_up(say("again")).await;
    must("what was said", async {
        while raw.hears("say", WORKER).await.1["body"]["text"] != "again" {}
    })
    .await;
    house.stop().await;
}

// AG-NAT-7, AG-LIF-10, AG-NAT-9, CH-JRN-11
async fn what_the_broker_does_not_take_is_on_record_and_put_back(build: Build) {
    let server = NatsServer::start(build, "max_payload: 4096");
    let mut raw = Raw::join(&server.url()).await;
    let house = House::open(&[peer(WORKER, None)], options(&server.url())).await;
    raw.hears("greet", WORKER).await;
    raw.greet(&house).await;
    let large = report("direct", "int_1", json!({"text": "x".repeat(8_000)}));
    house.send(large).await.unwrap();
    // The interaction is as before, which is: there is none.
    until("it is put back", async || {
        house.interaction("int_1") == Value::Null
    })
    .await;
    let store = house.office.gate().store();
    let lines = store.lines(1, 1_000).unwrap();
    let last: Value = serde_json::from_slice(lines.last().unwrap()).unwrap();
    assert_eq!(last["envelope"]["kind"], "failed");
    assert_eq!(last["envelope"]["code"], "undeliverable");
    house.stop().await;
}

// CH-JRN-13, AG-DUP-1, AG-LIF-2
async fn a_node_restarted_in_the_middle_goes_on_with_the_interaction(build: Build) {
    let dir = tempfile::tempdir().unwrap();
    let server = NatsServer::start(build, "");
    let mut raw = Raw::join(&server.url()).await;
    let peers = [peer(WORKER, None)];
    let house = House::in_dir(dir.path(), &peers, options(&server.url())).await;
    raw.hears("greet", WORKER).await;
    raw.greet(&house).await;
    raw.publish(&direct("d1", "int_1")).await;
    house.inbox(None, WORKER, 1).await;
    house.stop().await;
    let house = House::in_dir(dir.path(), &peers, options(&server.url())).await;
    raw.hears("greet", WORKER).await;
    assert_eq!(house.interaction("int_1"), "submitted");
    raw.publish(&direct("d1", "int_1")).await;
    let (_, receipt) = raw.hears("receipt", WORKER).await;
    assert_eq!(receipt["body"]["status"], "duplicate");
    raw.greet(&house).await;
    house
        .send_when_up(report("trace", "int_1", json!({"state": "failed"})))
        .await;
    assert_eq!(
        raw.hears("trace", WORKER).await.1["body"]["state"],
        "failed"
    );
    house.stop().await;
}

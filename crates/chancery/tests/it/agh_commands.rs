//! `chancery agh`: what people type, on a node with a broker and on one without.

use std::process::Stdio;

use chancery_testkit::nats_server::{Build, NatsServer};
use serde_json::json;

use crate::agh_house::{AghNode, CHANNEL, RawPeer, Rev};
use crate::support::Ran;

const WORKER: &str = "patch-worker.session-19";
const PLANNER: &str = "planner.session-7";
const RAW: &str = "raw-peer.session-42";

fn run(node: &AghNode, arguments: &[&str]) -> Ran {
    let mut command = node.place.command(&[&["agh"], arguments].concat());
    command.env("CHANCERY_URL", &node.url);
    Ran::from(command.stdin(Stdio::null()).output().unwrap())
}

// CH-CLI-1, CH-CLI-2, AG-SND-1, AG-LIF-2, AG-WHO-3, AG-PRS-4
#[test]
fn work_is_handed_over_reported_and_canceled_by_hand() {
    let node = AghNode::start("dual", "", &[WORKER]);
    let joined = run(&node, &["join", CHANNEL, PLANNER, "--can", "plan"]).exits(0);
    assert_eq!(joined.text(), format!("joined  {CHANNEL}/{PLANNER}\n"));
    let peers = run(&node, &["peers", CHANNEL]).exits(0).text();
    assert!(
        peers.contains(PLANNER) && peers.contains("local"),
        "{peers}"
    );
    let from_planner = ["--from", PLANNER];
    let ask = [
        "direct",
        CHANNEL,
        WORKER,
        "Run the tests.",
        "--work",
        "work_1",
    ];
    let sent = run(&node, &[&ask[..], &from_planner[..]].concat())
        .exits(0)
        .text();
    assert!(
        sent.starts_with("sent  ") && sent.ends_with("  work  work_1\n"),
        "{sent}"
    );
    let trace = [
        "trace",
        CHANNEL,
        PLANNER,
        "work_1",
        "completed",
        "--from",
        WORKER,
    ];
    run(&node, &trace).exits(0);
    let late = run(&node, &trace).exits(1);
    assert!(late.err.contains("interaction_closed"), "{}", late.err);
    // CH-CLI-3
    let told = "  requirement  AG-LIF-2\n  next         Begin a new interaction.";
    assert!(late.err.contains(told), "{}", late.err);
    let ask = ["direct", CHANNEL, WORKER, "More.", "--work", "work_2"];
    run(&node, &[&ask[..], &from_planner[..]].concat()).exits(0);
    let cancel = ["cancel", CHANNEL, WORKER, "work_2"];
    run(&node, &[&cancel[..], &from_planner[..]].concat()).exits(0);
    let works = run(&node, &["interactions", CHANNEL, "--json"])
        .exits(0)
        .json();
    let states: Vec<_> = works["interactions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|w| &w["state"])
        .collect();
    assert_eq!(states, ["completed", "canceled"]);
    let nobody = run(&node, &["say", CHANNEL, "x", "--from", "nobody"]).exits(1);
    assert!(nobody.err.contains("agh join"), "{}", nobody.err);
}

// CH-CLI-1, AG-WHO-3, AG-B-25
#[test]
fn a_channel_is_asked_and_watched() {
    let node = AghNode::start("dual", "", &[WORKER]);
    run(&node, &["join", CHANNEL, PLANNER]).exits(0);
    let from_planner = ["--from", PLANNER];
    let ask = [
        "direct", CHANNEL, WORKER, "Run it.", "--work", "work_1", "--from", PLANNER,
    ];
    run(&node, &ask).exits(0);
    let whois = ["whois", CHANNEL, "test.run", "--json"];
    let answers = run(&node, &[&whois[..], &from_planner[..]].concat())
        .exits(0)
        .json();
    assert_eq!(answers["answers"][0]["peer_id"], WORKER);
    let in_b = [
        "say",
        CHANNEL,
        "hello",
        "--from",
        WORKER,
        "--workspace",
        "ws_alpha",
    ];
    run(&node, &in_b).exits(0);
    let watched = run(&node, &["watch", CHANNEL, "--seconds", "0"])
        .exits(0)
        .text();
    for part in [
        "planner.session-7 is local",
        "direct planner.session-7 → ",
        "[work_1] Run it.",
    ] {
        assert!(watched.contains(part), "{part}: {watched}");
    }
    assert!(!watched.contains("hello"), "another workspace: {watched}");
}

// AG-NAT-5, AG-WHO-5, AG-PRS-7
#[test]
fn peers_elsewhere_are_asked_and_given_work() {
    let server = NatsServer::start(Build::Newest, "");
    let mut raw = RawPeer::join(&server.url(), RAW);
    let node = AghNode::start("a", &server.url(), &[WORKER]);
    let absent = ["direct", CHANNEL, RAW, "Hello?", "--from", WORKER];
    let ran = run(&node, &absent).exits(1);
    assert!(ran.err.contains("not_found"), "{}", ran.err);
    raw.greet_node(Rev::A, RAW, &node);
    run(&node, &["say", CHANNEL, "Anybody?", "--from", WORKER]).exits(0);
    let said = raw.hears(json!({"kind": "say", "from": WORKER}));
    assert_eq!(said["body"]["text"], "Anybody?");
    run(&node, &absent).exits(0);
    assert_eq!(raw.hears(json!({"kind": "direct"}))["to"], RAW);
    let peers = run(&node, &["peers", CHANNEL]).exits(0).text();
    assert!(peers.contains("active"), "{peers}");
}

//! Several nodes on one journal: what may only refuse counts on all of them together (CH-JRN-13, CH-LIM-1).

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use chancery_testkit::postgres_server::PostgresServer;
use serde_json::json;

use crate::agh_house::until;
use crate::connections::SetAtEnd;
use crate::on_postgres::is_whole;
use crate::served::{HOSTED, Served, now, share};
use crate::support::Place;
use crate::two_nodes::two;
use crate::two_nodes_sockets::agh_place;

const LIMIT: f64 = 100.0;
/// How long the sum is counted: the limit is one of real time.
const COUNTED: Duration = Duration::from_secs(5);
/// How often it is counted.
const TIMES: usize = 4;

/// Within a fifth.
fn holds(rate: &f64) -> bool {
    (LIMIT * 0.8..=LIMIT * 1.2).contains(rate)
}

#[test]
fn a_rate_holds_for_the_sum_of_three_nodes() {
    // CH-LIM-1, CH-JRN-5, CH-JRN-13
    let server = PostgresServer::start();
    let place = Place::for_dev_node()
        .on(&server, "rates")
        .with("CHANCERY_LIMITS_RATE_PER_SENDER", "100");
    let nodes = ["data", "data-2", "data-3"].map(|data| place.serve_with(&["--data", data]));
    let (accepted, refused) = (AtomicU64::new(0), AtomicU64::new(0));
    let over = AtomicBool::new(false);
    let rates = std::thread::scope(|scope| {
        // Also when something is wrong: clients must not go on for ever.
        let _over = SetAtEnd(&over);
        // Two to each: alone, each node would let in twice the limit's share and more.
        for (node, agent) in nodes.iter().chain(&nodes).zip(HOSTED.iter().cycle()) {
            let (accepted, refused, over) = (&accepted, &refused, &over);
            scope.spawn(move || {
                let mut wire = node.wire();
                while !over.load(Ordering::SeqCst) {
                    let answer = wire.share(&share(agent).bytes).unwrap();
                    let count = match answer.status {
                        200 => accepted,
                        429 => refused,
                        _ => panic!("{} {}", answer.head, answer.text()),
                    };
                    count.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        // First the allowance that all of them began with is used up.
        while refused.load(Ordering::SeqCst) == 0 {
            std::thread::sleep(Duration::from_millis(10));
        }
        let count = || {
            let (before, since) = (accepted.load(Ordering::SeqCst), Instant::now());
            std::thread::sleep(COUNTED);
            let counted = accepted.load(Ordering::SeqCst) - before;
            counted as f64 / since.elapsed().as_secs_f64()
        };
        // However busy the machine is, and from the first: who lets one in has counted what the others let in.
        std::iter::repeat_with(count)
            .take(TIMES)
            .collect::<Vec<_>>()
    });
    println!(
        "a limit of {LIMIT}: {} accepted, {} refused in all",
        accepted.into_inner(),
        refused.into_inner()
    );
    println!("in {COUNTED:?} each: {rates:.1?} a second");
    assert!(rates.iter().all(holds), "not the limit: {rates:.1?}");
    nodes.into_iter().for_each(Served::stop_well);
    // What was refused is on no log, and what is on the log needs no rate.
    is_whole(&place);
}

#[test]
fn a_peer_that_greeted_one_node_is_present_at_the_other() {
    // AG-PRS-1, CH-JRN-13
    const REMOTE: &str = "remote.session-3";
    let server = PostgresServer::start();
    let place = agh_place(&server, "presence");
    let [a, b] = two(&place);
    let card = json!({
        "peer_id": REMOTE, "profiles_supported": ["agh-network/v0"], "capabilities": [],
        "artifacts_supported": [], "trust_modes_supported": [],
    });
    let greet = |number: u64| {
        let greeting = json!({
            "protocol": "agh-network/v0", "id": format!("greet-{number}"), "channel": "builders",
            "from": REMOTE, "to": null, "ts": now().unix_seconds(), "proof": null, "kind": "greet",
            "body": {"peer_card": card},
        });
        let greeted = a.wire().post("/agh", greeting.to_string().as_bytes());
        greeted.unwrap().ok();
    };
    let is_present = |node: &Served| {
        let state = node.wire().get("/state/agh/builders").unwrap().ok();
        let mut peers = state["peers"].as_array().unwrap().iter();
        peers.any(|peer| peer["peer_id"] == REMOTE && peer["state"] == "active")
    };
    greet(0);
    assert!(is_present(&a));
    // A peer greets again and again: the other node may not have listened yet.
    let mut number = 0;
    until("it is present at the other node", || {
        number += 1;
        greet(number);
        is_present(&b).then_some(())
    });
    // And the other lets work go to it.
    let work = json!({
        "from": "worker.session-1", "channel": "builders", "to": REMOTE, "kind": "direct",
        "interaction_id": "int-1", "body": {"text": "do it"},
    });
    let sent = b.wire().post("/send/agh", work.to_string().as_bytes());
    sent.unwrap().ok();
    // One that starts later asks, and need not wait for the next greeting.
    let c = place.serve_with(&["--data", "data-3"]);
    until("it is present at the new node", || {
        is_present(&c).then_some(())
    });
    [a, b, c].into_iter().for_each(Served::stop_well);
    is_whole(&place);
}

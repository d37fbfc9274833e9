//! The real binary on a real socket: an envelope's whole way, and how a node stops or refuses to start.

use std::time::Duration;

use serde_json::json;

use crate::served::{HOSTED, SENDER, share};
use crate::support::Place;

#[test]
fn an_envelope_is_accepted_kept_shown_and_taken_once() {
    // CH-NET-1, VX-HTTP-1, VX-ERR-1, VX-DUP-1, CH-JRN-2
    let place = Place::for_dev_node();
    let node = place.serve();
    let told: serde_json::Value = serde_json::from_str(&node.start_line).unwrap();
    assert_eq!(
        (&told["event"], &told["durable"]),
        (&json!("listening"), &json!(true))
    );
    let mut wire = node.wire();
    let share = share(HOSTED[0]);
    let accepted = wire.share(&share.bytes).unwrap().ok();
    assert_eq!(
        accepted,
        json!({"status": "accepted", "message_id": share.id})
    );
    let inbox = node.inbox(HOSTED[0]);
    assert_eq!(inbox.len(), 1);
    let sent: serde_json::Value = serde_json::from_slice(&share.bytes).unwrap();
    assert_eq!(inbox[0]["envelope"], sent);
    assert!(node.inbox(HOSTED[1]).is_empty());
    let duplicate = wire.share(&share.bytes).unwrap().ok();
    assert_eq!(
        duplicate,
        json!({"status": "duplicate", "message_id": share.id})
    );
    assert_eq!(node.inbox(HOSTED[0]).len(), 1);
    let lines = place.log_lines();
    let on_record = lines.iter().filter(|line| line.contains(&share.id)).count();
    assert_eq!(on_record, 1);
    assert!(lines.last().unwrap().contains(SENDER));
    node.stop_well();
    place.run(&["log", "verify", "data"]).exits(0);
    place.run(&["log", "replay", "data"]).exits(0);
}

#[test]
fn it_is_all_there_again_after_a_stop() {
    // CH-NET-3, CH-JRN-4, VX-DUP-1
    let place = Place::for_dev_node();
    let node = place.serve();
    let first = share(HOSTED[0]);
    node.wire().share(&first.bytes).unwrap().ok();
    let (inbox, state) = (node.inbox(HOSTED[0]), node.state(HOSTED[0]));
    // A connection that stays open, which it may for longer than that, does not hold up the stop.
    let mut idle = node.wire();
    idle.get("/healthz").unwrap();
    let (status, rest) = node.stop_within(Duration::from_secs(30));
    assert_eq!(
        (status.code(), rest.as_str()),
        (Some(0), ""),
        "one line on stdout"
    );
    let lines = place.log_lines();
    let node = place.serve();
    let again = node.wire().share(&first.bytes).unwrap().ok();
    assert_eq!(again["status"], "duplicate");
    assert_eq!(
        (node.inbox(HOSTED[0]), node.state(HOSTED[0])),
        (inbox, state)
    );
    node.stop_well();
    assert_eq!(
        place.log_lines(),
        lines,
        "a start with the same files writes nothing"
    );
}

#[test]
fn a_second_process_is_kept_out_and_told_of_the_first() {
    // CH-NET-5
    let place = Place::for_dev_node();
    let node = place.serve();
    let refused = place.refuses_to_serve(&[]).exits(2);
    let process = format!("process {}", node.pid());
    assert!(refused.err.contains(&process), "{}", refused.err);
    assert!(
        refused.err.contains(&node.address.to_string()),
        "{}",
        refused.err
    );
    node.wire().share(&share(HOSTED[0]).bytes).unwrap().ok();
    node.kill();
    // What a killed process leaves behind locks nobody out.
    place.serve().stop_well();
}

#[test]
fn other_machines_are_not_served_without_tls() {
    // CH-NET-2
    let place = Place::for_node();
    let refused = place.refuses_to_serve(&["--listen", "0.0.0.0:0"]).exits(2);
    assert!(refused.err.contains("TLS"), "{}", refused.err);
    assert!(
        refused.err.contains("tls_terminated_upstream"),
        "{}",
        refused.err
    );
    let dev = place.refuses_to_serve(&["--listen", "0.0.0.0:0", "--dev"]);
    let dev = dev.exits(2);
    assert!(dev.err.contains("loopback"), "{}", dev.err);
}

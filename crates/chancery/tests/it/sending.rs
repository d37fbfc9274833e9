//! `chancery send`: signed where a key is given, told with its reason where it is refused.

use serde_json::Value;

use crate::running_node::{KITCHEN, LIVING_ROOM, RunningNode};
use crate::support::Place;

#[test]
fn what_is_missing_is_filled_in_and_signed() {
    // CH-CLI-2, VX-ID-1, VX-TS-3
    let node = RunningNode::start();
    let told = node.send_share("living-room.key").exits(0).json();
    assert_eq!(told["status"], "accepted");
    let id = told["message_id"].as_str().unwrap().to_owned();
    let log = node.place.read("chancery-data/audit.jsonl");
    let line = log.lines().find(|line| line.contains(&id)).unwrap();
    let envelope = &serde_json::from_str::<Value>(line).unwrap()["envelope"];
    assert_eq!(envelope["vcp_message"], "1.2");
    assert_eq!(envelope["sender"], LIVING_ROOM);
    assert_eq!(envelope["recipient"], KITCHEN);
    assert!(envelope["timestamp"].is_string());

    // What is there already stays: the same bytes are a duplicate.
    node.place.write("whole.json", envelope.to_string());
    let told = node.run_as(None, &["send", "value-context", "whole.json"]);
    let text = told.exits(0).text();
    assert_eq!(text, format!("duplicate  {id}\n"));
}

#[test]
fn a_refused_envelope_is_shown_with_check_path_and_requirement() {
    // CH-CLI-3
    let node = RunningNode::start();
    node.place.write(
        "short.json",
        format!(r#"{{"type":"context_share","sender":"{LIVING_ROOM}","recipient":"{KITCHEN}","payload":{{"context":"⏰🌅"}}}}"#),
    );
    let send = [
        "send",
        "value-context",
        "short.json",
        "--key",
        "living-room.key",
    ];
    let text = node.run_as(None, &send).exits(1).text();
    for part in [
        "rejected  ",
        "schema_invalid: ",
        "check        schema",
        "path         /payload/constitution_ref",
        "requirement  VX-",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }

    // Another key than the sender's: only the code tells which check it was.
    let share = node.share();
    let send = [
        "send",
        "value-context",
        share.to_str().unwrap(),
        "--key",
        "kitchen.key",
    ];
    let text = node.run_as(None, &send).exits(1).text();
    for part in [
        "signature_invalid: ",
        "check        signature",
        "path         /signature",
        "requirement  VX-SIG-4",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }

    // Without a key nothing is added: the envelope goes as it is.
    let told = node.run_as(None, &["send", "value-context", "share.json", "--json"]);
    let told = told.exits(1).json();
    assert_eq!(told["status"], "rejected");
    assert_eq!(told["error"]["code"], "schema_invalid");
}

#[test]
fn a_node_that_is_not_there_is_told_with_what_to_do() {
    // CH-CLI-1, CH-CLI-3
    let place = Place::new();
    place.write("share.json", "{}");
    let send = [
        "send",
        "value-context",
        "share.json",
        "--url",
        "http://127.0.0.1:1",
    ];
    let ran = place.run(&send).exits(2);
    assert!(
        ran.err.contains("no node answers at http://127.0.0.1:1"),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("chancery serve"), "{}", ran.err);
    let send = [
        "send",
        "value-context",
        "share.json",
        "--url",
        "127.0.0.1:1",
    ];
    assert!(
        place
            .run(&send)
            .exits(2)
            .err
            .contains("http://127.0.0.1:8700")
    );
    place
        .run(&["send", "value-context", "missing.json"])
        .exits(2);
    place.run(&["send", "agh", "share.json"]).exits(2);
}

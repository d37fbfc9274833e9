//! Keys of a running node: a file that changes, and keys for a while.

use chancery_core::time::{Time, format_audit};
use chancery_node::Clock;
use serde_json::{Value, json};
use std::time::Duration;

use crate::running_node::{KITCHEN, LIVING_ROOM, RunningNode};
use crate::served::signal;

/// Looks until it is so. The file is looked at once a second; whoever waits in vain is stopped by the looks, not by time.
fn until(mut is_so: impl FnMut() -> bool) {
    assert!((0..3_000).any(|_| {
        let so = is_so();
        if !so {
            std::thread::sleep(Duration::from_millis(20));
        }
        so
    }));
}

fn keys_of(node: &RunningNode, owner: &str) -> Vec<String> {
    let listed = node.run(&["key", "list", "--owner", owner, "--json"]);
    let listed = listed.exits(0).json();
    let keys = listed["keys"].as_array().unwrap().iter();
    keys.map(|key| key["id"].as_str().unwrap().to_owned())
        .collect()
}

fn world(node: &RunningNode) -> Value {
    serde_json::from_str(&node.place.read("agents.json")).unwrap()
}

fn with_new_key(node: &RunningNode, file: &str, id: &str) -> Value {
    let new = node.place.run(&["key", "new", file, "--id", id, "--json"]);
    let mut world = world(node);
    let keys = &mut world["trust"]["trust_anchors"][LIVING_ROOM]["keys"];
    keys.as_array_mut().unwrap().push(new.exits(0).json());
    world
}

#[test]
fn a_trust_file_that_changes_is_read_again() {
    // VX-KEY-7
    let node = RunningNode::start();
    node.send_share("second.key.missing").exits(2);
    let changed = with_new_key(&node, "second.key", "k-02");
    node.send_share("second.key").exits(1);
    node.place.write("agents.json", changed.to_string());
    until(|| keys_of(&node, LIVING_ROOM) == ["k-01", "k-02"]);
    node.send_share("second.key").exits(0);

    // A broken file changes nothing and raises an alert.
    node.place.write("agents.json", "{\"trust\":");
    let events = node.place.path("chancery-data/events.jsonl");
    until(|| std::fs::read_to_string(&events).is_ok_and(|text| text.contains("key_alert")));
    assert_eq!(keys_of(&node, LIVING_ROOM), ["k-01", "k-02"]);
    node.send_share("second.key").exits(0);

    // A key that is in the file no more counts no more.
    let mut without = changed;
    let keys = &mut without["trust"]["trust_anchors"][LIVING_ROOM]["keys"];
    keys.as_array_mut().unwrap().pop();
    node.place.write("agents.json", without.to_string());
    until(|| keys_of(&node, LIVING_ROOM) == ["k-01"]);
    let told = node.send_share("second.key").exits(1).json();
    assert_eq!(told["error"]["code"], "signature_invalid");
}

/// Writes the world so that whoever looks sees no change: as long as it was, and as old.
fn write_unseen(node: &RunningNode, world: &Value) {
    let (path, world) = (node.place.path("agents.json"), world.to_string());
    let before = std::fs::metadata(&path).unwrap();
    assert_eq!(before.len(), world.len() as u64);
    std::fs::write(&path, world).unwrap();
    let file = std::fs::File::options().append(true).open(&path).unwrap();
    file.set_modified(before.modified().unwrap()).unwrap();
}

#[test]
fn a_hangup_reads_the_files_again() {
    // VX-KEY-7
    let node = RunningNode::start();
    let mut changed = with_new_key(&node, "second.key", "k-02");
    let keys = &mut changed["trust"]["trust_anchors"][LIVING_ROOM]["keys"];
    keys.as_array_mut().unwrap().remove(0);
    write_unseen(&node, &changed);
    signal("HUP", node.pid());
    until(|| keys_of(&node, LIVING_ROOM) == ["k-02"]);
    node.send_share("second.key").exits(0);
    node.send_share("living-room.key").exits(1);
}

#[test]
fn a_spawned_agent_gets_a_key_that_leaves_with_it() {
    // VX-KEY-6
    let node = RunningNode::start();
    let later = |hours: u64| -> Time {
        let from_now = Duration::from_secs(hours * 3_600);
        Clock::System.now().saturating_add(from_now)
    };
    let entry = |file: &str, until: Time| {
        let until = format_audit(until);
        let new = [
            "key",
            "new",
            file,
            "--valid-until",
            until.as_str(),
            "--json",
        ];
        let entry = node.place.run(&new).exits(0).text();
        node.place.write("entry.json", entry);
    };
    let add = ["key", "add", KITCHEN, "entry.json", "--short-lived"];
    entry("long.key", later(25));
    let refused = node.run(&add).exits(1);
    assert!(refused.err.contains("short-lived"), "{}", refused.err);
    entry("short.key", later(23));
    let told = node.run(&add).exits(0).text();
    assert!(told.starts_with("key spawn-"), "{told}");
    assert_eq!(keys_of(&node, KITCHEN).len(), 2);

    let share = json!({
        "type": "context_share", "sender": KITCHEN, "recipient": LIVING_ROOM,
        "payload": {"context": "📍🏡", "constitution_ref": "creed://creed.space/a@1.0.0"},
    });
    node.place.write("of-kitchen.json", share.to_string());
    let send = [
        "send",
        "value-context",
        "of-kitchen.json",
        "--key",
        "short.key",
    ];
    node.run_as(None, &send).exits(0);
    node.run(&["agent", "remove", KITCHEN]).exits(0);
    assert_eq!(keys_of(&node, KITCHEN).len(), 1);
    node.run_as(None, &send).exits(1);
}

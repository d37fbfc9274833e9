//! `chancery token`, `agent` and `key` against a running node.

use serde_json::Value;

use crate::running_node::{KITCHEN, LIVING_ROOM, RunningNode};

#[test]
fn a_token_is_shown_once_and_is_none_when_revoked() {
    // CH-ID-1, CH-ID-2, CH-ID-3
    let node = RunningNode::start();
    let new = ["token", "new", "monitor", "--scope", "read:log", "--json"];
    let issued = node.run(&new).exits(0).json();
    let (id, token) = (
        issued["id"].as_str().unwrap(),
        issued["token"].as_str().unwrap(),
    );
    assert!(token.starts_with("cht_"));

    let listed = node.run(&["token", "list"]).exits(0);
    assert!(listed.text().contains(id), "{}", listed.text());
    let raw = node.run(&["token", "list", "--json"]).exits(0);
    let secret = token.split_once('.').unwrap().1;
    for ran in [&listed, &raw] {
        assert!(!ran.text().contains(secret) && !ran.err.contains(secret));
    }

    // It allows to read the log, and nothing else.
    let ran = node.run_as(Some(token), &["token", "list"]).exits(1);
    assert!(
        ran.err.contains("scope admin") && !ran.err.contains(secret),
        "{}",
        ran.err
    );
    node.run(&["token", "revoke", id]).exits(0);
    let listed = node.run(&["token", "list", "--json"]).exits(0).json();
    let mut tokens = listed["tokens"].as_array().unwrap().iter();
    let record = tokens.find(|record| record["id"] == id).unwrap();
    assert_eq!(record["revoked"], true);
    let ran = node.run_as(Some(token), &["token", "list"]).exits(1);
    assert!(
        ran.err.contains("--token-file") && !ran.err.contains(secret),
        "{}",
        ran.err
    );
    let ran = node.run(&["token", "revoke", token]).exits(1);
    assert!(!ran.err.contains(secret), "{}", ran.err);
    node.run(&["token", "new", "monitor", "--scope", "everything"])
        .exits(1);
}

#[test]
fn a_token_comes_from_a_file_that_others_cannot_read() {
    // CH-ID-3
    let node = RunningNode::start();
    let ran = node.run_as(None, &["agent", "list"]).exits(1);
    assert!(ran.err.contains("CHANCERY_TOKEN"), "{}", ran.err);
    let path = node.place.write("admin.token", format!("{}\n", node.admin));
    let list = ["agent", "list", "--token-file", "admin.token"];
    let ran = node.run_as(None, &list).exits(2);
    assert!(ran.err.contains("chmod 600"), "{}", ran.err);
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    // The file beats the environment.
    let ran = node.run_as(Some("cht_0.wrong"), &list).exits(0);
    assert!(!ran.text().contains(&node.admin));
    // As an argument it is not taken: others see arguments.
    node.run_as(None, &["agent", "list", "--token", &node.admin])
        .exits(2);
    // Nor is it sent in the open.
    let open = ["agent", "list", "--url", "http://agents.example"];
    let ran = node.run(&open).exits(2);
    assert!(ran.err.contains("https://"), "{}", ran.err);
}

#[test]
fn an_agent_is_added_suspended_resumed_and_removed() {
    // CH-CLI-2, VX-RUN-4
    let node = RunningNode::start();
    let hallway = "agent://home.local/hallway";
    node.run(&[
        "agent",
        "add",
        hallway,
        "--peer",
        LIVING_ROOM,
        "--parent",
        KITCHEN,
    ])
    .exits(0);
    let shown = node
        .run(&["agent", "show", hallway, "--json"])
        .exits(0)
        .json();
    assert_eq!(shown["run_state"], "running");
    assert_eq!(shown["record"]["parent"], KITCHEN);
    assert_eq!(shown["record"]["peers"][0], LIVING_ROOM);
    let listed = node.run(&["agent", "list"]).exits(0).text();
    assert_eq!(listed.lines().count(), 4, "{listed}");

    node.run(&["agent", "suspend", LIVING_ROOM]).exits(0);
    let told = node.send_share("living-room.key").exits(1).json();
    assert_eq!(told["error"]["code"], "sender_suspended");
    assert!(
        node.run(&["agent", "list"])
            .exits(0)
            .text()
            .contains("suspended")
    );
    node.run(&["agent", "resume", LIVING_ROOM]).exits(0);
    node.send_share("living-room.key").exits(0);

    node.run(&["agent", "remove", hallway]).exits(0);
    let ran = node.run(&["agent", "show", hallway]).exits(1);
    assert!(ran.err.contains(hallway), "{}", ran.err);
    node.run(&["agent", "suspend", "agent://home.local/nobody"])
        .exits(1);
    let ran = node.run(&["agent", "add", ""]).exits(1);
    assert!(ran.err.contains("/id"), "{}", ran.err);
}

fn states(node: &RunningNode) -> Vec<(String, String)> {
    let list = ["key", "list", "--owner", LIVING_ROOM, "--json"];
    let listed = node.run(&list).exits(0).json();
    let text = |key: &Value, name: &str| key[name].as_str().unwrap().to_owned();
    let keys = listed["keys"].as_array().unwrap().iter();
    keys.map(|key| (text(key, "id"), text(key, "state")))
        .collect()
}

fn pairs(states: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |(id, state): &(&str, &str)| ((*id).to_owned(), (*state).to_owned());
    states.iter().map(owned).collect()
}

#[test]
fn a_key_is_rotated_and_the_old_one_revoked() {
    // VX-KEY-3, VX-KEY-4, VX-KEY-5
    let node = RunningNode::start();
    let entry = node
        .run(&["key", "new", "second.key", "--id", "k-02"])
        .exits(0)
        .text();
    node.place.write("k-02.json", entry);
    node.run(&["key", "rotate", LIVING_ROOM, "k-02.json"])
        .exits(0);
    assert_eq!(
        states(&node),
        pairs(&[("k-01", "rotating"), ("k-02", "active")])
    );
    node.send_share("living-room.key").exits(0);
    node.send_share("second.key").exits(0);

    node.run(&["key", "revoke", LIVING_ROOM, "k-01"]).exits(0);
    assert_eq!(
        states(&node),
        pairs(&[("k-01", "revoked"), ("k-02", "active")])
    );
    let told = node.send_share("living-room.key").exits(1).json();
    assert_eq!(told["error"]["code"], "key_not_valid");
    node.send_share("second.key").exits(0);
    let listed = node.run(&["key", "list"]).exits(0).text();
    assert!(
        listed.contains(KITCHEN) && listed.contains("revoked"),
        "{listed}"
    );

    // What is final stays: the node refuses, the command says so.
    node.run(&["key", "revoke", LIVING_ROOM, "k-09"]).exits(1);
    let first = node
        .run(&["key", "show", "living-room.key"])
        .exits(0)
        .text();
    node.place.write("k-01.json", first);
    let ran = node.run(&["key", "add", LIVING_ROOM, "k-01.json"]).exits(1);
    assert!(ran.err.contains("k-01"), "{}", ran.err);
    node.run(&["key", "add", LIVING_ROOM, "living-room.key"])
        .exits(2);
}

//! `chancery send`: signed where a key is given, told with its reason where it is refused.

use chancery_core::digest::Sha256Digest;
use chancery_core::keys::ed25519::SigningKey;
use serde_json::{Value, json};

use crate::agh_house::{AghNode, CHANNEL};
use crate::running_node::{KITCHEN, LIVING_ROOM, RunningNode};
use crate::support::{Place, Ran};

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
fn a_refused_envelope_is_shown_with_check_path_requirement_and_next_step() {
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
        "next         Mend the member that `path` names.",
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
        "next         Sign the RFC 8785 form of the whole envelope without `signature`",
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
    let told = place.run(&["send", "mail", "share.json"]).exits(2);
    for protocol in ["value-context", "vibe", "vacant", "agh"] {
        assert!(told.err.contains(protocol), "{}", told.err);
    }
}

/// Sends a value to a node.
fn send(place: &Place, url: &str, protocol: &str, envelope: &Value, more: &[&str]) -> Ran {
    place.write("envelope.json", envelope.to_string());
    let send = ["send", protocol, "envelope.json", "--url", url];
    place.run(&[&send[..], more].concat())
}

// CH-CLI-2, CH-CLI-3, AG-SND-1
#[test]
fn agh_is_sent_whole_or_left_to_the_node() {
    let node = AghNode::start("a", "", &["worker.session-19"]);
    let agh = |envelope: &Value| send(&node.place, &node.url, "agh", envelope, &[]);
    let hosted = json!({"kind": "say", "channel": CHANNEL, "from": "worker.session-19",
        "body": {"text": "The build is green."}});
    let told = agh(&hosted).exits(0).text();
    assert!(told.starts_with("accepted  "), "{told}");

    let now = crate::served::now().unix_seconds();
    let mut whole = json!({"protocol": "agh-network/v0", "id": "m-1", "kind": "say", "channel": CHANNEL,
        "from": "planner.session-7", "to": null, "ts": now, "body": {"text": "Well done."}, "proof": null});
    assert_eq!(agh(&whole).exits(0).text(), "accepted  m-1\n");
    whole["id"] = "m-2".into();
    whole["ts"] = 1.into();
    let told = agh(&whole).exits(1).text();
    for part in [
        "rejected  m-2\n",
        "reason       too_old: ",
        "check        ",
        "requirement  AG-",
        "next         ",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let told = send(&node.place, &node.url, "agh", &whole, &["--json"]);
    assert_eq!(told.exits(1).json()["error"], "too_old");
}

// CH-CLI-2, AG-TRU-3, AG-TRU-10
#[test]
fn agh_is_signed_under_the_handle_of_the_key() {
    let place = Place::new().with("CHANCERY_AGH_TRUST", "on");
    let node = AghNode::start_in(place, "a", "", &["worker.session-19"], "");
    let seed = [7; 32];
    let public = *SigningKey::from_seed(&seed).verifying_key().as_bytes();
    let handle = format!("ada@{}", &Sha256Digest::of(&public).hex()[..32]);
    node.place.run(&["key", "new", "ada.key"]).exits(0);
    node.place
        .write("ada.key", chancery_core::digest::hex::encode(&seed));
    let say = |from: &str| {
        let say = json!({"kind": "say", "channel": CHANNEL, "from": from, "body": {"text": "x"}});
        send(
            &node.place,
            &node.url,
            "agh",
            &say,
            &["--key", "ada.key", "--json"],
        )
    };
    let told = say(&handle).exits(0).json();
    assert_eq!(
        (&told["verdict"], &told["trust"]),
        (&json!("accept"), &json!("verified"))
    );
    let other = say("ada").exits(1);
    assert!(other.err.contains(&handle), "{}", other.err);
}

// CH-CLI-2, CH-CLI-3, VA-REP-3
#[test]
fn a_vacant_is_called_with_a_message_or_with_bytes_as_they_are() {
    let place = Place::new()
        .with("CHANCERY_LISTEN", "127.0.0.1:0")
        .with("CHANCERY_DATA", "data")
        .with("CHANCERY_DEV", "true");
    let bob = place.run(&["vacant", "init", "bob.key"]).exits(0).text();
    place.run(&["vacant", "init", "ada.key"]).exits(0);
    let agent = "[[vacant.agent]]\nname = \"bob\"\nseed = \"bob.key\"\nstate = \"ACTIVE\"\nbehaviour = \"echo\"\n";
    place.write("chancery.toml", agent);
    let node = place.serve();
    let url = format!("http://{}", node.address);
    let message = json!({"role": "ROLE_USER", "parts": [{"type": "text", "text": "one"}],
        "metadata": {"urn:vacant:v1": {"to_vacant_id": bob.trim()}}});
    let key = ["--key", "ada.key"];
    let told = send(&place, &url, "vacant", &message, &key).exits(0).text();
    assert!(
        told.starts_with("answered  ") && told.ends_with("text         echo: one\n"),
        "{told}"
    );
    // It stands on the chain that `vacant call` goes on with.
    let call = ["vacant", "call", &url, "--key", "ada.key", "--text", "two"];
    assert_eq!(place.run(&call).exits(0).text(), "echo: two\n");

    // The bytes that the node has on record already are a replay.
    let log = place.read("data/audit.jsonl");
    let lines = log
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    let of_ada =
        |line: &Value| line["meta"]["protocol"] == "vacant" && line["meta"]["origin"] == "external";
    let on_record = lines.into_iter().find(of_ada).unwrap()["envelope"].clone();
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": on_record}});
    let told = send(&place, &url, "vacant", &body, &[]).exits(1).text();
    for part in [
        "rejected  409\n",
        "reason       REPLAY_DETECTED: ",
        "requirement  VA-REP-3",
        "next         The caller's record of the chain is an old one",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
    let told = send(&place, &url, "vacant", &json!({"parts": []}), &key).exits(1);
    assert!(told.err.contains("to_vacant_id"), "{}", told.err);
    node.stop_well();
}

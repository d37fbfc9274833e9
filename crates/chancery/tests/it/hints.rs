//! A hint speaks of what the program shows (CH-CLI-3).

use serde_json::Value;

use crate::running_node::RunningNode;
use crate::support::Place;

// CH-CLI-3
#[test]
fn no_hint_names_a_member_that_no_command_shows() {
    let told = Place::new().run(&["explain", "--json"]).exits(0).json();
    let codes = told["codes"].as_array().unwrap();
    assert!(codes.len() > 100, "{}", codes.len());
    for code in codes {
        let next = code["next"].as_str().unwrap();
        for member in [
            "`param`",
            "`chain_tip`",
            "`error.response`",
            "`last_sequence_no`",
        ] {
            assert!(!next.contains(member), "{}: {next}", code["code"]);
        }
    }
}

// CH-CLI-2, CH-CLI-3
#[test]
fn a_requirement_leads_to_its_codes_and_to_its_file() {
    let place = Place::new();
    let told = place.run(&["explain", "VX-RUN-4"]).exits(0).text();
    assert!(told.contains("docs/spec/value-context.md"), "{told}");
    assert!(told.contains("sender_suspended"), "{told}");
    // CH-BEN-1 is behind no refusal.
    let told = place.run(&["explain", "CH-BEN-1"]).exits(1).err;
    assert!(told.contains("docs/spec/interface.md"), "{told}");
    place.run(&["explain", "XY-RUN-4"]).exits(1);
}

// CH-CLI-3, VX-ID-1, VX-TS-3
#[test]
fn what_a_key_would_add_is_told_to_whoever_gives_none() {
    let node = RunningNode::start();
    let file = node.share();
    let send = ["send", "value-context", file.to_str().unwrap()];
    let told = node.run_as(None, &send).exits(1).text();
    assert!(
        told.contains("/vcp_message") && told.contains("--key FILE"),
        "{told}"
    );
    let signed = [&send[..], &["--key", "living-room.key"]].concat();
    node.run_as(None, &signed).exits(0);
    // What a key does not add is not hoped of it.
    let mut envelope: Value = serde_json::from_str(&node.place.read("share.json")).unwrap();
    envelope["vcp_message"] = "1.2".into();
    envelope["message_id"] = "no id".into();
    node.place.write("share.json", envelope.to_string());
    let told = node.run_as(None, &send).exits(1).text();
    assert!(
        told.contains("/message_id") && !told.contains("--key FILE"),
        "{told}"
    );
}

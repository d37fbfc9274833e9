//! The schema that is made from the types, against the vectors and the public schema.

use crate::support::{decode, vector_json};
use chancery_value_context::schema::schema;
use jsonschema::Validator;
use serde_json::{Value, json};
use std::path::PathBuf;

/// The cases of the vectors whose body is JSON, with that body.
fn cases() -> Vec<(Value, String, Value)> {
    let file = vector_json("requests.json");
    let cases = file["vectors"].as_array().unwrap().iter();
    cases
        .filter_map(|case| {
            let text = case.get("body")?.as_str()?.to_owned();
            let body = serde_json::from_str(&text).ok()?;
            Some((case.clone(), text, body))
        })
        .collect()
}

fn ours() -> Validator {
    jsonschema::validator_for(&schema()).unwrap()
}

// VX-SCH-1
#[test]
fn every_accepted_case_validates() {
    let ours = ours();
    let mut accepted = 0;
    for (case, _, body) in cases() {
        if case["expect"]["code"] == "accepted" || case["expect"]["code"] == "duplicate" {
            let fault = ours.validate(&body).err().map(|fault| fault.to_string());
            assert_eq!(fault, None, "{}", case["id"]);
            accepted += 1;
        }
    }
    assert!(accepted >= 19, "{accepted}");
    for example in vector_json("examples.json")["messages"].as_array().unwrap() {
        assert!(ours.is_valid(example), "{example}");
    }
}

// VX-SCH-1, VX-SCH-2, VX-ENV-4: the project's own schema never refuses what decoding accepts, and finds most of what it
// refuses. The published one is compared below where it is at hand.
#[test]
fn what_the_schema_refuses_is_refused() {
    let ours = ours();
    let mut refused = 0;
    for (case, text, body) in cases() {
        if !ours.is_valid(&body) {
            assert!(decode(text).is_err(), "{}", case["id"]);
            refused += 1;
        }
    }
    assert!(refused >= 40, "{refused}");
}

// VX-SCH-2
#[test]
fn what_the_public_schema_refuses_is_refused() {
    let Some(root) = std::env::var_os("CHANCERY_FOREIGN_VECTORS") else {
        println!(
            "left out {}: CHANCERY_FOREIGN_VECTORS names no folder",
            cases().len()
        );
        return;
    };
    let name = "value-context/schema/vcp-messaging-v1.2-receive.schema.json";
    let text = std::fs::read(PathBuf::from(root).join(name)).unwrap();
    let public: Value = serde_json::from_slice(&text).unwrap();
    let public = jsonschema::validator_for(&public).unwrap();
    let ours = ours();
    let mut refused = 0;
    for (case, text, body) in cases() {
        if !public.is_valid(&body) {
            assert!(decode(text).is_err(), "{}", case["id"]);
            assert!(!ours.is_valid(&body), "{} by our schema", case["id"]);
            refused += 1;
        }
    }
    assert!(refused >= 30, "{refused}");
}

// VX-ENV-2, VX-ENV-5, VX-PS-1, VX-AGT-4
#[test]
fn nothing_is_open_and_nothing_is_null() {
    let ours = ours();
    let (_, _, good) = cases().remove(0);
    assert!(ours.is_valid(&good));
    let with = |pointer: &str, name: &str, value: Value| {
        let mut changed = good.clone();
        changed.pointer_mut(pointer).unwrap()[name] = value;
        ours.is_valid(&changed)
    };
    assert!(with("/payload", "personal_state", json!({"energy": 9})));
    for state in [
        json!(null),
        json!({"energy": null}),
        json!({"energy": 9.5}),
        json!({"energy": "9"}),
        json!({"mood": 1}),
        json!({"emotional": {"valence": 1}}),
        json!({"body": {"pain": 0}}),
    ] {
        assert!(
            !with("/payload", "personal_state", state.clone()),
            "{state}"
        );
    }
    assert!(!with("", "signature", json!(null)));
    assert!(!with("", "priority", json!(1)));
    assert!(!with("/payload", "priority", json!(1)));
    assert!(!with("", "sender", json!("broadcast")));
    assert!(with("", "recipient", json!("broadcast")));
    assert!(!with("", "sender", json!("a\nb")));
    assert!(!with("", "timestamp", json!("2026-02-15T10:33:00+00:00")));
}

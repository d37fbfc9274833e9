//! `chancery canon` against the vectors.

use chancery_core::digest::hex;
use serde_json::Value;

use crate::support::{Place, workspace};

fn cases(file: &str, name: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(workspace().join("vectors").join(file)).unwrap();
    let file: Value = serde_json::from_str(&text).unwrap();
    file[name].as_array().unwrap().clone()
}

fn check(place: &Place, dialect: &str, input: &[u8], expected_hex: Option<&str>) {
    let ran = place.run_with_input(&["canon", "--dialect", dialect, "-"], input);
    match expected_hex {
        Some(expected) => assert_eq!(hex::encode(&ran.exits(0).out), expected, "{dialect}"),
        None => {
            let ran = ran.exits(1);
            assert!(ran.out.is_empty());
            assert!(
                ran.err.contains("standard input: ") && ran.err.contains(" at $"),
                "{}",
                ran.err
            );
        }
    }
}

#[test]
fn value_context_in_both_forms() {
    // CH-CLI-2, VX-CAN-1, VX-CAN-7
    let place = Place::new();
    for case in cases("value-context/canonicalization.json", "vectors") {
        let input = hex::decode(case["input_hex"].as_str().unwrap()).unwrap();
        check(&place, "rfc8785", &input, case["jcs_hex"].as_str());
        check(&place, "python", &input, case["legacy_hex"].as_str());
    }
}

#[test]
fn vibe() {
    // VC-CAN-2
    let place = Place::new();
    for case in cases("vibe/canonical.json", "cases") {
        let input = case["input"].as_str().unwrap();
        // Envelopes that the protocol refuses for another reason are JSON all the same.
        if case["canonical_hex"].is_string() || case["error"] == "malformed_json" {
            check(
                &place,
                "vibe",
                input.as_bytes(),
                case["canonical_hex"].as_str(),
            );
        }
    }
}

#[test]
fn vacant() {
    // VA-CJ-1
    let place = Place::new();
    for case in cases("vacant/canonical_json.json", "cases") {
        let input = case["object"].to_string();
        check(
            &place,
            "vacant",
            input.as_bytes(),
            case["canonical_hex"].as_str(),
        );
    }
    check(
        &place,
        "vacant",
        b"{\"n\":123456789012345678901234567890}",
        Some(&hex::encode(b"{\"n\":123456789012345678901234567890}")),
    );
}

#[test]
fn a_fault_has_its_path() {
    // CH-CLI-3
    let place = Place::new();
    place.write("m.json", "{\"a\":[1,{\"b\":1,\"b\":2}]}");
    let ran = place.run(&["canon", "m.json"]).exits(1);
    assert!(
        ran.err
            .contains("m.json: member name occurs twice at $.a[1].b"),
        "{}",
        ran.err
    );
}

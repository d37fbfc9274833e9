//! The request vectors as far as this crate judges them: parse, schema, window and signature.

use crate::support::{decode, keyring, now, vector_json};
use chancery_core::keys::Keyring;
use chancery_value_context::code::Fault;
use chancery_value_context::message::{Accept, Message, decode_accepting};
use chancery_value_context::verify::{check_window, verify};
use serde_json::Value;

/// Codes of checks that need the rules of a node; up to there the message is good.
const LATER: [&str; 3] = ["accepted", "recipient_unknown", "not_authorized"];

fn body(case: &Value) -> Vec<u8> {
    if let Some(hex) = case.get("body_hex") {
        return chancery_core::digest::hex::decode(hex.as_str().unwrap()).unwrap();
    }
    let mut body = case["body"].as_str().unwrap().as_bytes().to_vec();
    if let Some(length) = case.get("pad_to_bytes") {
        body.resize(length.as_u64().unwrap() as usize, b' ');
    }
    body
}

fn judge(body: Vec<u8>, keys: &Keyring) -> Result<Message, Fault> {
    let message = decode(body).map_err(|refused| refused.fault)?;
    check_window(message.timestamp.instant, now())?;
    verify(&message, keys, now(), true)?;
    Ok(message)
}

// VX-ENV-1 to VX-ENV-7, VX-ID-1, VX-TS-1, VX-AGT-2, VX-AGT-4, VX-PS-1, VX-PS-2, VX-CS-1, VX-RPL-1, VX-SIG-2,
// VX-SIG-5, VX-KEY-5, VX-RCV-1
#[test]
fn requests_get_the_expected_code_and_path() {
    let keys = keyring();
    let file = vector_json("requests.json");
    let mut judged = 0;
    for case in file["vectors"].as_array().unwrap() {
        let id = case["id"].as_str().unwrap();
        let body = body(case);
        judged += 1;
        let expected = &case["expect"];
        let code = expected["code"].as_str().unwrap();
        match judge(body, &keys) {
            Ok(_) => assert!(LATER.contains(&code), "{id}: passed, expected {code}"),
            Err(fault) => {
                assert_eq!(fault.code.as_str(), code, "{id}: {fault}");
                assert_eq!(
                    u64::from(fault.code.status()),
                    expected["http_status"],
                    "{id}"
                );
                let path = fault.path.map(|path| path.to_pointer());
                assert_eq!(path.as_deref(), expected["path"].as_str(), "{id}");
                assert!(fault.message.chars().count() <= 200, "{id}");
            }
        }
    }
    assert!(judged >= 130, "only {judged} cases were judged");
}

// VX-GEN-1, VX-ERR-2
#[test]
fn a_kind_that_is_switched_off_is_refused_once_the_envelope_is_well_formed() {
    let file = vector_json("examples.json");
    let examples = file["messages"].as_array().unwrap();
    assert_eq!(examples.len(), 4);
    for example in examples {
        let kind = example["type"].as_str().unwrap();
        let read = decode(example.to_string()).unwrap();
        assert_eq!(read.kind().as_str(), kind);
        let disabled = [read.kind()];
        let accept = Accept {
            disabled: &disabled,
            ..Accept::RECORDED
        };
        let refused = decode_accepting(example.to_string().into(), accept).unwrap_err();
        assert_eq!(refused.fault.code.as_str(), "type_disabled");
        assert_eq!(refused.fault.path.unwrap().to_pointer(), "/type");
        assert!(refused.message_id.is_some());
        let mut broken = example.clone();
        broken["sender"] = "".into();
        let refused = decode_accepting(broken.to_string().into(), accept).unwrap_err();
        assert_eq!(refused.fault.code.as_str(), "schema_invalid");
    }
}

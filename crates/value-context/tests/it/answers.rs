//! The bodies of answers and the table of codes.

use crate::support::{MESSAGE_ID, decode, envelope, share, text_of};
use chancery_value_context::answer::{accepted, duplicate, rejected};
use chancery_value_context::code::{Code, Fault};
use chancery_value_context::message_id::MessageId;
use serde_json::{Value, json};

fn parsed(body: Vec<u8>) -> Value {
    serde_json::from_slice(&body).unwrap()
}

fn id() -> MessageId {
    MessageId::parse(MESSAGE_ID).unwrap()
}

// VX-ERR-1
#[test]
fn success_bodies_are_exact() {
    assert_eq!(
        parsed(accepted(id())),
        json!({"status": "accepted", "message_id": MESSAGE_ID})
    );
    assert_eq!(
        parsed(duplicate(id())),
        json!({"status": "duplicate", "message_id": MESSAGE_ID})
    );
}

// VX-ERR-2
#[test]
fn an_error_body_names_the_member_and_echoes_the_identifier() {
    let refused = decode(text_of(envelope(share().with("no/te", 1_i64)))).unwrap_err();
    let body = parsed(rejected(refused.message_id, &refused.fault));
    assert_eq!(
        body,
        json!({
            "status": "rejected",
            "message_id": MESSAGE_ID,
            "error": {
                "code": "schema_invalid",
                "message": "unexpected member",
                "path": "/payload/no~1te",
                "retryable": false
            }
        })
    );
}

// VX-ERR-2
#[test]
fn an_error_body_without_identifier_or_path_says_so() {
    let refused = decode("{").unwrap_err();
    let body = parsed(rejected(refused.message_id, &refused.fault));
    assert_eq!(body["message_id"], Value::Null);
    assert_eq!(body["error"]["code"], "malformed_json");
    assert!(body["error"].get("path").is_none());

    let malformed_id = envelope(share()).with("message_id", "019502A4-7E5C-7000-8000-000000000001");
    assert_eq!(decode(text_of(malformed_id)).unwrap_err().message_id, None);
}

// VX-ERR-2: at most 200 characters.
#[test]
fn a_long_message_is_cut() {
    let body = parsed(rejected(None, &Fault::new(Code::Internal, "ä".repeat(300))));
    let message = body["error"]["message"].as_str().unwrap();
    assert_eq!(message.chars().count(), 200);
    assert_eq!(body["error"]["retryable"], true);
}

// VX-ERR-2: the table, as the specification prints it.
#[test]
fn the_codes_are_those_of_the_table() {
    let table = [
        ("malformed_json", 400, false),
        ("schema_invalid", 400, false),
        ("unsupported_version", 400, false),
        ("context_invalid", 400, false),
        ("constraint_invalid", 400, false),
        ("timestamp_stale", 400, false),
        ("timestamp_future", 400, true),
        ("signature_missing", 401, false),
        ("signature_invalid", 401, false),
        ("key_not_valid", 401, false),
        ("sender_unknown", 403, false),
        ("not_authorized", 403, false),
        ("recipient_unknown", 404, false),
        ("not_found", 404, false),
        ("method_not_allowed", 405, false),
        ("timeout", 408, true),
        ("payload_too_large", 413, false),
        ("unsupported_media_type", 415, false),
        ("sender_suspended", 423, false),
        ("rate_limited", 429, true),
        ("internal", 500, true),
        ("type_disabled", 501, false),
        ("overloaded", 503, true),
    ];
    let codes = Code::ALL.map(|code| (code.as_str(), code.status(), code.retryable()));
    assert_eq!(codes, table);
    assert!(
        Code::ALL
            .iter()
            .all(|code| code.requirement().starts_with("VX-"))
    );
}

//! Bytes that nobody meant well: no panic, and the same answer each time.

use std::collections::BTreeSet;

use chancery_agh::fault::{ErrorName, Reason, Stage};
use chancery_agh::revision::Revision;
use chancery_agh::settings::{Nulls, Settings};
use chancery_agh::validate::validate;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{NOW, direct, envelope, error, host, receive};

fn verdict(text: &str) -> &'static str {
    match validate(text.as_bytes(), NOW, &Settings::default()) {
        Ok(_) => "",
        Err(fault) => fault.error.as_str(),
    }
}

fn say(text: &str) -> String {
    format!(
        r#"{{"protocol":"agh-network/v0","id":"m","kind":"say","channel":"builders","from":"a.b","ts":{NOW},"body":{{"text":"x"{text}}}}}"#
    )
}

// AG-JSON-2, AG-JSON-3, AG-JSON-5, AG-JSON-6
#[test]
fn the_json_layer_is_strict() {
    assert_eq!(verdict(&say("")), "");
    assert_eq!(verdict(&format!("\u{feff}{}", say(""))), "not_json");
    assert_eq!(verdict(&say(r#","n":{"a":1,"\u0061":2}"#)), "duplicate_key");
    let nested = |levels: usize| {
        say(&format!(
            r#","n":{}{}"#,
            "[".repeat(levels),
            "]".repeat(levels)
        ))
    };
    assert_eq!(verdict(&nested(62)), "");
    assert_eq!(verdict(&nested(126)), "");
    assert_eq!(verdict(&nested(127)), "not_json");
    let padded = |bytes: usize| format!("{}{}", say(""), " ".repeat(bytes - say("").len()));
    assert_eq!(verdict(&padded(1_048_576)), "");
    assert_eq!(verdict(&padded(1_048_577)), "too_large");
}

// AG-ENV-17
#[test]
fn null_is_for_two_members_alone() {
    for name in [
        "protocol",
        "id",
        "kind",
        "channel",
        "from",
        "interaction_id",
        "reply_to",
        "trace_id",
        "causation_id",
        "ts",
        "expires_at",
        "body",
        "ext",
    ] {
        let mut with_null = envelope("m", json!({"kind": "say", "body": {"text": "x"}}));
        with_null[name] = Value::Null;
        assert_eq!(verdict(&with_null.to_string()), "invalid_type", "{name}");
    }
    let bare = envelope(
        "m",
        json!({"kind": "say", "to": null, "proof": null, "body": {"text": "x"}}),
    );
    assert_eq!(verdict(&bare.to_string()), "");
}

// AG-VAL-5
#[test]
fn another_version_is_told_apart_from_another_protocol() {
    let error_of = |protocol: &str| {
        let members = json!({"protocol": protocol, "kind": "say", "body": {"text": "x"}});
        let text = envelope("m", members).to_string();
        let fault = validate(text.as_bytes(), NOW, &Settings::default());
        fault.err().unwrap().reason().as_str()
    };
    for version in ["agh-network/v1", "agh-network/v00", "agh-network/v123"] {
        assert_eq!(error_of(version), "unsupported_profile", "{version}");
    }
    for other in [
        "agh-network/v",
        "agh-network/vx",
        "agh-network/v1.0",
        "agh-network/v0 ",
        "agh-network/v-1",
        "AGH-network/v1",
        "agh-network",
        "",
    ] {
        assert_eq!(error_of(other), "malformed", "{other}");
    }
}

// AG-ENV-17, AG-B-47
#[test]
fn null_is_absent_only_when_the_node_says_so() {
    let with_null = envelope(
        "m",
        json!({"kind": "say", "trace_id": null, "body": {"text": "x"}}),
    );
    let lenient = Settings {
        null_optional: Nulls::Lenient,
        ..Settings::default()
    };
    let text = with_null.to_string();
    assert_eq!(verdict(&text), "invalid_type");
    assert!(validate(text.as_bytes(), NOW, &lenient).is_ok());
    let short_lived = envelope(
        "m",
        json!({"kind": "say", "surface": "thread", "thread_id": "thread_abc", "body": {"text": "x"}}),
    );
    assert_eq!(verdict(&short_lived.to_string()), "missing_field");
}

// AG-ERR-1, AG-CON-3, AG-RSN-1, AG-B-11
#[test]
fn every_error_has_one_wire_reason_of_the_registry() {
    for error in ErrorName::ALL {
        assert_eq!(ErrorName::parse(error.as_str()), Some(*error));
        let reason = error.reason();
        assert!(reason.is_of(Revision::A) || reason.is_of(Revision::B));
        assert!(!error.requirement().is_empty());
    }
    let names = |revision| {
        let of = Reason::ALL.iter().filter(|reason| reason.is_of(revision));
        of.map(|reason| reason.as_str()).collect::<BTreeSet<_>>()
    };
    let both = [
        "malformed",
        "expired",
        "duplicate",
        "unsupported_kind",
        "unsupported_profile",
        "verification_failed",
        "not_target",
        "not_found",
        "busy",
        "internal",
    ];
    let of_b = [
        "invalid_surface",
        "conversation_not_found",
        "work_closed",
        "work_container_mismatch",
        "legacy_field_rejected",
    ];
    let with = |more: &[&'static str]| both.iter().chain(more).copied().collect();
    assert_eq!(names(Revision::A), with(&["interaction_closed"]));
    assert_eq!(names(Revision::B), with(&of_b));
    assert_eq!(
        (Stage::Body.step(Revision::A), Stage::Body.step(Revision::B)),
        (4, 5)
    );
}

// AG-B-48
#[test]
fn the_errors_of_revision_b_have_their_reasons() {
    for (error, reason) in [
        ("surface_required", "invalid_surface"),
        ("invalid_surface", "invalid_surface"),
        ("work_closed", "work_closed"),
        ("work_container_mismatch", "work_container_mismatch"),
        ("invalid_workspace_id", "malformed"),
        ("invalid_thread_id", "malformed"),
        ("invalid_direct_id", "malformed"),
        ("invalid_work_id", "malformed"),
        ("work_id_required", "malformed"),
        ("container_conflict", "malformed"),
        ("direct_room_mismatch", "malformed"),
        ("conversation_field_forbidden", "malformed"),
        ("mixed_revision", "malformed"),
        ("legacy_field_rejected", "malformed"),
    ] {
        let named = ErrorName::parse(error).map(|name| name.reason().as_str());
        assert_eq!(named, Some(reason), "{error}");
    }
}

// AG-VAL-7, AG-DUP-2
#[test]
fn what_is_refused_before_routing_is_not_remembered() {
    let mut host = host();
    let mut broken = direct("m1", "int_1");
    broken["body"] = json!({});
    assert_eq!(error(&receive(&mut host, &broken)), "invalid_body");
    let mut elsewhere = direct("m1", "int_1");
    elsewhere["to"] = "nobody.x".into();
    assert_eq!(error(&receive(&mut host, &elsewhere)), "not_target");
    assert_eq!(error(&receive(&mut host, &direct("m1", "int_1"))), "");
    assert_eq!(
        error(&receive(&mut host, &direct("m1", "int_1"))),
        "duplicate"
    );
}

/// Changes one place of an envelope.
fn mutated(mut envelope: Value, name: &str, value: Value) -> String {
    envelope[name] = value;
    envelope.to_string()
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::hash_map("[a-z_.]{1,10}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

const MEMBERS: [&str; 20] = [
    "protocol",
    "id",
    "kind",
    "channel",
    "from",
    "to",
    "interaction_id",
    "reply_to",
    "trace_id",
    "causation_id",
    "ts",
    "expires_at",
    "body",
    "proof",
    "ext",
    "workspace_id",
    "surface",
    "thread_id",
    "direct_id",
    "work_id",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let mut host = host();
        let first = host.receive(bytes.clone(), NOW);
        prop_assert!(first.fault.is_some());
    }

    #[test]
    fn no_member_of_any_shape_panics(index in 0..MEMBERS.len(), value in any_json()) {
        let mut host = host();
        let text = mutated(direct("m1", "int_1"), MEMBERS[index], value);
        let outcome = host.receive(text.clone(), NOW);
        let alone = validate(text.as_bytes(), NOW, &Settings::default());
        // The node and the bare check agree on everything before routing.
        if let Err(fault) = alone {
            prop_assert_eq!(outcome.fault, Some(fault));
        }
        let answer: Value = serde_json::from_slice(&outcome_json(&mut host, &text)).unwrap();
        prop_assert!(answer["emitted"].is_array());
    }
}

fn outcome_json(host: &mut chancery_agh::conformance::host::Host, text: &str) -> Vec<u8> {
    host.receive(text.to_owned(), NOW).to_json(false)
}

//! The edges of the payloads that the vectors do not reach.

use chancery_core::admin::RunState;
use chancery_core::json::{Place, ReadRules, read};
use chancery_value_context::attempts::{Answered, judge, pause_ms, reconnect_ms};
use chancery_value_context::message::{Kind, Payload, Version};
use chancery_value_context::payload::{Deployment, Scope, acknowledgement_of};
use serde_json::{Value, json};

const ID: &str = "019502a4-ad0f-7000-8000-000000000004";

fn payload(kind: Kind, version: Version, value: &Value) -> Result<Payload, String> {
    let text = value.to_string();
    let value = read(text.as_bytes(), &ReadRules::VALUE_CONTEXT).unwrap();
    Payload::read(kind, version, &value, &Place::ROOT).map_err(|fault| {
        let path = fault.path.map(|path| path.to_pointer()).unwrap_or_default();
        format!("{} {path}", fault.code)
    })
}

// VX-ES-3, VX-ACK-1
#[test]
fn an_acknowledgement_is_told_by_its_reason() {
    let of = |reason: &str| acknowledgement_of(reason, Version::V1_2);
    for reason in [
        format!("ACK:{ID}"),
        format!("ACK: {ID}"),
        format!("ACK:{ID};state=elsewhere"),
        format!("ACK:{ID} understood"),
        format!("ACK:{ID}é"),
    ] {
        let ack = of(&reason).unwrap_or_else(|| panic!("{reason}"));
        assert_eq!(
            (ack.of.to_string().as_str(), ack.state),
            (ID, None),
            "{reason}"
        );
    }
    for (state, expected) in [
        ("running", RunState::Running),
        ("paused", RunState::Paused),
        ("suspended", RunState::Suspended),
    ] {
        assert_eq!(
            of(&format!("ACK:{ID};state={state}")).unwrap().state,
            Some(expected)
        );
        assert_eq!(
            of(&format!("ACK:{ID};state={state} now")).unwrap().state,
            Some(expected)
        );
    }
    for reason in [
        format!("ack:{ID}"),
        format!(" ACK:{ID}"),
        format!("ACK:  {ID}"),
        format!("ACK:{ID}0"),
        format!("ACK:{ID}-"),
        format!("ACK:{ID}z"),
        format!("ACK:{}", ID.to_uppercase()),
        "ACK:".to_owned(),
        "ACK:019502a4-ad0f-4000-8000-000000000004".to_owned(),
        format!("ACK:{}é", &ID[..35]),
    ] {
        assert_eq!(of(&reason), None, "{reason}");
    }
}

// VX-ES-1, VX-ES-2
#[test]
fn lengths_count_code_points_and_grave_ones_ask_for_an_acknowledgement() {
    let read = |change: &dyn Fn(&mut Value)| {
        let mut value =
            json!({"severity": "info", "reason": "x", "context": "y", "requires_ack": false});
        change(&mut value);
        payload(Kind::Escalation, Version::V1_2, &value)
    };
    assert!(read(&|value| value["reason"] = "😀".repeat(4_096).into()).is_ok());
    let long = read(&|value| value["reason"] = "😀".repeat(4_097).into());
    assert_eq!(long.unwrap_err(), "schema_invalid /reason");
    assert!(read(&|value| value["blocked_action"] = "é".repeat(1_024).into()).is_ok());
    let long = read(&|value| value["blocked_action"] = "é".repeat(1_025).into());
    assert_eq!(long.unwrap_err(), "schema_invalid /blocked_action");
    assert!(read(&|value| value["blocked_action"] = "".into()).is_ok());
    let grave = read(&|value| value["severity"] = "critical".into());
    assert_eq!(grave.unwrap_err(), "schema_invalid /requires_ack");
    assert!(
        read(&|value| {
            value["severity"] = "critical".into();
            value["reason"] = format!("ACK:{ID}").into();
        })
        .is_ok()
    );
    let empty = read(&|value| value["context"] = "".into());
    assert_eq!(empty.unwrap_err(), "schema_invalid /context");
}

// VX-CP-1, VX-CP-2
#[test]
fn a_constraint_has_a_value_that_its_type_allows() {
    let read = |kind: &str, value: Value| {
        let source = "creed://a.example/b";
        let entry = json!({"type": kind, "value": value, "source_constitution_ref": source});
        let whole = json!({"constraints": [entry], "propagation_mode": "override"});
        payload(Kind::ConstraintPropagate, Version::V1_2, &whole)
    };
    for (kind, value) in [
        ("token_limit", json!(9_007_199_254_740_991_u64)),
        ("token_limit", json!(0)),
        ("token_limit", json!(2048.0)),
        ("safety_floor", json!(0)),
        ("topic_block", json!([])),
        ("x-any", json!(null)),
        ("x-vcp-resume", json!({"resume": true, "escalation_id": ID})),
    ] {
        assert!(read(kind, value.clone()).is_ok(), "{kind} {value}");
    }
    for (kind, value) in [
        ("token_limit", json!(1e300)),
        ("token_limit", json!("5")),
        ("token_limit", json!(null)),
        ("safety_floor", json!(6)),
        ("topic_block", json!("\t\r\n ")),
        ("audience_restrict", json!([["a"]])),
        ("x-vcp-resume", json!({})),
        (
            "x-vcp-resume",
            json!({"resume": true, "escalation_id": "x"}),
        ),
        ("x-vcp-resume", json!({"resume": true, "more": 1})),
        ("x-vcp-resume", json!(true)),
    ] {
        let refused = read(kind, value.clone());
        assert_eq!(
            refused.unwrap_err(),
            "constraint_invalid /constraints/0/value",
            "{kind} {value}"
        );
    }
    assert!(read(&"t".repeat(128), json!(1)).is_ok());
    assert_eq!(
        read(&"t".repeat(129), json!(1)).unwrap_err(),
        "schema_invalid /constraints/0/type"
    );
}

// VX-CA-3, VX-CA-4, VX-V2-1
#[test]
fn a_scope_has_the_members_of_its_version() {
    let announce = |scope: Value| {
        let hash = format!("sha256:{}", "a".repeat(64));
        json!({"constitution_ref": "creed://a.example/b", "manifest_hash": hash, "scope": scope})
    };
    let read = |version, scope| payload(Kind::ConstitutionAnnounce, version, &announce(scope));
    let audiences = json!({"model_families": ["gpt 4"], "audiences": ["Consumer"]});
    assert!(read(Version::V2_0, audiences.clone()).is_ok());
    assert!(read(Version::V1_2, audiences).is_err());
    let purposes = json!({"purposes": ["coding"]});
    assert!(read(Version::V1_2, purposes.clone()).is_ok());
    assert_eq!(
        read(Version::V2_0, purposes).unwrap_err(),
        "schema_invalid /scope/purposes"
    );
    assert!(read(Version::V1_2, json!({"model_families": [""]})).is_err());
}

// VX-CA-4
#[test]
fn a_star_stands_for_any_run_of_characters() {
    let applies = |pattern: &str, model: &str| {
        let scope = Scope {
            model_families: Some(vec![pattern.into()]),
            ..Scope::default()
        };
        scope.applies_to(&Deployment {
            model,
            purpose: "p",
            environment: "production",
        })
    };
    for (pattern, model) in [
        ("*", ""),
        ("a*", "a"),
        ("*a*b*", "xxaxxbxx"),
        ("a*a", "aa"),
        ("a**b", "ab"),
        ("claude-3", "claude-3"),
    ] {
        assert!(applies(pattern, model), "{pattern} {model}");
    }
    for (pattern, model) in [
        ("a*a", "a"),
        ("ab", "abc"),
        ("*ab*ab", "ab"),
        ("a.c", "abc"),
        ("*b", "ba"),
    ] {
        assert!(!applies(pattern, model), "{pattern} {model}");
    }
}

// VX-RTY-1, VX-RTY-3, VX-RTY-4, VX-RTY-5, VX-WS-7
#[test]
fn an_answer_says_whether_to_try_again_and_when() {
    let accepted = format!(r#"{{"status":"accepted","message_id":"{ID}"}}"#);
    let rejected = |retryable| {
        format!(
            r#"{{"status":"rejected","message_id":null,"error":{{"code":"x","message":"","retryable":{retryable}}}}}"#
        )
    };
    assert_eq!(judge(200, accepted.as_bytes(), ID), Answered::Delivered);
    assert_eq!(judge(201, accepted.as_bytes(), ID), Answered::Again);
    assert_eq!(judge(200, accepted.as_bytes(), "other"), Answered::Again);
    assert_eq!(judge(401, rejected(false).as_bytes(), ID), Answered::Final);
    assert_eq!(judge(503, rejected(true).as_bytes(), ID), Answered::Again);
    assert_eq!(judge(307, rejected(false).as_bytes(), ID), Answered::Again);
    assert_eq!(judge(404, b"not found", ID), Answered::Again);
    let pauses: Vec<_> = (1..=4).map(|made| pause_ms(made, None)).collect();
    assert_eq!(pauses, [Some(1_000), Some(2_000), Some(4_000), None]);
    assert_eq!(pause_ms(1, Some(5)), Some(5_000));
    assert_eq!(pause_ms(1, Some(3_600)), Some(30_000));
    assert_eq!(pause_ms(3, Some(1)), Some(4_000));
    let delays: Vec<_> = (1..=8).map(reconnect_ms).collect();
    assert_eq!(
        delays,
        [1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]
    );
    assert_eq!(reconnect_ms(u32::MAX), 30_000);
}

//! What an agent keeps of what others tell it: constraints and constitutions (sections 9 and 10).

use std::collections::BTreeMap;

use chancery_core::admin::RunState::Running;
use chancery_core::json::{ReadRules, read};
use chancery_core::time::Time;
use chancery_value_context::agent::{AgentRecord, ConstraintRecord};
use chancery_value_context::constraints::{Constraints, Held, Stamp, combine};
use chancery_value_context::message_id::MessageId;
use chancery_value_context::payload::{ConstraintType, Mode, manifest_hash};
use chancery_value_context::rules::{constraints_prefix, effective};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::stage::{Stage, agent, constraints, escalation, seconds, share};

const PARENT: &str = "agent://a.example/parent";
const CHILD: &str = "agent://b.example/child";
const PEER: &str = "agent://b.example/peer";

fn record() -> AgentRecord {
    let mut record = agent(Some(PARENT), &[]);
    record.peers = vec![PEER.to_owned()];
    record
}

fn child() -> Stage {
    let mut stage = Stage::default();
    stage.host(CHILD, record());
    stage
}

fn in_force(stage: &Stage, record: &AgentRecord) -> BTreeMap<String, Value> {
    let rows = stage.scan(&constraints_prefix(CHILD));
    effective(record, &rows)
        .unwrap()
        .into_iter()
        .map(|(kind, effective)| (kind, effective.to_json()))
        .collect()
}

fn propagate(stage: &mut Stage, mode: &str, entries: &[(&str, Value)]) {
    stage.told(
        PARENT,
        CHILD,
        "constraint_propagate",
        constraints(mode, entries),
    );
    stage.wait(seconds(1));
}

// VX-CP-6
#[test]
fn the_parent_is_told_once_of_each_type_that_is_not_known() {
    let mut stage = child();
    let before = stage.log.len();
    propagate(
        &mut stage,
        "merge",
        &[
            ("x-tone", json!("soft")),
            ("x-pace", json!(1)),
            ("token_limit", json!(9)),
        ],
    );
    let warnings: Vec<_> = stage.since(before + 1).to_vec();
    assert_eq!(warnings.len(), 2);
    for (warning, kind) in warnings.iter().zip(["x-pace", "x-tone"]) {
        assert_eq!((warning.from(), warning.to()), (CHILD, PARENT));
        assert!(warning.reason().contains(kind));
        assert_eq!(warning.envelope["payload"]["severity"], "warning");
        assert_eq!(warning.envelope["payload"]["requires_ack"], false);
    }
    let before = stage.log.len();
    propagate(&mut stage, "override", &[("x-tone", json!("loud"))]);
    assert_eq!(stage.log.len(), before + 1);
    assert_eq!(in_force(&stage, &record())["x-tone"], json!(["loud"]));
    assert_eq!(stage.state(CHILD), Running);
}

// VX-CP-3, VX-CP-4, VX-CP-5
#[test]
fn constraints_that_serve_nobody_are_told_to_the_parent() {
    let mut stage = child();
    propagate(
        &mut stage,
        "merge",
        &[("audience_restrict", json!([" Staff ", "guests"]))],
    );
    assert_eq!(
        in_force(&stage, &record())["audience_restrict"],
        json!(["guests", "staff"])
    );
    let before = stage.log.len();
    propagate(
        &mut stage,
        "merge",
        &[("audience_restrict", json!("nobody else"))],
    );
    assert_eq!(in_force(&stage, &record())["audience_restrict"], json!([]));
    let told = stage.since(before + 1);
    assert_eq!(told.len(), 1);
    assert_eq!(
        (told[0].to(), &told[0].envelope["payload"]["severity"]),
        (PARENT, &json!("warning"))
    );
    let before = stage.log.len();
    propagate(&mut stage, "merge", &[("audience_restrict", json!("x"))]);
    assert_eq!(stage.log.len(), before + 1, "told once");
    propagate(
        &mut stage,
        "override",
        &[("audience_restrict", json!(["staff"]))],
    );
    assert_eq!(
        in_force(&stage, &record())["audience_restrict"],
        json!(["staff"])
    );
}

// VX-CP-8
#[test]
fn what_the_operator_sets_no_override_removes() {
    let mut stage = child();
    let mut record = record();
    let floor = [
        ("token_limit", json!(100)),
        ("topic_block", json!("Weapons")),
        ("x-site", json!(7)),
    ];
    record.operator_constraints = floor
        .into_iter()
        .map(|(kind, value)| ConstraintRecord {
            kind: kind.to_owned(),
            value,
        })
        .collect();
    stage.host(CHILD, record.clone());
    propagate(
        &mut stage,
        "override",
        &[
            ("token_limit", json!(4096)),
            ("topic_block", json!([])),
            ("x-site", json!(8)),
        ],
    );
    let found = in_force(&stage, &record);
    assert_eq!(found["token_limit"], json!(100));
    assert_eq!(found["topic_block"], json!(["weapons"]));
    assert_eq!(found["x-site"], json!([7, 8]));
    propagate(&mut stage, "merge", &[("token_limit", json!(10))]);
    assert_eq!(in_force(&stage, &record)["token_limit"], json!(10));
}

// VX-CP-2, VX-CP-9, VX-BC-3
#[test]
fn constraints_bind_the_senders_children_and_nobody_else() {
    let mut stage = child();
    let mut other = agent(None, &[]);
    other.peers = vec![PARENT.to_owned()];
    stage.host(PEER, other);
    let payload = constraints("merge", &[("token_limit", json!(5))]);
    stage.told(PARENT, "broadcast", "constraint_propagate", payload.clone());
    assert_eq!(in_force(&stage, &record())["token_limit"], json!(5));
    assert!(stage.scan(&constraints_prefix(PEER)).is_empty());
    let directed = stage.envelope(PARENT, PEER, "constraint_propagate", payload);
    assert_eq!(stage.receive(&directed).unwrap_err().code, "not_authorized");
    let bad = constraints(
        "override",
        &[("safety_floor", json!(3)), ("token_limit", json!(-1))],
    );
    let bad = stage.envelope(PARENT, CHILD, "constraint_propagate", bad);
    assert_eq!(stage.receive(&bad).unwrap_err().code, "constraint_invalid");
    assert!(!in_force(&stage, &record()).contains_key("safety_floor"));
}

// VX-CP-4, CH-LIM-1
#[test]
fn a_parent_cannot_fill_its_child_without_bound() {
    let mut stage = child();
    let long = "v".repeat(60_000);
    for number in 0..4 {
        propagate(
            &mut stage,
            "merge",
            &[("x-long", json!(format!("{number}{long}")))],
        );
    }
    let more = constraints("merge", &[("x-long", json!(format!("5{long}")))]);
    let more = stage.envelope(PARENT, CHILD, "constraint_propagate", more);
    let refusal = stage.receive(&more).unwrap_err();
    assert_eq!((refusal.code, refusal.status), ("overloaded", 503));
    let mut stage = child();
    let many: Vec<(String, Value)> = (0..256)
        .map(|number| (format!("x-{number}"), json!(1)))
        .collect();
    let many: Vec<(&str, Value)> = many
        .iter()
        .map(|(kind, value)| (kind.as_str(), value.clone()))
        .collect();
    propagate(&mut stage, "merge", &many);
    let more = stage.envelope(
        PARENT,
        CHILD,
        "constraint_propagate",
        constraints("merge", &[("y", json!(1))]),
    );
    assert_eq!(stage.receive(&more).unwrap_err().code, "overloaded");
}

// VX-CP-7, VX-CP-4
#[test]
fn a_set_does_not_grow_with_the_number_of_messages() {
    let mut constraints = Constraints::default();
    let kind = ConstraintType::TopicBlock;
    for minute in 0..1_000 {
        let now = Time::from_unix_seconds(1_771_000_000 + minute * 60).unwrap();
        let stamp = Stamp {
            at: now,
            id: MessageId::made(chancery_core::ids::v7(minute as u64, 0, 0)),
        };
        let words = Held::Words([format!("topic-{}", minute % 7)].into());
        assert!(constraints.apply(kind, stamp, Mode::Merge, vec![words], now));
    }
    assert!(constraints.values().count() <= 8);
    let all = combine(kind, constraints.values()).unwrap().to_json();
    assert_eq!(all.as_array().unwrap().len(), 7);
}

fn announced(reference: &str, hash: char) -> Value {
    json!({"constitution_ref": reference, "manifest_hash": format!("sha256:{}", hash.to_string().repeat(64))})
}

// VX-CA-5
#[test]
fn an_announcement_is_compared_with_what_is_held() {
    let mut stage = Stage::default();
    let mut record = record();
    record.constitution_ref = Some("creed://creed.space/own@1.0.0".to_owned());
    stage.host(CHILD, record);
    let mut compared = |reference: &str, hash: char, expected: &str| {
        stage.told(
            PEER,
            CHILD,
            "constitution_announce",
            announced(reference, hash),
        );
        let meta = &stage.log.last().unwrap().meta["constitution"];
        assert!(
            meta.contains(&format!("\\\"{expected}\\\"")),
            "{reference} {hash}: {meta}"
        );
    };
    compared("creed://creed.space/other@1.0.0", 'a', "other");
    compared("creed://creed.space/own@1.1.0", 'a', "version_conflict");
    compared("creed://creed.space/other@1.0.0", 'a', "same");
    compared("creed://creed.space/other@1.0.0", 'b', "content_conflict");
    compared("creed://creed.space/other@2.0.0", 'b', "version_conflict");
    // Its own hash is known once it announced it.
    stage.send(
        CHILD,
        PEER,
        "constitution_announce",
        announced("creed://creed.space/own@1.0.0", 'c'),
    );
    let mut compared = |reference: &str, hash: char, expected: &str| {
        stage.told(
            PEER,
            CHILD,
            "constitution_announce",
            announced(reference, hash),
        );
        let meta = &stage.log.last().unwrap().meta["constitution"];
        assert!(
            meta.contains(&format!("\\\"{expected}\\\"")),
            "{reference} {hash}: {meta}"
        );
    };
    compared("creed://creed.space/own@1.0.0", 'c', "same");
}

// VX-CA-2
#[test]
fn the_hash_of_a_manifest_leaves_its_signature_out() {
    let hash = |text: &str| manifest_hash(&read(text.as_bytes(), &ReadRules::OWN).unwrap());
    // printf '%s' '{"a":{"signature":1},"b":1}' | sha256sum
    let expected = format!(
        "sha256:{}",
        chancery_core::digest::Sha256Digest::of(br#"{"a":{"signature":1},"b":1}"#).hex()
    );
    assert_eq!(
        hash(r#"{"signature":"x","b":1.0,"a":{"signature":1}}"#),
        expected
    );
    assert_eq!(hash(r#"{"a":{"signature":1},"b":1}"#), expected);
}

// VX-CS-4, VX-ACK-1
#[test]
fn an_agents_current_context_is_the_one_it_shared_last() {
    let mut stage = Stage::default();
    let mut record = agent(None, &[CHILD]);
    record.context = Some("⏰🌅".to_owned());
    stage.host(PARENT, record);
    let context_of_ack = |stage: &mut Stage| {
        stage.told(CHILD, PARENT, "escalation", escalation("info", "x"));
        stage.log.last().unwrap().envelope["payload"]["context"].clone()
    };
    assert_eq!(context_of_ack(&mut stage), "⏰🌅");
    stage.send(PARENT, CHILD, "context_share", share("📍🏢"));
    assert_eq!(context_of_ack(&mut stage), "📍🏢");
}

#[derive(Clone, Debug)]
struct Message {
    at: i64,
    id: u64,
    mode: Mode,
    entries: Vec<(usize, u8)>,
}

const TYPES: [&str; 5] = [
    "topic_block",
    "token_limit",
    "audience_restrict",
    "safety_floor",
    "x-any",
];

fn value(kind: &str, number: u8) -> Value {
    match kind {
        "topic_block" => json!([format!("t{}", number % 5)]),
        "audience_restrict" => json!(
            (0..=number % 4)
                .map(|n| format!("a{n}"))
                .collect::<Vec<_>>()
        ),
        "token_limit" => json!(number),
        "safety_floor" => json!(number % 6),
        _ => json!({"n": number % 3}),
    }
}

fn message() -> impl Strategy<Value = Message> {
    let mode = prop_oneof![Just(Mode::Merge), Just(Mode::Override)];
    let entries = proptest::collection::vec((0..TYPES.len(), any::<u8>()), 1..4);
    (0_i64..4, any::<u64>(), mode, entries).prop_map(|(at, id, mode, entries)| Message {
        at,
        id,
        mode,
        entries,
    })
}

fn fold(messages: &[Message]) -> BTreeMap<&'static str, Value> {
    let mut by_type: BTreeMap<&'static str, Constraints> = BTreeMap::new();
    for message in messages {
        let at = Time::from_unix_seconds(1_771_000_000 + message.at).unwrap();
        let stamp = Stamp {
            at,
            id: MessageId::made(chancery_core::ids::v7(1, 0, message.id)),
        };
        for name in TYPES {
            let kind = ConstraintType::named(name);
            let values: Vec<Held> = message
                .entries
                .iter()
                .filter(|(index, _)| TYPES[*index] == name)
                .map(|(_, number)| {
                    let text = value(name, *number).to_string();
                    Held::of(kind, &read(text.as_bytes(), &ReadRules::OWN).unwrap())
                })
                .collect();
            if !values.is_empty() {
                by_type
                    .entry(name)
                    .or_default()
                    .apply(kind, stamp, message.mode, values, at);
            }
        }
    }
    let combined = |(name, held): (&'static str, Constraints)| {
        let effective = combine(ConstraintType::named(name), held.values())?;
        Some((name, effective.to_json()))
    };
    by_type.into_iter().filter_map(combined).collect()
}

proptest! {
    // VX-TST-2, VX-CP-7
    #[test]
    fn any_order_of_arrival_gives_the_same_constraints(
        (messages, shuffled) in proptest::collection::vec(message(), 1..8)
            .prop_map(|mut messages| {
                messages.sort_by_key(|message| (message.at, message.id));
                messages.dedup_by_key(|message| (message.at, message.id));
                messages
            })
            .prop_flat_map(|messages| (Just(messages.clone()), Just(messages).prop_shuffle()))
    ) {
        prop_assert_eq!(fold(&messages), fold(&shuffled));
    }
}

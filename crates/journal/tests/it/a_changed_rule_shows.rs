//! Replay finds the first line that the rules do not give again, and says why.

use bytes::Bytes;
use chancery_core::canonical::{Dialect, to_bytes};
use chancery_core::json::{self, Object, ReadRules, Value};
use chancery_journal::{Reason, line};
use chancery_testkit::{TestSettings, TestSuite, inputs};

use crate::scenario::{Story, forge, replay};

/// The same line with a member of `meta` set, canonical.
fn with_meta<'a>(text: &'a Bytes, name: &'static str, value: impl Into<Value<'a>>) -> Bytes {
    let Ok(Value::Object(mut object)) = json::read(text, &ReadRules::OWN) else {
        panic!("no line")
    };
    let Some(Value::Object(mut meta)) = object.remove("meta") else {
        panic!("no meta")
    };
    meta.insert(name, value);
    object.insert("meta", meta);
    to_bytes(&Value::Object(object), Dialect::Vibe).into()
}

/// The index of the line that begins with this, counted from 0.
fn index_of(lines: &[Bytes], part: &str) -> usize {
    lines
        .iter()
        .position(|line| String::from_utf8_lossy(line).contains(part))
        .unwrap()
}

#[test]
fn a_rule_that_gives_another_derived_line_diverges_at_that_line() {
    // CH-JRN-7, VC-RPL-2
    let story = Story::everything();
    let lines = story.host.lines();
    let second_part = index_of(lines, r#""value":"2","verb":"part""#) as u64 + 1;
    let (report, _) = replay(TestSuite::altered(), lines);
    let divergence = report.divergence.unwrap();
    assert_eq!(divergence.seq, second_part);
    assert_eq!(divergence.reason, Reason::Differs("envelope".to_owned()));
    assert_eq!(
        divergence.to_string(),
        format!("line {second_part}: the rules give another envelope")
    );
    // The unit of that line begins two lines before it; what follows is verified, not replayed.
    assert_eq!(report.replayed, second_part - 3);
    assert_eq!(report.verified, lines.len() as u64);
}

/// A sender without a key: nothing but the rules stands against a forger.
fn unsigned(story: &mut Story, id: &str, verb: &str, value: Option<&str>) {
    story
        .host
        .receive(inputs::unsigned(id, "eve", "bob", verb, value), story.now);
}

#[test]
fn an_input_that_the_rules_refuse_diverges() {
    let mut story = Story::begin();
    unsigned(&mut story, "1", "chain", Some("1"));
    unsigned(&mut story, "2", "note", None);
    let mut lines = story.host.lines().to_vec();
    let chain = lines.len() - 2;
    let forged = String::from_utf8(lines[chain].to_vec())
        .unwrap()
        .replace(r#""value":"1""#, r#""value":"7""#);
    forge(&mut lines, chain, forged.into());
    let (report, _) = replay(TestSuite::default(), &lines);
    let divergence = report.divergence.unwrap();
    assert_eq!(divergence.seq, chain as u64 + 1);
    assert!(matches!(divergence.reason, Reason::Refused(refusal) if refusal.code == "out_of_turn"));
    assert_eq!(report.replayed, chain as u64);
}

#[test]
fn an_input_for_which_the_rules_record_nothing_diverges() {
    let mut story = Story::begin();
    unsigned(&mut story, "1", "note", None);
    unsigned(&mut story, "2", "note", None);
    let mut lines = story.host.lines().to_vec();
    let second = lines.len() - 1;
    let forged = String::from_utf8(lines[second].to_vec())
        .unwrap()
        .replace(r#""id":"2""#, r#""id":"1""#);
    forge(&mut lines, second, forged.into());
    let divergence = replay(TestSuite::default(), &lines).0.divergence.unwrap();
    assert_eq!(
        (divergence.seq, divergence.reason),
        (second as u64 + 1, Reason::NotRecorded)
    );
}

#[test]
fn a_signed_input_cannot_be_forged_at_all() {
    let mut story = Story::begin();
    story.receive("1", "ann", "bob", "chain", Some("1"));
    let mut lines = story.host.lines().to_vec();
    let chain = lines.len() - 1;
    let forged = String::from_utf8(lines[chain].to_vec())
        .unwrap()
        .replace(r#""value":"1""#, r#""value":"2""#);
    forge(&mut lines, chain, forged.into());
    let divergence = replay(TestSuite::default(), &lines).0.divergence.unwrap();
    assert!(
        matches!(divergence.reason, Reason::Signature(_)),
        "{divergence}"
    );
}

#[test]
fn a_line_that_no_rule_gives_diverges() {
    let mut story = Story::begin();
    story.receive("1", "ann", "bob", "batch", None);
    story.receive("2", "ann", "bob", "note", None);
    let mut lines = story.host.lines().to_vec();
    // The last line of the batch goes on, so that the note seems to belong to it.
    let last = lines.len() - 2;
    let forged = with_meta(&lines[last], "more", true);
    forge(&mut lines, last, forged);
    let (report, _) = replay(TestSuite::default(), &lines);
    let divergence = report.divergence.unwrap();
    assert_eq!(divergence.seq, last as u64 + 1);
    assert_eq!(divergence.reason, Reason::Differs("meta.more".to_owned()));
}

#[test]
fn a_signature_that_the_node_made_is_taken_from_the_line_and_checked() {
    // CH-JRN-7
    let story = Story::everything();
    let mut lines = story.host.lines().to_vec();
    let agents = index_of(&lines, "from cat");
    let line = line::parse(&lines[agents]).unwrap();
    let Ok(Value::Object(envelope)) = json::read(&line.envelope, &ReadRules::OWN) else {
        panic!("no envelope")
    };
    let signature = envelope
        .get("signature")
        .and_then(Value::as_str)
        .unwrap()
        .to_owned();
    let other = inputs::signed(
        &inputs::key_of("eve"),
        &inputs::unsigned("1", "cat", "ann", "note", None),
    );
    let Ok(Value::Object(other)) = json::read(&other, &ReadRules::OWN) else {
        panic!("no envelope")
    };
    let other: &Object<'_> = &other;
    let other = other.get("signature").and_then(Value::as_str).unwrap();
    let forged = String::from_utf8(lines[agents].to_vec())
        .unwrap()
        .replace(&signature, other);
    forge(&mut lines, agents, forged.into());
    let (report, _) = replay(TestSuite::default(), &lines);
    let divergence = report.divergence.unwrap();
    assert_eq!(divergence.seq, agents as u64 + 1);
    assert!(
        matches!(divergence.reason, Reason::Signature(_)),
        "{divergence}"
    );
    // It was left out of the comparison: the rules give every line again.
    assert_eq!(report.replayed, lines.len() as u64);
}

#[test]
fn an_envelope_of_an_agent_that_the_node_did_not_make_diverges() {
    // The identifier follows from the nonce on the line (CH-JRN-3).
    let story = Story::everything();
    let mut lines = story.host.lines().to_vec();
    let agents = index_of(&lines, "from cat");
    let forged = with_meta(&lines[agents], "nonce", "000000000000000000000000000000ff");
    forge(&mut lines, agents, forged);
    let (report, _) = replay(TestSuite::default(), &lines);
    let divergence = report.divergence.unwrap();
    assert_eq!(divergence.seq, agents as u64 + 1);
    assert_eq!(divergence.reason, Reason::Differs("envelope".to_owned()));
}

#[test]
fn another_decision_time_diverges_where_it_counts() {
    let mut story = Story::begin();
    story.receive("1", "ann", "bob", "follow", None);
    let mut lines = story.host.lines().to_vec();
    let first = lines.len() - 2;
    let forged = with_meta(&lines[first], "eval_ts", "2027-01-01T00:00:00Z");
    forge(&mut lines, first, forged);
    let (report, _) = replay(TestSuite::default(), &lines);
    let divergence = report.divergence.unwrap();
    assert_eq!(divergence.seq, first as u64 + 2);
    assert_eq!(
        divergence.reason,
        Reason::Differs("meta.eval_ts".to_owned())
    );
}

#[test]
fn lines_under_rules_that_this_build_does_not_have_are_verified_and_counted() {
    // CH-JRN-7
    let mut story = Story::begin();
    story.receive("1", "ann", "bob", "batch", None);
    let known = story.host.head().seq;
    story.act(&inputs::config_act(&TestSettings {
        rules: 2,
        ..TestSettings::default()
    }));
    story.receive("2", "ann", "bob", "batch", None);
    story.receive("3", "ann", "bob", "note", None);
    let (report, _) = replay(TestSuite::default(), story.host.lines());
    assert_eq!(report.divergence, None);
    assert_eq!(report.replayed, known + 1);
    assert_eq!(report.left_out, 5);
    assert_eq!(report.signatures, 3);
    assert_eq!(report.head, story.host.head());
}

//! Calls that hosted vacants make.

use chancery_core::canonical::{Dialect, to_bytes};
use chancery_core::protocol::Failure;
use chancery_core::protocol::Input;
use chancery_core::rows::{RowKey, Rows as _};
use chancery_vacant::act::{Act, Change, Review};
use chancery_vacant::answer::Answer;
use chancery_vacant::dispatch::{Judged, judge};
use chancery_vacant::payload::Profile;
use chancery_vacant::reputation::{Dimension, Reputation};
use chancery_vacant::rules::chain::ReplayState;
use chancery_vacant::rules::judge::reputation_key;
use chancery_vacant::wire::to_message;

use crate::host::{AnyInput, Host, accepted, envelope, id};

fn line_of(decided: Result<Answer, chancery_core::refusal::Refusal>) -> u64 {
    match decided.unwrap() {
        Answer::Called { line, .. } => line,
        other => panic!("{other:?}"),
    }
}

fn adoption(host: &Host, of: &str) -> f64 {
    let known: Reputation = host.row(&reputation_key(&id(of))).unwrap_or_default();
    known.of(Dimension::Adoption).n
}

// CH-JRN-10, VA-UCB-6
#[test]
fn two_hosted_vacants_share_one_line_a_call() {
    let mut host = Host::of(&["ann", "bob"]);
    let call = accepted(host.call("ann", "bob", None));
    assert_eq!(call.name, "bob");
    assert_eq!(host.pair("ann", "bob").last_sequence_no, 1);
    // Its return over a door is a duplicate.
    let again = host.envelope(call.call);
    assert_eq!(host.receive(&again).unwrap_err().code, "REPLAY_DETECTED");
    host.answer("bob", call.call, "ho").unwrap();
    assert!(adoption(&host, "bob") > 0.0);
    assert_eq!(host.replayed().divergence, None);
}

// VA-DSP-10, VA-DSP-6, VA-MSG-8
#[test]
fn an_answer_from_elsewhere_settles_a_call() {
    let mut host = Host::of(&["ann"]);
    let line = line_of(host.call("ann", "far", None));
    assert_eq!(
        host.call("ann", "far", None).unwrap_err().code,
        "OVERLOADED"
    );
    let outbox = host.rows().scan(&RowKey::text("outbox", &[])).unwrap();
    assert_eq!(outbox.len(), 1);
    let stranger = host.next("else", "ann", "ho", Profile::SelfEval);
    assert_eq!(
        host.reply(line, &stranger).unwrap_err().code,
        "ENVELOPE_FORMAT"
    );
    let answer = host.next("far", "ann", "ho", Profile::SelfEval);
    assert!(matches!(host.reply(line, &answer), Ok(Answer::Replied(_))));
    assert_eq!(host.reply(line, &answer).unwrap_err().code, "ANSWERED");
    assert_eq!(host.pair("ann", "far").last_sequence_no, 1);
    assert!(adoption(&host, "far") > 0.0);
    // The next call is in the profile that the target answered in.
    let line = line_of(host.call("ann", "far", None));
    assert_eq!(
        host.envelope(line).verify().unwrap().profile,
        Profile::SelfEval
    );
    assert_eq!(host.replayed().divergence, None);
}

// VA-DSP-10, VA-SRV-9
#[test]
fn a_call_that_was_not_taken_gives_its_number_back() {
    let mut host = Host::of(&["ann"]);
    for (why, last) in [
        (Failure::CallRefused, 0),
        (Failure::Undeliverable, 0),
        (Failure::BehaviourFailed, 1),
        (Failure::BehaviourTimeout, 2),
        (Failure::Interrupted, 2),
    ] {
        let line = line_of(host.call("ann", "far", None));
        // An answer of ours in between stands on the call, and goes with it.
        host.fail(line, why).unwrap();
        assert_eq!(host.pair("ann", "far").last_sequence_no, last, "{why:?}");
    }
    let report = host.replayed();
    assert_eq!(report.divergence, None);
    assert!(crate::host::verify(&host.lines).passed());
}

// VA-DSP-10
#[test]
fn an_answer_given_while_a_call_is_on_its_way_has_its_place_after_it() {
    let mut host = Host::of(&["ann"]);
    let line = line_of(host.call("ann", "far", None));
    let from_far = envelope("far", "ann", 1, ReplayState::default(), "hi", Profile::Base);
    let call = accepted(host.receive(&from_far)).call;
    host.answer("ann", call, "ho").unwrap();
    assert_eq!(host.pair("ann", "far").last_sequence_no, 2);
    host.fail(line, Failure::CallRefused).unwrap();
    assert_eq!(host.pair("ann", "far"), ReplayState::default());
    assert_eq!(host.replayed().divergence, None);
}

// CH-JRN-16
#[test]
fn a_repeated_request_to_send_calls_once() {
    let mut host = Host::of(&["ann", "bob"]);
    let line = line_of(host.call("ann", "bob", Some("k")));
    assert_eq!(
        host.call("ann", "bob", Some("k")).unwrap(),
        Answer::SentBefore(line)
    );
    assert_eq!(host.pair("ann", "bob").last_sequence_no, 1);
    assert_eq!(host.replayed().divergence, None);
}

// VA-UCB-2
#[test]
fn reviews_are_on_the_log_and_count() {
    let mut host = Host::of(&["ann"]);
    let review = |signal: f64| {
        AnyInput::Vacant(Input::Act(Act::new(Change::Review(Review {
            of: id("far"),
            dim: Dimension::Honesty,
            signal,
            weight: 1.0,
        }))))
    };
    host.decide(&review(1.0)).unwrap();
    let known: Reputation = host.row(&reputation_key(&id("far"))).unwrap();
    assert!((known.of(Dimension::Honesty).mean() - 0.75).abs() < 1e-12);
    assert_eq!(host.decide(&review(1.5)).unwrap_err().status, 400);
    assert_eq!(host.replayed().divergence, None);
}

/// The body of a refusal, as a target writes it.
fn refusal(reason: &str, tip: &str, response: &str) -> Vec<u8> {
    format!(
        r#"{{"error": {{"code": 1, "data": [{{"reason": "{reason}", "metadata": {{"chain_tip": "{tip}"}}}}]{response}}}}}"#
    )
    .into_bytes()
}

// VA-DSP-10, CH-CFG-4, CH-ID-4
#[test]
fn a_node_without_a_vacant_took_nothing_and_a_replay_names_the_last_number() {
    let sent = envelope("ann", "far", 1, ReplayState::default(), "hi", Profile::Base);
    let hash = sent.hash(Profile::Base);
    let said = |status: u16, body: &[u8]| match judge(status, body, &hash, 1 << 20) {
        Judged::Refused(error) => error.to_string(),
        other => panic!("{other:?}"),
    };
    let nobody = said(503, &refusal("NOT_CONFIGURED", "", ""));
    assert!(nobody.contains("NOT_CONFIGURED"), "{nobody}");
    let behind = r#"{"error": {"data": [{"reason": "REPLAY_DETECTED", "metadata": {"last_sequence_no": "41"}}]}}"#;
    let behind = said(409, behind.as_bytes());
    assert!(behind.contains("41"), "{behind}");
    // What is no word of ours is not repeated.
    let told = said(404, &refusal("<b>hello</b>", "", ""));
    assert!(!told.contains("hello"), "{told}");
}

// VA-DSP-10, VA-SRV-9, VA-SRV-12: who took a call, and who did not.
#[test]
fn what_a_target_says_tells_whether_it_took_the_call() {
    let sent = envelope("ann", "far", 1, ReplayState::default(), "hi", Profile::Base);
    let hash = sent.hash(Profile::Base);
    let answer = envelope("far", "ann", 1, ReplayState::default(), "ho", Profile::Base);
    let message = to_bytes(&to_message(&answer).into(), Dialect::Python);
    let message = String::from_utf8(message).unwrap();
    let said = |status: u16, body: &[u8]| judge(status, body, &hash, 1 << 20);
    let ok = format!(r#"{{"result": {{"message": {message}}}}}"#);
    let Judged::Answered(heard) = said(200, ok.as_bytes()) else {
        panic!("an answer is one");
    };
    assert_eq!(heard.envelope, answer);
    let tip = hash.hex();
    let lost = refusal(
        "REPLAY_DETECTED",
        &tip,
        &format!(r#", "response": {message}"#),
    );
    assert!(matches!(said(409, &lost), Judged::Answered(_)));
    let under_way = refusal("REPLAY_DETECTED", &tip, "");
    assert!(matches!(said(409, &under_way), Judged::Taken));
    let behind = refusal("REPLAY_DETECTED", &"0".repeat(64), "");
    assert!(matches!(said(409, &behind), Judged::Refused(_)));
    let failed = refusal("BEHAVIOUR_FAILED", "", "");
    assert!(matches!(
        said(500, &failed),
        Judged::Ended(Failure::BehaviourFailed)
    ));
    let late = refusal("BEHAVIOUR_TIMEOUT", "", "");
    assert!(matches!(
        said(504, &late),
        Judged::Ended(Failure::BehaviourTimeout)
    ));
    // It answered, and with nothing that is an answer.
    assert!(matches!(
        said(200, b"{}"),
        Judged::Ended(Failure::BehaviourFailed)
    ));
    // A proxy says nothing about the target.
    for status in [408, 429, 500, 502, 503, 504] {
        assert!(matches!(said(status, b"<html>"), Judged::Again), "{status}");
    }
    for status in [301, 400, 401, 404, 410, 413, 415, 421, 423] {
        assert!(
            matches!(said(status, b"{}"), Judged::Refused(_)),
            "{status}"
        );
    }
}

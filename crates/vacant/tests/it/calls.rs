//! Calls from outside and their outcomes.

use chancery_core::admin::RunState;
use chancery_core::protocol::Failure;
use chancery_vacant::answer::Answer;
use chancery_vacant::envelope::EMPTY_PREV_HASH;
use chancery_vacant::native::OutOfTurn;
use chancery_vacant::payload::Profile;
use chancery_vacant::rules::chain::{ReplayState, accepted_key};
use chancery_vacant::state::State;

use crate::host::{Host, accepted, envelope, id};

// CH-JRN-16, VA-RSP-1, VA-RSP-2, VA-REP-2, VA-REP-7, VA-MSG-8
#[test]
fn a_call_is_two_units_and_both_directions_advance() {
    for profile in [Profile::Base, Profile::SelfEval] {
        let mut host = Host::of(&["bob"]);
        let first = host.next("ann", "bob", "hi", profile);
        let call = accepted(host.receive(&first));
        assert_eq!(call.profile, profile);
        assert_eq!(host.pair("ann", "bob").chain_tip, first.hash(profile));
        assert_eq!(host.pair("bob", "ann"), ReplayState::default());
        let Answer::Answered(line) = host.answer("bob", call.call, "ho").unwrap() else {
            panic!("an answer is on record");
        };
        let answer = host.envelope(line);
        assert_eq!((answer.sequence_no, answer.prev), (1, EMPTY_PREV_HASH));
        let verified = answer.verify().unwrap();
        assert_eq!(verified.profile, profile);
        assert_eq!(host.pair("bob", "ann").chain_tip, verified.hash);
        let row = host.rows().find(&accepted_key(&id("bob"), &id("ann"), 1));
        assert_eq!(row.unwrap().bytes(), &verified.hash.as_bytes()[..]);
        assert_eq!(host.lines.len(), 3);
        assert_eq!(host.replayed().divergence, None);
    }
}

// VA-REP-3, VA-SRV-11, VA-SRV-12, VA-REP-4
#[test]
fn what_comes_out_of_turn_is_told_where_its_chain_stands() {
    let mut host = Host::of(&["bob"]);
    let first = host.next("ann", "bob", "hi", Profile::Base);
    let rival = host.next("ann", "bob", "ha", Profile::Base);
    let call = accepted(host.receive(&first));
    // Two envelopes claim the same place: one has it.
    assert_eq!(host.receive(&rival).unwrap_err().code, "REPLAY_DETECTED");
    let told = OutOfTurn::of(&host.receive(&first).unwrap_err()).unwrap();
    assert_eq!((told.last_sequence_no, told.answer), (1, None));
    assert_eq!(told.chain_tip, first.hash(Profile::Base).hex());
    let Answer::Answered(line) = host.answer("bob", call.call, "ho").unwrap() else {
        panic!("an answer is on record");
    };
    let told = OutOfTurn::of(&host.receive(&first).unwrap_err()).unwrap();
    assert_eq!(told.answer, Some(line));
    // The rival is not the envelope that was answered.
    let told = OutOfTurn::of(&host.receive(&rival).unwrap_err()).unwrap();
    assert_eq!(told.answer, None);
    let fork = envelope("ann", "bob", 2, ReplayState::default(), "x", Profile::Base);
    assert_eq!(host.receive(&fork).unwrap_err().code, "CHAIN_FORK");
    let gap = envelope("ann", "bob", 3, host.pair("ann", "bob"), "x", Profile::Base);
    assert_eq!(host.receive(&gap).unwrap_err().code, "REPLAY_DETECTED");
    assert_eq!(host.pair("ann", "bob").last_sequence_no, 1);
}

// CH-JRN-16, VA-SRV-9
#[test]
fn a_call_has_one_outcome() {
    let mut host = Host::of(&["bob"]);
    let first = host.next("ann", "bob", "hi", Profile::Base);
    let call = accepted(host.receive(&first)).call;
    host.answer("bob", call, "ho").unwrap();
    assert_eq!(host.answer("bob", call, "hm").unwrap_err().code, "ANSWERED");
    let before = host.lines.len();
    assert_eq!(
        host.fail(call, Failure::BehaviourTimeout).unwrap(),
        Answer::Noted
    );
    assert_eq!(host.lines.len(), before);
    let second = host.next("ann", "bob", "hi", Profile::Base);
    let call = accepted(host.receive(&second)).call;
    host.fail(call, Failure::BehaviourFailed).unwrap();
    assert_eq!(host.lines.len(), before + 2);
    assert_eq!(host.answer("bob", call, "ho").unwrap_err().code, "ANSWERED");
    // The request stays accepted.
    assert_eq!(host.pair("ann", "bob").last_sequence_no, 2);
    assert_eq!(host.replayed().divergence, None);
}

// VA-RSP-3, VA-SRV-15
#[test]
fn calls_of_one_caller_are_answered_in_the_order_they_finish() {
    let mut host = Host::of(&["bob"]);
    let one = host.next("ann", "bob", "1", Profile::Base);
    let one = accepted(host.receive(&one)).call;
    let two = host.next("ann", "bob", "2", Profile::Base);
    let two = accepted(host.receive(&two)).call;
    host.answer("bob", two, "second first").unwrap();
    host.answer("bob", one, "first second").unwrap();
    assert_eq!(host.pair("bob", "ann").last_sequence_no, 2);
    assert_eq!(host.replayed().divergence, None);
}

// VA-SRV-5, VA-SRV-6, VA-STA-3, CH-ID-5
#[test]
fn the_state_and_the_participant_decide_before_the_chain() {
    let mut host = Host::of(&["bob"]);
    let call = host.next("ann", "bob", "hi", Profile::Base);
    let stale = envelope("ann", "bob", 9, ReplayState::default(), "x", Profile::Base);
    for (state, code, status) in [
        (State::Hibernating, "TARGET_LOCKED", 423),
        (State::Stale, "TARGET_LOCKED", 423),
        (State::Sunk, "TARGET_GONE", 410),
        (State::Archived, "TARGET_GONE", 410),
    ] {
        host.host("bob", state, None);
        for envelope in [&call, &stale] {
            let refusal = host.receive(envelope).unwrap_err();
            assert_eq!((refusal.code, refusal.status), (code, status));
        }
    }
    host.host("bob", State::Active, Some(RunState::Suspended));
    let refusal = host.receive(&call).unwrap_err();
    assert_eq!((refusal.code, refusal.status), ("TARGET_LOCKED", 423));
    host.host("bob", State::Active, Some(RunState::Running));
    accepted(host.receive(&call));
    let other = host.next("ann", "nobody", "hi", Profile::Base);
    assert_eq!(host.receive(&other).unwrap_err().code, "MISDIRECTED");
}

// VA-RSP-5
#[test]
fn a_vacant_that_calls_itself_has_one_chain_for_both() {
    let mut host = Host::of(&["bob"]);
    for turn in 0..3 {
        let call = host.next("bob", "bob", "hi", Profile::Base);
        assert_eq!(call.sequence_no, turn * 2 + 1);
        let call = accepted(host.receive(&call)).call;
        host.answer("bob", call, "ho").unwrap();
        assert_eq!(host.pair("bob", "bob").last_sequence_no, turn * 2 + 2);
    }
    assert_eq!(host.replayed().divergence, None);
}

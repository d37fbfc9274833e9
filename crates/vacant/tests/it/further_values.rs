//! Small promises of the values themselves: what an id is, which numbers there are, what a frame does not say.

use std::collections::HashSet;

use chancery_core::canonical::{Dialect, to_bytes};
use chancery_vacant::dispatch::may_fall_back;
use chancery_vacant::envelope::MAX_SEQUENCE_NO;
use chancery_vacant::error::ProtocolError;
use chancery_vacant::id::VacantId;
use chancery_vacant::payload::Profile;
use chancery_vacant::rules::chain::ReplayState;
use chancery_vacant::state::State;
use chancery_vacant::wire::{from_jsonrpc, from_response, read_json, to_jsonrpc};
use serde_json::Value;

use crate::host::{Host, accepted, envelope};

fn body(sequence_no: u64) -> String {
    let call = envelope(
        "far",
        "ann",
        sequence_no,
        ReplayState::default(),
        "hi",
        Profile::Base,
    );
    let body = to_bytes(&to_jsonrpc(&call, Profile::Base).into(), Dialect::Python);
    String::from_utf8(body).unwrap()
}

// VA-ID-1
#[test]
fn an_id_is_its_32_bytes() {
    let of = |byte| VacantId::new([byte; 32]);
    assert_eq!(of(1), VacantId::from_hex(&"01".repeat(32)).unwrap());
    assert_ne!(of(1), of(2));
    assert_eq!(HashSet::from([of(1), of(1), of(2)]).len(), 2);
}

// VA-ENV-4
#[test]
fn numbers_go_from_1_to_the_largest_of_63_bits() {
    assert_eq!(MAX_SEQUENCE_NO, (1 << 63) - 1);
    let read = |text: &str| {
        let value = read_json(text.as_bytes(), 1 << 20).unwrap();
        from_jsonrpc(&value).map(|envelope| envelope.sequence_no)
    };
    let with = |number: &str| {
        let mut body: Value = serde_json::from_str(&body(1)).unwrap();
        let number: Value = serde_json::from_str(number).unwrap();
        body["params"]["message"]["metadata"]["urn:vacant:v1"]["sequence_no"] = number;
        read(&body.to_string())
    };
    assert_eq!(with("9223372036854775807").unwrap(), MAX_SEQUENCE_NO);
    for wrong in ["0", "-1", "9223372036854775808", "1.5", "\"1\"", "null"] {
        assert_eq!(
            with(wrong).unwrap_err().code(),
            "ENVELOPE_FORMAT",
            "{wrong}"
        );
    }
}

// VA-WIRE-9, VA-WIRE-11
#[test]
fn the_frame_is_not_signed_and_an_answer_needs_its_message() {
    let whole = body(1);
    let value = read_json(whole.as_bytes(), 1 << 20).unwrap();
    let read = from_jsonrpc(&value).unwrap();
    let mut framed: Value = serde_json::from_str(&whole).unwrap();
    framed["jsonrpc"] = "1.0".into();
    framed["id"] = 7.into();
    framed["method"] = "other".into();
    let framed = framed.to_string();
    let value = read_json(framed.as_bytes(), 1 << 20).unwrap();
    let other = from_jsonrpc(&value).unwrap();
    assert_eq!(other, read);
    assert!(other.verify().is_ok());
    for wrong in ["{}", "{\"result\":{}}", "{\"result\":null}", "[]"] {
        let value = read_json(wrong.as_bytes(), 1 << 20).unwrap();
        let error = from_response(&value).unwrap_err();
        assert_eq!(error.code(), "ENVELOPE_FORMAT", "{wrong}");
    }
}

// VA-SRV-7, VA-ENV-2: a stranger's key is its id, and each direction has a chain of its own.
#[test]
fn a_stranger_is_verified_by_its_id_and_has_its_own_chain() {
    let mut host = Host::of(&["ann"]);
    for number in 1..=3 {
        let call = host.next("far", "ann", "hi", Profile::Base);
        assert_eq!(call.sequence_no, number);
        accepted(host.receive(&call));
    }
    assert_eq!(host.pair("far", "ann").last_sequence_no, 3);
    assert_eq!(host.pair("ann", "far").last_sequence_no, 0);
}

// VA-DSP-12
#[test]
fn another_match_is_tried_only_when_nothing_can_have_been_accepted() {
    let sunk = ProtocolError::TargetUnavailable(State::Sunk);
    assert!(may_fall_back(&sunk));
    assert!(may_fall_back(&ProtocolError::TargetNotFound("x")));
    for error in [
        ProtocolError::BehaviourFailed,
        ProtocolError::BehaviourTimeout,
        ProtocolError::Transport("x".into()),
        ProtocolError::ChainFork,
        ProtocolError::Overloaded("x"),
    ] {
        assert!(!may_fall_back(&error), "{error}");
    }
}

//! Envelopes that are made here: their defaults, their time and what they do not tell.

use chancery_core::canonical::{Dialect, to_bytes};
use chancery_core::keys::Keyring;
use chancery_core::protocol::{Caller, Door, Protocol as _};
use chancery_core::time::Time;
use chancery_vacant::Vacant;
use chancery_vacant::answer::Answer;
use chancery_vacant::envelope::{Draft, EMPTY_PREV_HASH};
use chancery_vacant::message::Message;
use chancery_vacant::native::read_request;
use chancery_vacant::payload::{Payload, Profile, Role};
use chancery_vacant::rules::chain::ReplayState;
use chancery_vacant::settings::Settings;
use chancery_vacant::wire::{to_jsonrpc, to_message};
use serde_json::Value;

use crate::host::{Host, accepted, envelope, id, key};

// VA-MSG-2, VA-ENV-1
#[test]
fn what_is_not_said_has_its_default() {
    assert_eq!(Payload::default().role, Role::User);
    assert_eq!(Payload::default().parts, Vec::<String>::new());
    assert_eq!(Payload::default().context_id, None);
    assert_eq!(Payload::default().message_id, None);
    for (name, role) in [
        ("ROLE_USER", Role::User),
        ("ROLE_AGENT", Role::Agent),
        ("ROLE_TOOL", Role::Tool),
    ] {
        assert_eq!(Role::parse(name), Some(role));
        assert_eq!(role.as_str(), name);
    }
    let draft = Draft {
        from: id("ann"),
        to: id("bob"),
        payload: Payload::default(),
        sequence_no: 1,
        prev: EMPTY_PREV_HASH,
        timestamp: Time::from_unix(1, 123_456_789).unwrap(),
        idempotency_key: String::new(),
        profile: Profile::Base,
    };
    let unsigned = draft.unsigned();
    assert_eq!(unsigned.signature, Vec::<u8>::new());
    assert_eq!(unsigned.prev.as_bytes().len(), 32);
    // VA-TS-4: to the microsecond.
    assert_eq!(unsigned.timestamp, Time::from_unix(1, 123_456_000).unwrap());
}

// VA-ENV-10, VA-MSG-5, VA-TS-4
#[test]
fn a_call_of_a_hosted_vacant_is_stamped_keyed_and_in_the_base_profile() {
    let mut host = Host::of(&["ann"]);
    let Answer::Called { line, .. } = host.call("ann", "far", None).unwrap() else {
        panic!("a call is on its way");
    };
    let call = host.envelope(line);
    assert_eq!((call.sequence_no, call.prev), (1, EMPTY_PREV_HASH));
    assert_eq!(call.verify().unwrap().profile, Profile::Base);
    // The host's clock at its second decision.
    assert_eq!(
        call.timestamp,
        Time::from_unix_seconds(1_800_000_002).unwrap()
    );
    let key = call.idempotency_key.as_bytes();
    assert_eq!(key.len(), 36);
    assert_eq!(key[14], b'4');
    assert!(matches!(key[19], b'8' | b'9' | b'a' | b'b'));
    assert_eq!(call.idempotency_key, call.idempotency_key.to_lowercase());
}

// VA-TS-5
#[test]
fn a_time_that_is_far_off_is_refused_where_a_window_is_set_and_nowhere_else() {
    let call = envelope("far", "ann", 1, ReplayState::default(), "hi", Profile::Base);
    let judged = |max_clock_skew_s: u64, off_by: i64| {
        let text = to_bytes(&to_message(&call).into(), Dialect::Python);
        let settings = Settings {
            max_clock_skew_s,
            ..Settings::default()
        };
        let received = Time::from_unix_seconds(1_700_000_000 + off_by).unwrap();
        let message = Message::of_record(&text.into()).unwrap();
        let caller = Caller::default();
        let keys = Keyring::new();
        let found = Vacant.authenticate(message, Door::Http, &caller, &keys, &settings, received);
        found.map(drop).map_err(|refusal| refusal.status)
    };
    for off_by in [-1_000_000, 0, 1_000_000] {
        assert_eq!(judged(0, off_by), Ok(()));
    }
    for (off_by, answer) in [(30, Ok(())), (-30, Ok(())), (31, Err(400)), (-31, Err(400))] {
        assert_eq!(judged(30, off_by), answer, "{off_by}");
    }
}

// VA-ENV-11: what verification serialised is what the chain goes on with.
#[test]
fn the_hash_comes_with_the_verification() {
    for profile in [Profile::Base, Profile::SelfEval] {
        let mut host = Host::of(&["bob"]);
        let call = host.next("ann", "bob", "hi", profile);
        let verified = call.verify().unwrap();
        assert_eq!(verified.hash, call.signing_payload(profile).hash());
        accepted(host.receive(&call));
        assert_eq!(host.pair("ann", "bob").chain_tip, verified.hash);
    }
}

// VA-RSP-4
#[test]
fn an_answer_does_not_name_the_number_of_its_call() {
    let mut host = Host::of(&["bob"]);
    // Calls 1 to 7 have no answers: the one to call 8 is the first of its chain.
    for _ in 0..7 {
        let call = host.next("ann", "bob", "hi", Profile::Base);
        accepted(host.receive(&call));
    }
    let call = host.next("ann", "bob", "hi", Profile::Base);
    assert_eq!(call.sequence_no, 8);
    let call = accepted(host.receive(&call)).call;
    let Answer::Answered(line) = host.answer("bob", call, "ho").unwrap() else {
        panic!("an answer is on record");
    };
    let message = to_bytes(&to_message(&host.envelope(line)).into(), Dialect::Python);
    let message: Value = serde_json::from_slice(&message).unwrap();
    let vacant = message["metadata"]["urn:vacant:v1"].as_object().unwrap();
    let names: Vec<&str> = vacant.keys().map(String::as_str).collect();
    let known = [
        "caller_signature",
        "from_vacant_id",
        "idempotency_key",
        "prev_envelope_hash",
        "sequence_no",
        "timestamp",
        "to_vacant_id",
    ];
    assert!(names.iter().all(|name| known.contains(name)), "{names:?}");
    assert_eq!(vacant["sequence_no"], 1);
}

// VA-ERR-3: whatever is wrong, the message does not repeat what was said, nor the signature.
#[test]
fn an_error_tells_nothing_of_the_payload() {
    const CANARY: &str = "canary-0fbe";
    let draft = |text: &str| Draft {
        from: id("ann"),
        to: id("bob"),
        payload: Payload::text(Role::User, text),
        sequence_no: 1,
        prev: EMPTY_PREV_HASH,
        timestamp: Time::UNIX_EPOCH,
        idempotency_key: "k".to_owned(),
        profile: Profile::Base,
    };
    let signed = draft(CANARY).sign(&key("ann")).unwrap();
    let body = to_bytes(&to_jsonrpc(&signed, Profile::Base).into(), Dialect::Python);
    let body: Value = serde_json::from_slice(&body).unwrap();
    let metadata = "/params/message/metadata/urn:vacant:v1";
    let mut refused = 0;
    for place in [
        "/params/message/role".to_owned(),
        "/params/message/parts".to_owned(),
        "/params/message/parts/0".to_owned(),
        "/params/message/parts/0/text".to_owned(),
        "/params/message/contextId".to_owned(),
        format!("{metadata}/from_vacant_id"),
        format!("{metadata}/to_vacant_id"),
        format!("{metadata}/sequence_no"),
        format!("{metadata}/timestamp"),
        format!("{metadata}/prev_envelope_hash"),
        format!("{metadata}/caller_signature"),
    ] {
        for wrong in [
            Value::from(CANARY),
            Value::from(vec![CANARY]),
            Value::from(-7),
        ] {
            let mut body = body.clone();
            if let Some(member) = body.pointer_mut(&place) {
                *member = wrong;
            }
            let text = serde_json::to_vec(&body).unwrap();
            let (_, read) = read_request(&text.into(), &Settings::default());
            let error = match read {
                Err(error) => error,
                Ok(message) => match message.envelope.verify() {
                    Err(error) => error,
                    Ok(_) => continue,
                },
            };
            refused += 1;
            let said = format!("{error} {error:?}");
            assert!(!said.contains(CANARY), "{place}: {said}");
            assert!(!said.contains(&chancery_core::digest::hex::encode(&signed.signature)));
        }
    }
    assert!(refused >= 25, "{refused}");
}

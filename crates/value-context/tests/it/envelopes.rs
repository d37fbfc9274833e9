//! What decoding gives, refuses, and tells.

use crate::support::{
    MESSAGE_ID, RECIPIENT, SENDER, decode, envelope, now, refusal, share, text_of,
};
use chancery_core::json::{Number, Object, Value};
use chancery_value_context::agent_id::AgentId;
use chancery_value_context::message::{self, Kind, Payload, Recipient};
use chancery_value_context::personal_state::{Body, Emotional, PersonalState};

fn state() -> Object<'static> {
    Object::new()
        .with("cognitive", 6_i64)
        .with(
            "emotional",
            Object::new().with("valence", 7_i64).with("arousal", 4_i64),
        )
        .with(
            "body",
            Object::new().with("pain", Number::from_token("1.5").unwrap()),
        )
}

// VX-ENV-1, VX-CS-1, VX-PS-1, VX-PS-2
#[test]
fn a_share_is_read_into_its_parts() {
    let message = decode(text_of(envelope(share().with("personal_state", state())))).unwrap();
    assert_eq!(message.version.as_str(), "1.2");
    assert_eq!(message.kind(), Kind::ContextShare);
    assert_eq!(message.message_id.to_string(), MESSAGE_ID);
    assert_eq!(message.sender.as_str(), SENDER);
    assert_eq!(
        message.recipient,
        Recipient::Directed(AgentId::parse(RECIPIENT).unwrap())
    );
    assert_eq!(message.timestamp.instant, now());
    assert_eq!(message.signature, None);
    let Payload::ContextShare(share) = &message.payload else {
        panic!("another payload");
    };
    assert_eq!(&*share.context, "⏰🌅|📍🏡|👥👶");
    assert_eq!(
        &*share.constitution_ref,
        "creed://creed.space/family.safe.guide@1.2.0"
    );
    let expected = PersonalState {
        cognitive: Some(6.0),
        emotional: Some(Emotional {
            valence: 7.0,
            arousal: 4.0,
        }),
        energy: None,
        urgency: None,
        body: Some(Body {
            pain: Some(1.5),
            comfort: None,
        }),
    };
    assert_eq!(share.personal_state, Some(expected));
}

// VX-ENV-1
#[test]
fn a_member_that_is_not_there_is_named() {
    for name in [
        "vcp_message",
        "type",
        "message_id",
        "sender",
        "recipient",
        "timestamp",
        "payload",
    ] {
        let mut lacking = envelope(share());
        lacking.remove(name);
        let fault = decode(text_of(lacking)).unwrap_err().fault;
        assert_eq!(fault.code.as_str(), "schema_invalid", "{name}");
        let path = fault.path.unwrap().to_pointer();
        assert_eq!(path, format!("/{name}"));
    }
}

// VX-PS-2
#[test]
fn a_personal_state_is_sent_whole_and_in_integers() {
    let whole = PersonalState {
        cognitive: Some(1.0),
        emotional: Some(Emotional {
            valence: 5.0,
            arousal: 9.0,
        }),
        energy: Some(2.0),
        urgency: Some(3.0),
        body: None,
    };
    assert!(whole.is_fit_to_send());
    let body = |pain, comfort| Some(Body { pain, comfort });
    let unfit = [
        PersonalState::default(),
        PersonalState {
            urgency: None,
            ..whole
        },
        PersonalState {
            emotional: None,
            ..whole
        },
        PersonalState {
            energy: Some(2.5),
            ..whole
        },
        PersonalState {
            body: body(None, Some(1.5)),
            ..whole
        },
    ];
    assert!(unfit.iter().all(|state| !state.is_fit_to_send()));
    let with_body = PersonalState {
        body: body(Some(2.0), None),
        ..whole
    };
    assert!(with_body.is_fit_to_send());
}

// VX-AGT-4
#[test]
fn broadcast_is_a_recipient_of_its_own() {
    let message = decode(text_of(envelope(share()).with("recipient", "broadcast"))).unwrap();
    assert_eq!(message.recipient, Recipient::Broadcast);
    assert_eq!(message.recipient.as_str(), "broadcast");
}

// VX-ENV-3: another version is told also when its members are unknown here.
#[test]
fn another_version_is_told_before_unknown_members() {
    let other = envelope(share())
        .with("vcp_message", "2.0")
        .with("scope", Object::new());
    assert_eq!(
        refusal(other),
        ("unsupported_version".into(), "/vcp_message".into())
    );
    let number = envelope(share()).with("vcp_message", Number::from_token("1.2").unwrap());
    assert_eq!(
        refusal(number),
        ("schema_invalid".into(), "/vcp_message".into())
    );
}

// VX-ENV-2, VX-ENV-5
#[test]
fn null_and_unknown_members_are_refused_where_they_stand() {
    let schema = |path: &str| ("schema_invalid".to_owned(), path.to_owned());
    assert_eq!(
        refusal(envelope(share()).with("signature", Value::Null)),
        schema("/signature")
    );
    assert_eq!(
        refusal(envelope(share()).with("a/b~c", 1_i64)),
        schema("/a~1b~0c")
    );
    let in_state = |state: Object<'static>| envelope(share().with("personal_state", state));
    assert_eq!(
        refusal(in_state(
            Object::new().with("body", Object::new().with("heat", 1_i64))
        )),
        schema("/payload/personal_state/body/heat")
    );
    assert_eq!(
        refusal(in_state(Object::new().with("energy", Value::Null))),
        schema("/payload/personal_state/energy")
    );
}

// VX-ENV-7
#[test]
fn the_size_limit_counts_received_bytes_and_ends_at_a_mebibyte() {
    let text = text_of(envelope(share()));
    let padded = |length: usize| format!("{text}{}", " ".repeat(length - text.len()));
    assert!(decode(padded(65_536)).is_ok());
    let refused = decode(padded(65_537)).unwrap_err();
    assert_eq!(refused.fault.code.as_str(), "payload_too_large");
    assert_eq!(refused.message_id, None);
    assert!(message::decode(padded(1_048_576).into(), usize::MAX).is_ok());
    assert!(message::decode(padded(1_048_577).into(), usize::MAX).is_err());
}

// VX-ERR-2: a refusal never repeats a value of the message.
#[test]
fn refusals_repeat_no_value() {
    const CANARY: &str = "canary-5d41402a";
    let bad = |name: &'static str| envelope(share()).with(name, CANARY);
    let in_payload = |name: &'static str| envelope(share().with(name, CANARY));
    let envelopes = [
        bad("vcp_message"),
        bad("type"),
        bad("message_id"),
        bad("timestamp"),
        bad("payload"),
        bad("signature"),
        in_payload("context"),
        in_payload("constitution_ref"),
        in_payload("personal_state"),
        envelope(share()).with("sender", format!("{CANARY}\n")),
    ];
    for envelope in envelopes {
        let refused = decode(text_of(envelope)).unwrap_err();
        assert!(
            !format!("{:?}", refused.fault).contains(CANARY),
            "{refused}"
        );
    }
}

// CH-JRN-3, VX-ENV-8
#[test]
fn the_journal_keeps_the_received_text_only_where_a_token_would_change() {
    let with_energy = |token: &'static str| {
        let energy = Number::from_token(token).unwrap();
        envelope(share().with("personal_state", Object::new().with("energy", energy)))
    };
    let plain = decode(text_of(with_energy("7"))).unwrap();
    assert_eq!(plain.raw_for_journal(), None);
    assert_eq!(plain.journal_bytes(), text_of(with_energy("7")).as_bytes());
    let rewritten = decode(text_of(with_energy("7.0"))).unwrap();
    assert_eq!(
        rewritten.raw_for_journal().map(|raw| &raw[..]),
        Some(text_of(with_energy("7.0")).as_bytes())
    );
}

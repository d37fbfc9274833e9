//! Identity, wire form and cards beyond the vectors.

use chancery_core::json::{Object, Value};
use chancery_core::keys::ed25519::SigningKey;
use chancery_core::time::Time;
use chancery_vacant::card::CapabilityCard;
use chancery_vacant::dispatch::{check_target, choose, error_of_status};
use chancery_vacant::envelope::{Draft, EMPTY_PREV_HASH};
use chancery_vacant::error::ProtocolError;
use chancery_vacant::id::VacantId;
use chancery_vacant::native::{RpcId, check_media_type, read_request};
use chancery_vacant::payload::{Payload, Profile, Role};
use chancery_vacant::settings::Settings;
use chancery_vacant::wire::{from_jsonrpc, read_json, to_jsonrpc};
use proptest::prelude::*;

use crate::host::{id, key};

fn draft() -> Draft {
    Draft {
        from: id("ann"),
        to: id("bob"),
        payload: Payload::text(Role::User, "hi"),
        sequence_no: 1,
        prev: EMPTY_PREV_HASH,
        timestamp: Time::UNIX_EPOCH,
        idempotency_key: "k".to_owned(),
        profile: Profile::Base,
    }
}

// VA-ENV-9, VA-ENV-3
#[test]
fn a_draft_is_signed_by_its_own_sender_alone() {
    let wrong = draft().sign(&key("bob")).unwrap_err();
    assert_eq!(wrong.code(), "ENVELOPE_SIGNATURE");
    let zero = Draft {
        sequence_no: 0,
        ..draft()
    };
    assert_eq!(
        zero.sign(&key("ann")).unwrap_err().code(),
        "ENVELOPE_FORMAT"
    );
    assert!(draft().sign(&key("ann")).unwrap().verify().is_ok());
}

// VA-ID-5
#[test]
fn bytes_that_are_no_point_are_an_id_under_which_nothing_verifies() {
    let mut bytes = [0xff; 32];
    bytes[31] = 0x7f;
    let id = VacantId::new(bytes);
    assert!(!id.verifies(b"x", &[0; 64]));
    assert_eq!(VacantId::from_hex(&id.hex().to_uppercase()), Ok(id));
}

// VA-A2A-3
#[test]
fn a_did_key_is_the_key_in_base58() {
    // The key pair of test 1 in RFC 8032, as the did:key method writes it.
    let seed = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
    let key = SigningKey::from_seed(&chancery_core::digest::hex::decode_array(seed).unwrap());
    let expected = "did:key:z6MktwupdmLXVVqTzCw4i46r4uGyosGXRnR3XjN4Zq7oMMsw";
    assert_eq!(VacantId::of(&key).did_key(), expected);
}

// VA-WIRE-7, VA-WIRE-8
#[test]
fn unsigned_content_does_not_ride_along() {
    let signed = draft().sign(&key("ann")).unwrap();
    let body: Value<'_> = to_jsonrpc(&signed, Profile::Base).into();
    let text = chancery_core::canonical::to_bytes(&body, chancery_core::canonical::Dialect::Python);
    let text = String::from_utf8(text).unwrap();
    for (from, to, fits) in [
        ("\"type\":\"text\"", "\"kind\":\"text\"", true),
        ("\"type\":\"text\"", "\"kind\":\"file\"", false),
        ("\"type\":\"text\"", "\"url\":\"https://x\"", false),
        ("\"type\":\"text\"", "\"data\":{}", false),
        ("\"type\":\"text\"", "\"metadata\":{\"x\":1}", true),
        ("\"ROLE_USER\"", "\"user\"", true),
        ("\"ROLE_USER\"", "\"USER\"", false),
    ] {
        assert!(text.contains(from), "{from}");
        let changed = text.replace(from, to);
        let read = read_json(changed.as_bytes(), 1 << 20).and_then(|body| from_jsonrpc(&body));
        assert_eq!(read.is_ok(), fits, "{to}");
        if let Ok(envelope) = read {
            assert!(envelope.verify().is_ok(), "{to}");
        }
    }
}

// VA-SRV-14
#[test]
fn parts_and_identifiers_have_limits() {
    let settings = Settings::default();
    let refused = |draft: Draft| {
        let signed = draft.sign(&key("ann")).unwrap();
        let body: Value<'_> = to_jsonrpc(&signed, Profile::Base).into();
        let body =
            chancery_core::canonical::to_bytes(&body, chancery_core::canonical::Dialect::Python);
        read_request(&body.into(), &settings).1.is_err()
    };
    let mut many = draft();
    many.payload.parts = vec![String::new(); 256];
    assert!(!refused(many.clone()));
    many.payload.parts.push(String::new());
    assert!(refused(many));
    let mut long = draft();
    long.payload.context_id = Some("x".repeat(65_536));
    assert!(refused(long));
}

// VA-SRV-2
#[test]
fn only_json_is_read() {
    for (media_type, fits) in [
        (None, true),
        (Some("application/json"), true),
        (Some("APPLICATION/json ; charset=utf-8"), true),
        (Some("application/jsonx"), false),
        (Some(""), false),
    ] {
        let found = check_media_type(media_type.map(str::as_bytes));
        assert_eq!(found.is_ok(), fits, "{media_type:?}");
    }
}

// VA-CARD-9
#[test]
fn a_card_that_could_be_read_in_two_ways_is_not_published() {
    let card = CapabilityCard::new(id("ann"), "a\u{1f}b", None).signed(&key("ann"));
    assert!(card.verify());
    assert_eq!(
        card.check_publishable().unwrap_err().code(),
        "ENVELOPE_FORMAT"
    );
    let unsigned = CapabilityCard::new(id("ann"), "a", None);
    assert_eq!(
        unsigned.check_publishable().unwrap_err().code(),
        "ENVELOPE_SIGNATURE"
    );
}

// VA-CARD-5, VA-CARD-6: what is no object has no version, and the version is judged before any other member.
#[test]
fn a_card_of_another_version_is_told_so_whatever_else_is_wrong_with_it() {
    let code = |blob: &str| {
        let refused = CapabilityCard::deserialize(blob.as_bytes()).unwrap_err();
        refused.code()
    };
    for wrong in [
        "",
        r#","vacant_id":5"#,
        r#","capability_text":null"#,
        r#","signature":"not hex""#,
        r#","endpoint":1"#,
        r#","substrate_spec":[]"#,
    ] {
        let of_version = |version: u64| code(&format!(r#"{{"halo_version":{version}{wrong}}}"#));
        assert_eq!(of_version(2), "UNSUPPORTED_HALO_VERSION", "{wrong}");
        assert_eq!(of_version(1), "ENVELOPE_FORMAT", "{wrong}");
    }
    assert_eq!(code(r#"[{"halo_version":2}]"#), "ENVELOPE_FORMAT");
}

// VA-DSP-5, VA-CARD-10, VA-DSP-3
#[test]
fn nothing_is_sent_to_a_card_that_was_changed() {
    let mut card = CapabilityCard::new(id("ann"), "a", Some("https://a.example/x".to_owned()));
    card = card.signed(&key("ann"));
    assert_eq!(check_target(&card), Ok("https://a.example/x"));
    card.endpoint = Some("https://evil.example/x".to_owned());
    assert_eq!(
        check_target(&card).unwrap_err().code(),
        "ENVELOPE_SIGNATURE"
    );
    card.endpoint = None;
    assert_eq!(check_target(&card).unwrap_err().code(), "TARGET_NOT_FOUND");
    assert_eq!(choose(&[None], None).unwrap_err().code(), "ENVELOPE_FORMAT");
}

// VA-ERR-2
#[test]
fn a_peers_answer_is_mapped_back() {
    for (status, reason, name) in [
        (410, None, "TargetUnavailableError"),
        (423, None, "TargetUnavailableError"),
        (409, None, "ReplayDetectedError"),
        (409, Some("CHAIN_FORK"), "ChainForkError"),
        (401, None, "EnvelopeSignatureError"),
        (400, None, "EnvelopeFormatError"),
        (415, None, "EnvelopeFormatError"),
        (422, None, "EnvelopeFormatError"),
    ] {
        assert_eq!(
            error_of_status(status, reason).type_name(),
            name,
            "{status}"
        );
    }
    assert_eq!(error_of_status(421, None), ProtocolError::Misdirected);
    assert_eq!(error_of_status(500, None).code(), "TRANSPORT");
}

proptest! {
    // VA-WIRE-4, VA-CARD-5
    #[test]
    fn no_bytes_give_anything_but_a_message_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let (_, message) = read_request(&bytes.clone().into(), &Settings::default());
        if let Err(error) = message {
            prop_assert!(matches!(error.code(), "ENVELOPE_FORMAT" | "TOO_LARGE"));
        }
        let _ = CapabilityCard::deserialize(&bytes);
    }

    // VA-WIRE-5: one member at a time is replaced by any JSON.
    #[test]
    fn a_wrong_member_is_a_format_error_or_fails_to_verify(
        member in 0_usize..7,
        value in prop_oneof![
            Just(Value::Null), any::<bool>().prop_map(Value::from), any::<i64>().prop_map(Value::from),
            ".{0,8}".prop_map(Value::from), Just(Value::Array(Vec::new())), Just(Value::Object(Object::new())),
        ],
    ) {
        const MEMBERS: [&str; 7] = [
            "from_vacant_id", "to_vacant_id", "sequence_no", "timestamp", "prev_envelope_hash",
            "idempotency_key", "caller_signature",
        ];
        let signed = draft().sign(&key("ann")).unwrap();
        let mut body: Value<'_> = to_jsonrpc(&signed, Profile::Base).into();
        {
            let mut place = &mut body;
            for name in ["params", "message", "metadata", "urn:vacant:v1"] {
                let Value::Object(members) = place else { panic!() };
                place = members.get_mut(name).unwrap();
            }
            let Value::Object(members) = place else { panic!() };
            members.insert(MEMBERS[member], value);
        }
        let text = chancery_core::canonical::to_bytes(&body, chancery_core::canonical::Dialect::Python);
        let read = read_json(&text, 1 << 20).and_then(|body| from_jsonrpc(&body));
        match read {
            Err(error) => prop_assert_eq!(error.code(), "ENVELOPE_FORMAT"),
            Ok(envelope) => prop_assert!(envelope == signed || envelope.verify().is_err()),
        }
    }
}

// VA-WIRE-10
#[test]
fn an_id_is_echoed_with_its_type() {
    for id in ["17", "\"a\"", "null", "1.5"] {
        let text = format!("{{\"id\":{id}}}");
        let body = read_json(text.as_bytes(), 100).unwrap();
        assert_eq!(RpcId::of(&body).as_json(), id);
    }
}

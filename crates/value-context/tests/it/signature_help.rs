//! What is said about a signature that failed. The bytes that were signed are written out by hand here: they are what
//! other implementations are known to sign.

use crate::support::{SENDER, keyring, now, sender_key};
use chancery_core::json::{Value, read};
use chancery_core::keys::ed25519::{SigningKey, encode_signature};
use chancery_core::refusal::Refusal;
use chancery_value_context::message::read_json;
use chancery_value_context::signature_help::{Help, MAX_VERIFICATIONS, add, applies, help};

/// An envelope with everything that the forms disagree on: a fraction, names beyond the first plane, an emoji.
fn received(signature: &str) -> String {
    format!(
        r#"{{"sender":"{SENDER}","payload":{{"é":"⏰","n":{{"\ud800\udc00":1,"\ue000":7.0}}}},"signature":"{signature}"}}"#
    )
}

/// The same as the specification demands it to be signed.
const DEMANDED: &str = concat!(
    r#"{"payload":{"n":{"𐀀":1,"#,
    "\"\u{e000}\"",
    r#":7},"é":"⏰"},"sender":"agent://home.local/living-room-agent"}"#
);

fn signed(bytes: &str) -> String {
    encode_signature(&sender_key().sign(bytes.as_bytes()))
}

fn help_with(signature: &str) -> Help {
    let text = received(signature);
    help(
        &read_json(text.as_bytes(), 65_536).unwrap(),
        &keyring(),
        now(),
    )
    .unwrap()
}

fn check(signature: &str, way: &str, difference: usize) {
    let help = help_with(signature);
    assert_eq!(help.would_verify_as.as_deref(), Some(way));
    assert_eq!(help.first_difference_at, Some(difference), "{way}");
}

fn offset_of(part: &str) -> usize {
    DEMANDED.find(part).unwrap()
}

// VX-CAN-5, VX-CAN-7
#[test]
fn python_numbers() {
    let bytes = DEMANDED.replace(":7}", ":7.0}");
    check(&signed(&bytes), "python_numbers", offset_of(":7}") + 2);
}

// VX-CAN-2
#[test]
fn code_point_order() {
    let bytes = DEMANDED.replace("\"𐀀\":1,\"\u{e000}\":7", "\"\u{e000}\":7,\"𐀀\":1");
    assert_ne!(bytes, DEMANDED);
    check(&signed(&bytes), "code_point_order", offset_of("𐀀"));
}

// VX-CAN-4
#[test]
fn ascii_escapes() {
    let bytes = DEMANDED
        .replace('é', "\\u00e9")
        .replace('⏰', "\\u23f0")
        .replace('𐀀', "\\ud800\\udc00")
        .replace('\u{e000}', "\\ue000");
    check(&signed(&bytes), "ascii_escapes", offset_of("𐀀"));
}

// VX-SIG-4: a signature over the payload alone is invalid.
#[test]
fn payload_only() {
    let end = DEMANDED.find(r#","sender""#).unwrap();
    check(&signed(&DEMANDED[11..end]), "payload_only", 2);
}

// VX-SIG-5
#[test]
fn base64url() {
    // The alphabets differ in two characters; this signature has one of them.
    let standard = signed(DEMANDED);
    assert!(
        standard.contains('+') || standard.contains('/'),
        "{standard}"
    );
    let first = standard.find(['+', '/']).unwrap().max("base64:".len());
    let url = standard.replace('+', "-").replace('/', "_");
    check(&url, "base64url", first);
    check(url.trim_end_matches('='), "base64url", first);
}

#[test]
fn several_at_once() {
    // What Python's json.dumps gives when it is told nothing but to sort and to be compact.
    let bytes = DEMANDED
        .replace(
            "\"𐀀\":1,\"\u{e000}\":7",
            "\"\\ue000\":7.0,\"\\ud800\\udc00\":1",
        )
        .replace('é', "\\u00e9")
        .replace('⏰', "\\u23f0");
    let way = "python_numbers+code_point_order+ascii_escapes";
    check(&signed(&bytes), way, offset_of("𐀀"));
}

#[test]
fn none_helps() {
    let other_key = encode_signature(&SigningKey::from_seed(&[9; 32]).sign(DEMANDED.as_bytes()));
    let nothing = Help {
        would_verify_as: None,
        first_difference_at: None,
    };
    let other_content = signed(&DEMANDED.replace('⏰', "⏱"));
    for signature in [
        &*other_key,
        &*other_content,
        "base64:AAAA",
        "hex:00",
        "base64:-+-+",
    ] {
        assert_eq!(help_with(signature), nothing, "{signature}");
    }
}

// VX-KEY-5: nothing is tried for a sender without a usable key.
#[test]
fn a_stranger_costs_nothing() {
    let text = received(&signed(DEMANDED)).replace("living-room", "unknown");
    let stranger = read_json(text.as_bytes(), 65_536).unwrap();
    assert_eq!(help(&stranger, &keyring(), now()), None);
    assert_eq!(MAX_VERIFICATIONS, 32);
    for text in ["null", "{}", r#"{"sender":1,"signature":[]}"#] {
        let rules = chancery_core::json::ReadRules::VALUE_CONTEXT;
        let value: Value<'_> = read(text.as_bytes(), &rules).unwrap();
        assert_eq!(help(&value, &keyring(), now()), None, "{text}");
    }
}

// VX-ERR-2: at most 200 characters, and nothing of the message.
#[test]
fn a_refusal_says_it_in_words_and_members() {
    let sentence = "the signature verifies under no key of the sender";
    let refused = || Refusal::new("signature_invalid", 401, "VX-SIG-4", sentence).at("/signature");
    assert!(applies(&refused()));
    assert!(applies(
        &Refusal::new("schema_invalid", 400, "VX-SIG-5", "").at("/signature")
    ));
    assert!(!applies(
        &Refusal::new("schema_invalid", 400, "VX-ID-1", "").at("/message_id")
    ));
    assert!(!applies(
        &Refusal::new("key_not_valid", 401, "VX-KEY-5", "").at("/signature")
    ));

    let end = DEMANDED.find(r#","sender""#).unwrap();
    let text = received(&signed(&DEMANDED[11..end]));
    let mut refusal = refused();
    add(&mut refusal, text.as_bytes(), &keyring(), now());
    assert_eq!(
        refusal.message,
        format!("{sentence}; as payload_only it would verify, first difference at byte 2")
    );
    let details = r#"{"first_difference_at":2,"would_verify_as":"payload_only"}"#;
    assert_eq!(refusal.details.as_deref(), Some(details));
    let mut refusal = refused();
    add(
        &mut refusal,
        received("base64:AAAA").as_bytes(),
        &keyring(),
        now(),
    );
    assert_eq!(
        refusal.message,
        format!("{sentence}; no other dialect or encoding helps")
    );
    let details = r#"{"first_difference_at":null,"would_verify_as":null}"#;
    assert_eq!(refusal.details.as_deref(), Some(details));
    assert!(refusal.message.chars().count() <= 200);
    let mut refusal = refused();
    add(&mut refusal, b"not JSON", &keyring(), now());
    assert_eq!(refusal, refused());
}

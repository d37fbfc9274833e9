//! The window of time, verification and signing.

use crate::support::{SENDER, decode, envelope, keyring, now, sender_key, share, text_of, world};
use chancery_core::json::{Number, Object};
use chancery_core::keys::ed25519::SigningKey;
use chancery_core::time::Time;
use chancery_value_context::code::Code;
use chancery_value_context::message::Message;
use chancery_value_context::sign::seal;
use chancery_value_context::signature::{Form, SignatureText, SignedForms};
use chancery_value_context::verify::{Verified, check_window, verify, verify_signature};
use std::time::Duration;

fn signed_with(key: &SigningKey, envelope: Object<'static>) -> Message {
    decode(seal(envelope, key).bytes).unwrap()
}

fn code_of(message: &Message) -> Result<String, Code> {
    verify(message, &keyring(), now(), true)
        .map(|verified| verified.key_id.to_owned())
        .map_err(|fault| fault.code)
}

// VX-RPL-1
#[test]
fn both_ends_of_the_window_are_inside() {
    let code = |stamped: Time| check_window(stamped, now()).map_err(|fault| fault.code);
    let nanosecond = Duration::from_nanos(1);
    let oldest = now().saturating_sub(Duration::from_secs(300));
    let newest = now().saturating_add(Duration::from_secs(30));
    assert_eq!(code(oldest), Ok(()));
    assert_eq!(code(newest), Ok(()));
    assert_eq!(
        code(oldest.saturating_sub(nanosecond)),
        Err(Code::TimestampStale)
    );
    assert_eq!(
        code(newest.saturating_add(nanosecond)),
        Err(Code::TimestampFuture)
    );
    assert_eq!(code(Time::MIN), Err(Code::TimestampStale));
    assert_eq!(code(Time::MAX), Err(Code::TimestampFuture));
}

// VX-SIG-2, VX-SIG-4, VX-SIG-7, VX-KEY-5
#[test]
fn a_signature_counts_under_a_usable_key_of_the_sender() {
    let good = signed_with(&sender_key(), envelope(share()));
    assert_eq!(code_of(&good), Ok("k-03".to_owned()));
    let unsigned = decode(text_of(envelope(share()))).unwrap();
    assert_eq!(code_of(&unsigned), Err(Code::SignatureMissing));
    let other_key = signed_with(&SigningKey::from_seed(&[4; 32]), envelope(share()));
    assert_eq!(code_of(&other_key), Err(Code::SignatureInvalid));
    let parent = |seed: u8| {
        let sender = "agent://orchestrator.prod/parent-001";
        let envelope = envelope(share()).with("sender", sender);
        code_of(&signed_with(&SigningKey::from_seed(&[seed; 32]), envelope))
    };
    assert_eq!(parent(0x01), Ok("k-01".to_owned()));
    assert_eq!(parent(0x11), Ok("k-11".to_owned()), "rotating");
    for unusable in [0x12, 0x13, 0x14, 0x15, 0x16] {
        assert_eq!(parent(unusable), Err(Code::KeyNotValid), "{unusable:x}");
    }
}

// VX-RCV-1: an unknown sender is told before a signature that is not even 64 bytes.
#[test]
fn the_sender_is_looked_up_before_the_signature_is_judged() {
    let short = envelope(share()).with("signature", "base64:AAAA");
    let unknown = short.clone().with("sender", "agent://home.local/nobody");
    let message = decode(text_of(short)).unwrap();
    assert_eq!(code_of(&message), Err(Code::SignatureInvalid));
    let message = decode(text_of(unknown)).unwrap();
    assert_eq!(code_of(&message), Err(Code::SenderUnknown));
}

fn energy(token: &'static str) -> Object<'static> {
    let energy = Number::from_token(token).unwrap();
    envelope(share().with("personal_state", Object::new().with("energy", energy)))
}

// VX-CAN-7
#[test]
fn the_legacy_form_is_tried_where_it_differs_and_is_allowed() {
    let text = text_of(energy("7.0"));
    let unsigned = decode(text.clone()).unwrap();
    let legacy = unsigned.signed.legacy_if_different().unwrap();
    let signature = SignatureText::sign(legacy, &sender_key());
    let keys = keyring();
    let verdict = |accept_legacy| {
        verify_signature(
            SENDER,
            &unsigned.signed,
            &signature,
            &keys,
            now(),
            accept_legacy,
        )
        .map_err(|fault| fault.code)
    };
    let form = Form::Legacy;
    let key_id = "k-03";
    assert_eq!(verdict(true), Ok(Verified { key_id, form }));
    assert_eq!(verdict(false), Err(Code::SignatureInvalid));
    let integer = decode(text_of(energy("7"))).unwrap();
    assert_eq!(integer.signed.legacy_if_different(), None);
    assert_eq!(integer.signed.bytes(Form::Legacy), integer.signed.jcs());
}

// VX-CAN-6
#[test]
fn what_is_sent_has_its_numbers_normalized() {
    for (token, written, diverges) in [
        ("7.0", "7", false),
        ("7e0", "7", false),
        ("7.5", "7.5", false),
        ("-0.0", "0", false),
        ("1e15", "1000000000000000", false),
        ("1e20", "1e+20", true),
        ("1e-7", "1e-07", true),
    ] {
        let sealed = seal(energy(token), &sender_key());
        let text = String::from_utf8(sealed.bytes.to_vec()).unwrap();
        assert!(
            text.contains(&format!(r#""energy":{written}}}"#)),
            "{token}: {text}"
        );
        assert_eq!(sealed.diverges, diverges, "{token}");
        let value = chancery_value_context::message::read_json(&sealed.bytes, 65_536).unwrap();
        let keys = keyring();
        let verdict = verify_signature(
            SENDER,
            &SignedForms::of(&value),
            &sealed.signature,
            &keys,
            now(),
            false,
        );
        assert_eq!(verdict.unwrap().form, Form::Jcs, "{token}");
    }
}

// VX-TS-3
#[test]
fn what_is_sent_is_stamped_in_milliseconds() {
    let message = signed_with(&sender_key(), envelope(share()));
    assert_eq!(&*message.timestamp.text, "2026-02-15T10:33:30.000Z");
}

// VX-SIG-4: a signature is replaced, never covered.
#[test]
fn sealing_again_gives_the_same_bytes() {
    let once = seal(envelope(share()), &sender_key());
    let stale = envelope(share()).with("signature", "base64:AAAA");
    assert_eq!(seal(stale, &sender_key()), once);
}

// CH-CFG-5: the seeds of the world file sign for the keys of its trust part.
#[test]
fn hosted_agents_sign_with_the_keys_of_the_world() {
    let world = world();
    let keys = keyring();
    assert_eq!(world.secret_keys.len(), 3);
    for (agent, key) in &world.secret_keys {
        let record = keys.signing_key(agent.as_str(), now()).unwrap();
        assert_eq!(record.public, key.verifying_key().as_bytes());
    }
}

// VX-RPL-5
#[test]
fn a_message_for_one_agent_cannot_be_turned_to_another() {
    let text = String::from_utf8(seal(envelope(share()), &sender_key()).bytes.to_vec()).unwrap();
    let message = decode(text.clone()).unwrap();
    code_of(&message).unwrap();
    let recipient = message.recipient.as_str();
    let turned = text.replace(
        &format!("\"{recipient}\""),
        "\"agent://home.local/living-room-agent\"",
    );
    assert_ne!(turned, text);
    let turned = decode(turned).unwrap();
    assert_eq!(code_of(&turned), Err(Code::SignatureInvalid));
}

// VX-ID-4
#[test]
fn an_identifier_of_another_day_is_worth_a_warning_and_no_refusal() {
    let off = |id: &'static str| {
        let mut members = envelope(share());
        members.insert("message_id", id);
        decode(text_of(members)).unwrap().identifier_is_off()
    };
    // 2025-02-14 and 2026-02-15T10:33:00Z, under a timestamp of the latter day.
    assert!(off("019502a4-7e5c-7000-8000-000000000001"));
    assert!(!off("019c60dc-5b60-7000-8000-000000000001"));
}

//! Properties over random input (VX-TST-2).

use crate::support::{SENDER, decode, envelope, keyring, now, sender_key, share};
use chancery_core::json::{Number, Object, Value};
use chancery_value_context::context::{Context, validate};
use chancery_value_context::message::{DEFAULT_MAX_BYTES, read_json};
use chancery_value_context::sign::seal;
use chancery_value_context::signature::{Form, SignatureText, SignedForms};
use chancery_value_context::verify::{verify, verify_signature};
use proptest::collection::vec;
use proptest::prelude::*;
use std::sync::OnceLock;

const MAX_SAFE: i64 = (1 << 53) - 1;

fn any_value() -> impl Strategy<Value = Value<'static>> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        (-MAX_SAFE..=MAX_SAFE).prop_map(Value::from),
        any::<f64>().prop_filter_map("finite", |value| {
            // Debug always writes a fraction or an exponent, so no integer token gets too large.
            value
                .is_finite()
                .then(|| Number::from_token(format!("{value:?}")).unwrap().into())
        }),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::Array),
            vec((any::<String>(), inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Characters that contexts are made of, and a few that they are not.
fn context_like() -> impl Strategy<Value = String> {
    let pieces = [
        "⏰",
        "📍",
        "👥",
        "🌡",
        "🔶",
        "🌅",
        "☀",
        "🚨",
        "👶",
        "👨",
        "\u{200D}",
        "\u{FE0F}",
        "\u{20E3}",
        "🇺",
        "🇸",
        "1",
        "#",
        "🏽",
        "🪢",
        "🎩",
        "🦄",
        "x",
        " ",
        "|",
        "|",
        "‖",
        "\u{E0067}",
        "○",
        "家",
    ];
    vec(proptest::sample::select(pieces.to_vec()), 0..24).prop_map(|pieces| pieces.concat())
}

#[derive(Clone, Debug)]
enum Mutation {
    Replace(u8),
    Insert(u8),
    Delete,
    SwapWithNext,
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let byte = prop_oneof![
        any::<u8>(),
        proptest::sample::select(&b"0123456789eE.+- \t\"\\{}[],:=/aA"[..])
    ];
    prop_oneof![
        byte.clone().prop_map(Mutation::Replace),
        byte.prop_map(Mutation::Insert),
        Just(Mutation::Delete),
        Just(Mutation::SwapWithNext),
    ]
}

fn mutate(text: &mut Vec<u8>, at: usize, mutation: &Mutation) {
    let at = at % text.len();
    match mutation {
        Mutation::Replace(byte) => text[at] = *byte,
        Mutation::Insert(byte) => text.insert(at, *byte),
        Mutation::Delete => drop(text.remove(at)),
        Mutation::SwapWithNext => {
            let next = (at + 1) % text.len();
            text.swap(at, next);
        }
    }
}

/// The value with every number as a double, read by another reader.
fn meaning(text: &[u8]) -> serde_json::Value {
    fn doubles(value: serde_json::Value) -> serde_json::Value {
        use serde_json::Value as Json;
        match value {
            Json::Number(number) => number.as_f64().unwrap().into(),
            Json::Array(items) => items.into_iter().map(doubles).collect(),
            Json::Object(members) => Json::Object(
                members
                    .into_iter()
                    .map(|(name, value)| (name, doubles(value)))
                    .collect(),
            ),
            other => other,
        }
    }
    doubles(serde_json::from_slice(text).unwrap())
}

fn signed_text() -> &'static [u8] {
    static TEXT: OnceLock<Vec<u8>> = OnceLock::new();
    TEXT.get_or_init(|| {
        let state = Object::new()
            .with("cognitive", 6_i64)
            .with("energy", Number::from_token("7.5").unwrap());
        let sealed = seal(
            envelope(share().with("personal_state", state)),
            &sender_key(),
        );
        sealed.bytes.to_vec()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    // VX-TST-2, VX-SIG-4, VX-CAN-8
    #[test]
    fn a_changed_message_never_verifies(at in any::<usize>(), mutation in mutation(), more in vec((any::<usize>(), mutation()), 0..2)) {
        static KEYS: OnceLock<chancery_core::keys::Keyring> = OnceLock::new();
        let mut text = signed_text().to_vec();
        mutate(&mut text, at, &mutation);
        for (at, mutation) in &more {
            mutate(&mut text, *at, mutation);
        }
        if let Ok(message) = decode(text.clone())
            && verify(&message, KEYS.get_or_init(keyring), now(), true).is_ok()
        {
            prop_assert_eq!(meaning(&text), meaning(signed_text()));
        }
    }

    // VX-TST-2
    #[test]
    fn decoding_never_panics(bytes in vec(any::<u8>(), 0..300)) {
        let _ = decode(bytes);
    }

    // VX-TST-2
    #[test]
    fn decoding_never_panics_on_json(value in any_value(), name in proptest::sample::select(vec!["payload", "sender", "timestamp", "type", "signature"])) {
        let text = seal(envelope(share()).with(name, value.clone()), &sender_key()).bytes;
        let _ = decode(text);
        let _ = decode(seal(envelope(share().with("context", value)), &sender_key()).bytes);
    }

    // VX-TST-2, VX-CAN-6
    #[test]
    fn what_is_signed_verifies(payload in any_value()) {
        let sealed = seal(envelope(Object::new().with("value", payload)), &sender_key());
        let value = read_json(&sealed.bytes, DEFAULT_MAX_BYTES);
        prop_assume!(sealed.bytes.len() <= DEFAULT_MAX_BYTES);
        let value = value.unwrap();
        let signature = SignatureText::parse(value.get("signature").unwrap().as_str().unwrap()).unwrap();
        prop_assert_eq!(&signature, &sealed.signature);
        let keys = keyring();
        let verdict = verify_signature(SENDER, &SignedForms::of(&value), &signature, &keys, now(), false);
        prop_assert_eq!(verdict.unwrap().form, Form::Jcs);
    }

    // VX-CTX-1 to VX-CTX-10: the check and the parse agree, and a canonical form is a fixed point.
    #[test]
    fn contexts_are_judged_alike_and_canonical_forms_are_stable(text in context_like()) {
        let parsed = Context::parse(&text);
        prop_assert_eq!(validate(&text), parsed.as_ref().map(|_| ()).map_err(|fault| *fault));
        if let Ok(context) = parsed {
            let canonical = context.canonical();
            let again = Context::parse(&canonical).unwrap();
            prop_assert_eq!(&again.canonical(), &canonical);
            prop_assert_eq!(again.risk_level(), context.risk_level());
            prop_assert!(chancery_value_context::context::change(&context, &again).is_none());
        }
    }

    #[test]
    fn any_text_is_judged_without_panic(text in any::<String>()) {
        let _ = Context::parse(&text);
        let _ = chancery_value_context::creed::CreedRef::parse(&text);
        let _ = chancery_value_context::agent_id::AgentUri::parse(&text);
        let _ = chancery_value_context::world::World::parse(text.as_bytes());
    }
}

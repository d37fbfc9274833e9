//! Logs to read: of administration alone, and of the test protocol.

use bytes::Bytes;
use chancery_core::admin::{Act, TokenRecord};
use chancery_core::keys::KeyState;
use chancery_core::time::Time;
use chancery_testkit::inputs::{config_act, host_act, key_act, key_of, signed, unsigned};
use chancery_testkit::{Decided, TestHost, TestInput, TestSettings};

/// Lines with newlines.
pub fn text(lines: &[Bytes]) -> Vec<u8> {
    let mut text = Vec::new();
    for line in lines {
        text.extend_from_slice(line);
        text.push(b'\n');
    }
    text
}

fn now() -> Time {
    Time::from_unix_micros(1_771_150_000_000_000).unwrap()
}

fn decide(host: &mut TestHost, input: &TestInput) {
    let decided = host.decide(input, now());
    assert!(matches!(decided, Decided::Recorded(_)), "{decided:?}");
}

/// A log that holds administration alone: a configuration, keys, tokens.
pub fn administration(keys: usize) -> Vec<Bytes> {
    let mut host = TestHost::default();
    decide(&mut host, &config_act(&TestSettings::default()));
    for number in 0..keys {
        let owner = format!("agent-{number}");
        let key = key_of(&owner);
        decide(&mut host, &key_act(&owner, "k-01", &key, KeyState::Active));
    }
    let token = TokenRecord {
        id: "t1".to_owned(),
        principal: "admin".to_owned(),
        scopes: vec!["admin".to_owned()],
        addresses: Vec::new(),
        consumer_id: None,
        merchant_id: None,
        agent: None,
        revoked: false,
    };
    decide(&mut host, &TestInput::Admin(Act::Token(token)));
    host.lines().to_vec()
}

/// A log of the test protocol: signed notes of ann, whose key changes twice, and a batch of four lines in the middle.
pub fn conversation(notes_between: usize) -> Vec<Bytes> {
    let mut host = TestHost::default();
    decide(&mut host, &config_act(&TestSettings::default()));
    decide(&mut host, &host_act("bob", None));
    for round in 0..3 {
        let key = key_of(&format!("ann-{round}"));
        let id = format!("k-{round}");
        decide(&mut host, &key_act("ann", &id, &key, KeyState::Active));
        for note in 0..notes_between {
            let envelope = unsigned(
                &format!("n-{round}-{note}"),
                "ann",
                "bob",
                "note",
                Some("hello"),
            );
            receive(&mut host, signed(&key, &envelope));
        }
        let batch = unsigned(&format!("b-{round}"), "ann", "bob", "batch", None);
        receive(&mut host, signed(&key, &batch));
    }
    host.lines().to_vec()
}

fn receive(host: &mut TestHost, envelope: Bytes) {
    let decided = host.receive(envelope, now());
    assert!(matches!(decided, Decided::Recorded(_)), "{decided:?}");
}

//! Under which key a signature counts.

use std::time::Duration;

use chancery_core::keys::ed25519::decode_public_key;
use chancery_core::keys::{Algorithm, KeyRecord, KeyState, Keyring, Verdict, p256};
use chancery_core::time::Time;
use proptest::prelude::*;

use crate::keys_keyring::{OWNER, record, secret, time};
use crate::keys_vectors::{text, vectors};

const NOW: &str = "2026-02-15T10:33:30Z";
const MESSAGE: &[u8] = b"what was said";

/// The keyring of the world that all value-context vectors share.
fn world() -> Keyring {
    let world = vectors("value-context/world.json");
    let mut keys = Keyring::new();
    for (owner, anchor) in world["trust"]["trust_anchors"].as_object().unwrap() {
        for key in anchor["keys"].as_array().unwrap() {
            let public = decode_public_key(text(key, "public_key")).unwrap();
            let record = KeyRecord {
                id: text(key, "id").to_owned(),
                owner: owner.clone(),
                algorithm: Algorithm::Ed25519,
                public: public.as_bytes().to_vec(),
                state: serde_json::from_value(key["state"].clone()).unwrap(),
                valid_from: Some(time(text(key, "valid_from"))),
                valid_until: Some(time(text(key, "valid_until"))),
                source: chancery_core::keys::KeySource::Operator,
                removed: false,
            };
            keys.insert(record).unwrap();
        }
    }
    keys
}

fn verdict(keys: &Keyring, seed: u8) -> Verdict<'_> {
    let signature = secret(seed).sign(MESSAGE);
    keys.verify(OWNER, MESSAGE, &signature, time(NOW))
}

// VX-KEY-3, VX-KEY-5, VX-SIG-7: one sender with a key in every state.
#[test]
fn each_state_has_its_verdict() {
    let keys = world();
    let verified = |key_id| Verdict::Verified { key_id };
    let not_valid = |key_id| Verdict::NotValid { key_id };
    for (seed, expected) in [
        (0x01, verified("k-01")),
        (0x11, verified("k-11")),
        (0x12, not_valid("k-12")),
        (0x13, not_valid("k-13")),
        (0x14, not_valid("k-14")),
        (0x15, not_valid("k-15")),
        (0x16, not_valid("k-16")),
        // Another sender's key, and nobody's.
        (0x02, Verdict::Invalid),
        (0x0f, Verdict::Invalid),
    ] {
        assert_eq!(verdict(&keys, seed), expected, "seed {seed:#x}");
    }
    let signature = secret(0x0f).sign(MESSAGE);
    assert_eq!(
        keys.verify("agent://nowhere/nobody", MESSAGE, &signature, time(NOW)),
        Verdict::UnknownOwner
    );
    for bad in [&[][..], &signature[..63], &[0; 64]] {
        assert_eq!(
            keys.verify(OWNER, MESSAGE, bad, time(NOW)),
            Verdict::Invalid
        );
    }
}

// VX-KEY-3: both ends included, and the nanosecond after is not.
#[test]
fn validity_ends_are_included() {
    let (from, until) = (time("2026-01-01T00:00:00Z"), time("2026-02-01T00:00:00Z"));
    let mut key = record("k", 1, KeyState::Active);
    key.valid_from = Some(from);
    key.valid_until = Some(until);
    let mut keys = Keyring::new();
    keys.insert(key).unwrap();
    let signature = secret(1).sign(MESSAGE);
    let at = |now: Time| keys.verify(OWNER, MESSAGE, &signature, now);
    let tick = Duration::from_nanos(1);
    let verified = Verdict::Verified { key_id: "k" };
    let not_valid = Verdict::NotValid { key_id: "k" };
    assert_eq!(at(from.checked_sub(tick).unwrap()), not_valid);
    assert_eq!(at(from), verified);
    assert_eq!(at(until), verified);
    assert_eq!(at(until.checked_add(tick).unwrap()), not_valid);
}

// VX-KEY-4: a compromised key is refused from then on.
#[test]
fn a_compromised_key_is_refused_at_once() {
    let mut keys = Keyring::new();
    keys.insert(record("k", 1, KeyState::Active)).unwrap();
    assert_eq!(verdict(&keys, 1), Verdict::Verified { key_id: "k" });
    keys.update(record("k", 1, KeyState::Compromised)).unwrap();
    assert_eq!(verdict(&keys, 1), Verdict::NotValid { key_id: "k" });
    keys.remove(OWNER, "k").unwrap();
    assert_eq!(verdict(&keys, 1), Verdict::UnknownOwner);
}

// VX-SIG-7: at most eight usable keys are tried, newest first; those that are not usable do not count.
#[test]
fn the_ninth_usable_key_is_not_tried() {
    let mut keys = Keyring::new();
    for seed in 1..=9u8 {
        let state = if seed % 2 == 0 {
            KeyState::Active
        } else {
            KeyState::Rotating
        };
        keys.insert(record(&format!("k-{seed}"), seed, state))
            .unwrap();
        keys.insert(record(&format!("p-{seed}"), 100 + seed, KeyState::Pending))
            .unwrap();
    }
    assert_eq!(verdict(&keys, 9), Verdict::Verified { key_id: "k-9" });
    assert_eq!(verdict(&keys, 2), Verdict::Verified { key_id: "k-2" });
    assert_eq!(verdict(&keys, 1), Verdict::Invalid);
    assert_eq!(verdict(&keys, 101), Verdict::NotValid { key_id: "p-1" });
    keys.remove(OWNER, "k-5").unwrap();
    assert_eq!(verdict(&keys, 1), Verdict::Verified { key_id: "k-1" });
}

#[test]
fn p256_keys_verify_too() {
    let signer = p256::SigningKey::from_scalar(&[7; 32]).unwrap();
    let mut key = record("e-1", 1, KeyState::Active);
    key.algorithm = Algorithm::Es256;
    key.public = signer.verifying_key().as_bytes().to_vec();
    let mut keys = Keyring::new();
    keys.insert(key).unwrap();
    keys.insert(record("k-1", 1, KeyState::Active)).unwrap();
    let signature = signer.sign(MESSAGE);
    assert_eq!(
        keys.verify(OWNER, MESSAGE, &signature, time(NOW)),
        Verdict::Verified { key_id: "e-1" }
    );
    assert_eq!(verdict(&keys, 1), Verdict::Verified { key_id: "k-1" });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Any set of up to eight keys: the verdict follows from the signer's record alone.
    #[test]
    fn the_verdict_follows_from_the_signers_record(
        states in prop::collection::vec(prop::sample::select(&KeyState::ALL[..]), 1..8), signer in 0..8usize,
    ) {
        let mut keys = Keyring::new();
        for (index, state) in states.iter().enumerate() {
            let seed = u8::try_from(index).unwrap();
            keys.insert(record(&format!("k-{index}"), seed, *state)).unwrap();
        }
        let id = format!("k-{signer}");
        let expected = match states.get(signer) {
            Some(state) if state.usable() => Verdict::Verified { key_id: &id },
            Some(_) => Verdict::NotValid { key_id: &id },
            None => Verdict::Invalid,
        };
        prop_assert_eq!(verdict(&keys, u8::try_from(signer).unwrap()), expected);
    }
}

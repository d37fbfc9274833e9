//! The keyring: states, records and changes.

use std::time::Duration;

use chancery_core::keys::ed25519::{PublicKeyError, SigningKey};
use chancery_core::keys::{Algorithm, KeyRecord, KeySource, KeyState, Keyring, KeyringError};
use chancery_core::time::{Time, parse_value_context};
use proptest::prelude::*;

use KeyState::{Active, Compromised, Pending, Retired, Revoked, Rotating};

pub const OWNER: &str = "agent://orchestrator.prod/parent-001";

pub fn secret(seed: u8) -> SigningKey {
    SigningKey::from_seed(&[seed; 32])
}

pub fn time(text: &str) -> Time {
    parse_value_context(text).unwrap()
}

/// A key of [`OWNER`] made from a repeated byte, without limits in time.
pub fn record(id: &str, seed: u8, state: KeyState) -> KeyRecord {
    KeyRecord {
        id: id.to_owned(),
        owner: OWNER.to_owned(),
        algorithm: Algorithm::Ed25519,
        public: secret(seed).verifying_key().as_bytes().to_vec(),
        state,
        valid_from: None,
        valid_until: None,
        source: chancery_core::keys::KeySource::Operator,
        removed: false,
    }
}

// VX-KEY-4: every pair of states.
#[test]
fn only_the_listed_moves_are_allowed() {
    let allowed = [
        (Pending, Active),
        (Active, Rotating),
        (Rotating, Retired),
        (Active, Compromised),
        (Rotating, Compromised),
        (Compromised, Revoked),
    ];
    for from in KeyState::ALL {
        for to in KeyState::ALL {
            assert_eq!(
                from.may_become(to),
                allowed.contains(&(from, to)),
                "{from} to {to}"
            );
        }
    }
    assert!(
        !KeyState::ALL.iter().any(|to| Revoked.may_become(*to)),
        "revoked is final"
    );
}

// VX-KEY-4: the keyring holds to it.
#[test]
fn an_update_makes_only_allowed_moves() {
    for from in KeyState::ALL {
        for to in KeyState::ALL {
            let mut keys = Keyring::new();
            keys.insert(record("k", 1, from)).unwrap();
            let moved = keys.update(record("k", 1, to));
            if from == to || from.may_become(to) {
                assert_eq!(moved, Ok(()));
                assert_eq!(keys.get(OWNER, "k").unwrap().state, to);
            } else {
                assert_eq!(moved, Err(KeyringError::Move { from, to }));
                assert_eq!(keys.get(OWNER, "k").unwrap().state, from);
                assert_eq!(keys.version(), 1);
            }
        }
    }
}

// VX-KEY-3: active and rotating, within the validity, both ends included.
#[test]
fn usable_is_a_matter_of_state_and_time() {
    let (from, until) = (time("2026-01-01T00:00:00Z"), time("2027-01-01T00:00:00Z"));
    let tick = Duration::from_nanos(1);
    for state in KeyState::ALL {
        let usable = matches!(state, Active | Rotating);
        assert_eq!(state.usable(), usable);
        let mut key = record("k", 1, state);
        assert_eq!(key.usable_at(Time::MIN), usable);
        assert_eq!(key.usable_at(Time::MAX), usable);
        key.valid_from = Some(from);
        key.valid_until = Some(until);
        assert_eq!(key.usable_at(from), usable);
        assert_eq!(key.usable_at(until), usable);
        assert!(!key.usable_at(from.checked_sub(tick).unwrap()));
        assert!(!key.usable_at(until.checked_add(tick).unwrap()));
    }
}

// VX-KEY-3: signing uses the active key, the newest if there are more, and only within its validity.
#[test]
fn the_active_key_signs() {
    let now = time("2026-02-15T10:30:00Z");
    let mut keys = Keyring::new();
    assert_eq!(keys.signing_key(OWNER, now), None);
    keys.insert(record("k-9", 9, Rotating)).unwrap();
    assert_eq!(keys.signing_key(OWNER, now), None);
    keys.insert(record("k-1", 1, Active)).unwrap();
    assert_eq!(keys.signing_key(OWNER, now).unwrap().id, "k-1");

    let mut newer = record("k-0", 2, Active);
    newer.valid_from = Some(now);
    keys.insert(newer).unwrap();
    assert_eq!(keys.signing_key(OWNER, now).unwrap().id, "k-0");
    let before = now.checked_sub(Duration::from_nanos(1)).unwrap();
    assert_eq!(keys.signing_key(OWNER, before).unwrap().id, "k-1");
}

// VX-SIG-7: newest is the latest valid_from, then the greatest id; no beginning is the oldest.
#[test]
fn records_are_newest_first() {
    let mut keys = Keyring::new();
    for (id, seed, from) in [
        ("b", 1, None),
        ("c", 2, Some("2026-01-01T00:00:00Z")),
        ("a", 3, Some("2026-02-01T00:00:00Z")),
        ("d", 4, Some("2026-01-01T00:00:00Z")),
        ("e", 5, None),
    ] {
        let mut key = record(id, seed, Active);
        key.valid_from = from.map(time);
        keys.insert(key).unwrap();
    }
    let order: Vec<_> = keys.records(OWNER).map(|key| key.id.as_str()).collect();
    assert_eq!(order, ["a", "d", "c", "e", "b"]);

    let mut moved = keys.get(OWNER, "b").unwrap().clone();
    moved.valid_from = Some(time("2026-03-01T00:00:00Z"));
    keys.update(moved).unwrap();
    assert_eq!(keys.records(OWNER).next().unwrap().id, "b");
}

#[test]
fn changes_that_make_no_sense_are_refused() {
    let mut keys = Keyring::new();
    keys.insert(record("k-1", 1, Revoked)).unwrap();
    let before = keys.version();

    assert_eq!(
        keys.insert(record("k-1", 2, Active)),
        Err(KeyringError::KnownId)
    );
    // VX-KEY-4: revoked is final, also under another name.
    assert_eq!(
        keys.insert(record("k-2", 1, Active)),
        Err(KeyringError::KnownKey)
    );
    assert_eq!(
        keys.update(record("k-1", 2, Revoked)),
        Err(KeyringError::OtherKey)
    );
    assert_eq!(
        keys.update(record("k-3", 1, Revoked)),
        Err(KeyringError::UnknownId)
    );
    let mut stranger = record("k-1", 1, Revoked);
    stranger.owner = "someone else".to_owned();
    assert_eq!(keys.update(stranger), Err(KeyringError::UnknownId));
    assert_eq!(keys.remove(OWNER, "k-3"), None);

    let mut backwards = record("k-4", 4, Active);
    backwards.valid_from = Some(time("2026-01-02T00:00:00Z"));
    backwards.valid_until = Some(time("2026-01-01T00:00:00Z"));
    assert_eq!(keys.insert(backwards), Err(KeyringError::EmptyValidity));

    // VX-SIG-6: keys are checked when they are put in.
    let mut weak = record("k-5", 5, Active);
    weak.public = vec![0; 32];
    assert_eq!(
        keys.insert(weak),
        Err(KeyringError::Ed25519(PublicKeyError::SmallOrder))
    );
    let mut other = record("k-6", 6, Active);
    other.algorithm = Algorithm::Es256;
    assert!(matches!(keys.insert(other), Err(KeyringError::P256(_))));
    assert_eq!(keys.version(), before);
}

#[test]
fn every_change_raises_the_version_and_copies_stay_as_they_are() {
    let mut keys = Keyring::new();
    keys.insert(record("k-1", 1, Active)).unwrap();
    let copy = keys.clone();
    keys.update(record("k-1", 1, Rotating)).unwrap();
    assert_eq!((copy.version(), keys.version()), (1, 2));
    assert_eq!(copy.get(OWNER, "k-1").unwrap().state, Active);
    assert_eq!(keys.owners().collect::<Vec<_>>(), [OWNER]);

    assert_eq!(keys.remove(OWNER, "k-1").unwrap().id, "k-1");
    assert_eq!(keys.version(), 3);
    assert_eq!(keys.owners().count(), 0);
    assert_eq!(copy.records(OWNER).count(), 1);
}

#[test]
fn a_record_has_this_json() {
    let mut key = record("k-01", 1, Active);
    key.valid_from = Some(time("2026-01-01T00:00:00Z"));
    let json = r#"{"id":"k-01","owner":"agent://orchestrator.prod/parent-001","algorithm":"ed25519","public":"base64:iojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w=","state":"active","valid_from":"2026-01-01T00:00:00Z","valid_until":null}"#;
    assert_eq!(serde_json::to_string(&key).unwrap(), json);
    assert_eq!(serde_json::from_str::<KeyRecord>(json).unwrap(), key);
    for (old, new) in [
        ("active", "Active"),
        ("ed25519", "rsa"),
        ("base64:", ""),
        ("b1w=", "b1w"),
        ("\"id\"", "\"extra\":1,\"id\""),
    ] {
        let bad = json.replacen(old, new, 1);
        assert!(serde_json::from_str::<KeyRecord>(&bad).is_err(), "{bad}");
    }
}

proptest! {
    #[test]
    fn records_round_trip_through_json(
        id in "\\PC{0,20}", owner in "\\PC{0,40}", public in prop::collection::vec(any::<u8>(), 0..70),
        state in prop::sample::select(&KeyState::ALL[..]), es256 in any::<bool>(),
        valid_from in prop::option::of(crate::time_arithmetic::any_time()),
        valid_until in prop::option::of(crate::time_arithmetic::any_time()),
        source in prop::sample::select(vec![KeySource::Operator, KeySource::File, KeySource::Spawn]),
        removed in any::<bool>(),
    ) {
        let algorithm = if es256 { Algorithm::Es256 } else { Algorithm::Ed25519 };
        let key = KeyRecord {
            id, owner, algorithm, public, state, valid_from, valid_until, source, removed,
        };
        let json = serde_json::to_string(&key).unwrap();
        prop_assert_eq!(serde_json::from_str::<KeyRecord>(&json).unwrap(), key);
    }
}

//! The trust profile behind the rules.

use chancery_agh::conformance::host::Host;
use chancery_agh::settings::{Settings, Trust};
use chancery_agh::trust::{handle, key_id, sign};
use chancery_core::canonical::{Dialect, to_bytes};
use chancery_core::json::{ReadRules, Value as Json, read};
use chancery_core::keys::ed25519::SigningKey;
use serde_json::{Value, json};

use crate::support::{CHANNEL, NOW, WORKER, direct, emitted, envelope, error};

fn key() -> SigningKey {
    SigningKey::from_seed(&[9; 32])
}

fn signer() -> String {
    handle("worker", key().verifying_key().as_bytes()).unwrap()
}

fn signed(envelope: &Value) -> Vec<u8> {
    let text = envelope.to_string();
    let value = read(text.as_bytes(), &ReadRules::AGH).unwrap().into_owned();
    let Json::Object(members) = value else {
        panic!("an object")
    };
    to_bytes(
        &Json::Object(sign(members, &key()).unwrap()),
        Dialect::Rfc8785,
    )
}

fn host(trust: Trust) -> Host {
    let settings = Settings {
        trust: Trust {
            enabled: true,
            ..trust
        },
        ..Settings::default()
    };
    let mut host = Host::new(settings).keeping_units();
    host.host_named(None, CHANNEL, WORKER).unwrap();
    host
}

fn say(id: &str) -> Value {
    envelope(
        id,
        json!({"kind": "say", "from": signer(), "body": {"text": "x"}}),
    )
}

// AG-TRU-1, AG-TRU-8, AG-CON-2, AG-EXT-7
#[test]
fn a_good_proof_is_verified_a_bad_one_stops_the_envelope() {
    let mut host = host(Trust::default());
    let good = host.receive(signed(&say("m1")), NOW);
    assert_eq!((good.trust, good.deliver_to.len()), ("verified", 1));
    let meta = &host.units().last().unwrap().drafts[0].meta;
    assert!(meta.iter().any(|(name, _)| *name == "key"));
    let mut changed: Value = serde_json::from_slice(&signed(&say("m2"))).unwrap();
    changed["body"]["text"] = "y".into();
    let bad = host.receive(changed.to_string(), NOW);
    assert_eq!(
        (error(&bad), bad.trust, bad.deliver_to.len()),
        ("proof_invalid", "rejected", 0)
    );
    assert_eq!(bad.fault.unwrap().reason().as_str(), "verification_failed");
    assert_eq!(
        error(&host.receive(say("m3").to_string(), NOW)),
        "proof_stripped"
    );
    // Without the profile a proof is opaque, and a handle is no Peer ID.
    let mut off = Host::new(Settings::default());
    off.host_named(None, CHANNEL, WORKER).unwrap();
    assert_eq!(
        error(&off.receive(signed(&say("m1")), NOW)),
        "invalid_peer_id"
    );
    let opaque = envelope(
        "m4",
        json!({"kind": "say", "body": {"text": "x"}, "proof": {"profile": 7}}),
    );
    let outcome = off.receive(opaque.to_string(), NOW);
    assert_eq!((error(&outcome), outcome.trust), ("", "unverified"));
}

// AG-TRU-8, AG-RCT-2, AG-VAL-6
#[test]
fn freshness_and_body_rank_before_the_proof_and_work_gets_a_receipt() {
    let mut host = host(Trust::default());
    let mut ask = direct("m1", "int_1");
    ask["from"] = signer().into();
    let bare = host.receive(ask.to_string(), NOW);
    assert_eq!(error(&bare), "proof_stripped");
    assert_eq!(
        emitted(&bare)[0]["body"]["reason_code"],
        "verification_failed"
    );
    ask["expires_at"] = 1.into();
    assert_eq!(error(&host.receive(ask.to_string(), NOW)), "expired");
    ask["expires_at"] = (NOW + 60).into();
    ask["body"] = json!({});
    assert_eq!(error(&host.receive(ask.to_string(), NOW)), "invalid_body");
}

/// A policy, and whether it lets a signed and an unsigned envelope pass.
fn policies() -> [(Trust, bool, bool); 7] {
    let own = key_id(key().verifying_key().as_bytes());
    let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
    [
        (
            Trust {
                deny: vec![signer()],
                ..Trust::default()
            },
            false,
            true,
        ),
        (
            Trust {
                allow: vec![signer()],
                ..Trust::default()
            },
            true,
            false,
        ),
        (
            Trust {
                verified_channels: names(&[CHANNEL]),
                ..Trust::default()
            },
            true,
            false,
        ),
        (
            Trust {
                verified_kinds: names(&["say"]),
                ..Trust::default()
            },
            true,
            false,
        ),
        (
            Trust {
                verified_kinds: names(&["direct"]),
                ..Trust::default()
            },
            true,
            true,
        ),
        (
            Trust {
                pins: vec![format!("{}={own}", signer())],
                ..Trust::default()
            },
            true,
            true,
        ),
        (
            Trust {
                pins: vec![format!("{}=sha256:00", signer())],
                ..Trust::default()
            },
            false,
            true,
        ),
    ]
}

// AG-TRU-9
#[test]
fn local_policy_comes_after_verification() {
    let plain = envelope("p", json!({"kind": "say", "body": {"text": "x"}})).to_string();
    for (trust, signed_passes, plain_passes) in policies() {
        let mut host = host(trust.clone());
        assert_eq!(
            error(&host.receive(signed(&say("s")), NOW)).is_empty(),
            signed_passes,
            "{trust:?}"
        );
        assert_eq!(
            error(&host.receive(plain.clone(), NOW)).is_empty(),
            plain_passes,
            "{trust:?}"
        );
    }
}

// AG-TRU-9
#[test]
fn an_unknown_profile_is_refused_where_the_policy_says_so() {
    let strict = Trust {
        reject_unknown_profiles: true,
        ..Trust::default()
    };
    let foreign = envelope(
        "f",
        json!({"kind": "say", "body": {"text": "x"}, "proof": {"profile": "other/v9"}}),
    );
    let refused = host(strict).receive(foreign.to_string(), NOW);
    assert_eq!(
        refused.fault.unwrap().reason().as_str(),
        "unsupported_profile"
    );
    assert_eq!(
        error(&host(Trust::default()).receive(foreign.to_string(), NOW)),
        ""
    );
}

// AG-TRU-10
#[test]
fn extensions_are_named_with_a_prefix_when_signing() {
    let with = |ext: Value| {
        let mut said = say("m");
        said["ext"] = ext;
        let text = said.to_string();
        let value = read(text.as_bytes(), &ReadRules::AGH).unwrap().into_owned();
        let Json::Object(members) = value else {
            panic!("an object")
        };
        sign(members, &key()).is_some()
    };
    assert!(with(json!({"acme.priority": "high"})));
    assert!(!with(json!({"priority": "high"})));
}

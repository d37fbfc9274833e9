//! What a node says by itself in the name of a peer with a key: proven, or not said at all.

use chancery_agh::Agh;
use chancery_agh::message::Message;
use chancery_agh::peer::PeerRecord;
use chancery_agh::settings::{Settings, Trust};
use chancery_agh::trust::TrustState;
use chancery_agh::whois::Catalog;
use chancery_core::delivery::Whisper;
use chancery_core::keys::ed25519::SigningKey;
use chancery_core::protocol::Protocol as _;
use serde_json::{Value, json};

use crate::support::{CHANNEL, NOW, envelope, error};
use chancery_agh::conformance::host::Host;

fn key() -> SigningKey {
    SigningKey::from_seed(&[9; 32])
}

fn settings() -> Settings {
    Settings {
        trust: Trust {
            enabled: true,
            ..Trust::default()
        },
        ..Settings::default()
    }
}

fn plain(nickname: &str) -> PeerRecord {
    PeerRecord::new(
        nickname,
        CHANNEL,
        None,
        None,
        Vec::new(),
        Catalog::default(),
    )
}

fn proven() -> PeerRecord {
    plain("worker")
        .with_key(key().verifying_key().as_bytes())
        .unwrap()
}

fn host(record: &PeerRecord) -> Host {
    let mut host = Host::new(settings());
    host.host(record).unwrap();
    host
}

/// What a receiver makes of it once it is signed.
fn trust_of(whisper: &Whisper) -> TrustState {
    let mut sign = |message: &[u8]| Some(key().sign(message));
    let sealed = Agh.seal(&whisper.bytes, &mut sign).unwrap();
    Message::decode(sealed, &settings(), None).unwrap().trust
}

// AG-TRU-3, AG-TRU-11
#[test]
fn a_peer_with_a_key_is_named_by_its_handle_and_says_so() {
    let record = proven();
    let id = &record.card.peer_id;
    assert!(id.starts_with("worker@") && id.len() == "worker@".len() + 32);
    assert_eq!(record.card.trust_modes_supported, ["verified"]);
    assert!(
        record
            .card
            .profiles_supported
            .iter()
            .any(|profile| profile.contains("trust.ed25519"))
    );
    // The whole handle may be written too, and no other's.
    let public = *key().verifying_key().as_bytes();
    assert_eq!(plain(id).with_key(&public).unwrap().card.peer_id, *id);
    let other = *SigningKey::from_seed(&[1; 32]).verifying_key().as_bytes();
    assert!(plain(id).with_key(&other).is_none());
    assert!(plain("Not A Nickname").with_key(&public).is_none());
}

// AG-TRU-7, AG-TRU-10, AG-WHO-5, AG-RCT-4
#[test]
fn answers_and_receipts_of_such_a_peer_are_proven() {
    let record = proven();
    let mut host = host(&record);
    let ask = envelope("q1", json!({"kind": "whois", "body": {"type": "request"}}));
    assert_eq!(error(&host.receive(ask.to_string(), NOW)), "");
    let stale = envelope(
        "d1",
        json!({
            "kind": "direct", "to": record.card.peer_id, "interaction_id": "i", "expires_at": 1,
            "body": {"text": "x"},
        }),
    );
    assert_eq!(error(&host.receive(stale.to_string(), NOW)), "expired");
    let whispers = host.take_whispers();
    let kinds: Vec<Value> = whispers
        .iter()
        .map(|whisper| serde_json::from_slice::<Value>(&whisper.bytes).unwrap()["kind"].clone())
        .collect();
    assert_eq!(kinds, ["whois", "receipt"]);
    for whisper in &whispers {
        assert_eq!(
            whisper.signer.as_deref(),
            Some(record.card.peer_id.as_str())
        );
        assert!(matches!(trust_of(whisper), TrustState::Verified { .. }));
    }
}

// AG-TRU-7: a handle without its proof is rejected everywhere, so nothing is said in its name.
#[test]
fn a_handle_whose_key_is_not_here_speaks_for_itself() {
    let mut record = proven();
    record.public_key = None;
    record.connected = true;
    let mut host = host(&record);
    let ask = envelope("q1", json!({"kind": "whois", "body": {"type": "request"}}));
    let outcome = host.receive(ask.to_string(), NOW);
    assert_eq!((error(&outcome), outcome.emitted.len()), ("", 0));
    let whispers = host.take_whispers();
    // The question itself goes to the peer.
    assert_eq!(whispers.len(), 1);
    assert_eq!(
        serde_json::from_slice::<Value>(&whispers[0].bytes).unwrap(),
        ask
    );
    assert_eq!(
        whispers[0].to,
        chancery_agh::subject::direct(None, CHANNEL, &record.card.peer_id)
    );
    // A plain Peer ID needs no proof, also under the profile.
    let mut host = self::host(&plain("worker"));
    let outcome = host.receive(ask.to_string(), NOW);
    let answer: Value = serde_json::from_slice(&outcome.emitted[0]).unwrap();
    assert_eq!(answer["proof"], Value::Null);
}

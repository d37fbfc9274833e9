//! Signed calls, as a caller elsewhere makes them.

use std::sync::atomic::{AtomicU64, Ordering};

use chancery_core::canonical::{Dialect, to_bytes};
use chancery_core::digest::Blake2b256;
use chancery_core::keys::ed25519::SigningKey;
use chancery_core::time::parse_vacant;
use chancery_vacant::envelope::{Draft, EMPTY_PREV_HASH, EnvelopeHash};
use chancery_vacant::id::VacantId;
use chancery_vacant::payload::{Payload, Profile, Role};
use chancery_vacant::wire::to_jsonrpc;

use crate::support::BOB_SEED;

/// The id of the vacant that tests host.
pub fn bob() -> VacantId {
    VacantId::of(&SigningKey::from_seed(&BOB_SEED))
}

/// A caller that keeps its chain to one target.
pub struct Caller {
    pub key: SigningKey,
    pub to: VacantId,
    pub next: u64,
    pub prev: EnvelopeHash,
}

impl Caller {
    pub fn new(seed: [u8; 32], to: VacantId) -> Self {
        Self {
            key: SigningKey::from_seed(&seed),
            to,
            next: 1,
            prev: EMPTY_PREV_HASH,
        }
    }

    pub fn id(&self) -> VacantId {
        VacantId::of(&self.key)
    }

    /// The next call; the chain goes on only when [`Caller::accepted`] is told.
    pub fn call(&self, text: &str) -> (Vec<u8>, EnvelopeHash) {
        self.sealed(text, Payload::text(Role::User, text))
    }

    /// The next call in a conversation.
    pub fn call_with(&self, text: &str, context: Option<String>, id: Option<String>) -> Vec<u8> {
        let payload = Payload {
            context_id: context,
            message_id: id,
            ..Payload::text(Role::User, text)
        };
        self.sealed(text, payload).0
    }

    fn sealed(&self, text: &str, payload: Payload) -> (Vec<u8>, EnvelopeHash) {
        let draft = Draft {
            from: self.id(),
            to: self.to,
            payload,
            sequence_no: self.next,
            prev: self.prev,
            timestamp: parse_vacant("2026-05-06T07:08:59.123456Z").unwrap(),
            idempotency_key: format!("{text}-{}", self.next),
            profile: Profile::Base,
        };
        let envelope = draft.sign(&self.key).unwrap();
        let hash = envelope.hash(Profile::Base);
        let body = to_jsonrpc(&envelope, Profile::Base);
        (to_bytes(&body.into(), Dialect::Python), hash)
    }

    pub fn accepted(&mut self, hash: Blake2b256) {
        self.next += 1;
        self.prev = hash;
    }
}

/// The first call of somebody who never called before.
pub fn first_of_a_stranger() -> Vec<u8> {
    static STRANGERS: AtomicU64 = AtomicU64::new(1);
    let mut seed = [9; 32];
    let number = STRANGERS.fetch_add(1, Ordering::Relaxed);
    seed[..8].copy_from_slice(&number.to_be_bytes());
    Caller::new(seed, bob()).call("hi").0
}

//! Who has which keys, and under which of them a signature counts now.
//!
//! Guarantees: keys are decoded when they are put in, not when they are used; the newest usable key is tried
//! first; the work for one signature is bounded; every change raises the version.
//! Refuses: moves between states that are not allowed, a public key twice for one owner, and a key of
//! another algorithm under a known id.

mod record;
mod state;

use std::cmp::Reverse;
use std::sync::Arc;

use hashbrown::HashMap;

use crate::keys::ed25519::PublicKeyError;
use crate::keys::p256::P256Error;
use crate::time::Time;

pub use record::{Algorithm, KeyRecord, KeySource, KeyValidity};
pub use state::KeyState;

use record::PublicKey;

/// Usable keys that are tried for one signature (VX-SIG-7).
pub const MAX_USABLE_TRIED: usize = 8;
/// Keys that are not usable and tried only to tell "wrong key" from "wrong signature" (VX-KEY-5).
pub const MAX_UNUSABLE_TRIED: usize = 32;

/// Why a change of the keyring is refused. The keyring is as before.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyringError {
    /// The public bytes are no Ed25519 key.
    #[error(transparent)]
    Ed25519(#[from] PublicKeyError),
    /// The public bytes are no P-256 key.
    #[error(transparent)]
    P256(#[from] P256Error),
    /// The key's validity ends before it begins.
    #[error("the key is valid until before it is valid from")]
    EmptyValidity,
    /// The owner has a key of that id.
    #[error("the owner already has a key of this id")]
    KnownId,
    /// The owner has that public key under another id: a key that was withdrawn would come back.
    #[error("the owner already has this public key under another id")]
    KnownKey,
    /// The owner has no key of that id.
    #[error("the owner has no key of this id")]
    UnknownId,
    /// An id stands for one key for good.
    #[error("the public key of an id cannot change")]
    OtherKey,
    /// A key that was withdrawn must not come back, so its record stays.
    #[error("a key that is {0} stays on record")]
    Withdrawn(KeyState),
    /// The move is not one of VX-KEY-4.
    #[error("a key that is {from} cannot become {to}")]
    Move {
        /// State on record.
        from: KeyState,
        /// State asked for.
        to: KeyState,
    },
}

/// What a signature is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict<'a> {
    /// It verifies under this usable key.
    Verified {
        /// The key's id.
        key_id: &'a str,
    },
    /// No key of that owner is known.
    UnknownOwner,
    /// It verifies, but only under this key, which is not usable now (VX-KEY-5).
    NotValid {
        /// The key's id.
        key_id: &'a str,
    },
    /// It verifies under no key of the owner.
    Invalid,
}

/// A record with its key decoded.
#[derive(Clone, Debug)]
struct Entry {
    record: KeyRecord,
    key: PublicKey,
}

/// All keys, by owner. A plain value: copying it is cheap, since copies share what did not change.
#[derive(Clone, Debug, Default)]
pub struct Keyring {
    /// Of each owner newest first, never empty.
    owners: HashMap<Arc<str>, Arc<Vec<Entry>>>,
    version: u64,
}

impl Keyring {
    /// No keys.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Rises with every change.
    #[must_use]
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// Checks a signature under the owner's keys at `now`: the usable ones newest first, then the others.
    #[must_use]
    pub fn verify(&self, owner: &str, message: &[u8], signature: &[u8], now: Time) -> Verdict<'_> {
        let Some(entries) = self.owners.get(owner) else {
            return Verdict::UnknownOwner;
        };
        let first_that_verifies = |usable: bool, most: usize| {
            entries
                .iter()
                .filter(|entry| entry.record.usable_at(now) == usable)
                .take(most)
                .find(|entry| entry.key.verify(message, signature))
                .map(|entry| entry.record.id.as_str())
        };
        if let Some(key_id) = first_that_verifies(true, MAX_USABLE_TRIED) {
            return Verdict::Verified { key_id };
        }
        match first_that_verifies(false, MAX_UNUSABLE_TRIED) {
            Some(key_id) => Verdict::NotValid { key_id },
            None => Verdict::Invalid,
        }
    }

    /// The key that `owner` signs with at `now`: the newest active one within its validity (VX-KEY-3).
    #[must_use]
    pub fn signing_key(&self, owner: &str, now: Time) -> Option<&KeyRecord> {
        self.records(owner)
            .find(|record| record.state == KeyState::Active && record.usable_at(now))
    }

    /// One key.
    #[must_use]
    pub fn get(&self, owner: &str, id: &str) -> Option<&KeyRecord> {
        self.records(owner).find(|record| record.id == id)
    }

    /// The keys of an owner, newest first.
    pub fn records(&self, owner: &str) -> impl Iterator<Item = &KeyRecord> {
        self.owners
            .get(owner)
            .into_iter()
            .flat_map(|entries| entries.iter())
            .map(|entry| &entry.record)
    }

    /// All owners that have a key, in no order.
    pub fn owners(&self) -> impl Iterator<Item = &str> {
        self.owners.keys().map(AsRef::as_ref)
    }

    /// Puts a new key in.
    pub fn insert(&mut self, record: KeyRecord) -> Result<(), KeyringError> {
        let key = record.decode()?;
        for known in self.records(&record.owner) {
            if known.id == record.id {
                return Err(KeyringError::KnownId);
            }
            if known.public == record.public {
                return Err(KeyringError::KnownKey);
            }
        }
        let owner = Arc::from(record.owner.as_str());
        let entries = Arc::make_mut(self.owners.entry(owner).or_default());
        entries.push(Entry { record, key });
        sort_newest_first(entries);
        self.version += 1;
        Ok(())
    }

    /// Changes state or validity of a key that is in.
    pub fn update(&mut self, record: KeyRecord) -> Result<(), KeyringError> {
        record.check_validity()?;
        let entries = self
            .owners
            .get_mut(record.owner.as_str())
            .ok_or(KeyringError::UnknownId)?;
        let at = entries
            .iter()
            .position(|entry| entry.record.id == record.id)
            .ok_or(KeyringError::UnknownId)?;
        let known = &entries[at].record;
        if known.public != record.public || known.algorithm != record.algorithm {
            return Err(KeyringError::OtherKey);
        }
        let (from, to) = (known.state, record.state);
        if from != to && !from.may_become(to) {
            return Err(KeyringError::Move { from, to });
        }
        let entries = Arc::make_mut(entries);
        entries[at].record = record;
        sort_newest_first(entries);
        self.version += 1;
        Ok(())
    }

    /// Takes a key out; `None` when it was not in.
    pub fn remove(&mut self, owner: &str, id: &str) -> Option<KeyRecord> {
        let entries = self.owners.get_mut(owner)?;
        let at = entries.iter().position(|entry| entry.record.id == id)?;
        let removed = Arc::make_mut(entries).remove(at).record;
        if entries.is_empty() {
            self.owners.remove(owner);
        }
        self.version += 1;
        Some(removed)
    }
}

/// Newest is what is valid from the latest time, then what has the greatest id. No beginning is the oldest.
fn sort_newest_first(entries: &mut [Entry]) {
    entries.sort_by(|a, b| {
        let age = |entry: &Entry| Reverse(entry.record.valid_from);
        age(a)
            .cmp(&age(b))
            .then_with(|| b.record.id.cmp(&a.record.id))
    });
}

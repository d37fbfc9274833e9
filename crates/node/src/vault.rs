//! The secret keys this node holds, by owner. They sign what hosted agents send and never leave this module.

use std::sync::{PoisonError, RwLock};

use chancery_core::keys::ed25519::SigningKey;
use hashbrown::HashMap;

/// Secret keys of hosted agents.
#[derive(Default)]
pub struct Vault {
    keys: RwLock<HashMap<String, SigningKey>>,
}

impl Vault {
    /// An empty vault.
    pub fn new() -> Self {
        Self::default()
    }

    /// Holds a key from here on; the owner's older one is dropped.
    pub fn hold(&self, owner: impl Into<String>, key: SigningKey) {
        self.keys
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(owner.into(), key);
    }

    /// Drops the keys of all owners but these.
    pub fn keep_only(&self, keeps: impl Fn(&str) -> bool) {
        self.keys
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|owner, _| keeps(owner));
    }

    /// Whose keys are held.
    pub fn owners(&self) -> Vec<String> {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        keys.keys().cloned().collect()
    }

    /// Whether a key of this owner is held.
    pub fn holds(&self, owner: &str) -> bool {
        self.keys
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .contains_key(owner)
    }

    /// The public half of the key of this owner.
    pub(crate) fn public(&self, owner: &str) -> Option<[u8; 32]> {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        keys.get(owner).map(|key| *key.verifying_key().as_bytes())
    }

    /// Signs as `owner`.
    pub(crate) fn sign(&self, owner: &str, message: &[u8]) -> Option<[u8; 64]> {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        keys.get(owner).map(|key| key.sign(message))
    }
}

impl std::fmt::Debug for Vault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let owners = self
            .keys
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .len();
        write!(f, "Vault({owners} keys)")
    }
}

//! A key as it is on record.

use serde::{Deserialize, Serialize};

use super::{KeyState, KeyringError};
use crate::keys::{ed25519, p256};
use crate::time::Time;

/// What a key signs with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Algorithm {
    /// Ed25519; the public key is 32 bytes.
    #[serde(rename = "ed25519")]
    Ed25519,
    /// ECDSA over P-256 with SHA-256; the public key is the uncompressed point of 65 bytes.
    #[serde(rename = "ES256")]
    Es256,
}

/// By which way a key came on record, which says when it leaves again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeySource {
    /// An operator's act.
    #[default]
    Operator,
    /// A file: it leaves when it is in the file no more (VX-KEY-7).
    File,
    /// Made for a spawned agent: it leaves when the agent ends (VX-KEY-6).
    Spawn,
}

impl KeySource {
    fn is_operator(&self) -> bool {
        *self == Self::Operator
    }
}

/// A public key, whose it is, and when it counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyRecord {
    /// Names the key among those of its owner.
    pub id: String,
    /// Whose signatures it verifies.
    pub owner: String,
    /// What it signs with.
    pub algorithm: Algorithm,
    /// The raw bytes; in JSON `base64:` and standard base64.
    #[serde(with = "public_text")]
    pub public: Vec<u8>,
    /// Where it is in its life.
    pub state: KeyState,
    /// First instant at which it counts; `None` is from ever.
    pub valid_from: Option<Time>,
    /// Last instant at which it counts; `None` is for ever.
    pub valid_until: Option<Time>,
    /// By which way it came.
    #[serde(default, skip_serializing_if = "KeySource::is_operator")]
    pub source: KeySource,
    /// In an act: the key is on record no more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub removed: bool,
}

/// When a key counts: the part of a [`KeyRecord`] that a decision looks up again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct KeyValidity {
    state: KeyState,
    valid_from: Option<Time>,
    valid_until: Option<Time>,
}

impl KeyValidity {
    /// Whether signatures count at `now`; both ends of the validity are included (VX-KEY-3).
    #[must_use]
    pub fn usable_at(&self, now: Time) -> bool {
        self.state.usable()
            && self.valid_from.is_none_or(|from| from <= now)
            && self.valid_until.is_none_or(|until| now <= until)
    }
}

impl KeyRecord {
    /// Whether signatures count under this key at `now`; both ends of the validity are included (VX-KEY-3).
    #[must_use]
    pub fn usable_at(&self, now: Time) -> bool {
        let Self {
            state,
            valid_from,
            valid_until,
            ..
        } = *self;
        let validity = KeyValidity {
            state,
            valid_from,
            valid_until,
        };
        validity.usable_at(now)
    }

    pub(super) fn decode(&self) -> Result<PublicKey, KeyringError> {
        self.check_validity()?;
        Ok(match self.algorithm {
            Algorithm::Ed25519 => {
                PublicKey::Ed25519(ed25519::VerifyingKey::from_bytes(&self.public)?)
            }
            Algorithm::Es256 => {
                PublicKey::Es256(p256::VerifyingKey::from_uncompressed(&self.public)?)
            }
        })
    }

    pub(super) fn check_validity(&self) -> Result<(), KeyringError> {
        match (self.valid_from, self.valid_until) {
            (Some(from), Some(until)) if until < from => Err(KeyringError::EmptyValidity),
            _ => Ok(()),
        }
    }
}

/// A public key of either algorithm, decoded.
#[derive(Clone, Debug)]
pub(super) enum PublicKey {
    Ed25519(ed25519::VerifyingKey),
    Es256(p256::VerifyingKey),
}

impl PublicKey {
    pub(super) fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        match self {
            Self::Ed25519(key) => key.verify(message, signature),
            Self::Es256(key) => key.verify(message, signature),
        }
    }
}

/// Raw bytes as `base64:…` in JSON.
mod public_text {
    use std::borrow::Cow;

    use serde::{Deserialize, Deserializer, Serializer, de};

    use crate::keys::base64;

    const PREFIX: &str = "base64:";

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{PREFIX}{}", base64::encode(bytes)))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<u8>, D::Error> {
        let text = Cow::<'de, str>::deserialize(deserializer)?;
        let value = text
            .strip_prefix(PREFIX)
            .ok_or_else(|| de::Error::custom("a public key begins with base64:"))?;
        base64::decode(value).map_err(de::Error::custom)
    }
}

//! Who a vacant is: its public key, and nothing else.

use std::fmt;

use chancery_core::digest::hex::{self, HexError};
use chancery_core::keys::ed25519::{SigningKey, VerifyingKey};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Characters of the short form.
const SHORT: usize = 12;
/// The multicodec prefix of an Ed25519 public key.
const ED25519_CODEC: [u8; 2] = [0xed, 0x01];

/// The 32 raw bytes of an Ed25519 public key (VA-ID-1). Bytes that are no curve point are an id too; nothing
/// verifies under such a one (VA-ID-5).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VacantId([u8; 32]);

impl VacantId {
    /// The id of these bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The id that belongs to a secret key.
    #[must_use]
    pub fn of(key: &SigningKey) -> Self {
        Self(*key.verifying_key().as_bytes())
    }

    /// Reads 64 hex characters, both cases, without blanks (VA-ID-8).
    pub fn from_hex(text: &str) -> Result<Self, HexError> {
        hex::decode_array(text).map(Self)
    }

    /// The 32 bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// 64 lower-case hex characters (VA-ID-2).
    #[must_use]
    pub fn hex(&self) -> String {
        hex::encode(&self.0)
    }

    /// The first twelve characters of the text form: for people, never a key (VA-ID-2).
    #[must_use]
    pub fn short(&self) -> String {
        let mut text = self.hex();
        text.truncate(SHORT);
        text
    }

    /// `did:key:z` and the key with its codec in base58btc (VA-A2A-3).
    #[must_use]
    pub fn did_key(&self) -> String {
        let mut bytes = [0; 34];
        bytes[..2].copy_from_slice(&ED25519_CODEC);
        bytes[2..].copy_from_slice(&self.0);
        format!("did:key:z{}", base58(&bytes))
    }

    /// Whether `signature` is one of `message` under this id. Any other length than 64 bytes is not (VA-ID-4).
    #[must_use]
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        VerifyingKey::from_bytes(&self.0).is_ok_and(|key| key.verify(message, signature))
    }
}

impl fmt::Display for VacantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "vacant:{}", self.short())
    }
}

impl fmt::Debug for VacantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VacantId({})", self.hex())
    }
}

impl Serialize for VacantId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.hex())
    }
}

impl<'de> Deserialize<'de> for VacantId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Self::from_hex(&text).map_err(de::Error::custom)
    }
}

/// Base58 with the alphabet of Bitcoin. Quadratic, for a few bytes.
fn base58(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
    let mut digits: Vec<u8> = Vec::with_capacity(bytes.len() * 3 / 2);
    for byte in bytes {
        let mut carry = u32::from(*byte);
        for digit in &mut digits {
            carry += u32::from(*digit) << 8;
            *digit = (carry % 58) as u8;
            carry /= 58;
        }
        while carry > 0 {
            digits.push((carry % 58) as u8);
            carry /= 58;
        }
    }
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    let leading = std::iter::repeat_n('1', zeros);
    let letters = digits
        .iter()
        .rev()
        .map(|digit| ALPHABET[usize::from(*digit)] as char);
    leading.chain(letters).collect()
}

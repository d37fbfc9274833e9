//! Digests as values, and the hex text they are written in.
//!
//! Guarantees: hex that leaves here is lower case; hex that enters is read strictly, with the place of
//! the first fault. A digest prints as its hex text everywhere.
//! Refuses: blanks, separators and prefixes inside hex.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::Digest as _;

/// Hex text to bytes and back.
pub mod hex {
    /// Why a text is not the hex that was asked for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
    pub enum HexError {
        /// Two characters make a byte, so the number of characters is even.
        #[error("hex text has an odd number of characters")]
        OddLength,
        /// The text stands for another number of bytes than wanted.
        #[error("hex text of {found} characters where {expected} are wanted")]
        Length {
            /// Characters wanted.
            expected: usize,
            /// Characters found.
            found: usize,
        },
        /// A character that is no hex digit, or an upper case one where only lower case is allowed.
        #[error("character {at} is not a hex digit of the allowed case")]
        Digit {
            /// Byte position of the character.
            at: usize,
        },
    }

    const LOWER: &[u8; 16] = b"0123456789abcdef";
    const NONE: u8 = 0xff;

    /// Value of each byte as a hex digit; a table because this runs for every line and every key.
    const VALUES: [u8; 256] = {
        let mut table = [NONE; 256];
        let mut digit = 0u8;
        while digit < 16 {
            let lower = LOWER[digit as usize];
            table[lower as usize] = digit;
            table[lower.to_ascii_uppercase() as usize] = digit;
            digit += 1;
        }
        table
    };

    /// Appends the lower case hex of `bytes` to `out`.
    pub fn encode_to(bytes: &[u8], out: &mut String) {
        out.reserve(bytes.len() * 2);
        for byte in bytes {
            out.push(char::from(LOWER[usize::from(byte >> 4)]));
            out.push(char::from(LOWER[usize::from(byte & 15)]));
        }
    }

    /// The lower case hex of `bytes`.
    #[must_use]
    pub fn encode(bytes: &[u8]) -> String {
        let mut out = String::new();
        encode_to(bytes, &mut out);
        out
    }

    /// Reads hex of any even length, both cases (VA-ID-8).
    pub fn decode(text: &str) -> Result<Vec<u8>, HexError> {
        if !text.len().is_multiple_of(2) {
            return Err(HexError::OddLength);
        }
        let mut out = vec![0; text.len() / 2];
        fill(text.as_bytes(), &mut out)?;
        Ok(out)
    }

    /// Reads hex of exactly `N` bytes, both cases (VA-ID-8).
    pub fn decode_array<const N: usize>(text: &str) -> Result<[u8; N], HexError> {
        if text.len() != N * 2 {
            return Err(HexError::Length {
                expected: N * 2,
                found: text.len(),
            });
        }
        let mut out = [0; N];
        fill(text.as_bytes(), &mut out)?;
        Ok(out)
    }

    /// Reads hex of exactly `N` bytes, lower case only: for text that has one spelling per value.
    pub fn decode_array_lower<const N: usize>(text: &str) -> Result<[u8; N], HexError> {
        let bytes = decode_array(text)?;
        match text.bytes().position(|byte| byte.is_ascii_uppercase()) {
            Some(at) => Err(HexError::Digit { at }),
            None => Ok(bytes),
        }
    }

    /// `out` holds one byte for each two of `text`.
    fn fill(text: &[u8], out: &mut [u8]) -> Result<(), HexError> {
        for (index, (pair, byte)) in text.chunks_exact(2).zip(out).enumerate() {
            let high = VALUES[usize::from(pair[0])];
            let low = VALUES[usize::from(pair[1])];
            if high == NONE || low == NONE {
                let at = index * 2 + usize::from(high != NONE);
                return Err(HexError::Digit { at });
            }
            *byte = high << 4 | low;
        }
        Ok(())
    }
}

pub use hex::HexError;

/// The parts that do not depend on the hash function.
macro_rules! digest_value {
    ($name:ident) => {
        impl $name {
            /// 32 zero bytes: what stands before the first link of a chain.
            pub const ZERO: Self = Self([0; 32]);

            /// The digest as 64 lower case hex characters.
            #[must_use]
            pub fn hex(&self) -> String {
                hex::encode(&self.0)
            }

            /// Reads 64 hex characters, both cases (VA-ID-8).
            pub fn from_hex(text: &str) -> Result<Self, HexError> {
                hex::decode_array(text).map(Self)
            }

            /// Reads 64 lower case hex characters: the only spelling that we write.
            pub fn from_lower_hex(text: &str) -> Result<Self, HexError> {
                hex::decode_array_lower(text).map(Self)
            }

            /// The 32 bytes.
            #[must_use]
            pub const fn as_bytes(&self) -> &[u8; 32] {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.hex())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.hex())
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.hex())
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                Self::from_lower_hex(&text).map_err(de::Error::custom)
            }
        }
    };
}

/// A SHA-256 digest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sha256Digest(pub [u8; 32]);

/// A BLAKE2b-256 digest: unkeyed, 32 bytes by parameter, not a cut BLAKE2b-512 (VA-ID-6).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Blake2b256(pub [u8; 32]);

digest_value!(Sha256Digest);
digest_value!(Blake2b256);

impl Sha256Digest {
    /// The digest of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(sha2::Sha256::digest(bytes).into())
    }
}

impl Blake2b256 {
    /// The digest of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let hash = blake2b_simd::Params::new().hash_length(32).hash(bytes);
        let mut digest = [0; 32];
        digest.copy_from_slice(hash.as_bytes());
        Self(digest)
    }
}

/// SHA-256 over bytes that come in pieces, for what is not in one buffer.
#[derive(Clone, Default)]
pub struct Sha256(sha2::Sha256);

impl Sha256 {
    /// Nothing hashed yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next piece.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of all pieces.
    #[must_use]
    pub fn finish(self) -> Sha256Digest {
        Sha256Digest(self.0.finalize().into())
    }
}

impl fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sha256")
    }
}

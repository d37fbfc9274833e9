//! Ed25519 (RFC 8032, pure), in the strict reading that all common verifiers agree on.
//!
//! Refused: S not below the group order, R or public key of small order, encodings that are not canonical
//! (VX-SIG-6, VA-ID-4). The equation is the one without cofactor.

mod secret;
mod text;

use std::fmt;
use std::hash::{Hash, Hasher};

use ed25519_dalek::{Signer as _, Verifier as _};

use crate::digest::hex;

pub use secret::{SecretError, parse_secret};
pub use text::{
    PublicKeyTextError, SignatureTextError, decode_public_key, decode_signature, encode_public_key,
    encode_signature,
};

/// Bytes of a public key and of a secret seed.
pub const KEY_BYTES: usize = 32;
/// Bytes of a signature.
pub const SIGNATURE_BYTES: usize = 64;

/// The canonical encodings of the eight points of small order.
const SMALL_ORDER: [[u8; KEY_BYTES]; 8] = [
    encoding(0x00, 0x00, 0x00),
    encoding(0x00, 0x00, 0x80),
    encoding(0x01, 0x00, 0x00),
    encoding(0xec, 0xff, 0x7f),
    with_sign(ORDER_EIGHT_LOW, 0x00),
    with_sign(ORDER_EIGHT_LOW, 0x80),
    with_sign(ORDER_EIGHT_HIGH, 0x00),
    with_sign(ORDER_EIGHT_HIGH, 0x80),
];
const ORDER_EIGHT_LOW: [u8; KEY_BYTES] = [
    0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4, 0x89, 0xf2, 0xef, 0x98, 0xf0,
    0xd5, 0xdf, 0xac, 0x05, 0xd3, 0xc6, 0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53, 0xfc, 0x05,
];
const ORDER_EIGHT_HIGH: [u8; KEY_BYTES] = [
    0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b, 0x76, 0x0d, 0x10, 0x67, 0x0f,
    0x2a, 0x20, 0x53, 0xfa, 0x2c, 0x39, 0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac, 0x03, 0x7a,
];

const fn encoding(first: u8, between: u8, last: u8) -> [u8; KEY_BYTES] {
    let mut bytes = [between; KEY_BYTES];
    bytes[0] = first;
    bytes[KEY_BYTES - 1] = last;
    bytes
}

const fn with_sign(mut bytes: [u8; KEY_BYTES], sign: u8) -> [u8; KEY_BYTES] {
    bytes[KEY_BYTES - 1] |= sign;
    bytes
}

/// A detached signature.
pub type Signature = [u8; SIGNATURE_BYTES];

/// Why bytes are not a public key that we verify under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PublicKeyError {
    /// Not 32 bytes.
    #[error("a public key has 32 bytes, not {found}")]
    Length {
        /// Bytes found.
        found: usize,
    },
    /// Not a point of the curve.
    #[error("the public key is not a point of the curve")]
    NotAPoint,
    /// A point in another than its canonical encoding.
    #[error("the public key is not in its canonical encoding")]
    NotCanonical,
    /// A point of small order, under which one signature fits many messages.
    #[error("the public key has small order")]
    SmallOrder,
}

/// A public key, decoded.
#[derive(Clone, Copy)]
pub struct VerifyingKey(ed25519_dalek::VerifyingKey);

impl VerifyingKey {
    /// Decodes 32 bytes; refuses what is no point, not canonical, or of small order.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, PublicKeyError> {
        let bytes: &[u8; KEY_BYTES] = bytes
            .try_into()
            .map_err(|_| PublicKeyError::Length { found: bytes.len() })?;
        let key = ed25519_dalek::VerifyingKey::from_bytes(bytes)
            .map_err(|_| PublicKeyError::NotAPoint)?;
        if key.to_edwards().compress().as_bytes() != bytes {
            return Err(PublicKeyError::NotCanonical);
        }
        if key.is_weak() {
            return Err(PublicKeyError::SmallOrder);
        }
        Ok(Self(key))
    }

    /// The 32 bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; KEY_BYTES] {
        self.0.as_bytes()
    }

    /// Whether `signature` is one of `message` under this key. A signature that is not 64 bytes is not.
    ///
    /// Gives what the library's strict check gives, a fifth faster: that check decodes R and asks R and the key for
    /// small order each time. Here the key was asked when it was decoded. R need not be decoded either: the plain
    /// check compares its bytes with the canonical ones of the point that it must be, so an R that passes is
    /// canonical and of small order exactly when it is one of eight texts.
    #[must_use]
    pub fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        ed25519_dalek::Signature::from_slice(signature).is_ok_and(|signature| {
            !SMALL_ORDER.contains(signature.r_bytes()) && self.0.verify(message, &signature).is_ok()
        })
    }
}

impl PartialEq for VerifyingKey {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for VerifyingKey {}

impl Hash for VerifyingKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl fmt::Debug for VerifyingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ed25519::VerifyingKey({})", hex::encode(self.as_bytes()))
    }
}

/// A secret key: a 32-byte seed, wiped when dropped (VA-ID-3, VA-ID-10).
pub struct SigningKey(ed25519_dalek::SigningKey);

impl SigningKey {
    /// The key of a seed. Every seed is a key.
    #[must_use]
    pub fn from_seed(seed: &[u8; KEY_BYTES]) -> Self {
        Self(ed25519_dalek::SigningKey::from_bytes(seed))
    }

    /// The public half.
    #[must_use]
    pub fn verifying_key(&self) -> VerifyingKey {
        // A clamped scalar times the base point is canonical and of large order.
        VerifyingKey(self.0.verifying_key())
    }

    /// Signs; the same message gives the same signature.
    #[must_use]
    pub fn sign(&self, message: &[u8]) -> Signature {
        self.0.sign(message).to_bytes()
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "ed25519::SigningKey(of {})",
            hex::encode(self.verifying_key().as_bytes())
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_eight_points_of_small_order_are_these() {
        // VX-SIG-6, VA-ID-4: the group has eight such points, and every one has one canonical encoding.
        let mut encodings = SMALL_ORDER.to_vec();
        encodings.sort_unstable();
        encodings.dedup();
        assert_eq!(encodings.len(), 8);
        for bytes in encodings {
            let point = ed25519_dalek::VerifyingKey::from_bytes(&bytes).unwrap();
            assert!(point.is_weak());
            assert_eq!(point.to_edwards().compress().as_bytes(), &bytes);
        }
    }

    #[test]
    fn the_check_is_the_strict_one() {
        // VX-SIG-6
        let key = SigningKey::from_seed(&[7; 32]);
        let public = key.verifying_key();
        let strict = |message: &[u8], signature: &Signature| {
            let signature = ed25519_dalek::Signature::from_bytes(signature);
            public.0.verify_strict(message, &signature).is_ok()
        };
        for n in 0..64_u8 {
            let message = [n; 40];
            let good = key.sign(&message);
            assert!(public.verify(&message, &good) && strict(&message, &good));
            let mut bad = good;
            bad[usize::from(n)] ^= 1 << (n % 8);
            assert_eq!(public.verify(&message, &bad), strict(&message, &bad));
            let mut small = good;
            small[..32].copy_from_slice(&SMALL_ORDER[usize::from(n % 8)]);
            assert!(!public.verify(&message, &small) && !strict(&message, &small));
        }
    }
}

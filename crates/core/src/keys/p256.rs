//! ECDSA over P-256 with SHA-256, signatures as the 64 bytes r‖s (ES256).
//!
//! Checked by the fast library, signed by the one that makes nonces after RFC 6979, so that a signature is a
//! function of key and message.

use std::fmt;

use ::p256::ecdsa::signature::Signer as _;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, ParsedPublicKey};

use super::base64::{self, Base64Error};
use crate::digest::hex;

/// Bytes of an uncompressed point: 4, x, y.
pub const POINT_BYTES: usize = 65;
/// Bytes of a coordinate and of a secret scalar.
pub const SCALAR_BYTES: usize = 32;
/// Bytes of a signature.
pub const SIGNATURE_BYTES: usize = 64;

const UNCOMPRESSED: u8 = 4;

/// r‖s, 32 bytes each.
pub type Signature = [u8; SIGNATURE_BYTES];

/// Why something is not a P-256 key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum P256Error {
    /// Not 65 bytes that begin with 4.
    #[error("a P-256 public key is an uncompressed point of 65 bytes")]
    Form,
    /// Not a point of the curve.
    #[error("the public key is not a point of P-256")]
    NotAPoint,
    /// A JWK coordinate that is not base64url of 32 bytes.
    #[error("JWK member {member}: {why}")]
    Coordinate {
        /// `x` or `y`.
        member: &'static str,
        /// What is wrong with it.
        why: Base64Error,
    },
    /// Zero, or not below the group order.
    #[error("the secret scalar is not between 1 and the group order")]
    Scalar,
}

/// A public key, decoded.
#[derive(Clone)]
pub struct VerifyingKey {
    point: [u8; POINT_BYTES],
    parsed: ParsedPublicKey,
}

impl VerifyingKey {
    /// Decodes an uncompressed point.
    pub fn from_uncompressed(point: &[u8]) -> Result<Self, P256Error> {
        let point: [u8; POINT_BYTES] = point.try_into().map_err(|_| P256Error::Form)?;
        if point[0] != UNCOMPRESSED {
            return Err(P256Error::Form);
        }
        let parsed = ParsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point)
            .map_err(|_| P256Error::NotAPoint)?;
        Ok(Self { point, parsed })
    }

    /// Decodes the `x` and `y` of a JWK (VC-SIG-3).
    pub fn from_jwk(x: &str, y: &str) -> Result<Self, P256Error> {
        let coordinate = |member, text| {
            base64::decode_url_array::<SCALAR_BYTES>(text)
                .map_err(|why| P256Error::Coordinate { member, why })
        };
        let mut point = [UNCOMPRESSED; POINT_BYTES];
        point[1..33].copy_from_slice(&coordinate("x", x)?);
        point[33..].copy_from_slice(&coordinate("y", y)?);
        Self::from_uncompressed(&point)
    }

    /// The `x` and `y` of a JWK.
    #[must_use]
    pub fn to_jwk(&self) -> (String, String) {
        (
            base64::encode_url(&self.point[1..33]),
            base64::encode_url(&self.point[33..]),
        )
    }

    /// The uncompressed point.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; POINT_BYTES] {
        &self.point
    }

    /// Whether `signature` is one of `message` under this key. A signature that is not 64 bytes is not.
    #[must_use]
    pub fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        self.parsed.verify_sig(message, signature).is_ok()
    }
}

impl PartialEq for VerifyingKey {
    fn eq(&self, other: &Self) -> bool {
        self.point == other.point
    }
}

impl Eq for VerifyingKey {}

impl fmt::Debug for VerifyingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "p256::VerifyingKey({})", hex::encode(&self.point))
    }
}

/// A secret scalar, wiped when dropped.
pub struct SigningKey(::p256::ecdsa::SigningKey);

impl SigningKey {
    /// The key of a scalar between 1 and the group order.
    pub fn from_scalar(scalar: &[u8; SCALAR_BYTES]) -> Result<Self, P256Error> {
        ::p256::ecdsa::SigningKey::from_slice(scalar)
            .map(Self)
            .map_err(|_| P256Error::Scalar)
    }

    /// The public half.
    #[must_use]
    pub fn verifying_key(&self) -> VerifyingKey {
        VerifyingKey::from_uncompressed(&self.public_point())
            .expect("the public point of a scalar is on the curve")
    }

    /// Signs with the nonce of RFC 6979; the same message gives the same signature.
    #[must_use]
    pub fn sign(&self, message: &[u8]) -> Signature {
        let signature: ::p256::ecdsa::Signature = self.0.sign(message);
        signature.to_bytes().into()
    }

    fn public_point(&self) -> Vec<u8> {
        self.0
            .verifying_key()
            .to_sec1_point(false)
            .as_bytes()
            .to_vec()
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "p256::SigningKey(of {})",
            hex::encode(&self.public_point())
        )
    }
}

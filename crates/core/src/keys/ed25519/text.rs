//! The texts that signatures and public keys come in on the wire and in trust files.

use super::{KEY_BYTES, PublicKeyError, SIGNATURE_BYTES, Signature, VerifyingKey};
use crate::keys::base64::{self, Base64Error};

const BASE64_PREFIX: &str = "base64:";
const ED25519_PREFIX: &str = "ed25519:";

/// A SubjectPublicKeyInfo of Ed25519 is these bytes and the key (RFC 8410).
const SPKI_PREFIX: [u8; 12] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];
/// The length of a PKCS#8 private key of Ed25519.
const PKCS8_BYTES: usize = 48;

/// Why a text is not a signature value (VX-SIG-5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignatureTextError {
    /// Does not match `^base64:[A-Za-z0-9+/=]+$`: a fault of the schema, not of the signature.
    #[error("a signature is written base64: and standard base64")]
    Shape,
    /// Matches that, but is not the base64 of 64 bytes.
    #[error(transparent)]
    Value(#[from] Base64Error),
}

/// Writes `base64:` and 88 characters.
#[must_use]
pub fn encode_signature(signature: &Signature) -> String {
    [BASE64_PREFIX, &base64::encode(signature)].concat()
}

/// Reads `base64:` and the strict standard base64 of exactly 64 bytes (VX-SIG-5).
pub fn decode_signature(text: &str) -> Result<Signature, SignatureTextError> {
    let value = text
        .strip_prefix(BASE64_PREFIX)
        .ok_or(SignatureTextError::Shape)?;
    // What strict base64 accepts has the shape: it is looked at only when there is a fault to name.
    base64::decode_array::<SIGNATURE_BYTES>(value).map_err(|fault| {
        let is_base64_character =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
        if value.is_empty() || !value.bytes().all(is_base64_character) {
            SignatureTextError::Shape
        } else {
            SignatureTextError::Value(fault)
        }
    })
}

/// Why a text is not a public key (VX-KEY-2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PublicKeyTextError {
    /// Begins with neither prefix.
    #[error("a public key begins with base64: or ed25519:")]
    Prefix,
    /// What follows the prefix is not strict base64.
    #[error("a public key is in strict standard base64")]
    Base64,
    /// A secret where a public key belongs.
    #[error(
        "this is a PKCS#8 private key; put the public key here and treat that key as disclosed"
    )]
    PrivateKey,
    /// 44 bytes that do not begin as an Ed25519 SubjectPublicKeyInfo does.
    #[error("this SubjectPublicKeyInfo is not of an Ed25519 key")]
    OtherAlgorithm,
    /// Bytes that are no usable key.
    #[error(transparent)]
    Key(#[from] PublicKeyError),
}

/// Writes `base64:` and the base64 of the 32 bytes.
#[must_use]
pub fn encode_public_key(key: &VerifyingKey) -> String {
    [BASE64_PREFIX, &base64::encode(key.as_bytes())].concat()
}

/// Reads `base64:` or `ed25519:` and the base64 of the 32 bytes or of the 44-byte SubjectPublicKeyInfo
/// (VX-KEY-2).
pub fn decode_public_key(text: &str) -> Result<VerifyingKey, PublicKeyTextError> {
    let value = text
        .strip_prefix(BASE64_PREFIX)
        .or_else(|| text.strip_prefix(ED25519_PREFIX))
        .ok_or(PublicKeyTextError::Prefix)?;
    let bytes = base64::decode(value).map_err(|_| PublicKeyTextError::Base64)?;
    match bytes.len() {
        PKCS8_BYTES => Err(PublicKeyTextError::PrivateKey),
        length if length == SPKI_PREFIX.len() + KEY_BYTES => {
            let key = bytes
                .strip_prefix(&SPKI_PREFIX)
                .ok_or(PublicKeyTextError::OtherAlgorithm)?;
            Ok(VerifyingKey::from_bytes(key)?)
        }
        _ => Ok(VerifyingKey::from_bytes(&bytes)?),
    }
}

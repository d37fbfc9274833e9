//! Secret seeds from text: 64 hex characters, or PKCS#8 in PEM (VX-KEY-8, VA-ID-10).
//!
//! No error here repeats any of the text.

use zeroize::Zeroizing;

use super::{KEY_BYTES, SigningKey};
use crate::digest::hex;
use crate::keys::base64;

const PEM_BEGIN: &str = "-----BEGIN PRIVATE KEY-----";
const PEM_END: &str = "-----END PRIVATE KEY-----";
/// More than any of the accepted forms needs.
const LONGEST_TEXT: usize = 1_024;

/// PKCS#8 of an Ed25519 seed is these bytes and the seed (RFC 8410).
const PKCS8_PREFIX: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];
/// The form that also holds the public key: these bytes, the seed, [`PUBLIC_PREFIX`], the public key.
const PKCS8_V2_PREFIX: [u8; 16] = [
    0x30, 0x51, 0x02, 0x01, 0x01, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];
const PUBLIC_PREFIX: [u8; 3] = [0x81, 0x21, 0x00];

/// Why a text is not a secret key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// Neither 64 hex characters nor PEM.
    #[error("a secret key is 64 hex characters or a PKCS#8 PEM")]
    Form,
    /// PEM whose middle is not base64, or without its end line.
    #[error("the PEM is damaged")]
    Pem,
    /// PEM of something else than an unencrypted PKCS#8 private key.
    #[error("the PEM is not an unencrypted PKCS#8 private key (BEGIN PRIVATE KEY)")]
    OtherPem,
    /// PKCS#8, but not of Ed25519.
    #[error("the PKCS#8 key is not an Ed25519 key")]
    OtherAlgorithm,
    /// PKCS#8 whose public part belongs to another secret.
    #[error("the public key inside the PKCS#8 is not the one of its secret")]
    PublicMismatch,
}

/// Reads a secret key; blanks and line ends around it are fine.
pub fn parse_secret(text: &str) -> Result<SigningKey, SecretError> {
    if text.len() > LONGEST_TEXT {
        return Err(SecretError::Form);
    }
    let text = text.trim_ascii();
    if text.starts_with("-----BEGIN ") {
        return parse_pem(text);
    }
    let seed = Zeroizing::new(hex::decode_array::<KEY_BYTES>(text).map_err(|_| SecretError::Form)?);
    Ok(SigningKey::from_seed(&seed))
}

fn parse_pem(text: &str) -> Result<SigningKey, SecretError> {
    let body = text
        .strip_prefix(PEM_BEGIN)
        .ok_or(SecretError::OtherPem)?
        .strip_suffix(PEM_END)
        .ok_or(SecretError::Pem)?;
    let mut joined = Zeroizing::new(String::with_capacity(body.len()));
    joined.extend(body.chars().filter(|c| !c.is_ascii_whitespace()));
    let der = Zeroizing::new(base64::decode(&joined).map_err(|_| SecretError::Pem)?);
    parse_pkcs8(&der)
}

fn parse_pkcs8(der: &[u8]) -> Result<SigningKey, SecretError> {
    let (prefix, rest) = der
        .split_at_checked(PKCS8_PREFIX.len())
        .ok_or(SecretError::Pem)?;
    let (seed, after) = rest
        .split_first_chunk::<KEY_BYTES>()
        .ok_or(SecretError::OtherAlgorithm)?;
    let key = SigningKey::from_seed(seed);
    if prefix == PKCS8_PREFIX && after.is_empty() {
        return Ok(key);
    }
    if prefix != PKCS8_V2_PREFIX {
        return Err(SecretError::OtherAlgorithm);
    }
    match after.strip_prefix(&PUBLIC_PREFIX) {
        Some(public) if public == key.verifying_key().as_bytes() => Ok(key),
        Some(_) => Err(SecretError::PublicMismatch),
        None => Err(SecretError::OtherAlgorithm),
    }
}

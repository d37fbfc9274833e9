//! Base64 with one spelling per value: padding as the alphabet demands, no spare bits, no blanks.

use ::base64::Engine as _;
use ::base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

/// The text is not the one base64 spelling of any bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Base64Error {
    /// A foreign character, missing or surplus padding, or spare bits that are not zero.
    #[error("not strict base64")]
    Malformed,
    /// Strict base64, but of another number of bytes than wanted.
    #[error("base64 of {found} bytes where {expected} are wanted")]
    Length {
        /// Bytes wanted.
        expected: usize,
        /// Bytes found.
        found: usize,
    },
}

/// Standard alphabet, padded.
#[must_use]
pub fn encode(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Reads the standard alphabet, padding required.
pub fn decode(text: &str) -> Result<Vec<u8>, Base64Error> {
    STANDARD.decode(text).map_err(|_| Base64Error::Malformed)
}

/// URL-safe alphabet, no padding.
#[must_use]
pub fn encode_url(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Appends the URL-safe form to `out`.
pub fn encode_url_to(bytes: &[u8], out: &mut String) {
    URL_SAFE_NO_PAD.encode_string(bytes, out);
}

/// Reads the URL-safe alphabet, padding refused.
pub fn decode_url(text: &str) -> Result<Vec<u8>, Base64Error> {
    URL_SAFE_NO_PAD
        .decode(text)
        .map_err(|_| Base64Error::Malformed)
}

/// Reads exactly `N` bytes of the standard alphabet.
pub fn decode_array<const N: usize>(text: &str) -> Result<[u8; N], Base64Error> {
    sized(decode(text)?)
}

/// Reads exactly `N` bytes of the URL-safe alphabet.
pub fn decode_url_array<const N: usize>(text: &str) -> Result<[u8; N], Base64Error> {
    sized(decode_url(text)?)
}

fn sized<const N: usize>(bytes: Vec<u8>) -> Result<[u8; N], Base64Error> {
    bytes
        .try_into()
        .map_err(|bytes: Vec<u8>| Base64Error::Length {
            expected: N,
            found: bytes.len(),
        })
}

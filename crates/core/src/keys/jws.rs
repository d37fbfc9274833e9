//! Detached JWS in compact form, as far as bytes go: header, two dots, signature (VC-SIG-2).
//!
//! What the header may say is the protocol's business; here it is bytes.

use super::base64;
use super::p256::{SIGNATURE_BYTES, Signature, SigningKey, VerifyingKey};

/// Why a text is not a detached ES256 JWS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JwsError {
    /// Not a header, two dots and a signature.
    #[error("a detached signature is a header, two dots and a signature")]
    Shape,
    /// The header is not base64url without padding.
    #[error("the header is not base64url")]
    Header,
    /// The signature is not base64url of 64 bytes.
    #[error("the signature is not base64url of 64 bytes")]
    Signature,
}

/// A detached JWS, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detached {
    /// The protected header, decoded but not understood.
    pub header: Vec<u8>,
    /// r‖s.
    pub signature: Signature,
}

impl Detached {
    /// Takes `text` apart.
    pub fn parse(text: &str) -> Result<Self, JwsError> {
        let (header, rest) = text.split_once('.').ok_or(JwsError::Shape)?;
        let signature = rest.strip_prefix('.').ok_or(JwsError::Shape)?;
        if header.is_empty() || signature.is_empty() || signature.contains('.') {
            return Err(JwsError::Shape);
        }
        Ok(Self {
            header: base64::decode_url(header).map_err(|_| JwsError::Header)?,
            signature: base64::decode_url_array::<SIGNATURE_BYTES>(signature)
                .map_err(|_| JwsError::Signature)?,
        })
    }

    /// Whether this is a signature of `body` with this header under `key`.
    #[must_use]
    pub fn verify(&self, key: &VerifyingKey, body: &[u8]) -> bool {
        key.verify(
            signing_input(&self.header, body).as_bytes(),
            &self.signature,
        )
    }
}

/// What is signed: `b64url(header) + "." + b64url(body)`.
#[must_use]
pub fn signing_input(header: &[u8], body: &[u8]) -> String {
    let mut input = String::with_capacity((header.len() + body.len()) / 3 * 4 + 9);
    base64::encode_url_to(header, &mut input);
    input.push('.');
    base64::encode_url_to(body, &mut input);
    input
}

/// Signs `body` and writes the detached form.
#[must_use]
pub fn sign(key: &SigningKey, header: &[u8], body: &[u8]) -> String {
    let signature = key.sign(signing_input(header, body).as_bytes());
    let mut text = base64::encode_url(header);
    text.push_str("..");
    base64::encode_url_to(&signature, &mut text);
    text
}

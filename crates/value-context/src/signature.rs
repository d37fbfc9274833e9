//! The signature of an envelope as data: its text, and the bytes it covers (VX-SIG-4, VX-SIG-5, VX-CAN).

use chancery_core::canonical::{Canonical, Dialect, canonical_cutting, write_without_member};
use chancery_core::json::Value;
use chancery_core::keys::ed25519::{
    Signature, SignatureTextError, SigningKey, decode_signature, encode_signature,
};

/// The member that a signature does not cover, at the top level alone.
pub(crate) const MEMBER: &str = "signature";

/// Which canonical form a signature was made over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// RFC 8785, the form of this protocol.
    Jcs,
    /// What Python's `json.dumps` writes with sorted keys, accepted on receipt (VX-CAN-7).
    Legacy,
}

impl Form {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Jcs => "jcs",
            Self::Legacy => "legacy",
        }
    }
}

/// A signature as the envelope writes it. Its text fits the schema; whether it is 64 bytes of strict
/// base64 is asked later, because that is a fault of the signature and not of the message's structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignatureText {
    text: Box<str>,
    bytes: Option<Signature>,
}

impl SignatureText {
    /// Reads `base64:` and at least one base64 character; none for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        let bytes = match decode_signature(text) {
            Ok(bytes) => Some(bytes),
            Err(SignatureTextError::Value(_)) => None,
            Err(SignatureTextError::Shape) => return None,
        };
        Some(Self {
            text: text.into(),
            bytes,
        })
    }

    /// Signs `bytes`.
    pub fn sign(bytes: &[u8], key: &SigningKey) -> Self {
        let signature = key.sign(bytes);
        Self {
            text: encode_signature(&signature).into(),
            bytes: Some(signature),
        }
    }

    /// As the envelope writes it.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The 64 bytes; none when the text is not strict base64 of exactly 64.
    pub const fn bytes(&self) -> Option<&Signature> {
        self.bytes.as_ref()
    }
}

/// The bytes that a signature over an envelope covers, in both forms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedForms {
    jcs: Vec<u8>,
    legacy: Option<Vec<u8>>,
}

impl SignedForms {
    /// The forms of an envelope. Computed from the tree, never from the text (VX-CAN-8).
    pub fn of(envelope: &Value<'_>) -> Self {
        Self::cut_from(
            &canonical_cutting(envelope, MEMBER, Dialect::Vibe),
            envelope,
        )
    }

    /// The forms of an envelope that has been written in some dialect with [`MEMBER`] marked: where all
    /// dialects agree there is nothing left to write.
    pub(crate) fn cut_from(written: &Canonical, envelope: &Value<'_>) -> Self {
        if written.agree() {
            return Self {
                jcs: written.signed_bytes(),
                legacy: None,
            };
        }
        let jcs = without_signature(envelope, Dialect::Rfc8785);
        let legacy = without_signature(envelope, Dialect::Python);
        Self {
            legacy: (legacy != jcs).then_some(legacy),
            jcs,
        }
    }

    /// The RFC 8785 form.
    pub fn jcs(&self) -> &[u8] {
        &self.jcs
    }

    /// The legacy form, where it differs.
    pub fn legacy_if_different(&self) -> Option<&[u8]> {
        self.legacy.as_deref()
    }

    /// The bytes in the given form.
    pub fn bytes(&self, form: Form) -> &[u8] {
        match form {
            Form::Jcs => &self.jcs,
            Form::Legacy => self.legacy.as_deref().unwrap_or(&self.jcs),
        }
    }
}

fn without_signature(envelope: &Value<'_>, dialect: Dialect) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(512);
    write_without_member(envelope, MEMBER, dialect, &mut bytes);
    bytes
}

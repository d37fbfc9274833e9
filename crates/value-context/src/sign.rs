//! Making an envelope and signing it (VX-SIG-4, VX-CAN-6, VX-TS-3).
//!
//! What is emitted is one canonical text. Numbers are normalized before signing so that both forms agree
//! wherever they can; where they cannot, the RFC 8785 form is signed and the answer says so.

use crate::agent_id::AgentId;
use crate::message::{Kind, Recipient, VERSION};
use crate::message_id::MessageId;
use crate::signature::{MEMBER, SignatureText, SignedForms};
use bytes::Bytes;
use chancery_core::canonical::{Dialect, to_bytes};
use chancery_core::json::{Number, Object, Value};
use chancery_core::keys::ed25519::SigningKey;
use chancery_core::time::{Time, format_millis};

/// 2^53 − 1: larger integers have no token that every reader accepts (VX-ENV-6).
const MAX_SAFE_INTEGER: f64 = 9_007_199_254_740_991.0;

/// A signed envelope, ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// The envelope with its signature.
    pub bytes: Bytes,
    /// The signature that is in it.
    pub signature: SignatureText,
    /// Whether the legacy form differs from the signed one (`canonical_divergence`).
    pub diverges: bool,
}

/// The envelope of a new message, not signed yet.
pub fn envelope<'a>(
    kind: Kind,
    message_id: MessageId,
    sender: &AgentId,
    recipient: &Recipient,
    made_at: Time,
    payload: Object<'a>,
) -> Object<'a> {
    Object::with_capacity(8)
        .with("vcp_message", VERSION)
        .with("type", kind.as_str())
        .with("message_id", message_id.to_string())
        .with("sender", sender.as_str().to_owned())
        .with("recipient", recipient.as_str().to_owned())
        .with("timestamp", format_millis(made_at).as_str().to_owned())
        .with("payload", payload)
}

/// Signs an envelope. A signature that it has already is replaced.
pub fn seal(envelope: Object<'_>, key: &SigningKey) -> Sealed {
    let mut envelope = normalize_numbers(Value::Object(envelope));
    let signed = SignedForms::of(&envelope);
    let signature = SignatureText::sign(signed.jcs(), key);
    if let Value::Object(members) = &mut envelope {
        members.insert(MEMBER, signature.as_str().to_owned());
    }
    Sealed {
        // In this form a number keeps its kind of token: a large integral double does not turn into an
        // integer that receivers refuse. Where the forms agree it is the RFC 8785 form.
        bytes: to_bytes(&envelope, Dialect::Python).into(),
        signature,
        diverges: signed.legacy_if_different().is_some(),
    }
}

/// Writes integral numbers without fraction or exponent, as far as an integer token can hold them.
pub fn normalize_numbers(value: Value<'_>) -> Value<'_> {
    match value {
        Value::Number(number) => Value::Number(normalize_number(number)),
        Value::Array(items) => Value::Array(items.into_iter().map(normalize_numbers).collect()),
        Value::Object(object) => Value::Object(
            object
                .into_iter()
                .map(|(name, member)| (name, normalize_numbers(member)))
                .collect(),
        ),
        other => other,
    }
}

fn normalize_number(number: Number<'_>) -> Number<'_> {
    let value = number.as_f64();
    let integral = value.fract() == 0.0 && value.abs() <= MAX_SAFE_INTEGER;
    if integral && !number.is_integer_token() {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "integral and within the range of i64"
        )]
        return Number::from(value as i64);
    }
    number
}

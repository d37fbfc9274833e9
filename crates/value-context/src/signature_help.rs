//! Help with a signature that failed: in which other dialect or encoding it would verify, and where the signed bytes
//! first differ.
//!
//! Guarantees: it never makes a message acceptable, it only says more about a refusal; it costs at most
//! [`MAX_VERIFICATIONS`] verifications, under usable keys of the sender alone; what it tells is a name of a closed list
//! and an offset, never a value of the message (VX-ERR-2).

use std::fmt::Write as _;

use chancery_core::canonical::{Dialect, to_bytes, write_f64, write_string};
use chancery_core::json::{Number, Object, Value};
use chancery_core::keys::ed25519::{Signature, VerifyingKey, decode_signature, encode_signature};
use chancery_core::keys::{Algorithm, Keyring};
use chancery_core::refusal::Refusal;
use chancery_core::time::Time;

use crate::code::Code;
use crate::message::{MAX_MAX_BYTES, read_json};
use crate::signature::MEMBER;

/// Keys of the sender that are tried: during a rotation two are usable.
const MAX_KEYS: usize = 2;
/// Verifications that one help costs at most: every other form under each key.
pub const MAX_VERIFICATIONS: usize = FORMS.len() * MAX_KEYS;

/// How the bytes under a signature were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Form {
    python_numbers: bool,
    code_point_order: bool,
    ascii_escapes: bool,
    payload_only: bool,
}

/// Every form, the demanded one first, then those that differ in least.
const FORMS: [Form; 16] = [
    form(0b0000),
    form(0b0001),
    form(0b0010),
    form(0b0100),
    form(0b1000),
    form(0b0011),
    form(0b0101),
    form(0b1001),
    form(0b0110),
    form(0b1010),
    form(0b1100),
    form(0b0111),
    form(0b1011),
    form(0b1101),
    form(0b1110),
    form(0b1111),
];

const fn form(bits: u8) -> Form {
    Form {
        python_numbers: bits & 1 != 0,
        code_point_order: bits & 2 != 0,
        ascii_escapes: bits & 4 != 0,
        payload_only: bits & 8 != 0,
    }
}

/// What was found out about a signature that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Help {
    /// What the signer did otherwise; names of the closed list `python_numbers`, `code_point_order`, `ascii_escapes`,
    /// `payload_only`, `base64url`, joined by `+`. None when no other way helps.
    pub would_verify_as: Option<String>,
    /// The first differing byte: of the signed bytes against the RFC 8785 form or, where those are right, of the
    /// signature's text against standard base64.
    pub first_difference_at: Option<usize>,
}

/// Whether help may say more about this refusal: the signature did not verify, or its text is not of the right shape.
pub fn applies(refusal: &Refusal) -> bool {
    let shape = refusal.code == Code::SchemaInvalid.as_str();
    refusal.code == Code::SignatureInvalid.as_str()
        || (shape && refusal.path.as_deref() == Some("/signature"))
}

/// Adds to a refusal of `received` what can be said about its signature.
pub fn add(refusal: &mut Refusal, received: &[u8], keys: &Keyring, now: Time) {
    let Ok(envelope) = read_json(received, MAX_MAX_BYTES) else {
        return;
    };
    let Some(help) = help(&envelope, keys, now) else {
        return;
    };
    let words = help.in_words();
    refusal.message.to_mut().push_str(&words);
    refusal.details = Some(help.as_json());
}

/// Looks for the way in which an envelope's signature would verify under a usable key of its sender; none when there is
/// no signature or no such key, so that there is nothing to be said.
pub fn help(envelope: &Value<'_>, keys: &Keyring, now: Time) -> Option<Help> {
    let sender = envelope.get("sender")?.as_str()?;
    let text = envelope.get(MEMBER)?.as_str()?;
    let usable: Vec<VerifyingKey> = keys
        .records(sender)
        .filter(|record| record.algorithm == Algorithm::Ed25519 && record.usable_at(now))
        .take(MAX_KEYS)
        .filter_map(|record| VerifyingKey::from_bytes(&record.public).ok())
        .collect();
    if usable.is_empty() {
        return None;
    }
    let nothing = Help {
        would_verify_as: None,
        first_difference_at: None,
    };
    let Some((signature, base64url)) = read_signature(text) else {
        return Some(nothing);
    };
    let Some((form, difference)) = signed_form(envelope, &signature, &usable) else {
        return Some(nothing);
    };
    let mut names = form.names();
    names.extend(base64url.then_some("base64url"));
    let in_text = || first_difference(text.as_bytes(), encode_signature(&signature).as_bytes());
    Some(Help {
        would_verify_as: Some(names.join("+")),
        first_difference_at: difference.or_else(in_text),
    })
}

impl Help {
    fn as_json(&self) -> String {
        let difference = self.first_difference_at.map(|at| at as u64);
        let members = Object::new()
            .with(
                "first_difference_at",
                difference.map_or(Value::Null, Value::from),
            )
            .with(
                "would_verify_as",
                self.would_verify_as
                    .clone()
                    .map_or(Value::Null, Value::from),
            );
        let bytes = to_bytes(&Value::Object(members), Dialect::Vibe);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The same as the end of a sentence.
    fn in_words(&self) -> String {
        let Some(names) = &self.would_verify_as else {
            return "; no other dialect or encoding helps".to_owned();
        };
        let mut words = format!("; as {names} it would verify");
        if let Some(at) = self.first_difference_at {
            // Writing to a text cannot fail.
            let _ = write!(words, ", first difference at byte {at}");
        }
        words
    }
}

impl Form {
    fn names(self) -> Vec<&'static str> {
        [
            (self.python_numbers, "python_numbers"),
            (self.code_point_order, "code_point_order"),
            (self.ascii_escapes, "ascii_escapes"),
            (self.payload_only, "payload_only"),
        ]
        .into_iter()
        .filter_map(|(differs, name)| differs.then_some(name))
        .collect()
    }

    fn bytes(self, envelope: &Value<'_>) -> Vec<u8> {
        let mut out = Vec::with_capacity(1_024);
        match (self.payload_only, envelope) {
            (true, _) => self.value(envelope.get("payload").unwrap_or(&Value::Null), &mut out),
            (false, Value::Object(members)) => self.object(members, Some(MEMBER), &mut out),
            (false, other) => self.value(other, &mut out),
        }
        out
    }

    fn value(self, value: &Value<'_>, out: &mut Vec<u8>) {
        match value {
            Value::Null => out.extend_from_slice(b"null"),
            Value::Bool(value) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
            Value::Number(number) => self.number(number, out),
            Value::String(text) => self.string(text, out),
            Value::Array(items) => {
                out.push(b'[');
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    self.value(item, out);
                }
                out.push(b']');
            }
            Value::Object(members) => self.object(members, None, out),
        }
    }

    fn object(self, object: &Object<'_>, left_out: Option<&str>, out: &mut Vec<u8>) {
        let mut members: Vec<_> = object
            .iter()
            .filter(|(name, _)| Some(*name) != left_out)
            .collect();
        if self.code_point_order {
            members.sort_unstable_by_key(|(name, _)| *name);
        } else {
            members.sort_unstable_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
        }
        out.push(b'{');
        for (index, (name, value)) in members.into_iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            self.string(name, out);
            out.push(b':');
            self.value(value, out);
        }
        out.push(b'}');
    }

    fn number(self, number: &Number<'_>, out: &mut Vec<u8>) {
        if number.is_integer_token() {
            let token = number.token();
            out.extend_from_slice(if token == "-0" { "0" } else { token }.as_bytes());
        } else if self.python_numbers {
            write_f64(number.as_f64(), Dialect::Python, out);
        } else {
            write_f64(number.as_f64(), Dialect::Rfc8785, out);
        }
    }

    fn string(self, text: &str, out: &mut Vec<u8>) {
        let start = out.len();
        write_string(text, out);
        if self.ascii_escapes {
            escape_all_but_ascii(out, start);
        }
    }
}

/// Writes what follows `start` again with every other character than ASCII as `\u` and four hex digits, as Python does
/// unless told otherwise; U+007F stays as it is there.
fn escape_all_but_ascii(out: &mut Vec<u8>, start: usize) {
    if out[start..].is_ascii() {
        return;
    }
    let written = out.split_off(start);
    for unit in String::from_utf8_lossy(&written).encode_utf16() {
        match u8::try_from(unit) {
            Ok(byte) if byte.is_ascii() => out.push(byte),
            _ => out.extend_from_slice(format!("\\u{unit:04x}").as_bytes()),
        }
    }
}

/// The 64 bytes of a signature's text, and whether they were in base64url.
fn read_signature(text: &str) -> Option<(Signature, bool)> {
    if let Ok(signature) = decode_signature(text) {
        return Some((signature, false));
    }
    let value = text
        .strip_prefix("base64:")
        .or_else(|| text.strip_prefix("base64url:"))?;
    if value.contains(['+', '/']) {
        return None;
    }
    let standard = value
        .trim_end_matches('=')
        .replace('-', "+")
        .replace('_', "/");
    let signature = decode_signature(&format!("base64:{standard}==")).ok()?;
    Some((signature, true))
}

/// The form that the signature was made over, and where it first differs from the demanded one.
fn signed_form(
    envelope: &Value<'_>,
    signature: &Signature,
    keys: &[VerifyingKey],
) -> Option<(Form, Option<usize>)> {
    let mut tried: Vec<Vec<u8>> = Vec::with_capacity(FORMS.len());
    for form in FORMS {
        let bytes = form.bytes(envelope);
        // Most messages read alike in most forms: one that was tried needs no second verification.
        if tried.contains(&bytes) {
            continue;
        }
        if keys.iter().any(|key| key.verify(&bytes, signature)) {
            let demanded = tried.first().unwrap_or(&bytes);
            return Some((form, first_difference(&bytes, demanded)));
        }
        tried.push(bytes);
    }
    None
}

/// Where two texts first differ; none when they are equal.
fn first_difference(a: &[u8], b: &[u8]) -> Option<usize> {
    let common = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    (common < a.len().max(b.len())).then_some(common)
}

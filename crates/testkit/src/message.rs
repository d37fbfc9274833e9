//! Envelopes of the test protocol.

use bytes::Bytes;
use chancery_core::canonical::{Dialect, to_bytes, write_without_member};
use chancery_core::json::{self, Object, ReadRules, Value};
use chancery_core::refusal::Refusal;

/// A decoded envelope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestMessage {
    /// Its identifier.
    pub id: String,
    /// Who sends it.
    pub from: String,
    /// Who is to get it.
    pub to: String,
    /// What it does.
    pub verb: String,
    /// What the verb needs.
    pub value: Option<String>,
    /// `base64:` and a signature.
    pub signature: Option<String>,
    /// The canonical bytes of the whole.
    pub canonical: Bytes,
    /// The canonical bytes without the signature.
    pub signed: Bytes,
}

/// What a hosted agent decides about an envelope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestOutgoing {
    /// Who is to get it.
    pub to: String,
    /// What it does.
    pub verb: String,
    /// What the verb needs.
    pub value: Option<String>,
}

const LIMITS: ReadRules = ReadRules {
    max_bytes: 65_536,
    ..ReadRules::VALUE_CONTEXT
};

impl TestMessage {
    /// Reads an envelope.
    ///
    /// # Errors
    /// The first fault.
    pub fn decode(raw: &[u8]) -> Result<Self, Refusal> {
        let tree = json::read(raw, &LIMITS)
            .map_err(|fault| malformed("not JSON").at(fault.path.to_string()))?;
        let object = tree
            .as_object()
            .ok_or_else(|| malformed("an envelope is an object"))?;
        for (name, value) in object.iter() {
            let known = matches!(
                name,
                "id" | "from" | "to" | "verb" | "ts" | "value" | "signature"
            );
            if !known || value.as_str().is_none() {
                return Err(malformed("a member that is unknown or no string").at(name.to_owned()));
            }
        }
        let required = |name: &'static str| {
            text(object, name)
                .filter(|text| !text.is_empty())
                .ok_or_else(|| malformed("a member is missing").at(name))
        };
        let mut signed = Vec::with_capacity(raw.len());
        write_without_member(&tree, "signature", Dialect::Vibe, &mut signed);
        Ok(Self {
            id: required("id")?,
            from: required("from")?,
            to: required("to")?,
            verb: required("verb")?,
            value: text(object, "value"),
            signature: text(object, "signature"),
            canonical: to_bytes(&tree, Dialect::Vibe).into(),
            signed: signed.into(),
        })
    }
}

fn text(object: &Object<'_>, name: &str) -> Option<String> {
    object.get(name).and_then(Value::as_str).map(str::to_owned)
}

fn malformed(message: &'static str) -> Refusal {
    Refusal::new("malformed", 400, "CH-JRN-1", message).in_check("decode")
}

/// The canonical bytes of an envelope of these members; those without a value are left out.
pub fn envelope(members: &[(&'static str, Option<&str>)]) -> Bytes {
    let present = members
        .iter()
        .filter_map(|(name, value)| value.map(|value| (*name, value)));
    let object: Object<'_> = present.collect();
    to_bytes(&Value::Object(object), Dialect::Vibe).into()
}

/// An envelope's bytes with one more member.
pub fn with_member(bytes: &[u8], name: &'static str, value: &str) -> Option<Bytes> {
    let Ok(Value::Object(mut object)) = json::read(bytes, &LIMITS) else {
        return None;
    };
    object.insert(name, value);
    Some(to_bytes(&Value::Object(object), Dialect::Vibe).into())
}

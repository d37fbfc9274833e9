//! The JSON form: an A2A message with the envelope in its metadata, and the JSON-RPC frame around it (section 6).
//!
//! Reading never verifies. Whatever is missing or has the wrong type is a format error with its place; no input
//! gives anything else (VA-WIRE-4). Where A2A 0.3 and 1.0 spell a thing differently both are read (VA-WIRE-6).

use chancery_core::canonical::{Dialect, write_f64};
use chancery_core::digest::{Blake2b256, hex};
use chancery_core::fault;
use chancery_core::json::{FaultKind, Number, Object, Place, ReadRules, Value, read};
use chancery_core::time::{format_vacant, parse_vacant};

use crate::envelope::{Envelope, MAX_SEQUENCE_NO};
use crate::error::{Part, ProtocolError};
use crate::id::VacantId;
use crate::payload::{Payload, Profile, Role, SelfEval};

/// Where the envelope stands in a message's metadata.
pub const METADATA_KEY: &str = "urn:vacant:v1";
/// The method of a call on the native binding.
pub const METHOD: &str = "message/send";

/// Members of a part that would carry content the signature does not cover (VA-WIRE-7).
const UNSIGNED_CONTENT: [&str; 4] = ["file", "data", "raw", "url"];

type Result<T> = std::result::Result<T, ProtocolError>;

/// Reads JSON as this protocol allows it (VA-CJ-6, VA-CJ-7).
pub fn read_json(text: &[u8], max_bytes: usize) -> Result<Value<'_>> {
    let rules = ReadRules {
        max_bytes,
        ..ReadRules::VACANT
    };
    read(text, &rules).map_err(|fault| match fault.kind {
        FaultKind::TooLarge => ProtocolError::TooLarge,
        _ => {
            let reason = format!(
                "the body is not JSON: {} (byte {})",
                fault.kind, fault.offset
            );
            ProtocolError::format(reason).of_part(Part::Json)
        }
    })
}

/// The message of a JSON-RPC body. The frame is not looked at (VA-WIRE-9).
pub fn message_of<'v, 'a>(body: &'v Value<'a>) -> Result<&'v Value<'a>> {
    let place = Place::ROOT;
    let params = member(object(body, &place)?, &place, "params")?;
    let place = place.child("params");
    let message = member(object(params, &place)?, &place, "message")?;
    object(message, &place.child("message"))?;
    Ok(message)
}

/// `from_a2a_jsonrpc`: the envelope of a JSON-RPC body, not verified (VA-WIRE-4).
pub fn from_jsonrpc(body: &Value<'_>) -> Result<Envelope> {
    from_message(message_of(body)?)
}

/// The envelope of an answer's body: `result.message` (VA-WIRE-10, VA-WIRE-11).
pub fn from_response(body: &Value<'_>) -> Result<Envelope> {
    let message = body.get("result").and_then(|result| result.get("message"));
    let message =
        message.ok_or_else(|| ProtocolError::format_at("/result/message", "it is missing"))?;
    from_message(message)
}

/// The envelope that a message carries, not verified.
pub fn from_message(message: &Value<'_>) -> Result<Envelope> {
    let root = Place::ROOT;
    let place = root.child("params");
    let place = place.child("message");
    let members = object(message, &place)?;
    let metadata = member(members, &place, "metadata")?;
    let within = place.child("metadata");
    let vacant = member(object(metadata, &within)?, &within, METADATA_KEY)?;
    let within = within.child(METADATA_KEY);
    let fields = object(vacant, &within)?;
    let text = |name: &'static str| {
        let value = member(fields, &within, name)?;
        string(value, &within.child(name))
    };
    let id = |name: &'static str| {
        VacantId::from_hex(text(name)?).map_err(|_| wrong(&within.child(name), "it is not 64 hex"))
    };
    let prev = Blake2b256::from_hex(text("prev_envelope_hash")?)
        .map_err(|_| wrong(&within.child("prev_envelope_hash"), "it is not 64 hex"))?;
    let timestamp = parse_vacant(text("timestamp")?)
        .map_err(|error| wrong(&within.child("timestamp"), error.to_string()))?;
    let signature = hex::decode(text("caller_signature")?)
        .map_err(|_| wrong(&within.child("caller_signature"), "it is not hex"))?;
    let idempotency_key = match fields.get("idempotency_key") {
        None => String::new(),
        Some(key) => string(key, &within.child("idempotency_key"))?.to_owned(),
    };
    Ok(Envelope {
        from: id("from_vacant_id")?,
        to: id("to_vacant_id")?,
        sequence_no: sequence_no(
            member(fields, &within, "sequence_no")?,
            &within.child("sequence_no"),
        )?,
        timestamp,
        prev,
        payload: read_payload(members, &place)?,
        idempotency_key,
        signature,
    })
}

/// The payload of a message: all but its metadata.
pub fn read_payload(message: &Object<'_>, place: &Place<'_>) -> Result<Payload> {
    let role = match message.get("role") {
        None => Role::User,
        Some(role) => {
            let place = place.child("role");
            Role::parse(string(role, &place)?).ok_or_else(|| wrong(&place, "no such role"))?
        }
    };
    let parts = match message.get("parts") {
        None => Vec::new(),
        Some(parts) => read_parts(parts, &place.child("parts"))?,
    };
    Ok(Payload {
        role,
        parts,
        context_id: optional_text(message, place, "contextId")?,
        message_id: optional_text(message, place, "messageId")?,
        self_eval: match message.get("selfEval") {
            None | Some(Value::Null) => None,
            Some(scores) => Some(read_scores(scores, &place.child("selfEval"))?),
        },
    })
}

fn read_parts(parts: &Value<'_>, place: &Place<'_>) -> Result<Vec<String>> {
    let parts = parts
        .as_array()
        .ok_or_else(|| wrong(place, "it is no array"))?;
    let read = |(index, part)| read_part(part, &place.item(index));
    parts.iter().enumerate().map(read).collect()
}

fn read_part(part: &Value<'_>, place: &Place<'_>) -> Result<String> {
    let part = object(part, place)?;
    for name in ["type", "kind"] {
        let other = part
            .get(name)
            .is_some_and(|kind| kind.as_str() != Some("text"));
        if other && !fault::on("va-other-parts") {
            let reason = "only text parts are implemented";
            return Err(wrong(&place.child(name), reason).of_part(Part::Content));
        }
    }
    if let Some(name) = UNSIGNED_CONTENT.iter().find(|name| part.contains(name)) {
        let reason = "a text part carries no other content";
        return Err(wrong(&place.child(name), reason).of_part(Part::Content));
    }
    match part.get("text") {
        None => Ok(String::new()),
        Some(text) => Ok(string(text, &place.child("text"))?.to_owned()),
    }
}

fn read_scores(scores: &Value<'_>, place: &Place<'_>) -> Result<SelfEval> {
    let members = object(scores, place)?;
    let mut eval = SelfEval::default();
    for name in SelfEval::NAMES {
        let (Some(value), Some(score)) = (members.get(name), eval.score_mut(name)) else {
            continue;
        };
        let place = place.child(name);
        let number = value
            .as_number()
            .ok_or_else(|| wrong(&place, "it is no number"))?;
        // The integer `-0` is 0, which is not the double of the same spelling.
        let found = number.as_f64();
        let found = if number.is_integer_token() {
            found + 0.0
        } else {
            found
        };
        if !(0.0..=1.0).contains(&found) {
            return Err(wrong(&place, "a score is between 0 and 1"));
        }
        *score = found;
    }
    Ok(eval)
}

/// A number with integral value: protobuf's JSON writes `3.0` (VA-WIRE-5).
fn sequence_no(value: &Value<'_>, place: &Place<'_>) -> Result<u64> {
    let text = value.as_str().filter(|_| fault::on("va-number-as-text"));
    if let Some(number) = text.and_then(|text| text.parse().ok()) {
        return Ok(number);
    }
    let number = value
        .as_number()
        .ok_or_else(|| wrong(place, "it is no number"))?;
    let found = if number.is_integer_token() {
        number.as_u64()
    } else {
        integral(number.as_f64())
    };
    found
        .filter(|number| (1..=MAX_SEQUENCE_NO).contains(number))
        .ok_or_else(|| wrong(place, "it is no integer from 1 to 2^63-1"))
}

fn integral(value: f64) -> Option<u64> {
    const BEYOND: f64 = 9_223_372_036_854_775_808.0;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "integral, not negative and below 2^63"
    )]
    (value.fract() == 0.0 && (0.0..BEYOND).contains(&value)).then_some(value as u64)
}

/// The message object of an envelope (VA-WIRE-2, VA-WIRE-3).
#[must_use]
pub fn to_message(envelope: &Envelope) -> Object<'_> {
    message_with(envelope, hex::encode(&envelope.signature))
}

/// The message object of an envelope that is not signed yet. In the place of the signature stands the profile that
/// it is to be signed in, which nothing else in a message tells.
#[must_use]
pub fn to_unsealed(envelope: &Envelope, profile: Profile) -> Object<'_> {
    message_with(envelope, profile.as_str().to_owned())
}

fn message_with(envelope: &Envelope, signature: String) -> Object<'_> {
    let payload = &envelope.payload;
    let part = |text: &'_ String| -> Value<'static> {
        Object::with_capacity(2)
            .with("type", "text")
            .with("text", text.clone())
            .into()
    };
    let optional =
        |text: &Option<String>| -> Value<'static> { text.clone().map_or(Value::Null, Value::from) };
    let vacant = Object::with_capacity(7)
        .with("from_vacant_id", envelope.from.hex())
        .with("to_vacant_id", envelope.to.hex())
        .with("sequence_no", envelope.sequence_no)
        .with(
            "timestamp",
            format_vacant(envelope.timestamp).as_str().to_owned(),
        )
        .with("prev_envelope_hash", envelope.prev.hex())
        .with("idempotency_key", envelope.idempotency_key.clone())
        .with("caller_signature", signature);
    let mut message = Object::with_capacity(6)
        .with("role", payload.role.as_str())
        .with("parts", payload.parts.iter().map(part).collect::<Vec<_>>())
        .with("contextId", optional(&payload.context_id))
        .with("messageId", optional(&payload.message_id))
        .with("metadata", Object::new().with(METADATA_KEY, vacant));
    if let Some(scores) = &payload.self_eval {
        message.insert("selfEval", scores_object(scores));
    }
    message
}

fn scores_object(scores: &SelfEval) -> Object<'static> {
    let number = |score: f64| {
        let mut token = Vec::new();
        write_f64(score, Dialect::Python, &mut token);
        let token = String::from_utf8(token).expect("digits are ASCII");
        Number::from_token(token).expect("a finite double is a number")
    };
    let members = SelfEval::NAMES.into_iter().zip(scores.scores());
    members.map(|(name, score)| (name, number(score))).collect()
}

/// `to_a2a_jsonrpc`: the body of a call (VA-WIRE-1).
#[must_use]
pub fn to_jsonrpc(envelope: &Envelope, profile: Profile) -> Object<'_> {
    let id = if envelope.idempotency_key.is_empty() {
        envelope.hash(profile).hex()
    } else {
        envelope.idempotency_key.clone()
    };
    Object::with_capacity(4)
        .with("jsonrpc", "2.0")
        .with("id", id)
        .with("method", METHOD)
        .with(
            "params",
            Object::new().with("message", to_message(envelope)),
        )
}

fn object<'v, 'a>(value: &'v Value<'a>, place: &Place<'_>) -> Result<&'v Object<'a>> {
    value
        .as_object()
        .ok_or_else(|| wrong(place, "it is no object"))
}

fn member<'v, 'a>(object: &'v Object<'a>, place: &Place<'_>, name: &str) -> Result<&'v Value<'a>> {
    object
        .get(name)
        .ok_or_else(|| wrong(&place.child(name), "it is missing"))
}

fn string<'v>(value: &'v Value<'_>, place: &Place<'_>) -> Result<&'v str> {
    value
        .as_str()
        .ok_or_else(|| wrong(place, "it is no string"))
}

fn optional_text(object: &Object<'_>, place: &Place<'_>, name: &str) -> Result<Option<String>> {
    match object.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(text) => Ok(Some(string(text, &place.child(name))?.to_owned())),
    }
}

fn wrong(place: &Place<'_>, reason: impl Into<std::borrow::Cow<'static, str>>) -> ProtocolError {
    ProtocolError::format_at(place.to_path().to_pointer(), reason)
}

//! Envelopes: fields to bytes and back, what parses, what verifies.

use chancery_core::canonical::{Dialect, to_bytes};
use chancery_core::digest::{Blake2b256, hex};
use chancery_core::json::Value;
use chancery_core::time::parse_vacant;

use super::{Case, File, expect, key_of};
use crate::envelope::{Draft, Envelope};
use crate::error::ProtocolError;
use crate::id::VacantId;
use crate::payload::{Payload, Role, SelfEval};
use crate::wire::{from_jsonrpc, read_json, to_jsonrpc};

/// Bodies in vectors may be large.
const MAX_BYTES: usize = 1 << 24;

/// Fields give signing payload, hash, signature and body; the body gives the fields.
pub(super) fn envelope(case: &mut Case, file: &mut File) -> Result<(), String> {
    let key = key_of(&case.text("signer")?);
    let mut fields = case.object("fields")?;
    let draft = draft(&mut fields, file)?;
    fields.finish()?;
    expect("profile", draft.profile_of_payload(), file.profile)?;
    let signed = draft.sign(&key).map_err(|error| error.to_string())?;
    let payload = signed.signing_payload(file.profile);
    expect(
        "signing payload",
        hex::encode(payload.as_bytes()),
        case.text("signing_payload_hex")?,
    )?;
    expect("hash", payload.hash().hex(), case.text("hash_hex")?)?;
    expect(
        "signature",
        hex::encode(&signed.signature),
        case.text("signature_hex")?,
    )?;
    let body = case.take("jsonrpc")?;
    let written: Value<'_> = to_jsonrpc(&signed, file.profile).into();
    expect("body", canonical_text(&written), canonical_text(&body))?;
    let read = parsed(&body).map_err(|error| error.to_string())?;
    expect("envelope read back", &read, &signed)?;
    let verified = read.verify().map_err(|error| error.to_string())?;
    expect("profile of the signature", verified.profile, file.profile)
}

fn draft(fields: &mut Case, file: &File) -> Result<Draft, String> {
    let id = |text: String| VacantId::from_hex(&text).map_err(|error| error.to_string());
    let prev = Blake2b256::from_hex(&fields.text("prev_envelope_hash")?);
    let timestamp = parse_vacant(&fields.text("timestamp_in")?);
    Ok(Draft {
        from: id(fields.text("from_vacant_id")?)?,
        to: id(fields.text("to_vacant_id")?)?,
        sequence_no: fields.number("sequence_no")?,
        timestamp: timestamp.map_err(|error| error.to_string())?,
        prev: prev.map_err(|error| error.to_string())?,
        idempotency_key: fields.text("idempotency_key")?,
        payload: Payload {
            role: Role::parse(&fields.text("role")?).ok_or("no such role")?,
            parts: fields.texts("texts")?,
            context_id: fields.optional_text("context_id")?,
            message_id: fields.optional_text("message_id")?,
            self_eval: match fields.optional("self_eval") {
                None | Some(Value::Null) => None,
                Some(scores) => Some(scores_of(scores)?),
            },
        },
        profile: file.profile,
    })
}

fn scores_of(scores: Value<'static>) -> Result<SelfEval, String> {
    let mut eval = SelfEval::default();
    for (name, value) in Case::of(scores)?.into_members() {
        let number = value.as_number().ok_or("a score is no number")?;
        *eval.score_mut(&name).ok_or("no such score")? = number.as_f64();
    }
    Ok(eval)
}

/// A body parses, or is a format error.
pub(super) fn parse(case: &mut Case, _: &mut File) -> Result<(), String> {
    case.optional("reference");
    let found = match parsed(&case.take("jsonrpc")?) {
        Ok(_) => "ok",
        Err(error) => error.type_name(),
    };
    expect("outcome", found, case.text("expect")?.as_str())
}

/// A body verifies, or does not.
pub(super) fn tamper(case: &mut Case, _: &mut File) -> Result<(), String> {
    case.optional("reference");
    let found = parsed(&case.take("jsonrpc")?).and_then(|envelope| envelope.verify());
    expect("verifies", found.is_ok(), case.bool("verifies")?)
}

/// The body as it would come over a wire: written out and read by the protocol's own reader.
pub(super) fn parsed(body: &Value<'_>) -> Result<Envelope, ProtocolError> {
    let text = to_bytes(body, Dialect::Python);
    from_jsonrpc(&read_json(&text, MAX_BYTES)?)
}

fn canonical_text(value: &Value<'_>) -> String {
    String::from_utf8_lossy(&to_bytes(value, Dialect::Python)).into_owned()
}

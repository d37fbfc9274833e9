//! Messages by themselves: canonical bytes, signatures, form.

use std::borrow::Cow;

use bytes::Bytes;
use chancery_core::canonical::{Dialect, Form, to_bytes};
use chancery_core::json::{self, ReadRules, Value};
use chancery_core::keys::ed25519::{SigningKey, VerifyingKey};
use chancery_core::refusal::Refusal;
use chancery_vacant::id::VacantId;
use chancery_vacant::payload::Profile;
use chancery_vacant::wire;
use chancery_value_context::message::{DEFAULT_MAX_BYTES, MAX_MAX_BYTES};
use chancery_value_context::sign::seal;
use pyo3::PyResult;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::pyfunction;

type BytesOut = Cow<'static, [u8]>;
/// Code, requirement, path and message of a refusal.
type Told = (String, String, Option<String>, String);

fn wrong(what: impl ToString) -> pyo3::PyErr {
    PyValueError::new_err(what.to_string())
}

fn no_protocol(name: &str) -> pyo3::PyErr {
    wrong(format!("{name} is no protocol that this function knows"))
}

/// The canonical bytes of a JSON text.
#[pyfunction]
pub(crate) fn canonicalize(text: &[u8], dialect: &str) -> PyResult<BytesOut> {
    let form = Form::named(dialect).ok_or_else(|| wrong(format!("no dialect {dialect}")))?;
    let value = json::read(text, &form.rules()).map_err(wrong)?;
    Ok(to_bytes(&value, form.dialect()).into())
}

/// An envelope with its signature.
#[pyfunction]
pub(crate) fn sign(protocol: &str, envelope: &[u8], seed: &[u8]) -> PyResult<BytesOut> {
    let seed = seed.try_into().map_err(|_| wrong("a seed has 32 bytes"))?;
    let key = SigningKey::from_seed(seed);
    match protocol {
        "value-context" => {
            let rules = ReadRules {
                max_bytes: MAX_MAX_BYTES,
                ..ReadRules::VALUE_CONTEXT
            };
            let Value::Object(members) = json::read(envelope, &rules).map_err(wrong)? else {
                return Err(wrong("an envelope is a JSON object"));
            };
            Ok(seal(members, &key).bytes.to_vec().into())
        }
        "vacant" => {
            let body = wire::read_json(envelope, MAX_MAX_BYTES).map_err(wrong)?;
            let call = wire::from_jsonrpc(&body).map_err(wrong)?;
            if call.from != VacantId::of(&key) {
                return Err(wrong("the key does not belong to from_vacant_id"));
            }
            let profile = match call.payload.self_eval {
                Some(_) => Profile::SelfEval,
                None => Profile::Base,
            };
            let call = call.signed(&key, profile);
            let request = wire::to_jsonrpc(&call, profile).into();
            Ok(to_bytes(&request, Dialect::Python).into())
        }
        other => Err(no_protocol(other)),
    }
}

/// Whether a signature holds under a key.
#[pyfunction]
pub(crate) fn verify(protocol: &str, envelope: &[u8], public_key: &[u8]) -> PyResult<bool> {
    let key = VerifyingKey::from_bytes(public_key).map_err(wrong)?;
    match protocol {
        "value-context" => {
            let message = chancery_value_context::message::decode(
                Bytes::copy_from_slice(envelope),
                MAX_MAX_BYTES,
            );
            let message = message.map_err(wrong)?;
            let signature = message.signature.as_ref();
            let Some(signature) = signature.and_then(|signature| signature.bytes()) else {
                return Ok(false);
            };
            let legacy = message.signed.legacy_if_different();
            let mut forms = [Some(message.signed.jcs()), legacy].into_iter().flatten();
            Ok(forms.any(|form| key.verify(form, signature)))
        }
        "vacant" => {
            let body = wire::read_json(envelope, MAX_MAX_BYTES).map_err(wrong)?;
            let call = wire::from_jsonrpc(&body).map_err(wrong)?;
            Ok(call.from.as_bytes() == key.as_bytes() && call.verify().is_ok())
        }
        other => Err(no_protocol(other)),
    }
}

/// What is wrong with an envelope by itself.
#[pyfunction]
pub(crate) fn validate(protocol: &str, envelope: &[u8], now: i64) -> PyResult<Option<Told>> {
    let raw = Bytes::copy_from_slice(envelope);
    let refusal: Option<Refusal> = match protocol {
        "value-context" => chancery_value_context::message::decode(raw, DEFAULT_MAX_BYTES)
            .err()
            .map(|undecodable| undecodable.fault.into_refusal("schema")),
        "vibe" => chancery_vibe::message::Message::decode(
            envelope,
            &chancery_vibe::settings::Settings::default(),
        )
        .err(),
        "vacant" => chancery_vacant::native::read_request(
            &raw,
            &chancery_vacant::settings::Settings::default(),
        )
        .1
        .err()
        .map(Refusal::from),
        "agh" => chancery_agh::validate::validate(
            envelope,
            now,
            &chancery_agh::settings::Settings::default(),
        )
        .err()
        .map(|fault| fault.into_refusal(chancery_agh::revision::Revision::A)),
        other => return Err(no_protocol(other)),
    };
    Ok(refusal.map(|refusal| {
        let (code, requirement) = (refusal.code.to_owned(), refusal.requirement.to_owned());
        (
            code,
            requirement,
            refusal.path.clone(),
            refusal.message.to_string(),
        )
    }))
}

//! Messages by themselves: canonical bytes, signatures, form.

use std::borrow::Cow;

use bytes::Bytes;
use chancery_agh::trust;
use chancery_core::canonical::{Dialect, Form, to_bytes};
use chancery_core::json::{self, Object, ReadRules, Value};
use chancery_core::keys::ed25519::{SigningKey, VerifyingKey};
use chancery_core::keys::{jws, p256};
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

/// An envelope with its signature. `key_id` names the key where the signature does: in vibe.
#[pyfunction]
#[pyo3(signature = (protocol, envelope, seed, key_id=None))]
pub(crate) fn sign(
    protocol: &str,
    envelope: &[u8],
    seed: &[u8],
    key_id: Option<&str>,
) -> PyResult<BytesOut> {
    let seed = seed.try_into().map_err(|_| wrong("a seed has 32 bytes"))?;
    if (protocol == "vibe") != key_id.is_some() {
        return Err(wrong("key_id belongs to vibe, and to nothing else"));
    }
    match (protocol, key_id) {
        ("value-context", _) => {
            let rules = ReadRules {
                max_bytes: MAX_MAX_BYTES,
                ..ReadRules::VALUE_CONTEXT
            };
            let key = SigningKey::from_seed(seed);
            Ok(seal(object(envelope, &rules)?, &key).bytes.to_vec().into())
        }
        ("vibe", Some(key_id)) => sign_vibe(envelope, seed, key_id),
        ("vacant", _) => sign_vacant(envelope, &SigningKey::from_seed(seed)),
        ("agh", _) => sign_agh(envelope, &SigningKey::from_seed(seed)),
        (other, _) => Err(no_protocol(other)),
    }
}

fn object(text: &[u8], rules: &ReadRules) -> PyResult<Object<'static>> {
    match json::read(text, rules).map_err(wrong)?.into_owned() {
        Value::Object(members) => Ok(members),
        _ => Err(wrong("an envelope is a JSON object")),
    }
}

/// A detached JWS over the canonical envelope (VC-SIG-2).
fn sign_vibe(envelope: &[u8], scalar: &[u8; 32], key_id: &str) -> PyResult<BytesOut> {
    let key = p256::SigningKey::from_scalar(scalar).map_err(wrong)?;
    let mut members = object(envelope, &ReadRules::VIBE)?;
    members.remove("signature");
    let body = to_bytes(&Value::Object(members.clone()), Dialect::Vibe);
    let signature = jws::sign(&key, &chancery_vibe::seal::header(key_id), &body);
    members.insert("signature", signature);
    Ok(to_bytes(&Value::Object(members), Dialect::Vibe).into())
}

fn sign_vacant(envelope: &[u8], key: &SigningKey) -> PyResult<BytesOut> {
    let body = wire::read_json(envelope, MAX_MAX_BYTES).map_err(wrong)?;
    let call = wire::from_jsonrpc(&body).map_err(wrong)?;
    if call.from != VacantId::of(key) {
        return Err(wrong("the key does not belong to from_vacant_id"));
    }
    let profile = match call.payload.self_eval {
        Some(_) => Profile::SelfEval,
        None => Profile::Base,
    };
    let call = call.signed(key, profile);
    let request = wire::to_jsonrpc(&call, profile).into();
    Ok(to_bytes(&request, Dialect::Python).into())
}

/// The proof of the trust profile (AG-TRU-10).
fn sign_agh(envelope: &[u8], key: &SigningKey) -> PyResult<BytesOut> {
    let members = object(envelope, &ReadRules::AGH)?;
    let public = *key.verifying_key().as_bytes();
    let from = members.get("from").and_then(Value::as_str);
    let nickname = from.and_then(|from| from.split('@').next());
    let handle = nickname.and_then(|nickname| trust::handle(nickname, &public));
    if handle.is_none() || handle.as_deref() != from {
        return Err(wrong("from is not the handle of the key"));
    }
    let signed = trust::sign(members, key);
    let signed = signed.ok_or_else(|| wrong("every name in ext needs a prefix with a dot"))?;
    Ok(to_bytes(&Value::Object(signed), Dialect::Rfc8785).into())
}

/// Whether a signature holds under a key.
#[pyfunction]
pub(crate) fn verify(protocol: &str, envelope: &[u8], public_key: &[u8]) -> PyResult<bool> {
    let ed25519 = || VerifyingKey::from_bytes(public_key).map_err(wrong);
    match protocol {
        "value-context" => {
            let key = ed25519()?;
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
        "vibe" => verify_vibe(envelope, public_key),
        "vacant" => {
            let key = ed25519()?;
            let body = wire::read_json(envelope, MAX_MAX_BYTES).map_err(wrong)?;
            let call = wire::from_jsonrpc(&body).map_err(wrong)?;
            Ok(call.from.as_bytes() == key.as_bytes() && call.verify().is_ok())
        }
        "agh" => verify_agh(envelope, &ed25519()?),
        other => Err(no_protocol(other)),
    }
}

/// The public key is an uncompressed point, or x and y of a JWK, which is the same without its first byte.
fn verify_vibe(envelope: &[u8], public_key: &[u8]) -> PyResult<bool> {
    let point = match public_key.len() {
        64 => [&[4], public_key].concat(),
        _ => public_key.to_vec(),
    };
    let key = p256::VerifyingKey::from_uncompressed(&point).map_err(wrong)?;
    let settings = chancery_vibe::settings::Settings {
        signed: true,
        ..Default::default()
    };
    let message = chancery_vibe::message::Message::decode(envelope, &settings).map_err(wrong)?;
    let signature = message.signature.as_deref();
    let Some(Ok(signature)) = signature.map(jws::Detached::parse) else {
        return Ok(false);
    };
    // The header has one form alone (VC-SIG-2).
    let header = json::read(&signature.header, &ReadRules::VIBE);
    let key_id = header.as_ref().ok().and_then(|it| it.get("kid")?.as_str());
    let is_canonical = key_id.is_some_and(|it| chancery_vibe::seal::header(it) == signature.header);
    Ok(is_canonical && signature.verify(&key, &message.signed_bytes()))
}

/// The trust state with the profile on, and that it is this key's.
fn verify_agh(envelope: &[u8], key: &VerifyingKey) -> PyResult<bool> {
    let settings = chancery_agh::settings::Settings {
        trust: chancery_agh::settings::Trust {
            enabled: true,
            ..Default::default()
        },
        ..Default::default()
    };
    let value = json::read(envelope, &ReadRules::AGH).map_err(wrong)?;
    let Ok(read) = chancery_agh::validate::members(&value, &settings) else {
        return Ok(false);
    };
    let state = trust::evaluate(&value, &read, &settings);
    let proved = trust::key_id(key.as_bytes());
    Ok(matches!(state, trust::TrustState::Verified { key_id } if key_id == proved))
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

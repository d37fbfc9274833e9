//! Verdicts about one envelope: steps 1 to 4, the trust profile, the digest.

use chancery_core::digest::{Sha256Digest, hex};
use chancery_core::json::{ReadRules, Value, read};
use chancery_core::keys::ed25519::SigningKey;

use super::{File, expect};
use crate::body::Capability;
use crate::fault::Fault;
use crate::revision::{Mode, Revision};
use crate::settings::{Settings, Trust};
use crate::trust::{evaluate, sign, signed_bytes};
use crate::validate::{members, validate};
use chancery_core::conformance::Case;

/// An envelope of revision A.
pub(super) fn envelope(case: &mut Case, _: &File) -> Result<(), String> {
    let text = match case.text_if_any("raw")? {
        Some(raw) => raw.into_bytes(),
        None => case.take("envelope")?.to_string().into_bytes(),
    };
    let settings = Settings {
        revision: Mode::A,
        ..Settings::default()
    };
    let now = case.integer("now")?;
    check_verdict(case, &validate(&text, now, &settings))
}

/// An envelope of either revision, in one of the three modes.
pub(super) fn either_revision(case: &mut Case, _: &File) -> Result<(), String> {
    let mode = serde_json::from_value(case.take("mode")?).map_err(|error| error.to_string())?;
    let settings = Settings {
        revision: mode,
        ..Settings::default()
    };
    let text = case.take("envelope")?.to_string();
    let now = case.integer("now")?;
    check_verdict(case, &validate(text.as_bytes(), now, &settings))
}

fn check_verdict(case: &mut Case, found: &Result<Revision, Fault>) -> Result<(), String> {
    let mut expected = case.case("expect")?;
    let verdict = expected.text("verdict")?;
    match found {
        Ok(revision) => {
            expect("verdict", "accept", verdict.as_str())?;
            if let Some(letter) = expected.text_if_any("revision")? {
                expect("revision", revision.as_str(), letter.as_str())?;
            }
        }
        Err(fault) => {
            expect("verdict", "reject", verdict.as_str())
                .map_err(|reason| format!("{reason}: {fault}"))?;
            let reason_code = expected.text("reason_code")?;
            expect("reason_code", fault.reason().as_str(), reason_code.as_str())?;
            expect(
                "error",
                fault.error.as_str(),
                expected.text("error")?.as_str(),
            )?;
            if let Some(step) = expected.optional("step") {
                let found = fault.stage.step(Revision::A);
                expect("step", Some(u64::from(found)), step.as_u64())?;
            }
        }
    }
    expected.finish()
}

/// The trust state of an envelope; for the worked example also the signed bytes and the signature.
pub(super) fn trust(case: &mut Case, _: &File) -> Result<(), String> {
    let settings = Settings {
        trust: Trust {
            enabled: true,
            ..Trust::default()
        },
        ..Settings::default()
    };
    let text = case.take("envelope")?.to_string();
    let value = read(text.as_bytes(), &ReadRules::AGH).map_err(|fault| fault.to_string())?;
    let state = match members(&value, &settings) {
        Ok(envelope) => evaluate(&value, &envelope, &settings).as_str(),
        // What is no Peer ID and no handle is not even asked for its proof.
        Err(_) => "rejected",
    };
    expect("trust state", state, case.text("expect")?.as_str())?;
    let signed = signed_bytes(&value);
    if let Some(canonical) = case.text_if_any("canonical_utf8")? {
        expect("signed bytes", signed.clone(), Some(canonical.into_bytes()))?;
    }
    let signed = signed.unwrap_or_default();
    if let Some(length) = case.optional("canonical_len") {
        expect("length", Some(signed.len() as u64), length.as_u64())?;
    }
    if let Some(digest) = case.text_if_any("canonical_sha256")? {
        expect("digest", Sha256Digest::of(&signed).hex(), digest)?;
    }
    match case.text_if_any("seed_hex")? {
        Some(seed) => check_signing(&value, &seed),
        None => Ok(()),
    }
}

/// Signing the envelope again gives the envelope again.
fn check_signing(envelope: &Value<'_>, seed: &str) -> Result<(), String> {
    let seed = hex::decode_array::<32>(seed).map_err(|error| error.to_string())?;
    let Value::Object(members) = envelope.clone().into_owned() else {
        return Err("the envelope is no object".to_owned());
    };
    let again = sign(members, &SigningKey::from_seed(&seed)).ok_or("it cannot be signed")?;
    let signature = |value: &Value<'_>| {
        let text = value.get("proof")?.get("sig")?.as_str()?;
        Some(text.to_owned())
    };
    expect(
        "signature",
        signature(&Value::Object(again)),
        signature(envelope),
    )
}

/// The digest of a capability.
pub(super) fn digest(case: &mut Case, _: &File) -> Result<(), String> {
    let text = case.take("capability")?.to_string();
    let value = read(text.as_bytes(), &ReadRules::AGH).map_err(|fault| fault.to_string())?;
    let members = value.as_object().ok_or("the capability is no object")?;
    let capability = Capability::read(members).map_err(|fault| fault.to_string())?;
    let canonical = case.text("canonical_utf8")?;
    expect(
        "canonical bytes",
        capability.canonical(),
        canonical.into_bytes(),
    )?;
    expect("digest", capability.digest(), case.text("digest")?)
}

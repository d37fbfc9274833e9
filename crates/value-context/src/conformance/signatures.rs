//! Cases about canonical bytes and the signatures over them.

use super::{Run, expect};
use crate::code::Code;
use crate::message::{DEFAULT_MAX_BYTES, decode};
use crate::signature::{Form, SignatureText, SignedForms};
use chancery_core::canonical::Dialect;
use chancery_core::conformance::Case;
use chancery_core::digest::{Sha256Digest, hex};
use chancery_core::json::Value;
use chancery_core::keys::ed25519::SigningKey;
use chancery_core::keys::{Algorithm, KeyRecord, KeyState, Keyring};

/// Text to RFC 8785 bytes and legacy bytes, or the code of its refusal.
pub(super) fn canonicalization(case: &mut Case, run: &Run<'_>) -> Result<(), String> {
    let input = case.bytes("input_hex")?;
    if let Some(text) = case.optional_text("input")? {
        expect("input_hex", &input[..], text.as_bytes())?;
    }
    let read = run.subject.read(&input);
    if let Some(code) = case.optional_text("error")? {
        return match read {
            Ok(_) => Err(format!("accepted, expected {code}")),
            Err(fault) => expect("error", fault.code.as_str(), &code),
        };
    }
    let value = read.map_err(|fault| format!("refused: {fault}"))?;
    let jcs = run.subject.canonical(&value, Dialect::Rfc8785);
    let legacy = run.subject.canonical(&value, Dialect::Python);
    expect("jcs_hex", &jcs, &case.bytes("jcs_hex")?)?;
    expect("jcs", &jcs[..], case.text("jcs")?.as_bytes())?;
    expect("legacy_hex", &legacy, &case.bytes("legacy_hex")?)?;
    expect("legacy", &legacy[..], case.text("legacy")?.as_bytes())?;
    expect("same", jcs == legacy, case.bool("same")?)?;
    let signed = run.subject.signed_forms(&value);
    expect("signed RFC 8785 form", signed.bytes(Form::Jcs), &jcs)?;
    expect("signed legacy form", signed.bytes(Form::Legacy), &legacy)
}

/// An envelope, the bytes its signature covers, and the form under which it verifies.
pub(super) fn signed_message(case: &mut Case, run: &Run<'_>) -> Result<(), String> {
    let key = SigningKey::from_seed(&case.array("signer_seed_hex")?);
    let public = case.bytes("public_key_hex")?;
    expect(
        "public_key_hex",
        &key.verifying_key().as_bytes()[..],
        &public,
    )?;
    let text = case.text("message_text")?;
    let envelope = run
        .subject
        .read(text.as_bytes())
        .map_err(|fault| format!("refused: {fault}"))?;
    let signed = run.subject.signed_forms(&envelope);
    let form = form_named(&case.text("form")?)?;
    check_signed_bytes(case, &signed, form)?;
    let signature = case.text("signature")?;
    expect(
        "signature member",
        member(&envelope, "signature")?,
        &signature,
    )?;
    let verifies = case.bool("verifies")?;
    if verifies {
        // Ed25519 is deterministic: what verifies is what this key makes.
        let made = SignatureText::sign(signed.bytes(form), &key);
        expect("signature", made.as_str(), &signature)?;
    }
    check_verdict(&envelope, &signed, form, &public, verifies, run)?;
    check_decoded(&text, &signed)
}

fn form_named(name: &str) -> Result<Form, String> {
    [Form::Jcs, Form::Legacy]
        .into_iter()
        .find(|form| form.as_str() == name)
        .ok_or_else(|| format!("no form is named {name}"))
}

fn check_signed_bytes(case: &mut Case, signed: &SignedForms, form: Form) -> Result<(), String> {
    let bytes = signed.bytes(form);
    expect(
        "signed_bytes_hex",
        hex::encode(bytes),
        case.text("signed_bytes_hex")?,
    )?;
    let digest = Sha256Digest::of(bytes).hex();
    expect(
        "signed_bytes_sha256",
        digest,
        case.text("signed_bytes_sha256")?,
    )?;
    let agree = signed.legacy_if_different().is_none();
    expect("jcs_equals_legacy", agree, case.bool("jcs_equals_legacy")?)
}

fn check_verdict(
    envelope: &Value<'_>,
    signed: &SignedForms,
    form: Form,
    public: &[u8],
    verifies: bool,
    run: &Run<'_>,
) -> Result<(), String> {
    let sender = member(envelope, "sender")?;
    let keys = keyring_of(sender, public)?;
    let signature = SignatureText::parse(member(envelope, "signature")?)
        .ok_or("the signature member is outside the grammar")?;
    let verdict = |accept_legacy| {
        run.subject
            .verify(sender, signed, &signature, &keys, accept_legacy)
            .map(|verified| verified.form)
            .map_err(|fault| fault.code)
    };
    let expected = if verifies {
        Ok(form)
    } else {
        Err(Code::SignatureInvalid)
    };
    expect("verdict", verdict(true), expected)?;
    let strict = expected.and_then(|form| match form {
        Form::Jcs => Ok(form),
        Form::Legacy => Err(Code::SignatureInvalid),
    });
    expect("verdict without the legacy form", verdict(false), strict)
}

/// The whole decoder sees the same bytes.
fn check_decoded(text: &str, signed: &SignedForms) -> Result<(), String> {
    match decode(text.to_owned().into(), DEFAULT_MAX_BYTES) {
        Ok(message) => expect(
            "signed bytes of the decoded message",
            &message.signed,
            signed,
        ),
        Err(refused) => Err(format!("not decoded: {refused}")),
    }
}

fn member<'v>(envelope: &'v Value<'_>, name: &str) -> Result<&'v str, String> {
    envelope
        .get(name)
        .and_then(Value::as_str)
        .ok_or_else(|| format!("the message has no text {name}"))
}

fn keyring_of(owner: &str, public: &[u8]) -> Result<Keyring, String> {
    let mut keys = Keyring::new();
    let record = KeyRecord {
        id: "k".to_owned(),
        owner: owner.to_owned(),
        algorithm: Algorithm::Ed25519,
        public: public.to_vec(),
        state: KeyState::Active,
        valid_from: None,
        valid_until: None,
        source: chancery_core::keys::KeySource::Operator,
        removed: false,
    };
    keys.insert(record).map_err(|fault| fault.to_string())?;
    Ok(keys)
}

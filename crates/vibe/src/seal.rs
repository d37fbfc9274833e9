//! Signed envelopes (section 15): detached JWS, ES256, keys pinned by the world seed.
//!
//! A pinned key is in the keyring under two kinds of owner: its own name, so that an unknown key can be told from one
//! that is not for this sender, and its name with each address that it may sign for. A signature counts while both are
//! usable: whoever withdraws the first withdraws the key, whoever withdraws one of the others takes an address from it.

use chancery_core::admin::key_key;
use chancery_core::decision::{Cx, Stop};
use chancery_core::fault;
use chancery_core::json::{self, ReadRules};
use chancery_core::keys::jws::{Detached, signing_input};
use chancery_core::keys::{KeyValidity, Keyring, Verdict};
use chancery_core::line::Line;
use chancery_core::protocol::SignatureCheck;
use chancery_core::rows::RowKey;
use chancery_core::time::Time;

use crate::code::Code;
use crate::message::Message;
use crate::settings::Settings;

/// The owner under which a pinned key is known at all.
pub fn key_owner(kid: &str) -> String {
    ["vibe/", kid].concat()
}

/// The owner under which a pinned key signs for an address.
pub fn key_owner_for(kid: &str, address: &str) -> String {
    ["vibe/", kid, "/", address].concat()
}

/// The header that a signature under this key has, byte for byte.
pub fn header(kid: &str) -> Vec<u8> {
    let mut header = Vec::from(&b"{\"alg\":\"ES256\",\"kid\":"[..]);
    chancery_core::canonical::write_string(kid, &mut header);
    header.push(b'}');
    header
}

/// Checks the signature of an envelope and says under which key it holds (VC-SIG-4, all but freshness).
pub fn verify(message: &Message, keys: &Keyring, at: Time) -> Result<String, Code> {
    let text = message
        .signature
        .as_deref()
        .ok_or(Code::SignatureRequired)?;
    let jws = Detached::parse(text).map_err(|_| Code::SignatureMalformed)?;
    let kid = kid_of(&jws.header).ok_or(Code::SignatureMalformed)?;
    let known = keys.get(&key_owner(&kid), &kid).ok_or(Code::UnknownKey)?;
    let owner = key_owner_for(&kid, &message.from_text);
    let signed = signing_input(&jws.header, &message.signed_bytes());
    match keys.verify(&owner, signed.as_bytes(), &jws.signature, at) {
        Verdict::Verified { .. } if known.usable_at(at) => Ok(kid),
        Verdict::Invalid if fault::on("vc-signature-unchecked") => Ok(kid),
        Verdict::UnknownOwner => Err(Code::KeyNotForSender),
        Verdict::Verified { .. } | Verdict::NotValid { .. } | Verdict::Invalid => {
            Err(Code::SignatureInvalid)
        }
    }
}

/// The rows of the key that an envelope names: as a key at all, and as one for its sender. None where it names none.
pub fn key_rows(message: &Message) -> Option<[RowKey; 2]> {
    let jws = Detached::parse(message.signature.as_deref()?).ok()?;
    let kid = kid_of(&jws.header)?;
    let owners = [key_owner(&kid), key_owner_for(&kid, &message.from_text)];
    Some(owners.map(|owner| key_key(&owner, &kid)))
}

/// Whether the key that an envelope was verified under is usable where it is decided (VC-RPL-1): others may have withdrawn it
/// while the envelope was on its way, and the log would never verify again.
pub fn check_key_at(message: &Message, at: Time, cx: &Cx<'_>) -> Result<(), Stop> {
    let refused = || Code::SignatureInvalid.refuse().in_check("signature");
    for row in key_rows(message).ok_or_else(refused)? {
        let validity: Option<KeyValidity> = cx.row(&row)?;
        if !validity.is_some_and(|validity| validity.usable_at(at)) {
            return Err(refused().into());
        }
    }
    Ok(())
}

/// The key that a header names, where the header is exactly the canonical one.
fn kid_of(bytes: &[u8]) -> Option<String> {
    let value = json::read(bytes, &ReadRules::VIBE).ok()?;
    let kid = value.get("kid")?.as_str()?;
    (header(kid) == bytes).then(|| kid.to_owned())
}

/// Checks the signature on a recorded line under the keys on record (VC-RPL-1).
pub fn check_line(line: &Line, keys: &Keyring) -> SignatureCheck {
    let Some(signature) = &line.signature else {
        return SignatureCheck::NotSigned;
    };
    // Whether the scenario is signed shows in the line: an unsigned one has no signature at all.
    let settings = Settings {
        signed: true,
        ..Settings::default()
    };
    let message = match Message::decode(&line.envelope, &settings) {
        Ok(message) => message,
        Err(refusal) => return SignatureCheck::Invalid(refusal.to_string()),
    };
    if message.signature.as_ref() != Some(signature) {
        return SignatureCheck::Invalid("the line repeats another signature".to_owned());
    }
    let Some(at) = line.eval_ts else {
        return SignatureCheck::Invalid("an envelope without a decision time".to_owned());
    };
    match verify(&message, keys, at) {
        Ok(_) => SignatureCheck::Valid,
        Err(code) => SignatureCheck::Invalid(code.message().to_owned()),
    }
}

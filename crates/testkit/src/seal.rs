//! Signatures of the test protocol.

use bytes::Bytes;
use chancery_core::keys::ed25519::{decode_signature, encode_signature};
use chancery_core::keys::{Keyring, Verdict};
use chancery_core::line::{Line, Origin};
use chancery_core::protocol::{Authentic, Door, Proof, SignatureCheck};
use chancery_core::refusal::Refusal;
use chancery_core::time::Time;

use crate::message::{TestMessage, with_member};

/// Proves a message: by its signature where the sender has a key on record, by nothing otherwise.
///
/// # Errors
/// A signature that is missing, wrong, or not to be checked.
pub fn authenticate(
    message: TestMessage,
    door: Door,
    keys: &Keyring,
    now: Time,
) -> Result<Authentic<TestMessage>, Refusal> {
    let has_key = keys.records(&message.from).next().is_some();
    let proof = match (&message.signature, has_key) {
        (None, false) => Proof::Unverified,
        (None, true) => return Err(unproven("a sender with a key signs").of_message(&message.id)),
        (Some(signature), _) => {
            let id = verify(&message.from, &message.signed, signature, keys, now)
                .map_err(|why| unproven(why).of_message(&message.id))?;
            Proof::Key { id, form: None }
        }
    };
    Ok(Authentic {
        message,
        proof,
        door,
    })
}

fn verify(
    from: &str,
    signed: &[u8],
    signature: &str,
    keys: &Keyring,
    now: Time,
) -> Result<String, &'static str> {
    let signature = decode_signature(signature).map_err(|_| "the signature is no signature")?;
    match keys.verify(from, signed, &signature, now) {
        Verdict::Verified { key_id } => Ok(key_id.to_owned()),
        Verdict::NotValid { .. } => Err("the key is not valid"),
        Verdict::UnknownOwner => Err("the sender has no key on record"),
        Verdict::Invalid => Err("the signature does not hold"),
    }
}

/// Checks the signature of a recorded line under the key that it names.
pub fn check(line: &Line, keys: &Keyring) -> SignatureCheck {
    let message = match TestMessage::decode(&line.envelope) {
        Ok(message) => message,
        Err(refusal) => return SignatureCheck::Invalid(refusal.to_string()),
    };
    let named = line.meta_text("key");
    match (&message.signature, named) {
        (None, None) => SignatureCheck::NotSigned,
        (Some(signature), Some(named)) => {
            let Some(decided) = line.eval_ts else {
                return SignatureCheck::Invalid("the line has no decision time".to_owned());
            };
            match verify(&message.from, &message.signed, signature, keys, decided) {
                Ok(id) if id == named => SignatureCheck::Valid,
                Ok(_) => SignatureCheck::Invalid("it holds under another key".to_owned()),
                Err(why) => SignatureCheck::Invalid(why.to_owned()),
            }
        }
        _ => SignatureCheck::Invalid("signature and key do not go together".to_owned()),
    }
}

/// The signature that a node put into an agent's line.
pub fn recorded(line: &Line) -> Option<[u8; 64]> {
    if line.origin != Origin::Agent {
        return None;
    }
    decode_signature(&TestMessage::decode(&line.envelope).ok()?.signature?).ok()
}

/// Puts a signature into an unsealed envelope.
pub fn seal(unsealed: &Bytes, sign: &mut dyn FnMut(&[u8]) -> Option<[u8; 64]>) -> Option<Bytes> {
    let signature = sign(unsealed)?;
    with_member(unsealed, "signature", &encode_signature(&signature))
}

fn unproven(why: &'static str) -> Refusal {
    Refusal::new("unproven", 401, "CH-ID-1", why).in_check("authenticate")
}

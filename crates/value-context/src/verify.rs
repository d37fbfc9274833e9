//! Whether a message may be believed: its age and its signature (sections 13.2, 13.3 and 13.5).
//!
//! Pure given the keys and the time. A signature is checked over the RFC 8785 form; where the legacy form
//! differs it is tried once after that, and the answer says which one it was.

use crate::code::{Code, Fault};
use crate::message::Message;
use crate::signature::{Form, SignatureText, SignedForms};
use chancery_core::fault;
use chancery_core::json::Place;
use chancery_core::keys::{Keyring, Verdict};
use chancery_core::time::Time;
use std::time::Duration;

/// How old a message may be (VX-RPL-1).
pub const MAX_AGE: Duration = Duration::from_secs(300);
/// How far ahead a message may be stamped (VX-RPL-1).
pub const MAX_AHEAD: Duration = Duration::from_secs(30);

/// Under what a signature verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verified<'k> {
    /// The key of the sender that it verified under.
    pub key_id: &'k str,
    /// The form it was made over.
    pub form: Form,
}

/// Refuses what is stamped too long ago or too far ahead; both limits themselves are fine.
pub fn check_window(stamped: Time, now: Time) -> Result<(), Fault> {
    let place = Place::ROOT.child("timestamp");
    if stamped < now.saturating_sub(MAX_AGE) && !fault::on("vx-stale-accepted") {
        let message = "timestamp is more than 5 minutes in the past";
        return Err(Fault::new(Code::TimestampStale, message).at(&place));
    }
    if stamped > now.saturating_add(MAX_AHEAD) {
        let message = "timestamp is more than 30 seconds in the future";
        return Err(Fault::new(Code::TimestampFuture, message).at(&place));
    }
    Ok(())
}

/// Checks the signature of a message that came from another process; one must be there (VX-SIG-2).
pub fn verify<'k>(
    message: &Message,
    keys: &'k Keyring,
    now: Time,
    accept_legacy: bool,
) -> Result<Verified<'k>, Fault> {
    let signature = message.signature.as_ref().ok_or_else(|| {
        let message = "messages between processes must be signed";
        Fault::new(Code::SignatureMissing, message).at(&Place::ROOT.child("signature"))
    })?;
    let sender = message.sender.as_str();
    verify_signature(sender, &message.signed, signature, keys, now, accept_legacy)
}

/// Checks a signature of `sender` under the keys that are usable at `now`.
pub fn verify_signature<'k>(
    sender: &str,
    signed: &SignedForms,
    signature: &SignatureText,
    keys: &'k Keyring,
    now: Time,
    accept_legacy: bool,
) -> Result<Verified<'k>, Fault> {
    // No bytes verify under no key, so a signature that is not 64 bytes takes the common way: an unknown
    // sender is told before an invalid signature.
    let signature = signature.bytes().map_or(&[][..], |bytes| &bytes[..]);
    let under = |bytes: &[u8]| keys.verify(sender, bytes, signature, now);
    let legacy = signed.legacy_if_different().filter(|_| accept_legacy);
    let by_jcs = under(signed.jcs());
    if let Verdict::Verified { key_id } = by_jcs {
        let form = Form::Jcs;
        return Ok(Verified { key_id, form });
    }
    let by_legacy = legacy.map(under);
    if let Some(Verdict::Verified { key_id }) = by_legacy {
        let form = Form::Legacy;
        return Ok(Verified { key_id, form });
    }
    if let Some(key_id) = accepted_all_the_same(sender, by_jcs, signature, keys, now) {
        let form = Form::Jcs;
        return Ok(Verified { key_id, form });
    }
    Err(refusal([Some(by_jcs), by_legacy]))
}

/// The key that a node with one of two faults takes a signature for.
fn accepted_all_the_same<'k>(
    sender: &str,
    verdict: Verdict<'k>,
    signature: &[u8],
    keys: &'k Keyring,
    now: Time,
) -> Option<&'k str> {
    match verdict {
        Verdict::Invalid if fault::on("vx-signature-unchecked") && signature.len() == 64 => {
            keys.signing_key(sender, now).map(|key| key.id.as_str())
        }
        Verdict::NotValid { key_id } if fault::on("vx-retired-key-accepted") => Some(key_id),
        _ => None,
    }
}

fn refusal(verdicts: [Option<Verdict<'_>>; 2]) -> Fault {
    let any = |wanted: fn(&Verdict<'_>) -> bool| verdicts.iter().flatten().any(wanted);
    if any(|verdict| matches!(verdict, Verdict::UnknownOwner)) {
        let fault = Fault::new(Code::SenderUnknown, "no trust entry for the sender");
        return fault.at(&Place::ROOT.child("sender"));
    }
    let fault = if any(|verdict| matches!(verdict, Verdict::NotValid { .. })) {
        Fault::new(Code::KeyNotValid, "the signing key is not usable now")
    } else {
        let message = "the signature verifies under no key of the sender";
        Fault::new(Code::SignatureInvalid, message)
    };
    fault.at(&Place::ROOT.child("signature"))
}

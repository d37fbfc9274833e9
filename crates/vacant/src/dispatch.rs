//! Calling out: whom to call, what must hold before anything is sent, and when an answer counts (section 13).
//!
//! Pure: the search and the call itself happen outside. The registry is only asked, never called through (VA-DSP-8).

use chancery_core::json::Value;
use chancery_core::protocol::Failure;

use crate::card::CapabilityCard;
use crate::envelope::{Envelope, EnvelopeHash, Verified};
use crate::error::ProtocolError;
use crate::id::VacantId;
use crate::message::Message;
use crate::reputation::{Dimension, Oracle};
use crate::state::State;
use crate::wire::{from_response, read_json};

/// How many matches a search may give (VA-DSP-2).
pub const SEARCH_LIMIT: usize = 20;

/// What the one search of a dispatch asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchArgs<'q> {
    /// What is looked for.
    pub query: &'q str,
    /// Whether LOCAL vacants count: never on this path.
    pub include_local: bool,
    /// How many.
    pub limit: usize,
}

impl<'q> SearchArgs<'q> {
    /// The search for a capability (VA-DSP-2).
    #[must_use]
    pub const fn new(query: &'q str) -> Self {
        Self {
            query,
            include_local: false,
            limit: SEARCH_LIMIT,
        }
    }
}

/// Chooses whom to call among what a search gave: the first with an endpoint, or the one with the highest score,
/// the earlier of two alike (VA-DSP-3, VA-DSP-4). A match without a card is none.
pub fn choose<'m>(
    matches: &'m [Option<CapabilityCard>],
    oracle: Option<&dyn Oracle>,
) -> Result<&'m CapabilityCard, ProtocolError> {
    let mut best: Option<(&CapabilityCard, f64)> = None;
    for found in matches {
        let card = found
            .as_ref()
            .ok_or_else(|| ProtocolError::format("a match carries no card"))?;
        if card.callable_endpoint().is_none() {
            continue;
        }
        let score = oracle.map_or(0.0, |oracle| oracle.score(&card.vacant_id, &Dimension::ALL));
        let score = if score.is_nan() {
            f64::NEG_INFINITY
        } else {
            score
        };
        if best.is_none_or(|(_, before)| score > before) {
            best = Some((card, score));
        }
    }
    best.map(|(card, _)| card)
        .ok_or(ProtocolError::TargetNotFound("no match has an endpoint"))
}

/// The address of a card that may be called: there is one, and the card is signed (VA-DSP-5, VA-CARD-10).
pub fn check_target(card: &CapabilityCard) -> Result<&str, ProtocolError> {
    let endpoint = card
        .callable_endpoint()
        .ok_or(ProtocolError::TargetNotFound("the card has no endpoint"))?;
    if !card.verify() {
        return Err(ProtocolError::EnvelopeSignature("the card does not verify"));
    }
    Ok(endpoint)
}

/// An answer that counts: well formed, signed by the target, from it and for the requester (VA-DSP-6).
pub fn check_response(
    body: &Value<'_>,
    target: &VacantId,
    requester: &VacantId,
) -> Result<(Envelope, Verified), ProtocolError> {
    let envelope = from_response(body)?;
    let verified = envelope.verify_under(target)?;
    if envelope.from != *target {
        return Err(ProtocolError::format("the answer is from another vacant"));
    }
    if envelope.to != *requester {
        return Err(ProtocolError::format("the answer is for another vacant"));
    }
    Ok((envelope, verified))
}

/// What a peer's refusal means to the caller (VA-ERR-2).
#[must_use]
pub fn error_of_status(status: u16, reason_code: Option<&str>) -> ProtocolError {
    match status {
        410 => ProtocolError::TargetUnavailable(State::Sunk),
        423 => ProtocolError::TargetUnavailable(State::Hibernating),
        409 if reason_code == Some("CHAIN_FORK") => ProtocolError::ChainFork,
        409 => ProtocolError::ReplayDetected {
            last_sequence_no: 0,
        },
        401 => ProtocolError::EnvelopeSignature("the target says that the signature is wrong"),
        400 | 415 | 422 => ProtocolError::format("the target says that the envelope is malformed"),
        421 => ProtocolError::Misdirected,
        status => {
            // A reason is a word of ours; anything else a peer writes there is not repeated.
            let is_word = |reason: &&str| {
                reason.len() <= 40 && reason.bytes().all(|b| b.is_ascii_uppercase() || b == b'_')
            };
            let reason = reason_code
                .filter(is_word)
                .map(|reason| format!(" {reason}"));
            let reason = reason.unwrap_or_default();
            ProtocolError::Transport(format!("the target answered {status}{reason}").into())
        }
    }
}

/// Whether the next best match may be tried after this error (VA-DSP-12): only when nothing can have been accepted.
#[must_use]
pub const fn may_fall_back(error: &ProtocolError) -> bool {
    matches!(
        error,
        ProtocolError::TargetNotFound(_) | ProtocolError::TargetUnavailable(_)
    )
}

/// What a target's answer to a call means for that call (VA-DSP-10).
#[derive(Clone, Debug)]
pub enum Judged {
    /// It took the call and says this; nothing of it is verified yet.
    Answered(Box<Message>),
    /// It took the call, and there will be no answer.
    Ended(Failure),
    /// It took the call and has no answer to it, or none yet: the same bytes may be sent again.
    Taken,
    /// It cannot tell: the same bytes may be sent again.
    Again,
    /// It did not take the call.
    Refused(ProtocolError),
}

/// Judges the answer to a call whose envelope has the hash `sent`.
#[must_use]
pub fn judge(status: u16, body: &[u8], sent: &EnvelopeHash, max_bytes: usize) -> Judged {
    let value = read_json(body, max_bytes).unwrap_or(Value::Null);
    let error = value.get("error");
    let info = error.and_then(|error| error.get("data")?.as_array()?.first());
    let reason = info.and_then(|info| info.get("reason")?.as_str());
    match (status, reason) {
        (200, _) => {
            let message = value.get("result").and_then(|result| result.get("message"));
            answered(message).unwrap_or(Judged::Ended(Failure::BehaviourFailed))
        }
        // A proxy may fail as well: only the target's own word says that it took the call.
        (500, Some("BEHAVIOUR_FAILED")) => Judged::Ended(Failure::BehaviourFailed),
        (504, Some("BEHAVIOUR_TIMEOUT")) => Judged::Ended(Failure::BehaviourTimeout),
        (409, _) => {
            let tip = info.and_then(|info| info.get("metadata")?.get("chain_tip")?.as_str());
            if tip == Some(sent.hex().as_str()) {
                // It has it already: with the answer, or on the way to one.
                let response = error.and_then(|error| error.get("response"));
                answered(response).unwrap_or(Judged::Taken)
            } else {
                Judged::Refused(match error_of_status(status, reason) {
                    ProtocolError::ReplayDetected { .. } => ProtocolError::ReplayDetected {
                        last_sequence_no: last_of(info),
                    },
                    error => error,
                })
            }
        }
        // There is nobody who could have taken the call.
        (503, Some("NOT_CONFIGURED")) => Judged::Refused(error_of_status(status, reason)),
        (408 | 429 | 500.., _) => Judged::Again,
        _ => Judged::Refused(error_of_status(status, reason)),
    }
}

/// The last number that a target says it has.
fn last_of(info: Option<&Value<'_>>) -> u64 {
    let last = info.and_then(|info| info.get("metadata")?.get("last_sequence_no"));
    let last = last.and_then(|last| last.as_str()?.parse().ok());
    last.unwrap_or_default()
}

fn answered(message: Option<&Value<'_>>) -> Option<Judged> {
    let message = Message::of(message?).ok()?;
    Some(Judged::Answered(Box::new(message)))
}

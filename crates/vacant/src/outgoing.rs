//! What a hosted vacant decides about an envelope it sends: the node adds number, hash, time, key and signature.

use crate::id::VacantId;
use crate::payload::{Payload, Profile};

/// What is sent.
#[derive(Clone, Debug, PartialEq)]
pub enum Outgoing {
    /// The answer to a call that was accepted; whom it is for and in which profile follows from the call.
    Answer(Payload),
    /// A call of another vacant.
    Call(Call),
}

/// A call to be made.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// Whom it is for.
    pub to: VacantId,
    /// What it says.
    pub payload: Payload,
    /// Where to post it, when the target is not hosted here: the endpoint of its verified card.
    pub endpoint: Option<String>,
    /// The profile, where it is configured; otherwise the one the target last answered in (VA-MSG-8).
    pub profile: Option<Profile>,
}

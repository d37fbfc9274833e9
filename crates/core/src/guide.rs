//! What people are told of a code: when it comes, which requirement is behind it, and what to do next (CH-CLI-3).
//!
//! The texts stand beside the codes, in a `guide` module of each crate that has some. `chancery explain` and
//! `docs/errors.md` are made from them.

use serde::Serialize;

use crate::protocol::Failure;

/// What is told of one code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Guide {
    /// Whose code it is.
    pub group: &'static str,
    /// The code.
    pub code: &'static str,
    /// The status of an HTTP answer with it, where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// What stands for it on a wire that has other words: a JSON-RPC code, or a reason of AGH.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wire: Option<String>,
    /// Whether the same bytes may be accepted later.
    pub again: bool,
    /// The requirement behind it, where an answer names no closer one.
    pub requirement: &'static str,
    /// When it comes.
    pub when: &'static str,
    /// What to do next.
    pub next: &'static str,
}

/// The codes of administration, which all protocols share.
pub const ADMINISTRATION: &str = "administration";

/// A code of administration: its act was refused, and nothing changed.
pub const fn of_administration(
    code: &'static str,
    status: u16,
    requirement: &'static str,
    when: &'static str,
    next: &'static str,
) -> Guide {
    Guide {
        group: ADMINISTRATION,
        code,
        status: Some(status),
        wire: None,
        again: false,
        requirement,
        when,
        next,
    }
}

/// The codes of this crate: of administration, and why something outside failed.
pub fn guides() -> Vec<Guide> {
    let administration = [
        of_administration(
            "key_not_allowed",
            409,
            "CH-JRN-1",
            "A key cannot be put on record or moved to that state: its owner has it in a state that does not lead there, or its times do not fit.",
            "See its record with `chancery key list`; a key that is revoked or compromised stays so, and a new one takes its place.",
        ),
        of_administration(
            "token_not_allowed",
            409,
            "CH-JRN-1",
            "The token's principal acts for another consumer, merchant or participant already.",
            "Give the token another principal, or the same consumer, merchant and participant as that principal's other tokens.",
        ),
        of_administration(
            "agent_unknown",
            409,
            "CH-JRN-1",
            "No such agent is on record.",
            "`chancery agent list` tells who is; names are compared byte for byte.",
        ),
        of_administration(
            "agent_not_allowed",
            409,
            "CH-JRN-1",
            "The record of an agent does not have the form of its protocol, or contradicts one that is there.",
            "The sentence of the refusal says what; `chancery agent show` tells the record that is there.",
        ),
    ];
    let mut guides = administration.to_vec();
    guides.extend(Failure::ALL.map(of_failure));
    guides
}

/// What a `failed` line says.
fn of_failure(why: Failure) -> Guide {
    let (requirement, when, next) = match why {
        Failure::Undeliverable => (
            "CH-JRN-16",
            "Every attempt to deliver an envelope failed.",
            "Look at the recipient's address and whether its node runs; then send a new envelope.",
        ),
        Failure::BehaviourFailed => (
            "VA-SRV-9",
            "What answers for a hosted agent failed. The call stays accepted.",
            "The node's log on stderr says how; `docs/behaviours.md` says what a behaviour is held to.",
        ),
        Failure::BehaviourTimeout => (
            "VA-SRV-9",
            "What answers for a hosted agent took too long. The call stays accepted.",
            "Raise `vacant.behaviour_timeout_s`, or make the behaviour faster.",
        ),
        Failure::Interrupted => (
            "CH-JRN-16",
            "The node stopped between a call and its answer, or the task was canceled.",
            "Call again. `on_restart = \"rerun\"` of an agent runs such calls again after a start.",
        ),
        Failure::CallRefused => (
            "VA-DSP-9",
            "The other side refused a call of a hosted vacant.",
            "The refusal that the caller was given names the code; explain that one.",
        ),
    };
    Guide {
        group: "failed lines of the log",
        code: why.as_str(),
        status: None,
        wire: None,
        again: false,
        requirement,
        when,
        next,
    }
}

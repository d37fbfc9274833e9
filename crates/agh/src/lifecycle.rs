//! The life of an interaction (chapter 12), and of work in revision B (AG-B-21, AG-B-22): one table, no state.

use chancery_core::fault;
use serde::{Deserialize, Serialize};

use crate::body::{ReceiptStatus, State};
use crate::fault::ErrorName;
use crate::kind::Kind;
use crate::revision::Revision;

/// An interaction on record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interaction {
    /// Who opened it.
    pub initiator: String,
    /// Who is to do the work.
    pub target: String,
    /// Where it stands.
    pub state: State,
    /// When it was opened, in Unix seconds.
    pub created: i64,
    /// When it was last moved or spoken in.
    pub updated: i64,
    /// The last envelope that counted.
    pub last_id: String,
    /// The container it is bound to (revision B).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// The channel it was opened in (revision B, where the key does not say).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
}

/// What an envelope asks of an interaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// `direct`, or a directed `capability` or `say` that belongs to work.
    Ask,
    /// `receipt`
    Receipt(ReceiptStatus),
    /// `trace`
    Trace(State),
}

/// Who says it, to whom, where.
#[derive(Clone, Copy, Debug)]
pub struct Said<'a> {
    /// Which revision's table holds.
    pub revision: Revision,
    /// The sender.
    pub from: &'a str,
    /// The target.
    pub to: Option<&'a str>,
    /// The container (revision B).
    pub container: Option<&'a str>,
    /// What it asks.
    pub event: Event,
}

/// What the table says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// A new interaction, `submitted`.
    Open,
    /// It is delivered, and the state is this now.
    Advance(State),
    /// It is delivered, the state stays.
    Stay,
    /// No change, no delivery, no receipt (AG-LIF-9).
    Ignore(ErrorName),
    /// Refused.
    Reject(ErrorName),
}

/// Whether a kind takes part in lifecycles, given that its envelope names a unit of work.
pub fn event_of(kind: Kind, revision: Revision, content: Option<Event>) -> Option<Event> {
    match (kind, revision) {
        (Kind::Direct | Kind::Capability, _) | (Kind::Say, Revision::B) => Some(Event::Ask),
        (Kind::Receipt | Kind::Trace, _) => content,
        _ => None,
    }
}

/// The transition table (AG-LIF-2 to AG-LIF-7, AG-LIF-13).
pub fn decide(record: Option<&Interaction>, said: &Said<'_>) -> Move {
    if said.event == Event::Ask && said.to == Some(said.from) {
        return Move::Ignore(ErrorName::NotTarget);
    }
    let Some(record) = record else {
        return match said.event {
            Event::Ask if said.to.is_some() => Move::Open,
            _ => Move::Ignore(ErrorName::NotFound),
        };
    };
    let other = if said.from == record.initiator {
        &record.target
    } else if said.from == record.target {
        &record.initiator
    } else if fault::on("ag-anybody-moves") {
        &record.target
    } else {
        return Move::Ignore(ErrorName::NotTarget);
    };
    if said.event == Event::Ask && said.to != Some(other.as_str()) {
        return Move::Ignore(ErrorName::NotTarget);
    }
    if said.revision == Revision::B && record.container.as_deref() != said.container {
        return Move::Reject(ErrorName::WorkContainerMismatch);
    }
    if record.state.is_terminal() {
        return after_the_end(said);
    }
    advance(record, said)
}

fn after_the_end(said: &Said<'_>) -> Move {
    match (said.revision, said.event) {
        (Revision::B, _) => Move::Reject(ErrorName::WorkClosed),
        (Revision::A, Event::Ask) if fault::on("ag-closed-reopened") => {
            Move::Advance(State::Working)
        }
        (Revision::A, Event::Ask) => Move::Reject(ErrorName::InteractionClosed),
        (Revision::A, _) => Move::Ignore(ErrorName::InteractionClosed),
    }
}

fn advance(record: &Interaction, said: &Said<'_>) -> Move {
    match said.event {
        Event::Ask if record.state == State::NeedsInput => Move::Advance(State::Working),
        Event::Ask => Move::Stay,
        // Only the target can take responsibility.
        Event::Receipt(ReceiptStatus::Accepted)
            if record.state == State::Submitted && said.from == record.target =>
        {
            Move::Advance(State::Working)
        }
        Event::Receipt(ReceiptStatus::Rejected) => Move::Advance(State::Failed),
        Event::Receipt(ReceiptStatus::Canceled) => Move::Advance(State::Canceled),
        Event::Receipt(_) => Move::Stay,
        Event::Trace(State::Submitted) if !fault::on("ag-submitted-again") => {
            Move::Reject(ErrorName::InvalidTransition)
        }
        Event::Trace(state) => Move::Advance(state),
    }
}

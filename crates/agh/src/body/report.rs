//! Receipts and traces (chapter 11).

use chancery_core::json::Value;
use serde::{Deserialize, Serialize};

use super::{array, member, required_text, text};
use crate::envelope::Envelope;
use crate::fault::{Fault, Reason, words};
use chancery_core::json::Object;

words! {
    /// What became of an envelope (AG-RCP-1).
    ReceiptStatus {
        /// Taken, with responsibility.
        Accepted = "accepted",
        /// Not taken.
        Rejected = "rejected",
        /// Taken before.
        Duplicate = "duplicate",
        /// Too late.
        Expired = "expired",
        /// Not understood.
        Unsupported = "unsupported",
        /// Called off.
        Canceled = "canceled",
    }
}

/// The state of an interaction (AG-LIF-1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Handed over, not taken yet.
    Submitted,
    /// Being worked on.
    Working,
    /// Waits for the initiator.
    NeedsInput,
    /// Done.
    Completed,
    /// Went wrong.
    Failed,
    /// Called off.
    Canceled,
}

impl State {
    /// All six.
    pub const ALL: [Self; 6] = [
        Self::Submitted,
        Self::Working,
        Self::NeedsInput,
        Self::Completed,
        Self::Failed,
        Self::Canceled,
    ];

    /// The word on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Submitted => "submitted",
            Self::Working => "working",
            Self::NeedsInput => "needs_input",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Canceled => "canceled",
        }
    }

    /// The state of that word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }

    /// Whether nothing moves it any more.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Canceled)
    }
}

/// A receipt's body: its status.
pub(super) fn receipt(envelope: &Envelope<'_>) -> Result<ReceiptStatus, Fault> {
    let body = envelope.body;
    required_text(body, "for_id")?;
    let status = ReceiptStatus::parse(required_text(body, "status")?)
        .ok_or_else(|| Fault::body("body.status"))?;
    let reason = text(body, "reason_code")?;
    text(body, "detail")?;
    // AG-RCP-2
    let fits = match (status, reason) {
        (ReceiptStatus::Accepted, reason) => reason.is_none(),
        (ReceiptStatus::Canceled, None) => true,
        (_, None) => false,
        (_, Some(word)) => {
            Reason::parse(word).is_some_and(|reason| reason.is_of(envelope.revision))
        }
    };
    if fits {
        Ok(status)
    } else {
        Err(Fault::body("body.reason_code"))
    }
}

/// A trace's body: the state it reports.
pub(super) fn trace<'v>(body: &'v Object<'v>) -> Result<State, Fault> {
    let state =
        State::parse(required_text(body, "state")?).ok_or_else(|| Fault::body("body.state"))?;
    text(body, "message")?;
    array(body, "artifact_refs")?;
    match member(body, "result") {
        None | Some(Value::Object(_)) => Ok(state),
        Some(_) => Err(Fault::body("body.result")),
    }
}

//! Turn records: for diagnosis, never for replay (VC-TURN-12).

use serde::Serialize;

use crate::budget::Usage;

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// An envelope was sent.
    Emitted,
    /// The agent chose to say nothing.
    NoReply,
    /// Steps, tokens or money ran out.
    BudgetExhausted,
    /// Time ran out.
    Timeout,
    /// The behaviour could not be asked.
    Failed,
}

impl Outcome {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Emitted => "emitted",
            Self::NoReply => "no_reply",
            Self::BudgetExhausted => "budget_exhausted",
            Self::Timeout => "timeout",
            Self::Failed => "failed",
        }
    }
}

/// What one inference came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StepRecord {
    /// The decisions that were looked at, by kind; none of an output that could not be decoded.
    pub decisions: Vec<&'static str>,
    /// The code that it was told, if any.
    pub code: Option<&'static str>,
}

/// What a turn came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TurnRecord {
    /// The turn.
    pub turn_id: String,
    /// The agent.
    pub agent: String,
    /// The envelope that drove it.
    pub inbound_msg_id: String,
    /// Its session.
    pub session_id: String,
    /// Step by step.
    pub steps: Vec<StepRecord>,
    /// How often the behaviour was asked: once a step.
    pub inference_calls: u32,
    /// How it ended.
    pub outcome: Outcome,
    /// The envelope that was sent.
    pub outbound_msg_id: Option<String>,
    /// What inference took.
    pub usage: Usage,
}

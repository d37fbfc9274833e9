//! Why a call came to nothing.

use chancery_core::refusal::Refusal;
use serde::Deserialize;

/// What the node said when it refused.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, thiserror::Error)]
#[error("{code}: {message}")]
pub struct Refused {
    /// The protocol's code, such as `sender_suspended`.
    pub code: String,
    /// One sentence for people.
    pub message: String,
    /// The member at fault, when one is.
    #[serde(default)]
    pub path: Option<String>,
    /// Whether the same request may be taken later.
    #[serde(default)]
    pub retryable: bool,
}

impl From<&Refusal> for Refused {
    fn from(refusal: &Refusal) -> Self {
        Self {
            code: refusal.code.to_owned(),
            message: refusal.message.to_string(),
            path: refusal.path.clone(),
            retryable: refusal.retryable,
        }
    }
}

/// Why a call came to nothing.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The node refused.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The agent may not do that in its run state (VX-RUN-3).
    #[error("the agent is {}", .0.as_str())]
    Held(chancery_core::admin::RunState),
    /// No node answers there, or not in time.
    #[error("no node answers: {0}")]
    NoAnswer(String),
    /// The node answers, but not as a node does.
    #[error("the node's answer cannot be read: {0}")]
    Answer(String),
    /// The agent is not hosted there, or the token does not allow it.
    #[error("the node does not let this agent in (status {0})")]
    NotLetIn(u16),
    /// What was given cannot be used: an address, a world.
    #[error("{0}")]
    Given(String),
    /// The node in this process cannot go on.
    #[error("the node failed: {0}")]
    Node(String),
}

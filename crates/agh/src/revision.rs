//! The two published revisions, and which of them an envelope is of (AG-B-40 to AG-B-42).

use serde::{Deserialize, Serialize};

/// A published revision of the protocol. Both carry the same protocol string.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Revision {
    /// Seven kinds, `interaction_id`.
    A,
    /// Six kinds, workspaces, surfaces, `work_id`.
    B,
}

impl Revision {
    /// The letter in answers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::B => "B",
        }
    }
}

/// Which revisions a node speaks (AG-B-40).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Revision A alone.
    A,
    /// Revision B alone.
    B,
    /// Both, told apart by their markers.
    #[default]
    Dual,
}

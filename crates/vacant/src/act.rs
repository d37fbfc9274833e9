//! Administration of this protocol: what an operator publishes, withdraws and judges.

use chancery_core::line::ProtocolName;
use serde::{Deserialize, Serialize};

use crate::id::VacantId;
use crate::registry::Entry;
use crate::reputation::Dimension;

/// An act, as the envelope of a `node` line holds it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Act {
    /// Always `world`: what the rules of a protocol know of the world changes.
    kind: Kind,
    /// Always this protocol.
    protocol: ProtocolName,
    /// What changes.
    pub change: Change,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    World,
}

/// What changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// A card of a vacant elsewhere is published, or published anew (VA-REG-4).
    Publish(Entry),
    /// A card is found no more.
    Withdraw(VacantId),
    /// Somebody judges a vacant.
    Review(Review),
}

/// A judgement of one dimension.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Review {
    /// Who is judged.
    pub of: VacantId,
    /// In what.
    pub dim: Dimension,
    /// How good, from 0 to 1.
    pub signal: f64,
    /// How much it counts.
    pub weight: f64,
}

impl Act {
    /// The act that makes a change.
    #[must_use]
    pub const fn new(change: Change) -> Self {
        Self {
            kind: Kind::World,
            protocol: ProtocolName::Vacant,
            change,
        }
    }

    /// The act that a `node` line holds, when it is one of this protocol.
    #[must_use]
    pub fn of_line(envelope: &[u8]) -> Option<Self> {
        let act: Self = serde_json::from_slice(envelope).ok()?;
        (act.protocol == ProtocolName::Vacant).then_some(act)
    }
}

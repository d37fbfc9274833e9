//! The life of a key (VX-KEY-3, VX-KEY-4).

use std::fmt;

use serde::{Deserialize, Serialize};

/// Where a key is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyState {
    /// Announced, not in use.
    Pending,
    /// Signs and verifies.
    Active,
    /// Replaced; what it signed still verifies.
    Rotating,
    /// Out of use after a rotation.
    Retired,
    /// Known to others than its owner.
    Compromised,
    /// Withdrawn for good.
    Revoked,
}

impl KeyState {
    /// Every state.
    pub const ALL: [Self; 6] = [
        Self::Pending,
        Self::Active,
        Self::Rotating,
        Self::Retired,
        Self::Compromised,
        Self::Revoked,
    ];

    /// Whether a key may go from here to `next` (VX-KEY-4). To stay is no move.
    #[must_use]
    pub const fn may_become(self, next: Self) -> bool {
        matches!(
            (self, next),
            (Self::Pending, Self::Active)
                | (Self::Active, Self::Rotating)
                | (Self::Rotating, Self::Retired)
                | (Self::Active | Self::Rotating, Self::Compromised)
                | (Self::Compromised, Self::Revoked)
        )
    }

    /// Whether signatures count under a key in this state (VX-KEY-3).
    #[must_use]
    pub const fn usable(self) -> bool {
        matches!(self, Self::Active | Self::Rotating)
    }

    /// The name on the wire and in the log.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Active => "active",
            Self::Rotating => "rotating",
            Self::Retired => "retired",
            Self::Compromised => "compromised",
            Self::Revoked => "revoked",
        }
    }
}

impl fmt::Display for KeyState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

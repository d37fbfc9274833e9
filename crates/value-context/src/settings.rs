//! The settings that the rules go by, as a configuration line holds them.

use serde::{Deserialize, Serialize};

use crate::message::DEFAULT_MAX_BYTES;

/// The version of these rules: raised whenever a verdict or a byte of a line changes.
pub const RULES_VERSION: u32 = 1;

/// What the rules go by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Which rules.
    pub rules_version: u32,
    /// Largest envelope in bytes (VX-ENV-7).
    pub max_bytes: usize,
    /// Whether signatures over the legacy form count (VX-CAN-7).
    pub accept_legacy_canonical: bool,
    /// How long an identifier is remembered after receipt, at least 330 seconds (VX-DUP-3).
    pub dedupe_window_s: u64,
    /// Whether hosted agents may send personal states at all (VX-PS-5).
    pub share_personal_state: bool,
    /// Whether they may also send them to everybody they know (VX-PS-5).
    pub share_personal_state_broadcast: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            rules_version: RULES_VERSION,
            max_bytes: DEFAULT_MAX_BYTES,
            accept_legacy_canonical: true,
            dedupe_window_s: 330,
            share_personal_state: false,
            share_personal_state_broadcast: false,
        }
    }
}

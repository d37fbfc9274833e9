//! The settings that the rules go by, as a configuration line holds them.

use serde::{Deserialize, Serialize};

/// The version of these rules: raised whenever a verdict or a byte of a line changes.
pub const RULES_VERSION: u32 = 1;

/// What the rules go by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Which rules.
    pub rules_version: u32,
    /// Largest body in bytes (VA-SRV-14).
    pub max_bytes: usize,
    /// Most parts of a message (VA-SRV-14).
    pub max_parts: usize,
    /// Largest sum of the identifiers, keys and the signature of an envelope in bytes (VA-SRV-14).
    pub max_id_bytes: usize,
    /// How far an envelope's time may be from ours, in seconds; 0 asks nothing (VA-TS-5).
    pub max_clock_skew_s: u64,
    /// Whether a message without an envelope is refused on the A2A bindings (VA-A2A-5).
    pub require_envelope: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            rules_version: RULES_VERSION,
            max_bytes: 1_048_576,
            max_parts: 256,
            max_id_bytes: 65_536,
            max_clock_skew_s: 0,
            require_envelope: true,
        }
    }
}

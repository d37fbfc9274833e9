//! The settings that the rules go by, as a configuration line holds them.

use serde::{Deserialize, Serialize};

use crate::message::{Accept, DEFAULT_MAX_BYTES, Kind};

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
    /// Whether an escalation that asks for no acknowledgement gets one (VX-ACK-2).
    pub ack_unrequested: bool,
    /// Whether a hosted agent pauses when it sends a critical escalation (VX-RUN-2).
    pub pause_on_critical: bool,
    /// Whether messages of version 2.0 are taken (VX-V2-1).
    pub accept_vcp_2_0: bool,
    /// Types that are switched off (VX-ERR-2, `type_disabled`).
    pub disabled_types: Vec<Kind>,
}

impl Settings {
    /// What a reader takes under these settings.
    pub fn accept(&self) -> Accept<'_> {
        Accept {
            max_bytes: self.max_bytes,
            vcp_2_0: self.accept_vcp_2_0,
            disabled: &self.disabled_types,
        }
    }
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
            ack_unrequested: true,
            pause_on_critical: true,
            accept_vcp_2_0: false,
            disabled_types: Vec::new(),
        }
    }
}

//! The settings that the rules go by, as a configuration line holds them (AG-CFG-1).

use serde::{Deserialize, Serialize};

use crate::revision::{Mode, Revision};

/// The version of these rules: raised whenever a verdict or a byte of a line changes.
pub const RULES_VERSION: u32 = 1;

/// What null in an optional member of the envelope means (AG-ENV-17).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Nulls {
    /// A wrong type.
    #[default]
    Strict,
    /// The member is absent.
    Lenient,
}

/// What the rules go by. Spans are in seconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Which rules.
    pub rules_version: u32,
    /// Which revisions are spoken (AG-B-40).
    pub revision: Mode,
    /// The revision of a first message to a peer of which none is recorded (AG-B-45).
    pub default_send_revision: Revision,
    /// Largest envelope in bytes (AG-JSON-6).
    pub max_payload: usize,
    /// How often a peer greets (AG-GRT-2).
    #[serde(rename = "greet_interval")]
    pub greet_interval_s: u64,
    /// How old an envelope without an end of its own may be (AG-FRS-5).
    #[serde(rename = "max_replay_age")]
    pub max_replay_age_s: u64,
    /// Entries that an inbox shows (AG-DLV-2).
    pub max_queue_depth: u64,
    /// What null means (AG-ENV-17).
    pub null_optional: Nulls,
    /// The trust profile (chapter 15).
    pub trust: Trust,
    /// Envelopes remembered as processed (AG-DUP-4).
    pub max_dedupe_entries: usize,
    /// How long one is remembered at most (AG-DUP-3).
    #[serde(rename = "max_dedupe_retention")]
    pub max_dedupe_retention_s: u64,
    /// Interactions on record (AG-LIF-12).
    pub max_interactions: u64,
    /// How long an ended interaction stays on record (AG-LIF-12).
    #[serde(rename = "interaction_retention")]
    pub interaction_retention_s: u64,
    /// Conversations on record (AG-B-28).
    pub max_conversations: u64,
    /// Remote peers remembered in one channel (AG-PRS-6).
    pub max_remote_peers_per_channel: usize,
    /// Remote peers remembered in all (AG-PRS-6).
    pub max_remote_peers: usize,
    /// Answers to one asker from one local peer (AG-WHO-12).
    pub whois_answers_per_second: u32,
    /// Automatic receipts to one sender (AG-RCT-6).
    pub auto_receipts_per_second: u32,
    /// Whether what looks like a credential may not leave (AG-SND-4).
    pub secret_guard_outbound: bool,
    /// Whether what looks like a credential may not come in (AG-SND-4).
    pub secret_guard_inbound: bool,
    /// The bridge between the revisions (AG-B-46).
    pub bridge: Option<Bridge>,
    /// Who keeps tasks that others may write (AG-SEC-4).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tasks: Option<Tasks>,
}

/// Tasks that peers may write: work that is handed to one hosted peer (AG-SEC-4).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tasks {
    /// The hosted peer that keeps them.
    pub keeper: String,
    /// Peers that may write without a proof of who they are (AG-CARD-12).
    #[serde(default)]
    pub writers: Vec<String>,
}

/// The trust profile and what is asked of senders under it (AG-TRU-1, AG-TRU-9).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Trust {
    /// Whether the profile is on.
    pub enabled: bool,
    /// Peers that are always rejected.
    pub deny: Vec<String>,
    /// When not empty, the only peers that are heard.
    pub allow: Vec<String>,
    /// Channels in which only verified peers are heard.
    pub verified_channels: Vec<String>,
    /// Kinds that only verified peers may send.
    pub verified_kinds: Vec<String>,
    /// Peers that are bound to one key, as `peer=sha256:…`.
    pub pins: Vec<String>,
    /// Whether a proof of another profile is rejected (AG-TRU-8).
    pub reject_unknown_profiles: bool,
}

/// A bridge between one channel of revision A and one of revision B (AG-B-46).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bridge {
    /// The peer that the bridge speaks as, on both sides.
    pub peer: String,
    /// The channel of revision A.
    pub channel_a: String,
    /// The workspace of revision B.
    pub workspace_id: String,
    /// The channel of revision B.
    pub channel_b: String,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            rules_version: RULES_VERSION,
            revision: Mode::Dual,
            default_send_revision: Revision::A,
            max_payload: 1_048_576,
            greet_interval_s: 30,
            max_replay_age_s: 300,
            max_queue_depth: 100,
            null_optional: Nulls::Strict,
            trust: Trust::default(),
            max_dedupe_entries: 1_000_000,
            max_dedupe_retention_s: 86_400,
            max_interactions: 100_000,
            interaction_retention_s: 3_600,
            max_conversations: 10_000,
            max_remote_peers_per_channel: 10_000,
            max_remote_peers: 100_000,
            whois_answers_per_second: 20,
            auto_receipts_per_second: 50,
            secret_guard_outbound: true,
            secret_guard_inbound: false,
            bridge: None,
            tasks: None,
        }
    }
}

impl Settings {
    /// How long an ended interaction stays: never below twice the replay age, so that nothing late reopens it.
    pub fn retention_s(&self) -> u64 {
        self.interaction_retention_s
            .max(self.max_replay_age_s.saturating_mul(2))
    }

    /// What no configuration may ask for: a window that is off, or limits of nothing (AG-FRS-5).
    pub fn fault(&self) -> Option<&'static str> {
        let zero = [
            (self.max_replay_age_s, "max_replay_age must be positive"),
            (self.greet_interval_s, "greet_interval must be positive"),
            (
                self.max_dedupe_retention_s,
                "max_dedupe_retention must be positive",
            ),
            (
                self.max_dedupe_entries as u64,
                "max_dedupe_entries must be positive",
            ),
            (self.max_interactions, "max_interactions must be positive"),
            (self.max_queue_depth, "max_queue_depth must be positive"),
        ];
        zero.into_iter()
            .find(|(value, _)| *value == 0)
            .map(|(_, reason)| reason)
    }
}

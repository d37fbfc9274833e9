//! The settings that the rules go by, as a configuration line holds them.

use serde::{Deserialize, Serialize};

/// The version of these rules: raised whenever a verdict or a byte of a line changes.
pub const RULES_VERSION: u32 = 1;

/// The shortest time for which an idempotency key stays bound (VC-IDEM-7).
pub const MIN_RETENTION_S: u64 = 86_400;

/// Who plays the platform's roles (VC-PLAT-1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Platform {
    /// The runtime ranks, verifies, certifies, authorizes and refunds by itself.
    #[default]
    Auto,
    /// Platform roles are principals that post their own envelopes.
    Manual,
}

/// Which clock decides expiry (VC-PIPE-4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Clock {
    /// The sender's `ts`.
    #[default]
    Envelope,
    /// The time of receipt; also under a fixed clock of the node.
    Wall,
}

/// The policy of the world seed (VC-WLD-1).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// Seconds that a payment authorization lives at most.
    pub auth_ttl_s: u64,
    /// Seconds that a certificate lives at most.
    pub cert_ttl_s: u64,
    /// Seconds by which a signed envelope may be off.
    pub freshness_window_s: u64,
    /// The reputation that a merchant needs where the mandate asks for none.
    pub min_reputation: i64,
    /// Name of the ranking policy.
    pub ranking_version: String,
    /// Name of the verification policy.
    pub verification_version: String,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            auth_ttl_s: 900,
            cert_ttl_s: 900,
            freshness_window_s: 300,
            min_reputation: 0,
            ranking_version: "rank-1".to_owned(),
            verification_version: "verify-1".to_owned(),
        }
    }
}

/// What the rules go by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Which rules.
    pub rules_version: u32,
    /// The digest of the world seed; without one the protocol is not configured (CH-CFG-4).
    pub world: Option<String>,
    /// The world's currency.
    pub currency: String,
    /// The world's policy.
    pub policy: Policy,
    /// Who plays the platform.
    pub platform: Platform,
    /// Which clock.
    pub clock: Clock,
    /// Whether envelopes are signed.
    pub signed: bool,
    /// Whether `msg_id` must be UUID v4 (VC-ENV-4).
    pub strict_uuid: bool,
    /// Seconds for which an idempotency key stays bound, at least 86,400.
    pub idempotency_retention_s: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            rules_version: RULES_VERSION,
            world: None,
            currency: "USD".to_owned(),
            policy: Policy::default(),
            platform: Platform::Auto,
            clock: Clock::Envelope,
            signed: false,
            strict_uuid: false,
            idempotency_retention_s: MIN_RETENTION_S,
        }
    }
}

/// Why settings cannot be put in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsFault {
    /// Freshness against the sender's own clock would prove nothing (VC-SIG-5).
    #[error(
        "signed envelopes need clock = \"wall\": freshness against the sender's own clock proves nothing"
    )]
    SignedEnvelopeClock,
    /// Below 24 hours (VC-IDEM-7).
    #[error("idempotency_retention_s is at least 86400")]
    RetentionTooShort,
}

impl Settings {
    /// Refuses settings that contradict each other.
    pub fn check(&self) -> Result<(), SettingsFault> {
        if self.signed && self.clock == Clock::Envelope {
            return Err(SettingsFault::SignedEnvelopeClock);
        }
        if self.idempotency_retention_s < MIN_RETENTION_S {
            return Err(SettingsFault::RetentionTooShort);
        }
        Ok(())
    }
}

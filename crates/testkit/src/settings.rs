//! The settings of the test protocol.

use serde::{Deserialize, Serialize};

/// The rules version that this build has.
pub const RULES: u32 = 1;

/// What is in force for the test protocol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TestSettings {
    /// The version of the rules.
    pub rules: u32,
    /// How long an identifier is remembered.
    pub window_ms: u64,
    /// The pauses between attempts of a delivery.
    pub pauses_ms: Vec<u32>,
    /// How long one attempt may take.
    pub attempt_ms: u32,
}

impl Default for TestSettings {
    fn default() -> Self {
        Self {
            rules: RULES,
            window_ms: 600_000,
            pauses_ms: vec![1, 2, 4],
            attempt_ms: 1_000,
        }
    }
}

//! How short-lived keys leave the record: with their agent, or when their time is over (VX-KEY-6).
//!
//! Each that leaves is a line of its own, so that a verifier who runs no rules knows it too.

use std::time::Duration;

use chancery_core::admin::Act;
use chancery_core::keys::{KeyRecord, KeySource, KeyState};
use chancery_core::line::{ProtocolName, Seq};
use chancery_core::refusal::Refusal;
use chancery_core::time::Time;
use chancery_store::StoreError;

use crate::office::{Office, internal};

impl Office {
    /// How long a short-lived key may live.
    pub fn short_lived_key_life(&self) -> Duration {
        Duration::from_secs(self.soft_limits().short_lived_key_max_s)
    }

    /// Hosts an agent no more. Its short-lived keys leave first: when that fails the agent is still there to be ended.
    pub async fn end_agent(&self, protocol: ProtocolName, id: String) -> Result<Seq, Refusal> {
        self.drop_keys(&id, |_| true).await?;
        self.act(Act::Agent {
            protocol,
            id,
            record: None,
            run_state: None,
        })
        .await
    }

    /// Keys whose time is over make room for the next.
    pub(crate) async fn drop_ended_keys(&self, owner: &str, now: Time) -> Result<(), Refusal> {
        let is_over = |key: &KeyRecord| key.valid_until.is_some_and(|until| until < now);
        self.drop_keys(owner, is_over).await
    }

    async fn drop_keys(
        &self,
        owner: &str,
        which: impl Fn(&KeyRecord) -> bool,
    ) -> Result<(), Refusal> {
        let keys = self.keys_of(owner).map_err(|_: StoreError| internal())?;
        for key in keys {
            let withdrawn = matches!(key.state, KeyState::Compromised | KeyState::Revoked);
            if key.source == KeySource::Spawn && !withdrawn && which(&key) {
                let removed = KeyRecord {
                    removed: true,
                    ..key
                };
                self.act(Act::Key(removed)).await?;
            }
        }
        Ok(())
    }
}

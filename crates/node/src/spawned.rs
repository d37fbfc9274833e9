//! Short-lived keys: made for a spawned agent, gone with it (VX-KEY-6).

use std::time::Duration;

use chancery_core::admin::Act;
use chancery_core::digest::Sha256Digest;
use chancery_core::keys::ed25519::VerifyingKey;
use chancery_core::keys::{Algorithm, KeyRecord, KeySource, KeyState};
use chancery_core::line::{ProtocolName, Seq};
use chancery_core::refusal::Refusal;
use chancery_core::time::Time;
use chancery_store::StoreError;

use crate::office::{Office, internal};

impl Office {
    /// Lets a spawned agent sign with this key until then. The key is on record, and so known to every agent here, when
    /// this returns; it leaves the record when the agent ends.
    pub async fn register_key(
        &self,
        agent: &str,
        public: &VerifyingKey,
        valid_until: Time,
    ) -> Result<(Seq, KeyRecord), Refusal> {
        let now = self.gate().clock().now();
        let longest = Duration::from_secs(self.soft_limits().short_lived_key_max_s);
        if valid_until < now || valid_until > now.saturating_add(longest) {
            let message = "a short-lived key ends after now and within its longest life";
            return Err(Refusal::new("key_not_allowed", 409, "VX-KEY-6", message));
        }
        self.drop_ended_keys(agent, now).await?;
        let digest = Sha256Digest::of(public.as_bytes()).hex();
        let key = KeyRecord {
            id: format!("spawn-{}", &digest[..16]),
            owner: agent.to_owned(),
            algorithm: Algorithm::Ed25519,
            public: public.as_bytes().to_vec(),
            state: KeyState::Active,
            valid_from: Some(now),
            valid_until: Some(valid_until),
            source: KeySource::Spawn,
            removed: false,
        };
        let seq = self.act(Act::Key(key.clone())).await?;
        Ok((seq, key))
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
    async fn drop_ended_keys(&self, owner: &str, now: Time) -> Result<(), Refusal> {
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

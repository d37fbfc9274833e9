//! Files are only sources: at start and on reload their difference to the record becomes lines (CH-JRN-1).
//!
//! What came from a file carries that on its record, so that it leaves when it is in the file no more; what an operator
//! put on record stays. A file that the record does not allow changes nothing.

use std::collections::BTreeMap;

use chancery_agh::Agh;
use chancery_core::admin::{
    self, Act, Config, KEYS, agent_key, agents_prefix, config_key, digests_key, key_key,
};
use chancery_core::keys::{KeyRecord, KeySource, KeyState};
use chancery_core::line::ProtocolName;
use chancery_core::protocol::Protocol;
use chancery_core::refusal::Refusal;
use chancery_core::rows::RowKey;
use chancery_store::StoreError;
use chancery_vacant::Vacant;
use chancery_value_context::ValueContext;
use chancery_value_context::agent::AgentRecord;
use chancery_value_context::world::World;
use chancery_vibe::Vibe;
use serde::de::DeserializeOwned;

use crate::office::Office;
use crate::suite::{AllSettings, WORLD_DIGEST};

/// Why the record could not be brought in line with the files.
#[derive(Debug, thiserror::Error)]
pub enum ReconcileError {
    /// A file asks for something that the record does not allow.
    #[error("{what}: {refusal}")]
    Refused {
        /// What was to be changed.
        what: String,
        /// Why not.
        refusal: Refusal,
    },
    /// The record cannot be read.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Office {
    /// Writes the rule settings if they differ from the record.
    pub async fn reconcile_settings(&self, settings: &AllSettings) -> Result<bool, ReconcileError> {
        let changed = self.reconcile_config(settings).await?;
        if settings.vibe.world.is_some() {
            self.reconcile_pinned_keys().await?;
        }
        Ok(changed)
    }

    /// Puts the keys that the world seed pins on record (VC-SIG-3): the log alone says which key signed.
    async fn reconcile_pinned_keys(&self) -> Result<(), ReconcileError> {
        let Some(seed) = self.gate().suite().seed() else {
            return Ok(());
        };
        let mut keys = seed.key_records();
        keys.sort_by(|a, b| (&a.owner, &a.id).cmp(&(&b.owner, &b.id)));
        for key in keys {
            let on_record: Option<KeyRecord> = self.row(&key_key(&key.owner, &key.id))?;
            if on_record.is_none() {
                let what = format!("key {} of {}", key.id, key.owner);
                self.record(Act::Key(key), || what).await?;
            }
        }
        Ok(())
    }

    /// Which rule settings differ from the record, sorted, as `SECTION.KEY`; none where nothing is on record yet.
    ///
    /// # Errors
    /// The record cannot be read.
    pub fn settings_that_differ(&self, settings: &AllSettings) -> Result<Vec<String>, StoreError> {
        let wanted = self.wanted_config(settings)?;
        let digests: Option<BTreeMap<String, String>> = self.row(&digests_key())?;
        let Some(digests) = digests else {
            return Ok(Vec::new());
        };
        let mut differ = Vec::new();
        for (name, value) in &wanted.protocols {
            let on_record: Option<serde_json::Value> = self.row(&config_key(name))?;
            let on_record = on_record.unwrap_or_default();
            let members = value.as_object().into_iter().flatten();
            let section = name.replace('-', "_");
            let other = members.filter(|(key, value)| on_record.get(key) != Some(*value));
            differ.extend(other.map(|(key, _)| format!("{section}.{key}")));
        }
        let names = wanted.digests.keys().chain(digests.keys());
        let other = names.filter(|name| wanted.digests.get(*name) != digests.get(*name));
        differ.extend(other.map(|name| format!("the digest {name}")));
        differ.sort();
        differ.dedup();
        Ok(differ)
    }

    async fn reconcile_config(&self, settings: &AllSettings) -> Result<bool, ReconcileError> {
        let wanted = self.wanted_config(settings)?;
        let mut same = self.row(&digests_key())?.as_ref() == Some(&wanted.digests);
        for (name, value) in &wanted.protocols {
            let on_record: Option<serde_json::Value> = self.row(&config_key(name))?;
            same &= on_record.as_ref() == Some(value);
        }
        self.limit_agh(&settings.agh);
        self.reconcile_signing().await?;
        if same {
            return Ok(false);
        }
        self.record(Act::Config(wanted), || "the configuration".to_owned())
            .await?;
        Ok(true)
    }

    /// The configuration line that these settings ask for.
    fn wanted_config(&self, settings: &AllSettings) -> Result<Config, StoreError> {
        let json = |value: Result<serde_json::Value, serde_json::Error>| {
            value.map_err(|error| StoreError(error.to_string()))
        };
        let mut protocols = BTreeMap::from([
            (
                ValueContext::NAME.as_str().to_owned(),
                json(serde_json::to_value(&settings.value_context))?,
            ),
            (
                Vacant::NAME.as_str().to_owned(),
                json(serde_json::to_value(&settings.vacant))?,
            ),
            (
                Agh::NAME.as_str().to_owned(),
                json(serde_json::to_value(&settings.agh))?,
            ),
        ]);
        let mut digests = BTreeMap::new();
        if let Some(world) = &settings.vibe.world {
            let value = json(serde_json::to_value(&settings.vibe))?;
            protocols.insert(Vibe::NAME.as_str().to_owned(), value);
            digests.insert(WORLD_DIGEST.to_owned(), world.clone());
            let permissions = chancery_vibe::partition::TABLE.digest();
            digests.insert("vibe-permissions".to_owned(), permissions.hex());
        }
        let vibe = Vibe::NAME.as_str();
        if !protocols.contains_key(vibe)
            && self.row::<serde_json::Value>(&config_key(vibe))?.is_some()
        {
            // A world that was served and is configured no more (CH-CFG-4).
            let value = json(serde_json::to_value(&settings.vibe))?;
            protocols.insert(vibe.to_owned(), value);
        }
        Ok(Config { protocols, digests })
    }

    /// Brings the keys and agents on record in line with a world file, in sorted order. Gives the number of changes.
    pub async fn reconcile_world(&self, world: &World) -> Result<usize, ReconcileError> {
        let keys: BTreeMap<(&str, &str), &KeyRecord> = world
            .keys
            .iter()
            .map(|key| ((key.owner.as_str(), key.id.as_str()), key))
            .collect();
        let gone = self.keys_gone(&keys)?;
        self.check_keys(&gone, &keys)?;
        let mut written = gone.len();
        for key in gone {
            let what = name_of(&key);
            self.record(Act::Key(key), || what).await?;
        }
        written += self.reconcile_keys(&world.keys).await?;
        written += self.reconcile_agents(world).await?;
        Ok(written)
    }

    /// Keys that came from a file and are in it no more. A withdrawn one stays, so that it cannot come back.
    fn keys_gone(
        &self,
        in_file: &BTreeMap<(&str, &str), &KeyRecord>,
    ) -> Result<Vec<KeyRecord>, StoreError> {
        let on_record: Vec<(_, KeyRecord)> = self.rows_below(&RowKey::text(KEYS, &[]))?;
        let gone = on_record.into_iter().map(|(_, key)| key).filter(|key| {
            key.source == KeySource::File
                && !matches!(key.state, KeyState::Compromised | KeyState::Revoked)
                && !in_file.contains_key(&(key.owner.as_str(), key.id.as_str()))
        });
        let removed = |key| KeyRecord {
            removed: true,
            ..key
        };
        Ok(gone.map(removed).collect())
    }

    /// Tries all changes on a copy of the keyring: nothing is written when one of them is not allowed.
    fn check_keys(
        &self,
        gone: &[KeyRecord],
        in_file: &BTreeMap<(&str, &str), &KeyRecord>,
    ) -> Result<(), ReconcileError> {
        let mut trial = (*self.gate().keyring()).clone();
        for key in gone.iter().chain(in_file.values().copied()) {
            admin::set_key(&mut trial, key.clone()).map_err(|error| {
                let mut refusal = Refusal::new("key_not_allowed", 409, "VX-KEY-4", "");
                refusal.message = error.to_string().into();
                ReconcileError::Refused {
                    what: name_of(key),
                    refusal,
                }
            })?;
        }
        Ok(())
    }

    async fn reconcile_agents(&self, world: &World) -> Result<usize, ReconcileError> {
        let in_file: BTreeMap<&str, AgentRecord> = world
            .agents
            .iter()
            .map(|agent| {
                let mut record = AgentRecord::of(agent);
                self.write_who_signs(agent.id.as_str(), &mut record);
                (agent.id.as_str(), record)
            })
            .collect();
        let prefix = agents_prefix(ProtocolName::ValueContext);
        let on_record: Vec<(String, AgentRecord)> = self.rows_below(&prefix)?;
        let mut written = 0;
        for (id, record) in &on_record {
            if record.from_file && !in_file.contains_key(id.as_str()) {
                self.end_agent(ProtocolName::ValueContext, id.clone())
                    .await
                    .map_err(|refusal| ReconcileError::Refused {
                        what: format!("agent {id}"),
                        refusal,
                    })?;
                written += 1;
            }
        }
        for (id, record) in in_file {
            let on_record: Option<AgentRecord> =
                self.row(&agent_key(ProtocolName::ValueContext, id))?;
            if on_record.as_ref() != Some(&record) {
                let record =
                    serde_json::to_value(&record).map_err(|error| StoreError(error.to_string()))?;
                let act = Act::Agent {
                    protocol: ProtocolName::ValueContext,
                    id: id.to_owned(),
                    record: Some(record),
                    run_state: None,
                };
                self.record(act, || format!("agent {id}")).await?;
                written += 1;
            }
        }
        Ok(written)
    }

    /// Writes the keys that differ from the record, in sorted order: of a world file, or those that a vibe seed pins. Gives
    /// their number.
    pub async fn reconcile_keys(&self, keys: &[KeyRecord]) -> Result<usize, ReconcileError> {
        let mut written = 0;
        let mut keys: Vec<&KeyRecord> = keys.iter().collect();
        keys.sort_by(|a, b| (&a.owner, &a.id).cmp(&(&b.owner, &b.id)));
        for key in keys {
            let on_record: Option<KeyRecord> = self.row(&key_key(&key.owner, &key.id))?;
            if on_record.as_ref() != Some(key) {
                self.record(Act::Key(key.clone()), || name_of(key)).await?;
                written += 1;
            }
        }
        Ok(written)
    }

    /// The committed rows below a prefix, each with the last part of its key.
    pub(crate) fn rows_below<T: DeserializeOwned>(
        &self,
        prefix: &RowKey,
    ) -> Result<Vec<(String, T)>, StoreError> {
        let rows = self.gate().store().scan(prefix, None, usize::MAX)?;
        rows.into_iter()
            .map(|(key, row)| {
                let last = key.parts().pop().unwrap_or_default();
                let value = serde_json::from_slice(&row)
                    .map_err(|error| StoreError(format!("{key:?}: {error}")))?;
                Ok((String::from_utf8_lossy(&last).into_owned(), value))
            })
            .collect()
    }

    pub(crate) async fn record(
        &self,
        act: Act,
        what: impl FnOnce() -> String,
    ) -> Result<(), ReconcileError> {
        match self.act(act).await {
            Ok(_) => Ok(()),
            Err(refusal) => Err(ReconcileError::Refused {
                what: what(),
                refusal,
            }),
        }
    }

    /// The keys of an owner on record.
    pub(crate) fn keys_of(&self, owner: &str) -> Result<Vec<KeyRecord>, StoreError> {
        let keys = self.rows_below(&RowKey::text(KEYS, &[owner]))?;
        Ok(keys.into_iter().map(|(_, key)| key).collect())
    }
}

fn name_of(key: &KeyRecord) -> String {
    format!("key {} of {}", key.id, key.owner)
}

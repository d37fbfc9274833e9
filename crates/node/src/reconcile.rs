//! Files are only sources: at start and on reload their difference to the record becomes lines (CH-JRN-1).

use std::collections::BTreeMap;

use chancery_agh::Agh;
use chancery_agh::peer::PeerRecord;
use chancery_core::admin::{Act, Config, agent_key, config_key, digests_key, key_key};
use chancery_core::keys::KeyRecord;
use chancery_core::line::ProtocolName;
use chancery_core::protocol::Protocol;
use chancery_core::refusal::Refusal;
use chancery_store::StoreError;
use chancery_value_context::ValueContext;
use chancery_value_context::agent::AgentRecord;
use chancery_value_context::world::World;
use chancery_vibe::Vibe;

use crate::office::Office;
use crate::suite::AllSettings;

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
        let json = |value: Result<serde_json::Value, serde_json::Error>| {
            value.map_err(|error| StoreError(error.to_string()))
        };
        let mut protocols = BTreeMap::from([
            (
                ValueContext::NAME.as_str().to_owned(),
                json(serde_json::to_value(&settings.value_context))?,
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
            digests.insert("vibe-world".to_owned(), world.clone());
            let permissions = chancery_vibe::partition::TABLE.digest();
            digests.insert("vibe-permissions".to_owned(), permissions.hex());
        }
        let mut same = self.row(&digests_key())?.as_ref() == Some(&digests);
        for (name, value) in &protocols {
            let on_record: Option<serde_json::Value> = self.row(&config_key(name))?;
            same &= on_record.as_ref() == Some(value);
        }
        self.limit_agh(&settings.agh);
        if same {
            return Ok(false);
        }
        let config = Config { protocols, digests };
        self.record(Act::Config(config), || "the configuration".to_owned())
            .await?;
        Ok(true)
    }

    /// Writes the AGH peers of the configuration that differ from the record, in sorted order. Gives their number.
    pub async fn reconcile_peers(&self, peers: &[PeerRecord]) -> Result<usize, ReconcileError> {
        let mut written = 0;
        let sorted: BTreeMap<String, &PeerRecord> =
            peers.iter().map(|peer| (peer.address(), peer)).collect();
        for (id, record) in sorted {
            self.forget_remote(record);
            let on_record: Option<PeerRecord> = self.row(&agent_key(ProtocolName::Agh, &id))?;
            if on_record.as_ref() == Some(record) {
                continue;
            }
            let record =
                serde_json::to_value(record).map_err(|error| StoreError(error.to_string()))?;
            let act = Act::Agent {
                protocol: ProtocolName::Agh,
                id: id.clone(),
                record: Some(record),
                run_state: None,
            };
            self.record(act, || format!("peer {id}")).await?;
            written += 1;
        }
        Ok(written)
    }

    /// Writes the keys and agents of a world file that differ from the record, in sorted order. Gives their number.
    pub async fn reconcile_world(&self, world: &World) -> Result<usize, ReconcileError> {
        let mut written = self.reconcile_keys(&world.keys).await?;
        let agents: BTreeMap<&str, AgentRecord> = world
            .agents
            .iter()
            .map(|agent| {
                let mut record = AgentRecord::of(agent);
                record.signs = self.gate().vault().holds(agent.id.as_str());
                (agent.id.as_str(), record)
            })
            .collect();
        for (id, record) in agents {
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
                self.record(Act::Key(key.clone()), || {
                    format!("key {} of {}", key.id, key.owner)
                })
                .await?;
                written += 1;
            }
        }
        Ok(written)
    }

    async fn record(&self, act: Act, what: impl FnOnce() -> String) -> Result<(), ReconcileError> {
        match self.act(act).await {
            Ok(_) => Ok(()),
            Err(refusal) => Err(ReconcileError::Refused {
                what: what(),
                refusal,
            }),
        }
    }
}

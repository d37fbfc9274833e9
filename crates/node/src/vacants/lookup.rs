//! What the node tells about its vacants and its registry, from committed rows.

use chancery_core::admin::agent_key;
use chancery_core::digest::hex;
use chancery_core::line::ProtocolName;
use chancery_core::rows::{Row, RowKey};
use chancery_store::StoreError;
use chancery_vacant::agent::AgentRecord;
use chancery_vacant::card::CapabilityCard;
use chancery_vacant::id::VacantId;
use chancery_vacant::registry::{Entry, Found, Search, Visibility, search};
use chancery_vacant::reputation::{Dimension, Known, Oracle, Reputation, UcbOracle};
use chancery_vacant::rules::chain::{Pair, all_pairs_prefix};
use chancery_vacant::rules::judge::{reputation_key, reputations_prefix};
use chancery_vacant::rules::registry::{entries_prefix, entry_key_of, entry_place_key};
use chancery_vacant::state::State;
use serde_json::{Value, json};

use super::{HostedVacant, Vacants};
use crate::office::Office;

/// What others may know about a vacant.
#[derive(Clone, Debug)]
pub struct VacantFace {
    /// Its name.
    pub name: String,
    /// Its id.
    pub id: VacantId,
    /// Its state.
    pub state: State,
    /// Its card.
    pub card: Option<CapabilityCard>,
    /// The address below which its paths are.
    pub address: String,
}

/// What a search of the registry asks for over HTTP.
#[derive(Clone, Debug)]
pub struct RegistryQuery {
    /// A text that the declared capabilities contain.
    pub query: Option<String>,
    /// The family.
    pub family: Option<String>,
    /// How many.
    pub limit: usize,
}

/// An entry that was found, with its score.
#[derive(Clone, Debug)]
pub struct CapabilityMatch {
    /// The entry.
    pub found: Found,
    /// How good it is.
    pub score: f64,
}

impl CapabilityMatch {
    /// As the registry's HTTP form tells it (VA-REG-5).
    pub fn to_json(&self) -> Value {
        let card = &self.found.card;
        json!({
            "vacant_id": card.vacant_id.hex(),
            "capability_card_hash_hex": card.hash().hex(),
            "capability_card_sig_hex": hex::encode(&card.signature),
            "capability_card_blob_hex": hex::encode(self.found.entry.card.as_bytes()),
            "declared_capabilities_json": self.found.capabilities,
            "base_model_family": self.found.entry.family,
            "visibility": self.found.entry.visibility.as_str(),
            "score": self.score,
        })
    }

    /// The card as hex, the form that another client library reads (VA-REG-5).
    pub fn blob_hex(&self) -> String {
        hex::encode(self.found.entry.card.as_bytes())
    }
}

/// What the rows know about vacants.
struct OnRecord<'o> {
    office: &'o Office,
    count: u64,
}

impl Known for OnRecord<'_> {
    fn reputation(&self, vacant: &VacantId) -> Option<Reputation> {
        self.office.row(&reputation_key(vacant)).ok().flatten()
    }

    fn count(&self) -> u64 {
        self.count
    }
}

impl Vacants {
    /// What others may know about a hosted vacant; none before it is on record.
    pub fn face(&self, vacant: &HostedVacant) -> Result<Option<VacantFace>, StoreError> {
        let key = agent_key(ProtocolName::Vacant, &vacant.name);
        let record: Option<AgentRecord> = self.office.row(&key)?;
        let Some(record) = record else {
            return Ok(None);
        };
        let card = record.card();
        let card = card.map_err(|error| StoreError(error.to_string()))?;
        Ok(Some(VacantFace {
            name: vacant.name.clone(),
            id: record.id,
            state: record.state,
            card,
            address: self.address_of(vacant),
        }))
    }

    /// `GET /state/vacant/NAME`: its state and every chain that it sends or receives on.
    pub fn state_of(&self, vacant: &HostedVacant) -> Result<Option<Value>, StoreError> {
        let Some(face) = self.face(vacant)? else {
            return Ok(None);
        };
        let mut chains = Vec::new();
        for (key, row) in self.scan(&all_pairs_prefix())? {
            let Some((from, to)) = ends_of(&key) else {
                continue;
            };
            if from == face.id || to == face.id {
                let pair: Pair = parse(&key, &row)?;
                chains.push(json!({
                    "from": from.hex(),
                    "to": to.hex(),
                    "sequence_no": pair.state.last_sequence_no,
                    "tip": pair.state.chain_tip.hex(),
                }));
            }
        }
        Ok(Some(json!({ "state": face.state, "chains": chains })))
    }

    /// Searches the registry for what is public, in the order of publication (VA-REG-2).
    pub fn search(&self, asked: &RegistryQuery) -> Result<Vec<CapabilityMatch>, StoreError> {
        let mut entries = Vec::new();
        for (key, row) in self.scan(&entries_prefix())? {
            entries.push(parse::<Entry>(&key, &row)?);
        }
        let search_for = Search {
            query: asked.query.as_deref(),
            family: asked.family.as_deref(),
            limit: asked.limit,
            include_local: false,
        };
        let now = self.office.gate().clock().now();
        let found = search(entries, &search_for, now);
        let oracle = self.oracle()?;
        let scored = found.into_iter().map(|found| CapabilityMatch {
            score: oracle.score(&found.card.vacant_id, &Dimension::ALL),
            found,
        });
        Ok(scored.collect())
    }

    /// One entry of the registry by its vacant.
    pub fn entry(&self, id: &VacantId) -> Result<Option<CapabilityMatch>, StoreError> {
        let place = self.office.gate().store().load(&[entry_place_key(id)])?;
        let place = place.into_iter().flatten().next();
        let Some(key) = place.as_deref().and_then(entry_key_of) else {
            return Ok(None);
        };
        let entry: Option<Entry> = self.office.row(&key)?;
        let all = Search {
            query: None,
            family: None,
            limit: 1,
            include_local: true,
        };
        let now = self.office.gate().clock().now();
        let found = search(entry, &all, now).pop();
        let seen = found.filter(|found| found.entry.visibility != Visibility::None);
        let oracle = self.oracle()?;
        Ok(seen.map(|found| CapabilityMatch {
            score: oracle.score(&found.card.vacant_id, &Dimension::ALL),
            found,
        }))
    }

    fn oracle(&self) -> Result<UcbOracle<OnRecord<'_>>, StoreError> {
        let known = self.scan(&reputations_prefix())?.len();
        let registered = self.scan(&entries_prefix())?.len();
        Ok(UcbOracle(OnRecord {
            office: &self.office,
            count: known.max(registered) as u64,
        }))
    }

    fn scan(&self, prefix: &RowKey) -> Result<Vec<(RowKey, Row)>, StoreError> {
        self.office.gate().store().scan(prefix, None, usize::MAX)
    }
}

fn ends_of(key: &RowKey) -> Option<(VacantId, VacantId)> {
    let parts = key.parts();
    let id = |part: &Vec<u8>| part.as_slice().try_into().ok().map(VacantId::new);
    Some((id(parts.get(1)?)?, id(parts.get(2)?)?))
}

fn parse<T: serde::de::DeserializeOwned>(key: &RowKey, row: &[u8]) -> Result<T, StoreError> {
    serde_json::from_slice(row).map_err(|error| StoreError(format!("{key:?}: {error}")))
}

//! Bearer tokens: who a caller is and what it may do.
//!
//! The record (principal, scopes) is on the log; of the token itself only a SHA-256 is kept, in `ops`. A token is
//! `cht_<id>.<secret>`: the id finds the hash, the hash is compared in constant time.
//!
//! What was looked up is kept in memory until the next change of any token is committed: a request reads no store.

use std::sync::{Arc, PoisonError, RwLock};

use chancery_core::admin::{Act, TokenRecord, token_key};
use chancery_core::digest::Sha256Digest;
use chancery_core::keys::base64;
use chancery_core::refusal::Refusal;
use chancery_core::rows::{Row, RowKey};
use chancery_store::StoreError;
use hashbrown::HashMap;
use subtle::ConstantTimeEq;
use tokio::sync::watch;

use crate::office::Office;

/// What begins every token.
const PREFIX: &str = "cht_";
/// Tokens that are kept at hand; at this number all of them are looked up anew.
const MOST_SHOWN: usize = 4_096;

/// Tokens in force that were shown lately.
#[derive(Default)]
pub(crate) struct Shown(RwLock<Known>);

#[derive(Default)]
struct Known {
    /// The number of token changes that these were looked up after.
    changes: u64,
    /// By half of a token's hash, so that a table finds it: the whole hash and the record.
    tokens: HashMap<[u8; 16], (Sha256Digest, Arc<TokenRecord>)>,
}

impl Shown {
    fn find(&self, hash: &Sha256Digest, changes: u64) -> Option<Arc<TokenRecord>> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if known.changes != changes {
            return None;
        }
        let (kept, record) = known.tokens.get(&half(hash))?;
        bool::from(kept.0.ct_eq(&hash.0)).then(|| Arc::clone(record))
    }

    /// Keeps what was looked up after so many changes.
    fn keep(&self, hash: Sha256Digest, record: &Arc<TokenRecord>, changes: u64) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if known.changes > changes {
            return;
        }
        if known.changes < changes || known.tokens.len() >= MOST_SHOWN {
            known.tokens.clear();
            known.changes = changes;
        }
        known.tokens.insert(half(&hash), (hash, Arc::clone(record)));
    }
}

fn half(hash: &Sha256Digest) -> [u8; 16] {
    let mut half = [0; 16];
    half.copy_from_slice(&hash.0[..16]);
    half
}

impl Office {
    /// Puts a token on record and gives its text: the only time it is seen.
    pub async fn issue_token(
        &self,
        principal: &str,
        scopes: Vec<String>,
    ) -> Result<(TokenRecord, String), Refusal> {
        let record = TokenRecord {
            id: String::new(),
            principal: principal.to_owned(),
            scopes,
            addresses: Vec::new(),
            consumer_id: None,
            merchant_id: None,
            agent: None,
            revoked: false,
        };
        self.issue_token_for(record).await
    }

    /// The same for a record that says more than scopes; its `id` is chosen here.
    pub async fn issue_token_for(
        &self,
        mut record: TokenRecord,
    ) -> Result<(TokenRecord, String), Refusal> {
        let mut random = [0; 38];
        getrandom::fill(&mut random).map_err(|_| failed("the secure generator does not answer"))?;
        record.id = chancery_core::digest::hex::encode(&random[..6]);
        let token = format!("{PREFIX}{}.{}", record.id, base64::encode_url(&random[6..]));
        record.scopes.sort_unstable();
        record.scopes.dedup();
        self.adopt_token(record.clone(), Sha256Digest::of(token.as_bytes()))
            .await?;
        Ok((record, token))
    }

    /// Puts a token on record whose text is known elsewhere.
    pub async fn adopt_token(
        &self,
        record: TokenRecord,
        hash: Sha256Digest,
    ) -> Result<(), Refusal> {
        let id = record.id.clone();
        self.act(Act::Token(record)).await?;
        self.keep_token_hash(&id, hash)
    }

    /// Keeps the hash of a token on record, in place of the one it had.
    pub fn keep_token_hash(&self, id: &str, hash: Sha256Digest) -> Result<(), Refusal> {
        let by_hash = (id_key(&hash), Some(Row::from(id)));
        let by_id = (hash_key(id), Some(Row::from(&hash.0[..])));
        let store = self.gate().store();
        let kept = store.ops_put(&[by_id, by_hash], true);
        self.gate().tokens_changed();
        kept.map_err(|_| failed("the token's hash cannot be kept"))
    }

    /// Revokes a token; false when there is none.
    pub async fn revoke_token(&self, id: &str) -> Result<bool, Refusal> {
        let record: Option<TokenRecord> = self
            .row(&token_key(id))
            .map_err(|_| failed("the token cannot be read"))?;
        let Some(record) = record else {
            return Ok(false);
        };
        self.act(Act::Token(TokenRecord {
            revoked: true,
            ..record
        }))
        .await?;
        let store = self.gate().store();
        store
            .ops_put(&[(hash_key(id), None)], true)
            .map_err(|_| failed("the token's hash cannot be dropped"))?;
        Ok(true)
    }

    /// All tokens on record, without their texts.
    pub fn tokens(&self) -> Result<Vec<TokenRecord>, StoreError> {
        let rows = self
            .gate()
            .store()
            .scan(&RowKey::text("token", &[]), None, usize::MAX)?;
        rows.into_iter()
            .map(|(key, row)| {
                serde_json::from_slice(&row)
                    .map_err(|error| StoreError(format!("{key:?}: {error}")))
            })
            .collect()
    }

    /// Whose token this is, where it was shown lately; else it has to be looked up.
    pub fn bearer_at_hand(&self, token: &str) -> Option<Arc<TokenRecord>> {
        let hash = Sha256Digest::of(token.as_bytes());
        self.shown_tokens.find(&hash, self.gate().token_changes())
    }

    /// Told whenever a token changes.
    pub fn token_changes(&self) -> watch::Receiver<()> {
        self.gate().watch_tokens()
    }

    /// Whose token this is; none for any text that is not a token in force.
    pub fn bearer(&self, token: &str) -> Result<Option<Arc<TokenRecord>>, StoreError> {
        // Before the look: what changes meanwhile must not be missed.
        let changes = self.gate().token_changes();
        let hash = Sha256Digest::of(token.as_bytes());
        let Some(id) = self.token_id(token, &hash)? else {
            return Ok(None);
        };
        let Some(kept) = self.gate().store().ops_get(&hash_key(&id))? else {
            return Ok(None);
        };
        if !bool::from(kept.as_ref().ct_eq(&hash.0)) {
            return Ok(None);
        }
        let record: Option<TokenRecord> = self.row(&token_key(&id))?;
        let record = record.filter(|record| !record.revoked).map(Arc::new);
        if let Some(record) = &record {
            self.shown_tokens.keep(hash, record, changes);
        }
        Ok(record)
    }

    /// The name of a token: its text begins with it, or it was adopted under a text made elsewhere.
    fn token_id(&self, token: &str, hash: &Sha256Digest) -> Result<Option<String>, StoreError> {
        let named = token
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.split_once('.'));
        if let Some((id, _)) = named {
            return Ok(Some(id.to_owned()));
        }
        let id = self.gate().store().ops_get(&id_key(hash))?;
        Ok(id.and_then(|id| String::from_utf8(id.to_vec()).ok()))
    }
}

/// Whose name a token's hash leads to. Knowing where a hash lies tells nothing of the token.
fn id_key(hash: &Sha256Digest) -> RowKey {
    RowKey::text("token-id", &[&hash.hex()])
}

fn hash_key(id: &str) -> RowKey {
    RowKey::text("token-hash", &[id])
}

fn failed(message: &'static str) -> Refusal {
    Refusal::new("internal", 500, "CH-ID-1", message)
}

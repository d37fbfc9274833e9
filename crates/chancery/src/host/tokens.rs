//! The first token, which `chancery init` left as a hash.

use chancery_core::admin::{TokenRecord, token_key};
use chancery_core::digest::Sha256Digest;
use chancery_node::Office;
use serde::Deserialize;

use crate::commands::init::FIRST_TOKEN;
use crate::config::Config;
use crate::exit::Failure;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FirstToken {
    id: String,
    principal: String,
    scopes: Vec<String>,
    sha256: String,
}

/// Puts the first token on record, once.
pub(super) async fn adopt_first(office: &Office, config: &Config) -> Result<(), Failure> {
    let path = config.data.join(FIRST_TOKEN);
    let Ok(text) = std::fs::read(&path) else {
        return Ok(());
    };
    let wrong = |reason: String| Failure::usage(format!("{}: {reason}", path.display()));
    let first: FirstToken =
        serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
    let known: Option<TokenRecord> = office
        .row(&token_key(&first.id))
        .map_err(|error| Failure::damaged(error.to_string()))?;
    if known.is_some() {
        return Ok(());
    }
    let hash =
        Sha256Digest::from_lower_hex(&first.sha256).map_err(|error| wrong(error.to_string()))?;
    let record = TokenRecord {
        id: first.id,
        principal: first.principal,
        scopes: first.scopes,
        addresses: Vec::new(),
        consumer_id: None,
        merchant_id: None,
        agent: None,
        revoked: false,
    };
    office
        .adopt_token(record, hash)
        .await
        .map_err(|refusal| Failure::damaged(refusal.to_string()))
}

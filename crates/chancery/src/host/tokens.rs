//! The first token, which `chancery init` left as a hash.

use chancery_core::admin::{TokenRecord, token_key};
use chancery_core::digest::Sha256Digest;
use chancery_node::Office;
use serde::Deserialize;

use crate::commands::init::FIRST_TOKEN;
use crate::config::Config;
use crate::exit::Failure;

/// What that file holds.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FirstToken {
    id: String,
    principal: String,
    scopes: Vec<String>,
    sha256: String,
}

/// Puts the first token on record, once.
pub(super) async fn adopt_first(office: &Office, config: &Config) -> Result<(), Failure> {
    let Some((first, hash)) = read_first(config)? else {
        return Ok(());
    };
    let known: Option<TokenRecord> = office
        .row(&token_key(&first.id))
        .map_err(|error| Failure::damaged(error.to_string()))?;
    if known.is_some() {
        return Ok(());
    }
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

/// The first token as `chancery init` left it, and its hash.
pub(super) fn read_first(config: &Config) -> Result<Option<(FirstToken, Sha256Digest)>, Failure> {
    let path = config.data.join(FIRST_TOKEN);
    let Ok(text) = std::fs::read(&path) else {
        return Ok(None);
    };
    let wrong = |reason: String| {
        Failure::usage(format!("{}: {reason}", path.display()))
            .next("move it away, and issue a token otherwise: chancery token new")
    };
    let first: FirstToken =
        serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
    let hash = Sha256Digest::from_lower_hex(&first.sha256);
    let hash = hash.map_err(|error| wrong(error.to_string()))?;
    Ok(Some((first, hash)))
}

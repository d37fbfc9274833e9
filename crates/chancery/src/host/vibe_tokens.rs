//! `tokens.toml`: bearer tokens of vibe that were made elsewhere, by their SHA-256 (CH-CFG-4, CH-ID-1).
//!
//! The file is a source: its difference to the record becomes lines. The record never holds a token or its hash.

use std::collections::BTreeMap;

use chancery_core::admin::TokenRecord;
use chancery_core::digest::Sha256Digest;
use chancery_node::Office;
use chancery_vibe::address::Address;
use chancery_vibe::message::is_id;
use serde::Deserialize;

use super::check::of_key;
use crate::config::Config;
use crate::exit::Failure;

/// What the names of these tokens begin with on record.
const FROM_FILE: &str = "file/";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    token: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    hash: String,
    principal: String,
    #[serde(default)]
    addresses: Vec<String>,
    consumer_id: Option<String>,
    merchant_id: Option<String>,
    agent: Option<String>,
    #[serde(default)]
    scopes: Vec<String>,
}

/// Brings the record in line with the file; gives the number of changes.
pub(super) async fn adopt(office: &Office, config: &Config) -> Result<usize, Failure> {
    let wanted = wanted(config)?;
    let damaged = |error: chancery_store::StoreError| Failure::damaged(error.to_string());
    let on_record = office.tokens().map_err(damaged)?;
    let mut changes = 0;
    for (id, (record, hash)) in &wanted {
        let known = on_record.iter().find(|known| known.id == *id);
        changes += usize::from(known != Some(record));
        let adopted = match known == Some(record) {
            true => office.keep_token_hash(id, *hash),
            false => office.adopt_token(record.clone(), *hash).await,
        };
        adopted.map_err(|refusal| {
            Failure::usage(format!("vibe.tokens: {}: {refusal}", record.principal))
        })?;
    }
    let gone = on_record.iter().filter(|known| {
        known.id.starts_with(FROM_FILE) && !known.revoked && !wanted.contains_key(&known.id)
    });
    for known in gone {
        let revoked = office.revoke_token(&known.id).await;
        revoked.map_err(|refusal| Failure::damaged(refusal.to_string()))?;
        changes += 1;
    }
    Ok(changes)
}

pub(super) type Tokens = BTreeMap<String, (TokenRecord, Sha256Digest)>;

/// The tokens of the file that the configuration names.
pub(super) fn wanted(config: &Config) -> Result<Tokens, Failure> {
    let read = config.vibe.tokens.as_deref().map(read).transpose();
    Ok(read.map_err(of_key("vibe.tokens"))?.unwrap_or_default())
}

fn read(path: &std::path::Path) -> Result<Tokens, Failure> {
    let wrong = |reason: String| Failure::usage(format!("{}: {reason}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let file: File = toml::from_str(&text).map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start));
        let line = before.map_or(1, |before| before.matches('\n').count() + 1);
        wrong(format!("line {line}: {}", error.message()))
    })?;
    let mut tokens = Tokens::new();
    for (index, entry) in file.token.into_iter().enumerate() {
        let at = |what: &str| wrong(format!("token {}: {what}", index + 1));
        let hash = Sha256Digest::from_hex(&entry.hash)
            .map_err(|_| at("hash is the SHA-256 of the token, in hex"))?;
        if entry.principal.is_empty() || entry.principal.chars().any(char::is_control) {
            return Err(at("principal is a name without control characters"));
        }
        if let Some(address) = entry
            .addresses
            .iter()
            .find(|address| Address::sender(address).is_err())
        {
            return Err(at(&format!("{address} is no address that can send")));
        }
        if let Some(scope) = entry
            .scopes
            .iter()
            .find(|scope| !chancery_doors::http::is_scope(scope))
        {
            return Err(at(&format!("{scope} is no scope")));
        }
        if !entry
            .consumer_id
            .iter()
            .chain(&entry.merchant_id)
            .all(|id| is_id(id))
        {
            return Err(at("consumer_id and merchant_id are identifiers"));
        }
        // Several tokens of one principal are told apart by their order.
        let same = |id: &&String| id.starts_with(&format!("{FROM_FILE}{}/", entry.principal));
        let number = tokens.keys().filter(same).count() + 1;
        let id = format!("{FROM_FILE}{}/{number}", entry.principal);
        let record = TokenRecord {
            id: id.clone(),
            principal: entry.principal,
            scopes: entry.scopes,
            addresses: entry.addresses,
            consumer_id: entry.consumer_id,
            merchant_id: entry.merchant_id,
            agent: entry.agent,
            revoked: false,
        };
        tokens.insert(id, (record, hash));
    }
    Ok(tokens)
}

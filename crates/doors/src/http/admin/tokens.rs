//! Bearer tokens: a token is shown once, in the answer that issues it.

use std::sync::Arc;

use chancery_core::admin::TokenRecord;
use chancery_vibe::address::Address;
use chancery_vibe::message::is_id;
use http::StatusCode;
use serde::Deserialize;
use serde_json::json;

use super::super::access::is_scope;
use super::super::door::{Call, HttpDoor, not_found};
use super::super::reply::{Reply, empty, json, not_stored};
use super::{bad, refused};

/// Longest name of a principal, and scopes and addresses of one token.
const PRINCIPAL_BYTES: usize = 512;
const SCOPES: usize = 256;
const ADDRESSES: usize = 16;

/// Lists tokens, never their texts.
pub(crate) async fn list(door: Arc<HttpDoor>, _: Call) -> Reply {
    match door.read(|office| office.tokens()).await {
        Ok(tokens) => json(StatusCode::OK, &json!({ "tokens": tokens })),
        Err(reply) => reply,
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewToken {
    principal: String,
    #[serde(default)]
    scopes: Vec<String>,
    #[serde(default)]
    addresses: Vec<String>,
    consumer_id: Option<String>,
    merchant_id: Option<String>,
    agent: Option<String>,
}

impl NewToken {
    /// What is wrong with it.
    fn fault(&self) -> Option<&'static str> {
        let principal = &self.principal;
        if principal.is_empty()
            || principal.len() > PRINCIPAL_BYTES
            || principal.chars().any(char::is_control)
        {
            return Some("principal has to have 1 to 512 bytes and no control characters");
        }
        if let Some(agent) = &self.agent
            && (agent.is_empty() || agent.len() > PRINCIPAL_BYTES)
        {
            return Some("agent has to have 1 to 512 bytes");
        }
        if self.scopes.len() > SCOPES || self.addresses.len() > ADDRESSES {
            return Some("a token has at most 256 scopes and 16 addresses");
        }
        if self.scopes.is_empty() && self.addresses.is_empty() {
            return Some("a token has 1 to 256 scopes, or addresses");
        }
        if !self.scopes.iter().all(|scope| is_scope(scope)) {
            return Some(
                "scopes are send:AGENT, read:log, read:inbox:AGENT, read:state:AGENT, approve and admin",
            );
        }
        let is_address = |address: &String| Address::sender(address).is_ok();
        if !self.addresses.iter().all(is_address) {
            return Some("addresses are those of vibe, such as buyer or merchant:pricing");
        }
        let mut owners = self.consumer_id.iter().chain(&self.merchant_id);
        if !owners.all(|id| is_id(id)) {
            return Some("consumer_id and merchant_id are identifiers of vibe");
        }
        None
    }
}

/// Issues a token.
pub(crate) async fn issue(door: Arc<HttpDoor>, call: Call) -> Reply {
    let asked: NewToken = match call.value(&door).await {
        Ok(asked) => asked,
        Err(reply) => return reply,
    };
    if let Some(fault) = asked.fault() {
        return bad(fault);
    }
    let record = TokenRecord {
        id: String::new(),
        principal: asked.principal,
        scopes: asked.scopes,
        addresses: asked.addresses,
        consumer_id: asked.consumer_id,
        merchant_id: asked.merchant_id,
        agent: asked.agent,
        revoked: false,
    };
    match door.office.issue_token_for(record).await {
        Ok((record, token)) => {
            let body = json!({
                "id": record.id,
                "principal": record.principal,
                "scopes": record.scopes,
                "addresses": record.addresses,
                "token": token,
            });
            not_stored(json(StatusCode::CREATED, &body))
        }
        Err(refusal) => refused(&refusal),
    }
}

/// Revokes a token: from the next request on it is none.
pub(crate) async fn revoke(door: Arc<HttpDoor>, call: Call) -> Reply {
    match door.office.revoke_token(call.param("id")).await {
        Ok(true) => empty(StatusCode::NO_CONTENT),
        Ok(false) => not_found(),
        Err(refusal) => refused(&refusal),
    }
}

//! Bearer tokens: a token is shown once, in the answer that issues it.

use std::sync::Arc;

use http::StatusCode;
use serde::Deserialize;
use serde_json::json;

use super::super::access::is_scope;
use super::super::door::{Call, HttpDoor, not_found};
use super::super::reply::{Reply, empty, json, not_stored};
use super::{bad, refused};

/// Longest name of a principal, and scopes of one token.
const PRINCIPAL_BYTES: usize = 512;
const SCOPES: usize = 256;

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
    scopes: Vec<String>,
}

/// Issues a token.
pub(crate) async fn issue(door: Arc<HttpDoor>, call: Call) -> Reply {
    let asked: NewToken = match call.value(&door).await {
        Ok(asked) => asked,
        Err(reply) => return reply,
    };
    let principal = &asked.principal;
    if principal.is_empty()
        || principal.len() > PRINCIPAL_BYTES
        || principal.chars().any(char::is_control)
    {
        return bad("principal has to have 1 to 512 bytes and no control characters");
    }
    if asked.scopes.is_empty() || asked.scopes.len() > SCOPES {
        return bad("a token has 1 to 256 scopes");
    }
    if !asked.scopes.iter().all(|scope| is_scope(scope)) {
        return bad(
            "scopes are send:AGENT, read:log, read:inbox:AGENT, read:state:AGENT, approve and admin",
        );
    }
    match door
        .office
        .issue_token(&asked.principal, asked.scopes)
        .await
    {
        Ok((record, token)) => {
            let body = json!({
                "id": record.id,
                "principal": record.principal,
                "scopes": record.scopes,
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

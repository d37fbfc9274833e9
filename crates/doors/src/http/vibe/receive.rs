//! `POST /vcp` (VC-HTTP-1) and `POST /send/vibe`: an envelope comes in.

use std::sync::Arc;

use bytes::Bytes;
use chancery_core::admin::TokenRecord;
use chancery_core::line::ProtocolName;
use chancery_core::refusal::Refusal;
use chancery_vibe::code::Code;
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};

use super::super::access::{Bearer, bearer_token};
use super::super::body::BodyFault;
use super::super::door::{Call, HttpDoor};
use super::super::reply::Reply;
use super::answers::{accepted, at_the_door, refused};
use super::token_of;

/// The largest body (VC-ENV-18).
const BODY_BYTES: usize = 262_144;

/// Takes in one envelope. The checks of the transport come in the order of VC-PIPE-1: content type, size, token.
pub(crate) async fn call(door: Arc<HttpDoor>, call: Call) -> Reply {
    let headers = call.parts.headers;
    let result = match enter(&door, &headers, call.body).await {
        Ok((body, key, token)) => {
            let key = key.as_deref();
            door.office.receive_vibe(body, key, token.as_ref()).await
        }
        Err(refusal) => {
            door.office.note_rejection(ProtocolName::Vibe, &refusal);
            Err(refusal)
        }
    };
    match result {
        Ok(answered) => accepted(answered),
        Err(refusal) => refused(&refusal),
    }
}

type Entered = (Bytes, Option<String>, Option<TokenRecord>);

async fn enter(
    door: &HttpDoor,
    headers: &HeaderMap,
    body: axum::body::Body,
) -> Result<Entered, Refusal> {
    let (body, key) = read(door, headers, body).await?;
    if door.is_dev() {
        return Ok((body, key, None));
    }
    match bearer_token(door, headers).await {
        Ok(Bearer::InForce(record)) => Ok((body, key, Some(record))),
        Ok(Bearer::Missing | Bearer::Unknown) => Err(at_the_door(Code::Unauthenticated)),
        Err(_) => Err(at_the_door(Code::Overloaded)),
    }
}

async fn read(
    door: &HttpDoor,
    headers: &HeaderMap,
    body: axum::body::Body,
) -> Result<(Bytes, Option<String>), Refusal> {
    if !is_json(headers) {
        return Err(at_the_door(Code::UnsupportedMediaType));
    }
    let body = door
        .bodies
        .read(headers, body, BODY_BYTES)
        .await
        .map_err(|fault| match fault {
            BodyFault::TooLarge => at_the_door(Code::TooLarge),
            BodyFault::Late | BodyFault::Broken => at_the_door(Code::MalformedJson),
            BodyFault::Full => at_the_door(Code::Overloaded),
        })?;
    Ok((body, key_header(headers)?))
}

/// Whether the body says that it is JSON and not compressed.
fn is_json(headers: &HeaderMap) -> bool {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let essence = match (types.next(), types.next()) {
        (Some(value), None) => value
            .to_str()
            .ok()
            .and_then(|value| value.split(';').next()),
        _ => None,
    };
    let is_plain = headers
        .get_all(CONTENT_ENCODING)
        .iter()
        .all(|encoding| encoding.as_bytes().eq_ignore_ascii_case(b"identity"));
    is_plain && essence.is_some_and(|text| text.trim().eq_ignore_ascii_case("application/json"))
}

/// The header `Idempotency-Key`; one that is no text or is there twice agrees with no field (VC-HTTP-3).
fn key_header(headers: &HeaderMap) -> Result<Option<String>, Refusal> {
    let mut keys = headers.get_all("idempotency-key").iter();
    match (keys.next(), keys.next()) {
        (None, _) => Ok(None),
        (Some(key), None) => match std::str::from_utf8(key.as_bytes()) {
            Ok(text) => Ok(Some(text.to_owned())),
            Err(_) => Err(at_the_door(Code::IdempotencyKeyMismatch)),
        },
        (Some(_), Some(_)) => Err(at_the_door(Code::IdempotencyKeyMismatch)),
    }
}

/// Sends an envelope to which the node adds `msg_id` and `ts`.
pub(crate) async fn send(door: Arc<HttpDoor>, call: Call) -> Reply {
    let (headers, access) = (call.parts.headers, call.access);
    let result = match read(&door, &headers, call.body).await {
        Ok((body, key)) => {
            let token = token_of(&access);
            door.office.send_vibe(body, key.as_deref(), token).await
        }
        Err(refusal) => {
            door.office.note_rejection(ProtocolName::Vibe, &refusal);
            Err(refusal)
        }
    };
    match result {
        Ok(answered) => accepted(answered),
        Err(refusal) => refused(&refusal),
    }
}

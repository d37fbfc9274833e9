//! `POST /vcp` (VC-HTTP-1) and `POST /send/vibe`: an envelope comes in.

use std::sync::Arc;

use bytes::Bytes;
use chancery_core::admin::TokenRecord;
use chancery_core::line::ProtocolName;
use chancery_core::refusal::Refusal;
use chancery_vibe::code::Code;
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::request::Parts;
use http_body::Body;

use super::super::access::{Bearer, bearer_token};
use super::super::body::BodyFault;
use super::super::door::{Call, HttpDoor};
use super::super::guard::is_at_home;
use super::super::reply::Reply;
use super::super::router::Shape;
use super::answers::{accepted, at_the_door, refused};
use super::token_of;

/// The largest body (VC-ENV-18).
const BODY_BYTES: usize = 262_144;

/// The same as [`receive`], for a call that came through the router.
pub(crate) async fn call(door: Arc<HttpDoor>, call: Call) -> Reply {
    receive(&door, &call.parts, call.body).await
}

/// Takes in one envelope. The checks of the transport come in the order of VC-PIPE-1: content type, size, token.
pub(crate) async fn receive<B>(door: &HttpDoor, parts: &Parts, body: B) -> Reply
where
    B: Body<Data = Bytes> + Unpin,
{
    if door.is_stopping() {
        return Shape::Vibe.stopping();
    }
    if door.is_dev() && !is_at_home(parts) {
        return Shape::Vibe.foreign();
    }
    let result = match enter(door, &parts.headers, body).await {
        Ok((body, key, token)) => {
            let key = key.as_deref();
            door.office.receive_vibe(body, key, token.as_deref()).await
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

type Entered = (Bytes, Option<String>, Option<Arc<TokenRecord>>);

async fn enter<B>(door: &HttpDoor, headers: &HeaderMap, body: B) -> Result<Entered, Refusal>
where
    B: Body<Data = Bytes> + Unpin,
{
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

async fn read<B>(
    door: &HttpDoor,
    headers: &HeaderMap,
    body: B,
) -> Result<(Bytes, Option<String>), Refusal>
where
    B: Body<Data = Bytes> + Unpin,
{
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
    Ok((body, key_header(headers)))
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

/// The header `Idempotency-Key` (VC-HTTP-3). It is compared with the envelope's own once that is read: what is wrong with
/// the header itself comes no earlier.
fn key_header(headers: &HeaderMap) -> Option<String> {
    let mut keys = headers.get_all("idempotency-key").iter();
    let key = match (keys.next()?, keys.next()) {
        (key, None) => std::str::from_utf8(key.as_bytes()).unwrap_or(AGREES_WITH_NONE),
        (_, Some(_)) => AGREES_WITH_NONE,
    };
    Some(key.to_owned())
}

/// An idempotency key is never empty.
const AGREES_WITH_NONE: &str = "";

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

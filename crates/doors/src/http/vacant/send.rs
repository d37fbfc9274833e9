//! `POST /send/vacant`: a hosted vacant calls another one, or answers a call from its inbox.

use std::sync::Arc;

use chancery_vacant::error::ProtocolError;

use super::super::access::{Need, forbidden};
use super::super::door::{Call, HttpDoor};
use super::super::reply::Reply;
use super::super::send::idempotency_key;
use super::native::error_of;
use super::{native_reply, not_configured};

/// Sends what a hosted vacant decided, once for each `Idempotency-Key`.
pub(crate) async fn call(door: Arc<HttpDoor>, call: Call) -> Reply {
    let Some(vacants) = door.vacants.clone() else {
        return not_configured();
    };
    let Ok(key) = idempotency_key(&call.parts.headers) else {
        let reason = "Idempotency-Key has to be one value of 1 to 255 printable ASCII characters";
        return native_reply(vacants.refuse(ProtocolError::format(reason)));
    };
    let limit = door.office.gate().settings().vacant.max_bytes;
    let body = match door
        .bodies
        .read(&call.parts.headers, call.body, limit)
        .await
    {
        Ok(body) => body,
        Err(fault) => return native_reply(vacants.refuse(error_of(fault))),
    };
    let access = call.access;
    match vacants
        .send(&body, key, |name| access.may_send_as(name))
        .await
    {
        Some(answer) => native_reply(answer),
        None => forbidden(Need::Send),
    }
}

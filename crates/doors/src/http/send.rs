//! `POST /send/value-context`: a hosted agent sends.

use std::sync::Arc;

use chancery_core::refusal::Refusal;
use chancery_value_context::Answer;
use chancery_value_context::code::Code;
use chancery_value_context::message::MAX_MAX_BYTES;
use chancery_value_context::message_id::MessageId;
use chancery_value_context::outgoing::sender_of;
use http::HeaderMap;

use super::access::{Need, forbidden};
use super::door::{Call, HttpDoor};
use super::messages::{check_media_type, refuse_body, turned_away};
use super::reply::Reply;
use super::value_context::{accepted, at_the_door, duplicate, rejected};

/// Longest `Idempotency-Key`.
const KEY_BYTES: usize = 255;

/// Sends what a hosted agent decided, once for each `Idempotency-Key`.
pub(crate) async fn call(door: Arc<HttpDoor>, call: Call) -> Reply {
    let access = call.access.clone();
    let (body, key) = match read(&door, call).await {
        Ok(read) => read,
        Err(refusal) => return turned_away(&door, &refusal),
    };
    // A body that names no sender here names none in the node either, which then says so.
    if let Some(sender) = sender_of(&body, MAX_MAX_BYTES)
        && !access.may_send_as(sender.as_str())
    {
        return forbidden(Need::Send);
    }
    match door.office.send_value_context(&body, key).await {
        Ok(sent) => match (sent.answer, MessageId::parse(&sent.message_id)) {
            (Answer::Accepted(_), Some(id)) => accepted(id),
            (_, Some(id)) => duplicate(id),
            (_, None) => rejected(&at_the_door(Code::Internal, "the node could not answer")),
        },
        Err(refusal) => rejected(&refusal),
    }
}

async fn read(door: &HttpDoor, call: Call) -> Result<(bytes::Bytes, Option<String>), Refusal> {
    let headers = &call.parts.headers;
    check_media_type(headers)?;
    let key = idempotency_key(headers)?;
    let limit = door.office.gate().settings().value_context.max_bytes;
    let body = door
        .bodies
        .read(headers, call.body, limit)
        .await
        .map_err(refuse_body)?;
    Ok((body, key))
}

pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Refusal> {
    let mut keys = headers.get_all("idempotency-key").iter();
    let Some(key) = keys.next() else {
        return Ok(None);
    };
    let text = key.to_str().ok().filter(|text| {
        !text.is_empty() && text.len() <= KEY_BYTES && text.bytes().all(|byte| byte >= b' ')
    });
    match (text, keys.next()) {
        (Some(text), None) => Ok(Some(text.to_owned())),
        _ => Err(at_the_door(
            Code::SchemaInvalid,
            "Idempotency-Key has to be one value of 1 to 255 printable ASCII characters",
        )),
    }
}

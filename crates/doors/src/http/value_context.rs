//! Answers in the shape of value-context (VX-ERR-1, VX-ERR-2).

use chancery_core::refusal::Refusal;
use chancery_value_context::answer;
use chancery_value_context::code::{Code, Fault, MAX_MESSAGE_LENGTH};
use chancery_value_context::message_id::MessageId;
use http::header::{ALLOW, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde::Serialize;
use serde_json::{Map, Value};

use super::reply::{Reply, reply};

const MEDIA_TYPE: HeaderValue = HeaderValue::from_static(answer::MEDIA_TYPE);

#[derive(Serialize)]
struct Rejection<'a> {
    status: &'static str,
    message_id: Option<&'a str>,
    error: ErrorBody<'a>,
}

#[derive(Serialize)]
struct ErrorBody<'a> {
    code: &'a str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<&'a str>,
    retryable: bool,
    #[serde(flatten)]
    details: Map<String, Value>,
}

/// The answer to a message that is in the agent's queue.
pub(crate) fn accepted(id: MessageId) -> Reply {
    reply(StatusCode::OK, MEDIA_TYPE, answer::accepted(id))
}

/// The answer to a message that was there before.
pub(crate) fn duplicate(id: MessageId) -> Reply {
    reply(StatusCode::OK, MEDIA_TYPE, answer::duplicate(id))
}

/// The body of the answer to a message that was refused.
pub(crate) fn rejection(refusal: &Refusal) -> Vec<u8> {
    let message = &refusal.message;
    let end = message
        .char_indices()
        .nth(MAX_MESSAGE_LENGTH)
        .map_or(message.len(), |(end, _)| end);
    let body = Rejection {
        status: "rejected",
        message_id: refusal.message_id.as_deref(),
        error: ErrorBody {
            code: refusal.code,
            message: &message[..end],
            path: refusal.path.as_deref(),
            retryable: refusal.retryable,
            details: details_of(refusal),
        },
    };
    serde_json::to_vec(&body).unwrap_or_default()
}

/// The answer to a message that was refused.
pub(crate) fn rejected(refusal: &Refusal) -> Reply {
    let status = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut reply = reply(status, MEDIA_TYPE, rejection(refusal));
    let headers = reply.headers_mut();
    match status {
        StatusCode::UNAUTHORIZED => {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("VCP-Ed25519"));
        }
        StatusCode::METHOD_NOT_ALLOWED => {
            headers.insert(ALLOW, HeaderValue::from_static("POST"));
        }
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            headers.insert(RETRY_AFTER, refusal.retry_after_s.unwrap_or(1).into());
        }
        _ => {}
    }
    reply
}

/// What a refusal says beyond its code: help with a signature.
fn details_of(refusal: &Refusal) -> Map<String, Value> {
    let details = refusal.details.as_deref().unwrap_or("{}");
    serde_json::from_str(details).unwrap_or_default()
}

/// A refusal that the door itself gives, before the node sees anything.
pub(crate) fn at_the_door(code: Code, message: &'static str) -> Refusal {
    Fault::new(code, message).into_refusal("transport")
}

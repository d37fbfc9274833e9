//! Answers in the shape of vibe (VC-HTTP-2 to VC-HTTP-4, VC-HTTP-6).

use chancery_core::refusal::Refusal;
use chancery_node::VibeAnswered;
use chancery_vibe::answer::{key_header, refusal_body};
use chancery_vibe::code::Code;
use http::header::{ALLOW, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderName, HeaderValue, StatusCode};

use super::super::reply::{Reply, not_stored, reply};

const JSON: HeaderValue = HeaderValue::from_static("application/json; charset=utf-8");
const KEY: HeaderName = HeaderName::from_static("idempotency-key");
const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// The answer to an envelope that is on record.
pub(crate) fn accepted(answered: VibeAnswered) -> Reply {
    let mut reply = reply(StatusCode::OK, JSON, answered.body);
    let headers = reply.headers_mut();
    if let Some(key) = key_header(answered.key.as_deref())
        && let Ok(key) = HeaderValue::from_str(key)
    {
        headers.insert(KEY, key);
    }
    if answered.replayed {
        headers.insert(REPLAYED, HeaderValue::from_static("true"));
    }
    not_stored(reply)
}

/// What a caller may read.
pub(crate) fn found(body: impl Into<bytes::Bytes>) -> Reply {
    not_stored(reply(StatusCode::OK, JSON, body))
}

/// The answer to what was refused.
pub(crate) fn refused(refusal: &Refusal) -> Reply {
    let status = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut reply = reply(status, JSON, refusal_body(refusal));
    let headers = reply.headers_mut();
    match status {
        StatusCode::UNAUTHORIZED if refusal.code == Code::Unauthenticated.as_str() => {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        StatusCode::UNAUTHORIZED => {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("VCP-ES256"));
        }
        StatusCode::METHOD_NOT_ALLOWED => {
            headers.insert(ALLOW, HeaderValue::from_static("POST"));
        }
        _ => {}
    }
    let retry_after_s = match status {
        StatusCode::SERVICE_UNAVAILABLE => Some(refusal.retry_after_s.unwrap_or(1)),
        _ => refusal.retry_after_s,
    };
    if let Some(seconds) = retry_after_s {
        headers.insert(RETRY_AFTER, seconds.into());
    }
    reply
}

/// A refusal that the door itself gives (step 1).
pub(crate) fn at_the_door(code: Code) -> Refusal {
    code.refuse().in_check("transport")
}

/// The same as an answer, in words of its own.
pub(crate) fn saying(code: Code, message: &'static str) -> Reply {
    let mut refusal = at_the_door(code);
    refusal.message = message.into();
    refused(&refusal)
}

/// There is nothing that this caller could see. The list of codes has none for a path or a read without an object, so
/// that it is one of the door.
pub(crate) fn not_found() -> Reply {
    refused(&Refusal::new(
        "not_found",
        404,
        "VC-HTTP-5",
        "there is nothing here for this caller",
    ))
}

/// The answer of a read that the node could not make, in this shape.
pub(crate) fn failed(reply: &Reply) -> Reply {
    match reply.status() {
        StatusCode::SERVICE_UNAVAILABLE => saying(Code::Overloaded, "the node is busy; try again"),
        StatusCode::BAD_REQUEST => saying(
            Code::MalformedEnvelope,
            "a query parameter is not what this path takes",
        ),
        _ => refused(&at_the_door(Code::Internal)),
    }
}

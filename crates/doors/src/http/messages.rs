//! `POST /.well-known/vcp/messages` (VX-HTTP-1): the path most requests take, so it does nothing it need not do.

use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;
use chancery_core::line::ProtocolName;
use chancery_core::protocol::Door;
use chancery_core::refusal::Refusal;
use chancery_value_context::Answer;
use chancery_value_context::code::Code;
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::request::Parts;
use http_body::Body;

use super::body::BodyFault;
use super::door::{Call, HttpDoor};
use super::escalation::says_escalation;
use super::guard::is_at_home;
use super::reply::Reply;
use super::router::Shape;
use super::value_context::{accepted, at_the_door, duplicate, rejected};

/// The same as [`receive`], for a call that came through the router.
pub(crate) async fn call(door: Arc<HttpDoor>, call: Call) -> Reply {
    receive(&door, call.peer, &call.parts, call.body).await
}

/// Takes in one envelope.
pub(crate) async fn receive<B>(door: &HttpDoor, peer: IpAddr, parts: &Parts, body: B) -> Reply
where
    B: Body<Data = Bytes> + Unpin,
{
    if door.is_stopping() {
        return Shape::ValueContext.stopping();
    }
    if door.is_dev() && !is_at_home(parts) {
        return Shape::ValueContext.foreign();
    }
    let is_over = door.failures.is_over(peer);
    if is_over && !door.failures.takes_body(peer) {
        return turned_away(door, &too_many_failures());
    }
    let result = match read(door, &parts.headers, body).await {
        Ok(bytes) if is_over && !says_escalation(&bytes) => {
            return turned_away(door, &too_many_failures());
        }
        Ok(bytes) => door.office.receive_value_context(bytes, Door::Http).await,
        Err(refusal) => {
            door.office
                .note_rejection(ProtocolName::ValueContext, &refusal);
            Err(refusal)
        }
    };
    match result {
        Ok(Answer::Accepted(id)) => accepted(id),
        Ok(Answer::Duplicate(id)) => duplicate(id),
        Ok(Answer::SentBefore(_) | Answer::Noted) => {
            rejected(&at_the_door(Code::Internal, "the node could not answer"))
        }
        Err(refusal) => {
            if is_before_authentication(&refusal) {
                door.failures.count(peer);
            }
            rejected(&refusal)
        }
    }
}

/// Counts and tells a refusal that no envelope was looked at for.
pub(super) fn turned_away(door: &HttpDoor, refusal: &Refusal) -> Reply {
    door.office
        .note_rejection(ProtocolName::ValueContext, refusal);
    rejected(refusal)
}

fn too_many_failures() -> Refusal {
    at_the_door(
        Code::RateLimited,
        "too many refused messages from this address",
    )
}

async fn read<B>(door: &HttpDoor, headers: &HeaderMap, body: B) -> Result<Bytes, Refusal>
where
    B: Body<Data = Bytes> + Unpin,
{
    check_media_type(headers)?;
    let limit = door.office.gate().settings().value_context.max_bytes;
    door.bodies
        .read(headers, body, limit)
        .await
        .map_err(refuse_body)
}

/// A body fault as this protocol tells it.
pub(crate) fn refuse_body(fault: BodyFault) -> Refusal {
    match fault {
        BodyFault::TooLarge => {
            at_the_door(Code::PayloadTooLarge, "the body is larger than the limit")
        }
        BodyFault::Late => at_the_door(Code::Timeout, "the body did not come in time"),
        BodyFault::Full => {
            at_the_door(Code::Overloaded, "the node is busy; try again").in_check("capacity")
        }
        BodyFault::Broken => at_the_door(Code::MalformedJson, "the body broke off"),
    }
}

/// JSON in UTF-8, not compressed (VX-HTTP-3).
pub(crate) fn check_media_type(headers: &HeaderMap) -> Result<(), Refusal> {
    let mut types = headers.get_all(CONTENT_TYPE).iter();
    let is_json = match (types.next(), types.next()) {
        (Some(media_type), None) => media_type.to_str().is_ok_and(is_json),
        _ => false,
    };
    let is_plain = headers
        .get_all(CONTENT_ENCODING)
        .iter()
        .all(|encoding| encoding.as_bytes().eq_ignore_ascii_case(b"identity"));
    if is_json && is_plain {
        return Ok(());
    }
    Err(at_the_door(
        Code::UnsupportedMediaType,
        "the body has to be application/json in UTF-8 and not compressed",
    ))
}

fn is_json(media_type: &str) -> bool {
    let mut parts = media_type
        .split(';')
        .map(|part| part.trim_matches([' ', '\t']));
    if !parts
        .next()
        .is_some_and(|essence| essence.eq_ignore_ascii_case("application/json"))
    {
        return false;
    }
    parts.all(|parameter| match parameter.split_once('=') {
        Some((name, value)) if name.eq_ignore_ascii_case("charset") => {
            let bare = value
                .strip_prefix('"')
                .and_then(|value| value.strip_suffix('"'));
            bare.unwrap_or(value).eq_ignore_ascii_case("utf-8")
        }
        // Other parameters say nothing about the characters; an empty one is a stray semicolon.
        Some(_) => true,
        None => parameter.is_empty(),
    })
}

/// Whether a refusal came before anybody was proven to have sent the message.
pub(crate) fn is_before_authentication(refusal: &Refusal) -> bool {
    matches!(
        refusal.check,
        "transport" | "parse" | "schema" | "temporal" | "signature"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    // VX-HTTP-3
    #[test]
    fn json_in_utf_8_is_taken_and_nothing_else() {
        for good in [
            "application/json",
            "application/json; charset=utf-8",
            "application/json;charset=UTF-8",
            "APPLICATION/JSON; Charset=\"utf-8\"",
            "application/json ; charset=Utf-8",
        ] {
            assert!(is_json(good), "{good}");
        }
        for bad in [
            "",
            "text/plain",
            "application/json5",
            "application/vnd.api+json",
            "application/json; charset=latin1",
            "application/json; charset=utf-16",
            "application/json; charset",
            "application/json, application/json",
        ] {
            assert!(!is_json(bad), "{bad}");
        }
    }
}

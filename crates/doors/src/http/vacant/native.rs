//! `POST /a2a/message/send`: a call on the native binding (section 10).

use std::sync::Arc;

use chancery_vacant::error::ProtocolError;
use chancery_vacant::native::check_media_type;
use http::header::CONTENT_TYPE;

use super::super::body::BodyFault;
use super::super::door::{Call, HttpDoor};
use super::super::reply::Reply;
use super::{addressed, native_reply};

/// Takes in one call and answers it.
pub(crate) async fn call(door: Arc<HttpDoor>, call: Call) -> Reply {
    let (vacants, vacant) = match addressed(&door, &call) {
        Ok(addressed) => addressed,
        Err(reply) => return reply,
    };
    let headers = &call.parts.headers;
    let media_type = headers.get(CONTENT_TYPE).map(http::HeaderValue::as_bytes);
    if let Err(error) = check_media_type(media_type) {
        return native_reply(vacants.refuse(error));
    }
    let limit = door.office.gate().settings().vacant.max_bytes;
    let answer = match door.bodies.read(headers, call.body, limit).await {
        Ok(body) => vacants.call(&vacant, body).await,
        Err(fault) => vacants.refuse(error_of(fault)),
    };
    native_reply(answer)
}

/// A body fault as this protocol tells it.
pub(super) fn error_of(fault: BodyFault) -> ProtocolError {
    match fault {
        BodyFault::TooLarge => ProtocolError::TooLarge,
        BodyFault::Full => ProtocolError::Overloaded("the node is busy; try again"),
        BodyFault::Late => ProtocolError::format("the body did not come in time"),
        BodyFault::Broken => ProtocolError::format("the body broke off"),
    }
}

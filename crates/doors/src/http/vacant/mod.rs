//! The paths of vacant: calls on the native binding, cards, health, the registry, and what hosted vacants send.
//!
//! Each of a vacant's paths is there twice: short for the default vacant, and below `/agents/NAME` for each.

pub(crate) mod a2a;
pub(crate) mod admin;
mod agent_card;
pub(crate) mod face;
pub(crate) mod mcp;
pub(crate) mod native;
pub(crate) mod registry;
pub(crate) mod send;

use std::sync::Arc;

use chancery_node::vacants::{HostedVacant, NativeReply, Vacants};
use chancery_vacant::error::ProtocolError;
use chancery_vacant::native::MEDIA_TYPE;
use http::header::RETRY_AFTER;
use http::{HeaderValue, StatusCode};

use super::door::{Call, HttpDoor};
use super::reply::{Reply, reply};

const JSON: HeaderValue = HeaderValue::from_static(MEDIA_TYPE);

/// The vacants of this node and one of them, or why there is none.
type Addressed = Result<(Arc<Vacants>, Arc<HostedVacant>), Reply>;

/// The vacants of this node, and the one that a path names: below `/agents` by its name, else the default.
fn addressed(door: &HttpDoor, call: &Call) -> Addressed {
    let vacants = door.vacants.clone().ok_or_else(not_configured)?;
    let name = call.param("vacant");
    let vacant = match name {
        "" => vacants.default_vacant(),
        name => vacants.find(name),
    };
    match (vacant.cloned(), name) {
        (Some(vacant), _) => Ok((vacants, vacant)),
        (None, "") => Err(not_configured()),
        (None, _) => Err(refused(ProtocolError::NotFound(
            "no such vacant is hosted here",
        ))),
    }
}

/// An answer of the native binding as HTTP.
fn native_reply(answer: NativeReply) -> Reply {
    let status = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut reply = reply(status, JSON, answer.body);
    if let Some(seconds) = answer.retry_after_s {
        reply.headers_mut().insert(RETRY_AFTER, seconds.into());
    }
    reply
}

/// What the door itself refuses, in the shape of this protocol (VA-SRV-10).
pub(crate) fn refused(error: ProtocolError) -> Reply {
    refusal(&error.into())
}

/// A refusal of the node in the shape of this protocol.
pub(crate) fn refusal(refusal: &chancery_core::refusal::Refusal) -> Reply {
    let id = chancery_vacant::native::RpcId::default();
    native_reply(NativeReply {
        status: refusal.status,
        body: chancery_vacant::native::refusal(&id, refusal, None),
        retry_after_s: refusal.retry_after_s,
    })
}

/// No vacant is configured (CH-CFG-4).
fn not_configured() -> Reply {
    let refusal = chancery_core::refusal::Refusal::new(
        "NOT_CONFIGURED",
        503,
        "CH-CFG-4",
        "no vacant is configured here",
    );
    self::refusal(&refusal)
}

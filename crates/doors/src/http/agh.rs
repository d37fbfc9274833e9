//! AGH at this door: `POST /agh`, `POST /send/agh`, inboxes and states of channels.

use std::sync::Arc;

use bytes::Bytes;
use chancery_agh::answer::{Outcome, at_the_door, refused};
use chancery_agh::fault::{ErrorName, Fault, Stage};
use chancery_agh::outgoing::Outgoing;
use chancery_agh::peer::address;
use chancery_agh::revision::Revision;
use chancery_core::inbox::InboxName;
use chancery_core::line::ProtocolName;
use chancery_core::protocol::Door;
use chancery_core::refusal::Refusal;
use http::header::RETRY_AFTER;
use http::{HeaderValue, StatusCode};
use serde::Deserialize;

use super::access::{Access, Need, forbidden};
use super::body::BodyFault;
use super::door::{Call, HttpDoor};
use super::query::Query;
use super::reply::{Reply, json, not_stored, reply};
use super::send::idempotency_key;

const MEDIA_TYPE: HeaderValue = HeaderValue::from_static("application/json; charset=utf-8");

/// What a token is asked about: who speaks, and where.
#[derive(Deserialize)]
struct Speaker {
    from: String,
    channel: String,
    workspace_id: Option<String>,
}

/// Takes in one envelope, as from the network.
pub(crate) async fn receive(door: Arc<HttpDoor>, call: Call) -> Reply {
    let access = call.access.clone();
    let body = match read(&door, call).await {
        Ok(body) => body,
        Err(reply) => return reply,
    };
    // What cannot be read speaks as nobody; the node says what is wrong with it.
    if let Ok(speaker) = serde_json::from_slice::<Speaker>(&body) {
        let workspace = speaker.workspace_id.as_deref();
        if !may_speak(&access, workspace, &speaker.channel, &speaker.from) {
            return forbidden(Need::Send);
        }
    }
    let outcome = door.office.receive_agh(body, Door::Http).await;
    told(&outcome, false)
}

/// Sends what a hosted peer decided, once for each `Idempotency-Key`.
pub(crate) async fn send(door: Arc<HttpDoor>, call: Call) -> Reply {
    let access = call.access.clone();
    let key = match idempotency_key(&call.parts.headers) {
        Ok(key) => key,
        Err(_) => return turned_away(&door, ErrorName::InvalidType, 400),
    };
    let body = match read(&door, call).await {
        Ok(body) => body,
        Err(reply) => return reply,
    };
    let settings = door.office.gate().settings();
    if let Ok(outgoing) = Outgoing::decode(&body, &settings.agh) {
        let (workspace, channel, from) = outgoing.place();
        if !may_speak(&access, workspace, channel, from) {
            return forbidden(Need::Send);
        }
    }
    match door.office.send_agh(&body, key).await {
        Ok(outcome) => told(&outcome, true),
        Err(refusal) => told_refusal(&refusal),
    }
}

/// Tells who is in a channel and what they work on.
pub(crate) async fn state(door: Arc<HttpDoor>, call: Call) -> Reply {
    let (channel, workspace) = match place(&call) {
        Ok(place) => place,
        Err(reply) => return reply,
    };
    let read = door.read(move |office| office.agh_state(workspace.as_deref(), &channel));
    match read.await {
        Ok(state) => not_stored(json(StatusCode::OK, &state)),
        Err(reply) => reply,
    }
}

/// The inbox that a path of AGH names.
pub(crate) fn inbox_name(call: &Call) -> Result<InboxName, Reply> {
    let (channel, workspace) = place(call)?;
    Ok(InboxName {
        protocol: ProtocolName::Agh,
        agent: address(workspace.as_deref(), &channel, call.param("peer")),
    })
}

fn place(call: &Call) -> Result<(String, Option<String>), Reply> {
    let query = Query::of(&call.parts)?;
    let workspace = query.text("workspace").filter(|text| !text.is_empty());
    Ok((
        call.param("channel").to_owned(),
        workspace.map(str::to_owned),
    ))
}

/// A token names a peer by its address, or by its Peer ID for every channel.
pub(crate) fn may_speak(
    access: &Access,
    workspace: Option<&str>,
    channel: &str,
    peer: &str,
) -> bool {
    access.may_send_as(&address(workspace, channel, peer)) || access.may_send_as(peer)
}

async fn read(door: &HttpDoor, call: Call) -> Result<Bytes, Reply> {
    let limit = door.office.gate().settings().agh.max_payload;
    let read = door.bodies.read(&call.parts.headers, call.body, limit);
    read.await.map_err(|fault| match fault {
        BodyFault::TooLarge => turned_away(door, ErrorName::TooLarge, 413),
        BodyFault::Late => turned_away(door, ErrorName::NotJson, 408),
        BodyFault::Full => turned_away(door, ErrorName::Busy, 503),
        BodyFault::Broken => turned_away(door, ErrorName::NotJson, 400),
    })
}

/// Counts and tells a refusal that no envelope was looked at for.
fn turned_away(door: &HttpDoor, error: ErrorName, status: u16) -> Reply {
    let refusal = Fault::new(error, Stage::Parse).into_refusal(Revision::A);
    door.office.note_rejection(ProtocolName::Agh, &refusal);
    told_at_the_door(error, status)
}

fn told(outcome: &Outcome, sent: bool) -> Reply {
    with_status(outcome.status(), outcome.to_json(sent))
}

fn told_refusal(refusal: &Refusal) -> Reply {
    with_status(refusal.status, refused(refusal))
}

/// An answer that the door itself gives, before the node sees anything.
pub(crate) fn told_at_the_door(error: ErrorName, status: u16) -> Reply {
    with_status(status, at_the_door(error))
}

fn with_status(status: u16, body: Vec<u8>) -> Reply {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut reply = reply(status, MEDIA_TYPE, body);
    if status == StatusCode::SERVICE_UNAVAILABLE {
        reply
            .headers_mut()
            .insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    reply
}

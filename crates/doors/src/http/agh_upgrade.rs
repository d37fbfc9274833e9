//! `GET /agh/ws`: a connection becomes that of an AGH peer, which is hosted here while it lasts.

use std::sync::Arc;

use chancery_agh::fault::ErrorName;
use chancery_agh::grammar::{is_channel, is_peer_id, is_workspace, split_handle};
use chancery_agh::peer::PeerRecord;
use chancery_agh::revision::Mode;
use chancery_agh::settings::Settings;
use chancery_agh::whois::Catalog;
use chancery_node::NotJoined;
use http::header::SEC_WEBSOCKET_PROTOCOL;
use http::{HeaderMap, HeaderValue};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::sync::OwnedSemaphorePermit;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use super::access::{Need, forbidden, out_of_force};
use super::agh::{may_speak, told_at_the_door};
use super::door::{Call, HttpDoor};
use super::query::Query;
use super::reply::Reply;
use super::upgrade::{switching, upgrade_required};
use crate::agh_ws::{Place, STATUS_PROTOCOL, Talk};
use crate::ws::handshake::{asked, names};

/// Answers a request to upgrade. The peer is on record before it is told that it may speak.
pub(crate) async fn call(door: Arc<HttpDoor>, call: Call) -> Reply {
    match admitted(&door, call).await {
        Ok(reply) | Err(reply) => reply,
    }
}

async fn admitted(door: &Arc<HttpDoor>, mut call: Call) -> Result<Reply, Reply> {
    let query = Query::of(&call.parts)?;
    let settings = door.office.gate().settings();
    let record = peer_of(&query, &settings.agh)?;
    let (workspace, id) = (record.workspace_id.as_deref(), &record.card.peer_id);
    if !may_speak(&call.access, workspace, &record.channel, id) {
        return Err(forbidden(Need::Send));
    }
    let asked = asked(&call.parts.method, &call.parts.headers).map_err(|_| upgrade_required())?;
    let upgrade = call.parts.extensions.remove::<OnUpgrade>();
    let upgrade = upgrade.ok_or_else(upgrade_required)?;
    let busy = || told_at_the_door(ErrorName::Busy, 503);
    let socket = Arc::clone(&door.sockets).try_acquire_owned();
    let socket = socket.map_err(|_| busy())?;
    let taken = || told_at_the_door(ErrorName::Duplicate, 409);
    let place = Place::take(&door.switchboard, &record).ok_or_else(taken)?;
    door.office
        .agh_join(record.clone())
        .await
        .map_err(|error| match error {
            NotJoined::Taken => taken(),
            NotJoined::Refused(_) | NotJoined::Store(_) => busy(),
        })?;
    let headers = call.parts.headers;
    let status = names(&headers, &SEC_WEBSOCKET_PROTOCOL, STATUS_PROTOCOL);
    let visit = Visit {
        door: Arc::clone(door),
        record,
        headers,
        status,
        _socket: socket,
    };
    door.talks.spawn(visit.last(upgrade, place));
    let mut reply = switching(asked.accept);
    if status {
        let protocol = HeaderValue::from_static(STATUS_PROTOCOL);
        reply.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, protocol);
    }
    Ok(reply)
}

/// The peer that a request names.
fn peer_of(query: &Query, settings: &Settings) -> Result<PeerRecord, Reply> {
    let wrong = |error| Err(told_at_the_door(error, 400));
    let (Some(channel), Some(peer)) = (query.text("channel"), query.text("peer")) else {
        return wrong(ErrorName::MissingField);
    };
    let workspace = query.text("workspace").filter(|text| !text.is_empty());
    let is_handle = settings.trust.enabled && split_handle(peer).is_some();
    match (settings.revision, workspace) {
        (Mode::A, Some(_)) => wrong(ErrorName::UnknownField),
        (Mode::B, None) => wrong(ErrorName::MissingField),
        _ if !is_channel(channel) => wrong(ErrorName::InvalidChannel),
        _ if !is_peer_id(peer) && !is_handle => wrong(ErrorName::InvalidPeerId),
        (_, Some(text)) if !is_workspace(text) => wrong(ErrorName::InvalidWorkspaceId),
        _ => Ok(PeerRecord::new(
            peer,
            channel,
            workspace,
            None,
            Vec::new(),
            Catalog::default(),
        )),
    }
}

/// A peer that is here for as long as its connection.
struct Visit {
    door: Arc<HttpDoor>,
    record: PeerRecord,
    headers: HeaderMap,
    status: bool,
    _socket: OwnedSemaphorePermit,
}

impl Visit {
    /// Talks, then leaves. The place is given up last: whoever comes next finds no trace.
    async fn last(self, upgrade: OnUpgrade, place: Place) {
        let address = self.record.address();
        let office = Arc::clone(&self.door.office);
        let place = match upgrade.await {
            Ok(upgraded) => {
                let terms = (self.door.ws_limits, self.status);
                let record = self.record.clone();
                let office = Arc::clone(&office);
                let stream = TokioIo::new(upgraded);
                let talk = Talk::new(stream, office, record, place, terms).await;
                talk.run(self.end()).await
            }
            Err(_) => place,
        };
        if place.is_elsewhere() {
            return;
        }
        if let Err(error) = office.agh_leave(&address).await {
            tracing::warn!(%error, "a peer that is gone could not be taken off the record");
        }
    }

    /// When the node ends the connection by itself.
    async fn end(&self) -> CloseCode {
        let address = self.record.address();
        tokio::select! {
            () = self.door.stopped() => CloseCode::Away,
            () = out_of_force(&self.door, &self.headers) => CloseCode::Policy,
            // Others took this node for gone. The peer is to come again.
            () = self.door.office.agh_left(&address) => CloseCode::Again,
        }
    }
}

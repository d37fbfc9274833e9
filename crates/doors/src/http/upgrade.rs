//! `GET /vcp/ws`: a connection becomes a WebSocket (VX-WS-1).

use std::net::IpAddr;
use std::sync::Arc;

use hashbrown::HashSet;
use http::header::{
    CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderValue, StatusCode};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio_tungstenite::tungstenite::protocol::Role;

use super::door::{Call, HttpDoor, busy};
use super::escalation::says_escalation;
use super::reply::{Reply, empty, problem};
use crate::ws::handshake::asked;
use crate::ws::{Conversation, Doorkeeper, Ears, Line, STATUS_PROTOCOL, Terms};

/// Answers a request to upgrade, and talks once the connection is ours.
pub(crate) async fn call(door: Arc<HttpDoor>, mut call: Call) -> Reply {
    let Ok(asked) = asked(&call.parts.method, &call.parts.headers) else {
        return upgrade_required();
    };
    let Some(upgrade) = call.parts.extensions.remove::<OnUpgrade>() else {
        return upgrade_required();
    };
    let Ok(place) = Arc::clone(&door.sockets).try_acquire_owned() else {
        return busy();
    };
    let status = asked.status;
    let talk = talk(Arc::clone(&door), upgrade, call.peer, status, place);
    door.talks.spawn(talk);
    let mut reply = switching(asked.accept);
    if status {
        let protocol = HeaderValue::from_static(STATUS_PROTOCOL);
        reply.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, protocol);
    }
    reply
}

/// The answer to a good request; `accept` proves that it was read.
pub(crate) fn switching(accept: HeaderValue) -> Reply {
    let mut reply = empty(StatusCode::SWITCHING_PROTOCOLS);
    let headers = reply.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, accept);
    reply
}

pub(crate) fn upgrade_required() -> Reply {
    let mut reply = problem(
        StatusCode::UPGRADE_REQUIRED,
        "this path speaks WebSocket, version 13",
    );
    let headers = reply.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
    reply
}

async fn talk(
    door: Arc<HttpDoor>,
    upgrade: OnUpgrade,
    peer: IpAddr,
    status: bool,
    _place: OwnedSemaphorePermit,
) {
    let Ok(upgraded) = upgrade.await else {
        return;
    };
    let limits = door.ws_limits;
    let (outgoing, to_write) = mpsc::channel(limits.outgoing_frames);
    let line = Line {
        number: door.switchboard.number(),
        outgoing,
        is_own_call: false,
    };
    let ears = Ears {
        office: Arc::clone(&door.office),
        switchboard: Arc::clone(&door.switchboard),
        line,
        doorkeeper: Box::new(Source {
            door: Arc::clone(&door),
            peer,
        }),
        answers_greetings: true,
        agents_at_most: limits.agents,
        behind: HashSet::new(),
        greeted: HashSet::new(),
    };
    let terms = Terms {
        role: Role::Server,
        status,
        limits,
        max_bytes: door.office.gate().settings().value_context.max_bytes,
        greetings: HashSet::new(),
    };
    let conversation = Conversation::new(TokioIo::new(upgraded), ears, to_write, terms).await;
    conversation.run(door.stopped()).await;
}

/// Where a connection comes from.
struct Source {
    door: Arc<HttpDoor>,
    peer: IpAddr,
}

impl Doorkeeper for Source {
    fn lets_in(&self, frame: &[u8]) -> bool {
        let failures = &self.door.failures;
        !failures.is_over(self.peer) || failures.takes_body(self.peer) && says_escalation(frame)
    }

    fn failed(&self) {
        self.door.failures.count(self.peer);
    }
}

//! NATS subjects (AG-NAT-1, AG-NAT-2, AG-NAT-11, AG-B-24). Only the names: connections are a door's.

use chancery_core::digest::{Sha256Digest, hex};

use crate::grammar::split_handle;

/// The prefix of every subject.
pub const PREFIX: &str = "agh.network.v0";
/// The prefix of signed envelopes that say `agh-network/v1`.
pub const PREFIX_V1: &str = "agh.network.v1";

/// The token that stands for a Peer ID in a subject.
pub fn route_token(peer_id: &str) -> String {
    hex::encode(&Sha256Digest::of(peer_id.as_bytes()).0[..16])
}

/// The token of a peer under v1: the fingerprint of a verified handle, else as in v0 (AG-NAT-11).
pub fn route_token_v1(peer_id: &str) -> String {
    match split_handle(peer_id) {
        Some((_, fingerprint)) => fingerprint.to_owned(),
        None => route_token(peer_id),
    }
}

/// The subject of everybody in a channel.
pub fn broadcast(workspace: Option<&str>, channel: &str) -> String {
    format!("{}.broadcast", base(PREFIX, workspace, channel))
}

/// The subject of one peer in a channel.
pub fn direct(workspace: Option<&str>, channel: &str, peer_id: &str) -> String {
    let token = route_token(peer_id);
    format!("{}.peer.{token}", base(PREFIX, workspace, channel))
}

/// The subject of everybody in a channel under v1.
pub fn broadcast_v1(workspace: Option<&str>, channel: &str) -> String {
    format!("{}.broadcast", base(PREFIX_V1, workspace, channel))
}

/// The subject of one peer in a channel under v1.
pub fn direct_v1(workspace: Option<&str>, channel: &str, peer_id: &str) -> String {
    let token = route_token_v1(peer_id);
    format!("{}.peer.{token}", base(PREFIX_V1, workspace, channel))
}

/// The subject that an envelope is published on (AG-NAT-4).
pub fn of(workspace: Option<&str>, channel: &str, to: Option<&str>) -> String {
    match to {
        Some(peer) => direct(workspace, channel, peer),
        None => broadcast(workspace, channel),
    }
}

fn base(prefix: &str, workspace: Option<&str>, channel: &str) -> String {
    match workspace {
        Some(workspace) => format!("{prefix}.{workspace}.{channel}"),
        None => format!("{prefix}.{channel}"),
    }
}

/// The workspace and channel of a subject: the number of tokens tells the two families apart (AG-B-44).
pub fn parse(subject: &str) -> Option<(Option<&str>, &str)> {
    let rest = subject.strip_prefix(PREFIX)?.strip_prefix('.')?;
    let place = match rest.strip_suffix(".broadcast") {
        Some(place) => place,
        None => rest.rsplit_once('.')?.0.strip_suffix(".peer")?,
    };
    match place.split_once('.') {
        None => Some((None, place)),
        Some((workspace, channel)) => Some((Some(workspace), channel)),
    }
}

//! AGH over WebSocket, for peers without a broker: a peer is hosted here for as long as its connection lasts.
//!
//! Guarantees: one connection for a peer; nobody else speaks over it; frames are decided in the order in which they came,
//! through the same gate as everything; what is in the peer's inbox counts as handed over once it is written; all that
//! waits for a slow reader is bounded.

mod connected;
mod feeder;
mod frames;
mod leftovers;
mod talk;

pub(crate) use connected::{Connected, Place, claim, is_claim};
pub(crate) use leftovers::see_them_out;
pub(crate) use talk::Talk;

/// The optional subprotocol in which every frame is answered with its verdict.
pub(crate) const STATUS_PROTOCOL: &str = "agh.status.v1";
/// Where connections come in.
pub(crate) const PATH: &str = "/agh/ws";

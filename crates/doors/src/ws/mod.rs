//! WebSocket connections of value-context (VX section 16.3): what both sides share, and the side that calls.

mod conversation;
mod dialer;
mod ears;
mod elsewhere;
pub(crate) mod handshake;
mod limits;
mod outstanding;
mod pace;
mod switchboard;

pub use dialer::Dialer;
pub use limits::WsLimits;
pub use switchboard::Switchboard;

pub(crate) use conversation::{Conversation, Terms};
pub(crate) use ears::{Doorkeeper, Ears};
pub(crate) use elsewhere::SILENCE;
pub(crate) use switchboard::Line;

/// The optional subprotocol in which every envelope is answered (VX-WS-4).
pub(crate) const STATUS_PROTOCOL: &str = "vcp.status.v1";
/// Where connections come in.
pub(crate) const PATH: &str = "/vcp/ws";

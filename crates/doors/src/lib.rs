//! The ways in: HTTP, WebSocket, NATS, A2A and MCP.
//!
//! Guarantees: every path has a rule that says who may use it; everything a remote can fill has a bound, and at the
//! bound it is told to try again; an answer is given only after the node gave it.
//!
//! Refuses to: listen beyond this machine without TLS unless that is said explicitly, follow a redirect, send
//! anything but a signed call of a vacant to another machine without TLS (VA-DSP-9), and decide anything: rules are the
//! node's business.

pub mod a2a;
mod agh_ws;
mod carrier;
mod guarded;
pub mod guide;
pub mod http;
pub mod mcp;
pub mod nats;
pub mod otlp;
mod outgoing_http;
mod outgoing_tls;
mod public_address;
mod routes;
mod trace_headers;
mod vacants_abroad;
pub mod visitor;
pub mod ws;

pub use carrier::{CarrierError, HttpCarrier};
pub use outgoing_tls::OutgoingTls;
pub use public_address::{is_public, public_addresses};
pub use vacants_abroad::VacantsAbroad;

//! The gate: the one path of every envelope, with its deliverer, timers and soft state.
//!
//! Decode and authenticate run wherever the caller runs, on every core. One thread decides, in order; one seals and
//! makes durable; an answer leaves only when everything decided up to it survives a power cut. What a remote can
//! fill has a bound, and at the bound it is told to try again.

mod after;
mod agh_answers;
mod agh_bridge;
mod agh_connected;
mod agh_hosted;
mod agh_network;
mod allowance;
mod arrivals;
mod clerks;
mod clock;
mod committer;
mod duties;
mod gate;
pub mod guide;
mod inboxes;
mod lanes;
mod lateness;
mod leave;
mod node;
mod office;
mod office_agh;
mod others;
mod outbox;
mod overlay;
mod passage;
mod rates;
mod reconcile;
pub mod respond;
mod sequencer;
mod sidelogs;
mod signing;
mod soft;
mod spawned;
pub mod suite;
pub mod tenant;
mod timers;
mod tokens;
pub mod trace;
pub mod vacants;
mod value_context;
mod vault;

pub use agh_answers::answers as agh_answers;
pub use agh_bridge::bridge as agh_bridge;
pub use agh_connected::NotJoined;
pub use agh_network::AghRead;
pub use arrivals::{Arrival, InProcess, Opened};
pub use clerks::Hands;
pub use clock::{Clock, Entropy};
pub use gate::{Gate, GateLimits, Overloaded, Permit};
pub use inboxes::{InboxEntry, Inboxes};
pub use leave::Leave;
pub use node::{Node, Options, StartError};
pub use office::{
    Office, Sent, VibeAnswered, hosting_protocol, turn_records_prefix, vibe_approver, vibe_reader,
};
pub use others::{Errand, Others, Word};
pub use outbox::{Attempt, Bus, Carried, Carrier, Made, NoCarrier, Order};
pub use reconcile::ReconcileError;
pub use sequencer::Decided;
pub use sidelogs::SideLogs;
pub use soft::SoftLimits;
pub use vault::Vault;

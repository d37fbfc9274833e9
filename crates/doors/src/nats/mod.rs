//! AGH over NATS (chapter 14 of its specification): the subjects of hosted peers, joined, greeted for and listened to.
//!
//! Guarantees: a publication counts as made when the broker has answered something that was sent after it; while there is
//! no broker nothing waits in the client, and senders are told to try again; after every new connection all hosted
//! peers are subscribed and greet, and one of each channel asks who is there; envelopes of one subject are handed to the
//! node in the order in which they came; what waits for its decision is bounded in bytes, beyond that dropped and counted.
//!
//! Refuses to: speak with a broker on another machine without TLS unless that is said explicitly, take a broker's word
//! for who sent something, and decide anything: a subject is a hint, the envelope decides (AG-RTE-5).

mod broker;
mod bus;
mod connect;
mod door;
mod intake;
mod jetstream;
mod members;
mod permissions;
mod publisher;

pub use broker::Broker;
pub use bus::{BusDoor, Connected, NatsBus};
pub use connect::{BrokerOptions, Secret, reach, reach_streams};
pub use door::NatsDoor;

pub(crate) use connect::connect;

//! A node as the program starts it, for benchmarks.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Result;
use chancery_doors::http::{ServeOptions, Server, serve};
use chancery_node::suite::Chancery;
use chancery_node::{
    Carrier, Clock, Entropy, GateLimits, NoCarrier, Node, Office, Options, SideLogs, SoftLimits,
    Vault,
};
use chancery_store::Store;

/// Starts a node over a recovered store, with the limits the program has by default.
pub(crate) fn start_node(store: Arc<dyn Store>) -> Result<Office> {
    start_node_of(store, Chancery::default())
}

/// The same with protocols that have a world.
pub(crate) fn start_node_of(store: Arc<dyn Store>, suite: Chancery) -> Result<Office> {
    start(store, suite, Arc::new(Vault::new()), Arc::new(NoCarrier))
}

/// The same with keys of hosted agents and a way to others.
pub(crate) fn start_node_with(
    store: Arc<dyn Store>,
    vault: Arc<Vault>,
    carrier: Arc<dyn Carrier>,
) -> Result<Office> {
    start(store, Chancery::default(), vault, carrier)
}

fn start(
    store: Arc<dyn Store>,
    suite: Chancery,
    vault: Arc<Vault>,
    carrier: Arc<dyn Carrier>,
) -> Result<Office> {
    Ok(Node::start(Options {
        suite: Arc::new(suite),
        store,
        vault,
        clock: Clock::System,
        entropy: Entropy::System,
        gate_limits: GateLimits::default(),
        soft_limits: SoftLimits::default(),
        carrier,
        side_logs: SideLogs::default(),
        hands: chancery_node::Hands::Own,
        spans: None,
    })?)
}

/// Opens the HTTP door of a node on a free port of this machine.
pub(crate) fn serve_node(office: Arc<Office>) -> Result<Server> {
    let local = SocketAddr::from(([127, 0, 0, 1], 0));
    Ok(serve(office, ServeOptions::new(local))?)
}

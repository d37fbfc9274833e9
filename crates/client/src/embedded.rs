//! A node inside this process: an agent that is a peer by itself.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use chancery_core::protocol::Suite as _;
use chancery_doors::HttpCarrier;
use chancery_doors::http::{ServeOptions, Server, serve};
use chancery_node::suite::{AllSettings, Chancery};
use chancery_node::{
    Clock, Entropy, GateLimits, Hands, Node, Office, Options, SideLogs, SoftLimits, Vault,
};
use chancery_store::{Embedded as OnDisk, Memory, Options as StoreOptions, Store, recover};
use chancery_value_context::world::World;

use crate::agent::Agent;
use crate::error::Error;
use crate::way::Way;

/// Where the node keeps its log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Nowhere: what happened is forgotten at the end, and messages from before the start are refused (VX-RPL-4).
    Memory,
    /// A directory of its own.
    Directory(PathBuf),
}

/// A node inside this process, with a door of its own where others are to reach its agents.
pub struct Embedded {
    office: Arc<Office>,
    carrier: Arc<HttpCarrier>,
    addresses: Mutex<BTreeMap<String, String>>,
    server: Option<Server>,
}

impl Embedded {
    /// Starts a node for the agents of a world, which has the form of the node's own world file (CH-CFG-5); their secret
    /// keys are in it. With `listen` it takes messages there; port 0 picks a free one. Needs a tokio runtime.
    pub async fn start(
        world: &str,
        place: Place,
        listen: Option<SocketAddr>,
    ) -> Result<Self, Error> {
        let given = |error: &dyn std::fmt::Display| Error::Given(error.to_string());
        let mut world = World::parse(world.as_bytes()).map_err(|fault| given(&fault))?;
        let vault = Arc::new(Vault::new());
        for (agent, key) in std::mem::take(&mut world.secret_keys) {
            vault.hold(agent.as_str(), key);
        }
        let addresses: BTreeMap<String, String> = world
            .addresses
            .iter()
            .map(|(agent, url)| (agent.as_str().to_owned(), url.to_string()))
            .collect();
        let carrier = HttpCarrier::new(addresses.clone()).map_err(|error| given(&error))?;
        let carrier = Arc::new(carrier);
        let office: Office = Node::start(Options {
            suite: Arc::new(Chancery::default()),
            store: open(&place)?,
            vault,
            clock: Clock::System,
            entropy: Entropy::System,
            gate_limits: GateLimits::default(),
            soft_limits: SoftLimits::default(),
            carrier: Arc::clone(&carrier) as Arc<_>,
            side_logs: SideLogs::default(),
            hands: Hands::Own,
            spans: None,
        })
        .map_err(|error| Error::Node(error.to_string()))?;
        let office = Arc::new(office);
        let settings = AllSettings::default();
        let in_line = |error: chancery_node::ReconcileError| Error::Given(error.to_string());
        office
            .reconcile_settings(&settings)
            .await
            .map_err(in_line)?;
        office.reconcile_world(&world).await.map_err(in_line)?;
        let open = |listen| serve(Arc::clone(&office), ServeOptions::new(listen));
        let server = listen
            .map(open)
            .transpose()
            .map_err(|error| Error::Given(error.to_string()))?;
        Ok(Self {
            office,
            carrier,
            addresses: Mutex::new(addresses),
            server,
        })
    }

    /// Where others send messages for its agents, when it has a door.
    pub fn address(&self) -> Option<String> {
        let server = self.server.as_ref()?;
        let address = server.listening().address;
        Some(format!("http://{address}/.well-known/vcp/messages"))
    }

    /// Where an agent that is hosted elsewhere is reached from here on.
    pub fn set_address(&self, agent: &str, url: &str) {
        let mut addresses = self
            .addresses
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        addresses.insert(agent.to_owned(), url.to_owned());
        self.carrier.set_addresses(addresses.clone());
    }

    /// An agent of its world.
    pub fn agent(&self, id: &str) -> Agent {
        Agent::new(Way::Embedded(Arc::clone(&self.office)), id)
    }

    /// The node itself, for what this crate does not offer.
    pub fn office(&self) -> &Arc<Office> {
        &self.office
    }

    /// Stops the door, then the node. Everything acknowledged is on record when this returns.
    pub async fn stop(self) -> Result<(), Error> {
        if let Some(server) = self.server {
            server.stop().await;
        }
        self.office
            .stop()
            .await
            .map_err(|error| Error::Node(error.to_string()))
    }
}

pub(crate) fn open(place: &Place) -> Result<Arc<dyn Store>, Error> {
    let Place::Directory(directory) = place else {
        return Ok(Arc::new(Memory::new()));
    };
    let suite = Chancery::default();
    let options = StoreOptions {
        windows: suite.windows(),
        ..StoreOptions::new(directory)
    };
    let (store, tail) = OnDisk::open(&options).map_err(|error| Error::Node(error.to_string()))?;
    recover(&suite, &store, &tail).map_err(|error| Error::Node(error.to_string()))?;
    Ok(Arc::new(store))
}

impl std::fmt::Debug for Embedded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Embedded({:?})", self.address())
    }
}

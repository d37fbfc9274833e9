//! Three nodes with one agent each: a child, its parent, and the parent's parent.

use std::sync::Arc;

use chancery_core::keys::ed25519::{SigningKey, encode_public_key};
use chancery_core::protocol::Suite;
use chancery_core::time::{Time, parse_value_context};
use chancery_node::suite::{AllSettings, Chancery};
use chancery_node::{
    Clock, Entropy, GateLimits, Hands, Node, Office, Options, SideLogs, SoftLimits, Vault,
};
use chancery_store::testing::SimDisk;
use chancery_store::{Embedded, recover};
use chancery_value_context::world::World;
use serde_json::json;

use super::Without;
use super::network::{Link, Network};

pub const CHILD: usize = 0;
pub const PARENT: usize = 1;
pub const ELDER: usize = 2;
/// The agents by the number of their node.
pub const AGENTS: [&str; 3] = [
    "agent://child.test/a",
    "agent://parent.test/a",
    "agent://elder.test/a",
];

/// When every story begins.
pub fn beginning() -> Time {
    parse_value_context("2026-03-01T12:00:00Z").unwrap()
}

fn key_of(node: usize) -> SigningKey {
    SigningKey::from_seed(&[node as u8 + 1; 32])
}

fn world_of(node: usize, without: Option<Without>) -> World {
    let anchors: serde_json::Map<_, _> = AGENTS
        .iter()
        .enumerate()
        .map(|(number, agent)| {
            let public = encode_public_key(&key_of(number).verifying_key());
            let key = json!({
                "id": "k", "algorithm": "ed25519", "public_key": public,
                "state": "active",
                "valid_from": "2026-01-01T00:00:00Z", "valid_until": "2027-01-01T00:00:00Z",
            });
            ((*agent).to_owned(), json!({"type": "agent", "keys": [key]}))
        })
        .collect();
    let path = match without {
        Some(Without::EscalationPath) => json!([]),
        _ => json!([AGENTS[ELDER]]),
    };
    let agent = match node {
        CHILD => json!({
            "id": AGENTS[CHILD], "parent": AGENTS[PARENT], "children": [], "peers": [AGENTS[ELDER]],
            "escalation_path": path,
        }),
        PARENT => json!({
            "id": AGENTS[PARENT], "parent": AGENTS[ELDER], "children": [AGENTS[CHILD]], "peers": [],
        }),
        _ => json!({
            "id": AGENTS[ELDER], "parent": null, "children": [AGENTS[PARENT], AGENTS[CHILD]], "peers": [],
        }),
    };
    let file = json!({"trust": {"trust_anchors": anchors}, "local_agents": [agent]});
    World::parse(file.to_string().as_bytes()).unwrap()
}

/// Where the rows are kept: in memory where the machine offers that, since only the log is on the simulated disk.
fn room() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap()
}

/// A node's disk and clock, which outlive it.
pub struct Machine {
    pub node: usize,
    pub disk: Arc<SimDisk>,
    pub dir: tempfile::TempDir,
    pub clock: Clock,
}

impl Machine {
    pub fn new(node: usize, seed: u64, clock: Clock) -> Self {
        Self {
            node,
            disk: Arc::new(SimDisk::new(seed)),
            dir: room(),
            clock,
        }
    }

    /// Returns once the tasks and threads of a node that was dropped have let go of its directory.
    pub async fn is_free(&self) {
        let lock = std::fs::File::open(self.dir.path().join("lock")).unwrap();
        while lock.try_lock().is_err() {
            tokio::task::yield_now().await;
        }
    }

    /// Starts the node on what its disk holds.
    pub async fn start(&self, network: &Arc<Network>, without: Option<Without>) -> Arc<Office> {
        let suite = Chancery::default();
        let options = chancery_store::Options {
            windows: suite.windows(),
            ..chancery_store::Options::new(self.dir.path())
        };
        let (store, tail) = Embedded::open_on(Arc::clone(&self.disk) as _, &options).unwrap();
        recover(&suite, &store, &tail).unwrap();
        let vault = Arc::new(Vault::new());
        vault.hold(AGENTS[self.node], key_of(self.node));
        let office = Node::start(Options {
            suite: Arc::new(suite),
            store: Arc::new(store),
            vault,
            clock: self.clock.clone(),
            entropy: Entropy::System,
            gate_limits: GateLimits::default(),
            soft_limits: SoftLimits::default(),
            carrier: Arc::new(Link {
                network: Arc::clone(network),
                node: self.node,
            }),
            side_logs: SideLogs::default(),
            hands: Hands::Callers,
            spans: None,
        });
        let office = Arc::new(office.unwrap());
        let mut settings = AllSettings::default();
        if without == Some(Without::Dedupe) {
            settings.value_context.dedupe_window_s = 0;
        }
        office.reconcile_settings(&settings).await.unwrap();
        let world = world_of(self.node, without);
        office.reconcile_world(&world).await.unwrap();
        network.connect(self.node, &office);
        office
    }
}

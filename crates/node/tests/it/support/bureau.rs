//! A node that speaks value-context in the world of the vectors, without a door.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use chancery_core::inbox::InboxName;
use chancery_core::json::Object;
use chancery_core::keys::ed25519::SigningKey;
use chancery_core::line::{ProtocolName, Seq};
use chancery_core::protocol::{Door, Suite};
use chancery_core::refusal::Refusal;
use chancery_core::time::{Time, parse_value_context};
use chancery_node::suite::{AllSettings, Chancery};
use chancery_node::{
    Clock, Entropy, GateLimits, Hands, Node, Office, Options, Sent, SideLogs, SoftLimits, Vault,
};
use chancery_store::{Embedded, SideLog, SideLogLimits, Store, recover};
use chancery_value_context::Answer;
use chancery_value_context::agent_id::AgentId;
use chancery_value_context::message::{Kind, Recipient};
use chancery_value_context::message_id::MessageId;
use chancery_value_context::sign;
use chancery_value_context::world::World;

use super::{Scripted, free};

pub const PARENT: &str = "agent://orchestrator.prod/parent-001";
pub const CHILD: &str = "agent://orchestrator.prod/child-007";
pub const KITCHEN: &str = "agent://home.local/kitchen-agent";
pub const MONITOR: &str = "agent://cluster.prod/safety-monitor";
const CONSTITUTION: &str = "creed://creed.space/family.safe.guide@1.2.0";
/// The secret of [`MONITOR`] in the world of the vectors.
const MONITOR_SEED: [u8; 32] = [5; 32];

pub fn vectors(name: &str) -> serde_json::Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../vectors/value-context")
        .join(name);
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

pub fn world() -> World {
    World::parse(vectors("world.json").to_string().as_bytes()).unwrap()
}

fn now() -> Time {
    parse_value_context(vectors("world.json")["now"].as_str().unwrap()).unwrap()
}

/// The office and what it is made of.
pub struct Bureau {
    pub office: Arc<Office>,
    pub carrier: Arc<Scripted>,
    dir: std::path::PathBuf,
}

impl Bureau {
    /// Opens the office of a directory; the record is brought in line with the world.
    pub async fn open(dir: &Path, soft_limits: SoftLimits) -> Self {
        let bureau = Self::open_as_left(dir, soft_limits);
        let settings = AllSettings::default();
        bureau.office.reconcile_settings(&settings).await.unwrap();
        bureau.office.reconcile_world(&world()).await.unwrap();
        bureau
    }

    /// The same without looking at the files.
    pub fn open_as_left(dir: &Path, soft_limits: SoftLimits) -> Self {
        let suite = Chancery::default();
        let options = chancery_store::Options {
            windows: suite.windows(),
            ..chancery_store::Options::new(dir)
        };
        let (store, tail) = Embedded::open(&options).unwrap();
        recover(&suite, &store, &tail).unwrap();
        let vault = Arc::new(Vault::new());
        for (agent, key) in world().secret_keys {
            vault.hold(agent.as_str(), key);
        }
        let carrier = Arc::new(Scripted::default());
        let log = |name| SideLog::open(dir, name, SideLogLimits::default()).unwrap();
        let office = Node::start(Options {
            suite: Arc::new(suite),
            store: Arc::new(store),
            vault,
            clock: Clock::fixed(now()),
            entropy: Entropy::System,
            gate_limits: GateLimits::default(),
            soft_limits,
            carrier: Arc::clone(&carrier) as Arc<_>,
            side_logs: SideLogs::new(log("rejections.jsonl"), log("events.jsonl"))
                .with_audits(log("escalations.jsonl")),
            hands: Hands::Own,
            spans: None,
        });
        Self {
            office: Arc::new(office.unwrap()),
            carrier,
            dir: dir.to_owned(),
        }
    }

    pub fn store(&self) -> &Arc<dyn Store> {
        self.office.gate().store()
    }

    pub async fn receive(&self, raw: impl Into<Bytes>) -> Result<Answer, Refusal> {
        self.office
            .receive_value_context(raw.into(), Door::Http)
            .await
    }

    pub async fn send(&self, from: &str, to: &str, key: Option<&str>) -> Result<Sent, Refusal> {
        let body = serde_json::json!({
            "sender": from,
            "recipient": to,
            "type": "context_share",
            "payload": {"context": "⏰🌅|📍🏡|👥👶", "constitution_ref": CONSTITUTION},
        });
        self.office
            .send_value_context(body.to_string().as_bytes(), key.map(str::to_owned))
            .await
    }

    pub fn inbox(&self, agent: &str) -> Vec<Seq> {
        let entries = self.office.inboxes().read(&inbox(agent), 0, usize::MAX);
        entries
            .unwrap()
            .into_iter()
            .map(|entry| entry.seq)
            .collect()
    }

    pub async fn stop(self) {
        self.office.stop().await.unwrap();
        self.crash().await;
    }

    pub async fn crash(self) {
        let dir = self.dir.clone();
        drop(self);
        free(&dir).await;
    }
}

pub fn inbox(agent: &str) -> InboxName {
    InboxName {
        protocol: ProtocolName::ValueContext,
        agent: agent.to_owned(),
    }
}

/// A share of the monitor's, signed; `to` is an agent or `broadcast`.
pub fn of_monitor(number: u64, to: &str) -> Bytes {
    let recipient = match to {
        "broadcast" => Recipient::Broadcast,
        agent => Recipient::Directed(AgentId::parse(agent).unwrap()),
    };
    let id = format!("019502a4-7e5c-7000-8000-{number:012x}");
    let envelope = sign::envelope(
        Kind::ContextShare,
        MessageId::parse(&id).unwrap(),
        &AgentId::parse(MONITOR).unwrap(),
        &recipient,
        now(),
        Object::new()
            .with("context", "⏰🌅|📍🏡|👥👶")
            .with("constitution_ref", CONSTITUTION),
    );
    sign::seal(envelope, &SigningKey::from_seed(&MONITOR_SEED)).bytes
}

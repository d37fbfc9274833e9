//! Nodes on a real broker, and a client of it that writes its JSON by hand.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_nats::{Client, Subscriber};
use chancery_agh::answer::Outcome;
use chancery_agh::peer::{PeerRecord, inbox};
use chancery_agh::settings::Settings as AghSettings;
use chancery_agh::subject;
use chancery_agh::whois::Catalog;
use chancery_core::refusal::Refusal;
use chancery_doors::nats::{Broker, BrokerOptions, NatsDoor};
use chancery_doors::ws::Switchboard;
use chancery_doors::{HttpCarrier, OutgoingTls};
use chancery_node::suite::{AllSettings, Chancery};
use chancery_node::{
    Clock, Entropy, GateLimits, Hands, Node, Office, Options, SideLogs, SoftLimits, Vault,
};
use chancery_store::{Memory, Store};
use futures_util::StreamExt as _;
use serde_json::{Value, json};

use crate::support::embedded;

pub const CHANNEL: &str = "builders";
pub const WORKER: &str = "patch-worker.session-19";
pub const REMOTE: &str = "ops-coordinator.session-42";

/// How long something that must happen may take: long, because a slow machine is no fault.
const PATIENCE: Duration = Duration::from_secs(60);

/// A scenario as one test for each build of the server.
#[macro_export]
macro_rules! on_both_brokers {
    ($($scenario:ident),+ $(,)?) => {
        mod debian {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $scenario() {
                super::$scenario(chancery_testkit::nats_server::Build::Debian).await;
            })+
        }
        mod newest {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $scenario() {
                super::$scenario(chancery_testkit::nats_server::Build::Newest).await;
            })+
        }
    };
}

/// Waits for something that must happen.
pub async fn must<T>(what: &str, happens: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, happens).await {
        Ok(happened) => happened,
        Err(_) => panic!("in vain: {what}"),
    }
}

/// Asks again and again until the answer is yes: for what no event tells.
pub async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    must(what, async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
}

pub fn peer(id: &str, workspace: Option<&str>) -> PeerRecord {
    PeerRecord::new(
        id,
        CHANNEL,
        workspace,
        Some("Patch worker"),
        vec!["test.run".to_owned()],
        Catalog::default(),
    )
}

pub fn options(url: &str) -> BrokerOptions {
    BrokerOptions {
        servers: vec![url.to_owned()],
        secret: None,
        plaintext: false,
        jetstream: false,
    }
}

/// A node that has joined a broker.
pub struct House {
    pub office: Arc<Office>,
    pub door: Option<NatsDoor>,
    pub switchboard: Arc<Switchboard>,
    broker: Arc<Broker>,
    tls: OutgoingTls,
}

impl House {
    /// A node in memory with these peers.
    pub async fn open(peers: &[PeerRecord], options: BrokerOptions) -> Self {
        Self::with(Arc::new(Memory::new()), None, peers, options).await
    }

    /// A node whose log is in a directory.
    pub async fn in_dir(dir: &Path, peers: &[PeerRecord], options: BrokerOptions) -> Self {
        Self::with(embedded(dir), None, peers, options).await
    }

    pub async fn with(
        store: Arc<dyn Store>,
        ca_pem: Option<&[u8]>,
        peers: &[PeerRecord],
        options: BrokerOptions,
    ) -> Self {
        let tls = OutgoingTls::new(ca_pem).unwrap();
        let broker: Arc<Broker> = Arc::default();
        let carrier = HttpCarrier::with_tls(Default::default(), &tls);
        let carrier = carrier.with_broker(Some(Arc::clone(&broker)));
        let switchboard = Arc::clone(carrier.switchboard());
        let office: Arc<Office> = Arc::new(
            Node::start(Options {
                suite: Arc::new(Chancery::default()),
                store,
                vault: Arc::new(Vault::new()),
                clock: Clock::System,
                entropy: Entropy::System,
                gate_limits: GateLimits::default(),
                soft_limits: SoftLimits::default(),
                carrier: Arc::new(carrier),
                side_logs: SideLogs::default(),
                hands: Hands::Own,
                spans: None,
            })
            .unwrap(),
        );
        office
            .reconcile_settings(&AllSettings::default())
            .await
            .unwrap();
        office.reconcile_peers(peers).await.unwrap();
        let door = NatsDoor::open(
            Arc::clone(&office),
            Arc::clone(&broker),
            options,
            tls.clone(),
        );
        Self {
            office,
            door: Some(door),
            switchboard,
            broker,
            tls,
        }
    }

    /// Joins with other options.
    pub async fn rejoin(&mut self, options: BrokerOptions) {
        if let Some(door) = self.door.take() {
            door.stop().await;
        }
        let (office, broker) = (Arc::clone(&self.office), Arc::clone(&self.broker));
        self.door = Some(NatsDoor::open(office, broker, options, self.tls.clone()));
    }

    /// Greets so often from here on.
    pub async fn greet_every(&self, seconds: u64) {
        let agh = AghSettings {
            greet_interval_s: seconds,
            ..AghSettings::default()
        };
        let settings = AllSettings {
            agh,
            ..AllSettings::default()
        };
        self.office.reconcile_settings(&settings).await.unwrap();
    }

    pub async fn send(&self, body: Value) -> Result<Outcome, Refusal> {
        let body = body.to_string();
        self.office.send_agh(body.as_bytes(), None).await
    }

    /// Sends something as soon as the broker lets it.
    pub async fn send_when_up(&self, body: Value) -> Outcome {
        must("the broker is there", async {
            loop {
                match self.send(body.clone()).await {
                    Ok(outcome) => return outcome,
                    Err(refusal) if matches!(refusal.code, "busy" | "not_found") => {
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                    Err(refusal) => panic!("{refusal}"),
                }
            }
        })
        .await
    }

    /// The envelopes in a peer's inbox, once there are so many.
    pub async fn inbox(&self, workspace: Option<&str>, peer: &str, count: usize) -> Vec<Value> {
        let name = inbox(workspace, CHANNEL, peer);
        let read = || {
            let entries = self.office.inboxes().read(&name, 0, 1_000).unwrap();
            let envelope = |line: &[u8]| {
                let line: Value = serde_json::from_slice(line).unwrap();
                line["envelope"].clone()
            };
            let envelopes: Vec<Value> = entries.iter().map(|entry| envelope(&entry.line)).collect();
            envelopes
        };
        until("an inbox fills", async || read().len() >= count).await;
        read()
    }

    pub fn state(&self, workspace: Option<&str>) -> Value {
        self.office.agh_state(workspace, CHANNEL).unwrap()
    }

    /// The standing of a peer; null when it is not listed.
    pub fn standing(&self, workspace: Option<&str>, peer: &str) -> Value {
        let state = self.state(workspace);
        let peers = state["peers"].as_array().unwrap();
        let found = peers.iter().find(|known| known["peer_id"] == peer);
        found.map_or(Value::Null, |known| known["state"].clone())
    }

    /// The state of an interaction; null when there is none.
    pub fn interaction(&self, name: &str) -> Value {
        let state = self.state(None);
        let all = state["interactions"].as_array().unwrap();
        let found = all.iter().find(|one| one["interaction_id"] == name);
        found.map_or(Value::Null, |one| one["state"].clone())
    }

    pub async fn stop(mut self) {
        if let Some(door) = self.door.take() {
            door.stop().await;
        }
        self.office.stop().await.unwrap();
    }
}

/// A client that is none of ours: JSON by hand, everything on the AGH subjects heard.
pub struct Raw {
    pub client: Client,
    heard: Subscriber,
}

impl Raw {
    pub async fn join(url: &str) -> Self {
        Self::with(async_nats::connect(url).await.unwrap()).await
    }

    pub async fn with(client: Client) -> Self {
        let heard = client.subscribe("agh.network.>").await.unwrap();
        client.flush().await.unwrap();
        Self { client, heard }
    }

    /// The next envelope that is of this kind and from this peer, with its subject.
    pub async fn hears(&mut self, kind: &str, from: &str) -> (String, Value) {
        must(&format!("{kind} from {from}"), async {
            loop {
                let message = self.heard.next().await.expect("the broker is there");
                let Ok(envelope) = serde_json::from_slice::<Value>(&message.payload) else {
                    continue;
                };
                if envelope["kind"] == kind && envelope["from"] == from {
                    return (message.subject.to_string(), envelope);
                }
            }
        })
        .await
    }

    /// Publishes an envelope where it belongs.
    pub async fn publish(&self, envelope: &Value) {
        let text = |name: &str| envelope[name].as_str();
        let subject = subject::of(text("workspace_id"), CHANNEL, text("to"));
        self.publish_bytes(subject, envelope.to_string()).await;
    }

    pub async fn publish_bytes(&self, subject: String, bytes: impl Into<bytes::Bytes>) {
        self.client.publish(subject, bytes.into()).await.unwrap();
        self.client.flush().await.unwrap();
    }

    /// Greets until a node has seen it.
    pub async fn greet(&self, house: &House) {
        until("presence", async || {
            self.publish(&greeting(REMOTE)).await;
            house.standing(None, REMOTE) == "active"
        })
        .await;
    }
}

pub fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.unwrap().as_secs()
}

/// An envelope of revision A, with these members changed.
pub fn envelope(id: &str, members: Value) -> Value {
    let mut envelope = json!({
        "protocol": "agh-network/v0", "id": id, "channel": CHANNEL, "from": REMOTE, "to": null,
        "ts": now(), "proof": null,
    });
    for (name, value) in members.as_object().unwrap() {
        envelope[name] = value.clone();
    }
    envelope
}

pub fn greeting(from: &str) -> Value {
    let card = json!({
        "peer_id": from, "profiles_supported": ["agh-network/v0"], "capabilities": [],
        "artifacts_supported": [], "trust_modes_supported": [],
    });
    let id = format!("greet-{from}-{}", now());
    envelope(
        &id,
        json!({"kind": "greet", "from": from, "body": {"peer_card": card}}),
    )
}

pub fn direct(id: &str, interaction: &str) -> Value {
    envelope(
        id,
        json!({"kind": "direct", "to": WORKER, "interaction_id": interaction, "body": {"text": "do it"}}),
    )
}

/// What the worker sends to the remote peer about an interaction.
pub fn report(kind: &str, interaction: &str, body: Value) -> Value {
    json!({
        "from": WORKER, "channel": CHANNEL, "kind": kind, "to": REMOTE,
        "interaction_id": interaction, "body": body,
    })
}

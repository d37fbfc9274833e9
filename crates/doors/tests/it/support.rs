//! A node over the world of the vectors, with its door open.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use chancery_core::json::{ReadRules, Value as Json, read};
use chancery_core::keys::ed25519::SigningKey;
use chancery_core::protocol::Suite;
use chancery_core::time::{Time, parse_value_context};
use chancery_doors::http::{HttpLimits, ServeOptions, Server, serve};
use chancery_doors::ws::{Dialer, WsLimits};
use chancery_doors::{HttpCarrier, OutgoingTls};
use chancery_node::suite::{AllSettings, Chancery};
use chancery_node::trace::Spans;
use chancery_node::vacants::{Behaviour, HostedVacant, OnRestart, Vacants};
use chancery_node::{
    Clock, Entropy, GateLimits, Node, Office, Options, SideLogs, SoftLimits, Vault,
};
use chancery_store::{Embedded, Memory, Options as StoreOptions, Store, recover};
use chancery_vacant::id::VacantId;
use chancery_vacant::state::State;
use chancery_value_context::sign::seal;
use chancery_value_context::world::World;
use reqwest::{Client, RequestBuilder, Response};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

pub const KITCHEN: &str = "agent://home.local/kitchen-agent";
pub const LIVING_ROOM: &str = "agent://home.local/living-room-agent";
pub const PARENT: &str = "agent://orchestrator.prod/parent-001";
pub const CHILD: &str = "agent://orchestrator.prod/child-007";
pub const MESSAGES: &str = "/.well-known/vcp/messages";

pub fn vector_text(name: &str) -> Vec<u8> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/value-context");
    std::fs::read(root.join(name)).unwrap()
}

pub fn vector_json(name: &str) -> Value {
    serde_json::from_slice(&vector_text(name)).unwrap()
}

pub fn world_now() -> Time {
    parse_value_context(vector_json("world.json")["now"].as_str().unwrap()).unwrap()
}

/// How a node of a test is made.
pub struct Setup {
    pub store: Arc<dyn Store>,
    pub clock: Clock,
    pub dev: bool,
    pub limits: HttpLimits,
    pub gate_limits: GateLimits,
    pub soft_limits: SoftLimits,
    pub settings: AllSettings,
    pub addresses: BTreeMap<String, String>,
    pub ca_pem: Option<Vec<u8>>,
    /// Agents of the world that this node does not host.
    pub without: Vec<&'static str>,
    pub options: fn(&mut ServeOptions),
    /// The vacants that are hosted, each with its seed; the first is the default.
    pub vacants: Vec<(HostedVacant, [u8; 32])>,
    /// How long their behaviours may take.
    pub behaviour_timeout: Duration,
    /// Where spans go.
    pub spans: Option<Arc<Spans>>,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            store: Arc::new(Memory::new()),
            clock: Clock::fixed(world_now()),
            dev: true,
            limits: HttpLimits::default(),
            gate_limits: GateLimits::default(),
            soft_limits: SoftLimits::default(),
            settings: AllSettings::default(),
            addresses: BTreeMap::new(),
            ca_pem: None,
            without: Vec::new(),
            options: |_| {},
            vacants: Vec::new(),
            behaviour_timeout: Duration::from_secs(20),
            spans: None,
        }
    }
}

/// The seed of the vacant that tests host.
pub const BOB_SEED: [u8; 32] = [7; 32];

/// A vacant, ACTIVE, with the key of a seed.
pub fn vacant(name: &str, seed: [u8; 32], behaviour: Behaviour) -> (HostedVacant, [u8; 32]) {
    let vacant = HostedVacant {
        name: name.to_owned(),
        id: VacantId::of(&SigningKey::from_seed(&seed)),
        first_state: State::Active,
        capability: "echoes what it hears".to_owned(),
        behaviour,
        on_restart: OnRestart::Close,
        participant: None,
    };
    (vacant, seed)
}

impl Setup {
    /// A node that hosts the vacant bob as well.
    pub fn with_vacant() -> Self {
        Self {
            vacants: vec![vacant("bob", BOB_SEED, Behaviour::Echo)],
            ..Self::default()
        }
    }
}

/// An embedded store in a directory, its tail decided again.
pub fn embedded(dir: &Path) -> Arc<dyn Store> {
    let suite = Chancery::default();
    let options = StoreOptions {
        windows: suite.windows(),
        ..StoreOptions::new(dir)
    };
    let (store, tail) = Embedded::open(&options).unwrap();
    recover(&suite, &store, &tail).unwrap();
    Arc::new(store)
}

/// A node with its door open.
pub struct Running {
    pub office: Arc<Office>,
    pub server: Server,
    pub vacants: Option<Arc<Vacants>>,
    pub carrier: Arc<HttpCarrier>,
    pub dialer: Dialer,
    pub address: SocketAddr,
    pub client: Client,
}

impl Setup {
    pub async fn start(self) -> Running {
        let mut world = World::parse(&vector_text("world.json")).unwrap();
        world
            .agents
            .retain(|agent| !self.without.contains(&agent.id.as_str()));
        let vault = Arc::new(Vault::new());
        for agent in [KITCHEN, LIVING_ROOM, PARENT, CHILD] {
            vault.hold(agent, key_of(agent));
        }
        for (vacant, seed) in &self.vacants {
            vault.hold(vacant.id.hex(), SigningKey::from_seed(seed));
        }
        let tls = Arc::new(OutgoingTls::new(self.ca_pem.as_deref()).unwrap());
        let carrier = Arc::new(HttpCarrier::with_tls(self.addresses.clone(), &tls));
        let switchboard = Arc::clone(carrier.switchboard());
        let options = Options {
            suite: Arc::new(Chancery::default()),
            store: self.store,
            vault,
            clock: self.clock,
            entropy: Entropy::System,
            gate_limits: self.gate_limits,
            soft_limits: self.soft_limits,
            carrier: Arc::clone(&carrier) as Arc<_>,
            side_logs: SideLogs::default(),
            hands: chancery_node::Hands::Own,
            spans: self.spans,
        };
        let office: Arc<Office> = Arc::new(Node::start(options).unwrap());
        office.reconcile_settings(&self.settings).await.unwrap();
        office.reconcile_world(&world).await.unwrap();
        let mut serving = ServeOptions {
            dev: self.dev,
            limits: self.limits,
            switchboard: Arc::clone(&switchboard),
            ..ServeOptions::new("127.0.0.1:0".parse().unwrap())
        };
        let hosted: Vec<_> = self.vacants.into_iter().map(|(vacant, _)| vacant).collect();
        let vacants = (!hosted.is_empty()).then(|| {
            let vacants = Vacants::new(Arc::clone(&office), hosted, Some(0));
            Arc::new(vacants.with_timeout(self.behaviour_timeout))
        });
        serving.vacants = vacants.clone();
        (self.options)(&mut serving);
        let server = serve(Arc::clone(&office), serving).unwrap();
        let address = server.listening().address;
        if let Some(vacants) = &vacants {
            vacants.reconcile("http://node.example").await.unwrap();
            vacants.resume().await.unwrap();
        }
        let limits = WsLimits::default();
        let dialer = Dialer::new(Arc::clone(&office), switchboard, tls, limits);
        dialer.call(&self.addresses);
        Running {
            office,
            server,
            carrier,
            dialer,
            vacants,
            address,
            client: client(),
        }
    }
}

pub fn client() -> Client {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    Client::builder()
        .no_proxy()
        .timeout(Duration::from_secs(120))
        .build()
        .unwrap()
}

impl Running {
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn post(&self, path: &str, body: impl Into<reqwest::Body>) -> RequestBuilder {
        let request = self.client.post(self.url(path));
        request
            .header("content-type", "application/json; charset=utf-8")
            .body(body)
    }

    pub fn get(&self, path: &str) -> RequestBuilder {
        self.client.get(self.url(path))
    }

    pub async fn share(&self, body: impl Into<reqwest::Body>) -> (u16, Value) {
        answer(self.post(MESSAGES, body).send().await.unwrap()).await
    }

    pub async fn stop(self) {
        if let Some(vacants) = &self.vacants {
            vacants.stop();
        }
        self.dialer.stop().await;
        self.server.stop().await;
        self.office.stop().await.unwrap();
    }
}

pub async fn answer(response: Response) -> (u16, Value) {
    let status = response.status().as_u16();
    let body = response.bytes().await.unwrap();
    (status, serde_json::from_slice(&body).unwrap_or(Value::Null))
}

/// The secret key of an agent of the vectors' world.
pub fn key_of(agent: &str) -> SigningKey {
    let world = vector_json("world.json");
    let seed = world["secret_seeds_hex"][agent].as_str().unwrap();
    SigningKey::from_seed(&chancery_core::digest::hex::decode_array(seed).unwrap())
}

pub fn message_id(number: u64) -> String {
    format!("019c60dc-5b60-7000-8000-{number:012x}")
}

/// An envelope of the living room for the kitchen, not signed.
pub fn envelope(number: u64) -> Value {
    json!({
        "vcp_message": "1.2",
        "type": "context_share",
        "message_id": message_id(number),
        "sender": LIVING_ROOM,
        "recipient": KITCHEN,
        "timestamp": "2026-02-15T10:33:00Z",
        "payload": {
            "context": "⏰🌅|📍🏡",
            "constitution_ref": "creed://creed.space/family.safe.guide@1.2.0",
        },
    })
}

/// The same, signed by its sender.
pub fn signed(envelope: &Value) -> Vec<u8> {
    sealed(envelope, &key_of(envelope["sender"].as_str().unwrap()))
}

/// The same, signed with this key.
pub fn sealed(envelope: &Value, key: &SigningKey) -> Vec<u8> {
    let text = envelope.to_string();
    let Json::Object(members) = read(text.as_bytes(), &ReadRules::VALUE_CONTEXT).unwrap() else {
        panic!("an envelope is an object");
    };
    seal(members, key).bytes.to_vec()
}

pub fn share(number: u64) -> Vec<u8> {
    signed(&envelope(number))
}

/// A name in a path.
pub fn encoded(name: &str) -> String {
    percent_encoding::utf8_percent_encode(name, percent_encoding::NON_ALPHANUMERIC).to_string()
}

pub fn inbox_of(agent: &str) -> String {
    format!("/inbox/value-context/{}", encoded(agent))
}

/// Sends bytes as they are and reads until the other side closes.
pub async fn raw(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    read_all(&mut stream).await
}

pub async fn read_all(stream: &mut TcpStream) -> String {
    let mut answer = Vec::new();
    // A reset after the answer is as good as an end.
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

pub fn head(method: &str, path: &str, length: usize) -> String {
    format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n"
    )
}

pub fn temporary() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    (dir, path)
}

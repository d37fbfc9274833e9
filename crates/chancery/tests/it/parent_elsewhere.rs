//! A child on one node, its parent elsewhere, clocks 20 s apart, TLS in between: the parent dies after it has received an
//! emergency and before its acknowledgement left. The child turns to the next of its path, stays suspended over
//! restarts, and goes on when its parent says so.
//!
//! Once the parent is on another node, killed and started again; once it is a peer that shares no code with us.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use chancery_core::keys::ed25519::SigningKey;
use chancery_core::time::format_millis;
use ed25519_dalek::{Signature, Signer as _};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use reqwest::{Certificate, Client};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::reserved::Reserved;
use crate::served::{Served, now, trusted};
use crate::support::Place;
use crate::wire::{MESSAGES, segment};

const ROOT: &str = "agent://tower.test/root";
const PARENT: &str = "agent://tower.test/parent";
const CHILD: &str = "agent://field.test/child";
const CREED: &str = "creed://creed.space/home@1.0.0";
/// No event of these stories takes longer, on however busy a machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// The secret of an agent.
fn seed_of(agent: &str) -> [u8; 32] {
    match agent {
        ROOT => [0x11; 32],
        PARENT => [0x22; 32],
        _ => [0x33; 32],
    }
}

/// An authority that both nodes trust, and what it certified for this machine.
struct Security {
    authority_pem: String,
    certificate_pem: String,
    key_pem: String,
}

impl Security {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let authority_pem = params.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(params, key);
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let certificate_pem = params.signed_by(&key, &issuer).unwrap().pem();
        Self {
            authority_pem,
            certificate_pem,
            key_pem: key.serialize_pem(),
        }
    }

    /// A client that believes this authority alone.
    fn client(&self) -> Client {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let root = Certificate::from_pem(self.authority_pem.as_bytes()).unwrap();
        let client = Client::builder().no_proxy().timeout(PATIENCE);
        client.tls_certs_only([root]).build().unwrap()
    }
}

/// A node's directory, its process, and how it is talked to.
struct Station {
    place: Place,
    clock: &'static str,
    node: Option<Served>,
    client: Client,
    runtime: Runtime,
}

impl Station {
    fn new(security: &Security, clock: &'static str, agents: Value, addresses: Value) -> Self {
        let anchor = |agent: &str| {
            let key = SigningKey::from_seed(&seed_of(agent));
            json!({"type": "agent", "keys": [trusted("k-01", &key)]})
        };
        let anchors = json!({ROOT: anchor(ROOT), PARENT: anchor(PARENT), CHILD: anchor(CHILD)});
        let mut seeds = serde_json::Map::new();
        for agent in agents.as_array().unwrap() {
            let id = agent["id"].as_str().unwrap();
            let seed = seed_of(id).map(|byte| format!("{byte:02x}")).concat();
            seeds.insert(id.to_owned(), seed.into());
        }
        let world = json!({
            "trust": {"trust_anchors": anchors}, "local_agents": agents,
            "addresses": addresses, "secret_seeds_hex": seeds,
        });
        let place = Place::new()
            .with("CHANCERY_LISTEN", "127.0.0.1:0")
            .with("CHANCERY_DATA", "data")
            .with("CHANCERY_DEV", "true")
            .with("CHANCERY_VALUE_CONTEXT_WORLD", "world.json")
            .with("CHANCERY_TLS_CERTIFICATE", "node.pem")
            .with("CHANCERY_TLS_KEY", "node.key")
            .with("CHANCERY_TLS_CA_FILE", "authority.pem");
        place.write("world.json", world.to_string());
        place.write("node.pem", &security.certificate_pem);
        place.write("node.key", &security.key_pem);
        place.write("authority.pem", &security.authority_pem);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        Self {
            place,
            clock,
            node: None,
            client: security.client(),
            runtime,
        }
    }

    /// Starts it; gives the address that it got.
    fn start(&mut self) -> SocketAddr {
        let node = self.place.serve_with(&["--clock", self.clock]);
        let address = node.address;
        self.node = Some(node);
        address
    }

    fn kill(&mut self) {
        self.node.take().unwrap().kill();
    }

    fn url(&self, path: &str) -> String {
        let port = self.node.as_ref().unwrap().address.port();
        format!("https://localhost:{port}{path}")
    }

    fn post(&self, path: &str, body: &[u8]) -> (u16, Value) {
        let request = self.client.post(self.url(path));
        let request = request.header("content-type", "application/json");
        self.answer(request.body(body.to_vec()))
    }

    fn get(&self, path: &str) -> Value {
        let (status, body) = self.answer(self.client.get(self.url(path)));
        assert_eq!(status, 200, "{path}: {body}");
        body
    }

    fn answer(&self, request: reqwest::RequestBuilder) -> (u16, Value) {
        self.runtime.block_on(async {
            let response = request.send().await.unwrap();
            let status = response.status().as_u16();
            let body = response.bytes().await.unwrap();
            (status, serde_json::from_slice(&body).unwrap())
        })
    }

    /// A hosted agent sends; gives status and body.
    fn send(&self, body: &Value) -> (u16, Value) {
        self.post("/send/value-context", body.to_string().as_bytes())
    }

    /// The same where it has to be taken; gives the identifier.
    fn sent(&self, body: &Value) -> String {
        let (status, answer) = self.send(body);
        assert_eq!(status, 200, "{body}: {answer}");
        answer["message_id"].as_str().unwrap().to_owned()
    }

    fn state(&self, agent: &str) -> Value {
        self.get(&format!("/state/value-context/{}", segment(agent)))
    }

    /// The first envelope in an agent's inbox that is like this, once there is one.
    fn heard(&self, agent: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let mut after = 0;
        loop {
            let path = format!(
                "/inbox/value-context/{}?after={after}&wait=20",
                segment(agent)
            );
            let page = self.get(&path);
            let entries = page["entries"].as_array().unwrap();
            if let Some(entry) = entries.iter().find(|entry| is_it(&entry["envelope"])) {
                return entry["envelope"].clone();
            }
            assert!(!entries.is_empty(), "{agent} hears nothing more");
            after = page["next"].as_u64().unwrap();
        }
    }

    /// The same by how its reason begins.
    fn heard_reason(&self, agent: &str, begins: &str) -> Value {
        self.heard(agent, |envelope| {
            let reason = envelope["payload"]["reason"].as_str();
            reason.is_some_and(|reason| reason.starts_with(begins))
        })
    }

    /// Stops it; its log has to verify, and to be what the rules give.
    fn ends_well(self) {
        let Self {
            place,
            node,
            client,
            runtime,
            ..
        } = self;
        // A client that nobody polls would not hear that its connection is to end.
        drop((client, runtime));
        node.unwrap().stop_well();
        place.run(&["log", "verify", "data"]).exits(0);
        place.run(&["log", "replay", "data"]).exits(0);
    }
}

/// What stands between two nodes: passes connections on as they are, or takes them and passes nothing.
struct Relay {
    address: SocketAddr,
    /// None while it passes nothing.
    target: Arc<Mutex<Option<SocketAddr>>>,
    /// Connections that it took and holds.
    held: Receiver<TcpStream>,
}

impl Relay {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let target = Arc::default();
        let (hold, held) = channel();
        let to = Arc::clone(&target);
        thread::spawn(move || take_connections(&listener, &to, &hold));
        Self {
            address,
            target,
            held,
        }
    }

    fn url(&self) -> String {
        format!("https://localhost:{}{MESSAGES}", self.address.port())
    }

    fn pass_to(&self, node: SocketAddr) {
        *self.target.lock().unwrap() = Some(node);
    }

    /// Waits until somebody wants to get through while nothing is passed.
    fn somebody_waits(&self) -> TcpStream {
        self.held.recv_timeout(PATIENCE).unwrap()
    }
}

fn take_connections(
    listener: &TcpListener,
    target: &Mutex<Option<SocketAddr>>,
    hold: &Sender<TcpStream>,
) {
    for stream in listener.incoming() {
        let near = stream.unwrap();
        let to = *target.lock().unwrap();
        let Some(to) = to else {
            // Nobody asks any more when the test is over.
            let _ = hold.send(near);
            continue;
        };
        // A node that is down lets go of whoever calls it.
        let Ok(far) = TcpStream::connect(to) else {
            continue;
        };
        let back = (far.try_clone().unwrap(), near.try_clone().unwrap());
        for (mut from, mut to) in [(near, far), back] {
            thread::spawn(move || {
                let _ = std::io::copy(&mut from, &mut to);
                let _ = to.shutdown(Shutdown::Write);
            });
        }
    }
}

fn share(from: &str, to: &str) -> Value {
    json!({
        "sender": from, "recipient": to, "type": "context_share",
        "payload": {"context": "📍🏡", "constitution_ref": CREED},
    })
}

fn emergency() -> Value {
    json!({
        "sender": CHILD, "recipient": PARENT, "type": "escalation",
        "payload": {"severity": "emergency", "reason": "smoke", "context": "📍🏡", "requires_ack": true},
    })
}

/// Where the child and the root are, which is the child's way when its parent is silent.
fn field(security: &Security, clock: &'static str, parent_at: &str) -> Station {
    let agents = json!([
        {"id": CHILD, "parent": PARENT, "children": [], "peers": [], "escalation_path": [ROOT]},
        {"id": ROOT, "parent": null, "children": [PARENT], "peers": []},
    ]);
    Station::new(security, clock, agents, json!({PARENT: parent_at}))
}

/// The child heard nothing from its parent: it has told the root, which has acknowledged that, and it is suspended.
fn has_climbed(field: &Station, first: &str) {
    let unacked = format!("UNACKED:{first} smoke");
    let climbed = field.heard_reason(ROOT, &unacked);
    assert_eq!(climbed["sender"], CHILD);
    assert_eq!(climbed["payload"]["reason"], unacked);
    let second = climbed["message_id"].as_str().unwrap();
    assert_ne!(second, first);
    let acknowledged = field.heard_reason(CHILD, &format!("ACK:{second}"));
    assert_eq!(acknowledged["sender"], ROOT);
    is_stopped(field);
}

fn is_stopped(field: &Station) {
    assert_eq!(field.state(CHILD)["run_state"], "suspended");
    for to in [PARENT, ROOT] {
        let (status, refused) = field.send(&share(CHILD, to));
        assert_eq!(status, 423, "{refused}");
        assert_eq!(refused["error"]["code"], "sender_suspended");
    }
}

fn goes_on(field: &Station) {
    assert_eq!(field.state(CHILD)["run_state"], "running");
    assert_eq!(field.state(CHILD)["open_escalations"], json!([]));
    field.sent(&share(CHILD, ROOT));
}

// VX-ACK-2, VX-ACK-6, VX-ACK-7, VX-RUN-2, VX-RUN-4, VX-RUN-5, VX-RUN-6, VX-RUN-8, VX-RTY-8, VX-HTTP-5, CH-NET-3
#[test]
fn a_parent_that_dies_before_it_acknowledges_finds_its_child_suspended_and_resumes_it() {
    let security = Security::new();
    let (to_tower, to_field) = (Relay::new(), Relay::new());
    let mut field = field(&security, "offset:+10s", &to_tower.url());
    let agents = json!([{"id": PARENT, "parent": ROOT, "children": [CHILD], "peers": []}]);
    let addresses = json!({CHILD: to_field.url(), ROOT: to_field.url()});
    let mut tower = Station::new(&security, "offset:-10s", agents, addresses);
    to_tower.pass_to(tower.start());
    field.start();

    let first = field.sent(&emergency());
    // The parent has received it: it calls to acknowledge, and does not get through.
    let unanswered = to_field.somebody_waits();
    tower.kill();
    drop(unanswered);
    has_climbed(&field, &first);

    // Both start again, and nothing of what they knew is lost.
    field.kill();
    to_field.pass_to(field.start());
    to_tower.pass_to(tower.start());
    is_stopped(&field);
    assert_eq!(tower.state(PARENT)["children"][CHILD], "suspended");
    let past_its_node = whole(&share(CHILD, PARENT), format_millis(now()).as_str());
    let (status, refused) = tower.post(MESSAGES, &signed(past_its_node));
    assert_eq!(status, 423, "{refused}");
    assert_eq!(refused["error"]["code"], "sender_suspended");
    // The acknowledgement leaves after all; it comes too late to stop anything, and resumes nothing.
    let late = field.heard_reason(CHILD, &format!("ACK:{first}"));
    assert_eq!(
        late["payload"]["reason"],
        format!("ACK:{first};state=suspended")
    );
    is_stopped(&field);

    // The root was told of it by the parent too, and holds the parent: it has to be resumed from the top.
    field.heard_reason(ROOT, &format!("FWD:{first} {CHILD}: smoke"));
    let held = tower.heard_reason(PARENT, "ACK:");
    assert_eq!(held["sender"], ROOT);
    assert_eq!(tower.state(PARENT)["run_state"], "suspended");
    let resolve = json!({"sender": PARENT, "verdict": "resolve", "escalation_id": first});
    assert_eq!(tower.send(&resolve).0, 423);
    field.sent(&json!({"sender": ROOT, "verdict": "resolve", "recipient": PARENT}));
    tower.heard(PARENT, |envelope| {
        envelope["type"] == "constraint_propagate"
    });
    assert_eq!(tower.state(PARENT)["run_state"], "running");
    is_stopped(&field);
    tower.sent(&resolve);
    assert_eq!(tower.state(PARENT)["children"][CHILD], "running");
    field.heard(CHILD, |envelope| envelope["type"] == "constraint_propagate");
    goes_on(&field);
    let shared = field.sent(&share(CHILD, PARENT));
    tower.heard(PARENT, |envelope| envelope["message_id"] == shared.as_str());
    tower.ends_well();
    field.ends_well();
}

/// What a peer needs of the protocol, written from its specification alone: it reads and answers one HTTP request, and
/// signs with another library over bytes of its own making.
fn receives(listener: &TcpListener) -> Value {
    let (stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut stream = BufReader::new(stream);
    let (mut head, mut length) = (String::new(), 0);
    while !head.ends_with("\r\n\r\n") {
        let start = head.len();
        assert_ne!(stream.read_line(&mut head).unwrap(), 0, "{head}");
        let line = head[start..].to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
    }
    assert!(
        head.starts_with(&format!("POST {MESSAGES} HTTP/1.1\r\n")),
        "{head}"
    );
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    let envelope: Value = serde_json::from_slice(&body).unwrap();
    assert!(is_signed(&envelope), "{envelope}");
    let answer = json!({"status": "accepted", "message_id": envelope["message_id"]}).to_string();
    let head =
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length:";
    let answer = format!("{head} {}\r\n\r\n{answer}", answer.len());
    stream.get_mut().write_all(answer.as_bytes()).unwrap();
    envelope
}

/// The bytes that are signed: members sorted, nothing between them, without the signature. Names here are plain ASCII
/// and numbers whole, so that this is all there is to it.
fn canonical(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let mut names: Vec<&String> = members.keys().collect();
            names.sort();
            let member = |name: &&String| format!("{}:{}", json!(name), canonical(&members[*name]));
            let all: Vec<String> = names.iter().map(member).collect();
            format!("{{{}}}", all.join(","))
        }
        Value::Array(items) => {
            let all: Vec<String> = items.iter().map(canonical).collect();
            format!("[{}]", all.join(","))
        }
        plain => plain.to_string(),
    }
}

fn without_signature(envelope: &Value) -> (String, Option<String>) {
    let mut members = envelope.as_object().unwrap().clone();
    let signature = members.remove("signature");
    let signature = signature.map(|text| text.as_str().unwrap().to_owned());
    (canonical(&Value::Object(members)), signature)
}

fn key_of(agent: &Value) -> ed25519_dalek::SigningKey {
    ed25519_dalek::SigningKey::from_bytes(&seed_of(agent.as_str().unwrap()))
}

fn is_signed(envelope: &Value) -> bool {
    let (bytes, signature) = without_signature(envelope);
    let signature = signature.unwrap();
    let signature = BASE64
        .decode(signature.strip_prefix("base64:").unwrap())
        .unwrap();
    let signature = Signature::from_slice(&signature).unwrap();
    let key = key_of(&envelope["sender"]).verifying_key();
    key.verify_strict(bytes.as_bytes(), &signature).is_ok()
}

fn signed(mut envelope: Value) -> Vec<u8> {
    let (bytes, _) = without_signature(&envelope);
    let signature = key_of(&envelope["sender"]).sign(bytes.as_bytes());
    let signature = format!("base64:{}", BASE64.encode(signature.to_bytes()));
    envelope["signature"] = signature.into();
    envelope.to_string().into_bytes()
}

/// A message with version, identifier and time.
fn whole(members: &Value, timestamp: &str) -> Value {
    static MADE: AtomicU64 = AtomicU64::new(1);
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let mut whole = members.clone();
    whole["vcp_message"] = "1.2".into();
    whole["message_id"] = format!("019c60dc-5b60-7000-8000-{number:012x}").into();
    whole["timestamp"] = timestamp.into();
    whole
}

// VX-HTTP-1, VX-HTTP-3, VX-SIG-4, VX-SIG-5, VX-ACK-6, VX-ACK-7, VX-RUN-5, VX-RUN-6
#[test]
fn a_parent_without_our_code_is_climbed_over_and_heard_again() {
    let security = Security::new();
    let parent_at = Reserved::new();
    let parent = parent_at.listen();
    let url = format!("http://{}{MESSAGES}", parent_at.address());
    let mut field = field(&security, "offset:+20s", &url);
    field.start();
    let first = field.sent(&emergency());
    let received = receives(&parent);
    assert_eq!(received["message_id"], first.as_str());
    assert_eq!(received["payload"]["severity"], "emergency");
    // It has said that it has it, and is gone before it acknowledges.
    drop(parent);
    has_climbed(&field, &first);

    field.kill();
    field.start();
    is_stopped(&field);
    let parent = parent_at.listen();
    // Its clock is behind, so its answers carry the time of what they answer.
    let at = received["timestamp"].as_str().unwrap();
    let says = |kind: &str, payload: Value| {
        let members =
            json!({"sender": PARENT, "recipient": CHILD, "type": kind, "payload": payload});
        let (status, answer) = field.post(MESSAGES, &signed(whole(&members, at)));
        assert_eq!(
            (status, answer["status"].as_str()),
            (200, Some("accepted")),
            "{answer}"
        );
    };
    let reason = format!("ACK:{first}");
    says(
        "escalation",
        json!({"severity": "emergency", "reason": reason, "context": "📍🏢", "requires_ack": false}),
    );
    is_stopped(&field);
    let limit = json!({"type": "token_limit", "value": 512, "source_constitution_ref": CREED});
    says(
        "constraint_propagate",
        json!({"constraints": [limit], "propagation_mode": "merge"}),
    );
    goes_on(&field);
    let constraints = json!([{"type": "token_limit", "value": 512}]);
    assert_eq!(field.state(CHILD)["constraints"], constraints);
    let shared = field.sent(&share(CHILD, PARENT));
    assert_eq!(receives(&parent)["message_id"], shared.as_str());
    field.ends_well();
}

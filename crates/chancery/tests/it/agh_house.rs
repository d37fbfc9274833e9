//! Nodes with AGH peers on a broker, started as people start them, and the raw client.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use chancery_testkit::installed::python_tool;
use chancery_testkit::process::bound;
use serde_json::{Value, json};

use crate::support::Place;
use crate::wire::{Answer, Wire};

pub const CHANNEL: &str = "builders";
pub const WORKSPACE: &str = "ws_alpha";

/// How long something that must happen may take: long, because a slow machine is no fault.
const PATIENCE: Duration = Duration::from_secs(120);

/// Asks again and again until there is an answer: for what no event tells.
pub fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(started.elapsed() < PATIENCE, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A node with its peers.
pub struct AghNode {
    pub place: Place,
    child: Child,
    pub url: String,
}

impl AghNode {
    /// Starts one whose peers are in a channel of each revision that `mode` has.
    pub fn start(mode: &str, nats: &str, peers: &[&str]) -> Self {
        Self::start_in(Place::new(), mode, nats, peers, "")
    }

    /// The same with further keys for each peer.
    pub fn start_with(mode: &str, nats: &str, peers: &[&str], keys: &str) -> Self {
        Self::start_in(Place::new(), mode, nats, peers, keys)
    }

    /// The same in a place that may have its journal elsewhere.
    pub fn start_in(place: Place, mode: &str, nats: &str, peers: &[&str], keys: &str) -> Self {
        let mut text = format!(
            "listen = \"127.0.0.1:0\"\ndev = true\n[agh]\nrevision = \"{mode}\"\nnats = \"{nats}\"\n"
        );
        for peer in peers {
            let entry = format!(
                "[[agh.peer]]\nid = \"{peer}\"\nchannel = \"{CHANNEL}\"\ncapabilities = [\"test.run\"]\n{keys}"
            );
            if mode != "b" {
                text.push_str(&entry);
            }
            if mode != "a" {
                text.push_str(&format!("{entry}workspace_id = \"{WORKSPACE}\"\n"));
            }
        }
        place.write("chancery.toml", text);
        let (child, url) = crate::market::serve(&place);
        Self { place, child, url }
    }

    /// Ends the node at once and starts it again.
    pub fn kill_and_restart(&mut self) {
        self.kill();
        (self.child, self.url) = crate::market::serve(&self.place);
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn wire(&self) -> Wire {
        let address = self.url.trim_start_matches("http://").parse().unwrap();
        Wire::connect(address).unwrap()
    }

    pub fn send(&self, body: &Value) -> Answer {
        let body = body.to_string();
        self.wire().post("/send/agh", body.as_bytes()).unwrap()
    }

    /// Sends something as soon as the node lets it.
    pub fn send_when_up(&self, body: &Value) -> Value {
        until("the broker is there", || {
            let answer = self.send(body);
            let told = answer.json();
            let not_yet = ["busy", "not_found"]
                .iter()
                .any(|code| told["error"] == *code);
            (!not_yet).then(|| answer.ok())
        })
    }

    /// The envelopes of a peer's inbox.
    pub fn inbox(&self, rev: Rev, peer: &str) -> Vec<Value> {
        let path = format!(
            "/inbox/agh/{CHANNEL}/{peer}?after=0&limit=1000{}",
            rev.query('&')
        );
        let page = self.wire().get(&path).unwrap().ok();
        let entries = page["entries"].as_array().unwrap();
        entries
            .iter()
            .map(|entry| entry["envelope"].clone())
            .collect()
    }

    /// Waits for an envelope in a peer's inbox.
    pub fn received(&self, rev: Rev, peer: &str, id: &Value) -> Value {
        until("an envelope is in the inbox", || {
            self.inbox(rev, peer)
                .into_iter()
                .find(|envelope| envelope["id"] == *id)
        })
    }

    fn state(&self, rev: Rev) -> Value {
        let path = format!("/state/agh/{CHANNEL}?x=1{}", rev.query('&'));
        self.wire().get(&path).unwrap().ok()
    }

    fn sees(&self, rev: Rev, peer: &str) -> bool {
        let state = self.state(rev);
        let mut peers = state["peers"].as_array().unwrap().iter();
        peers.any(|known| known["peer_id"] == peer)
    }

    pub fn knows(&self, rev: Rev, peer: &str) {
        let what = format!("{peer} is present");
        until(&what, || self.sees(rev, peer).then_some(()));
    }

    /// Waits until a unit of work has this state.
    pub fn has_work(&self, rev: Rev, name: &str, wanted: &str) {
        until(&format!("{name} is {wanted}"), || {
            let state = self.state(rev);
            let mut works = state["interactions"].as_array().unwrap().iter();
            let named = |work: &&Value| work[rev.work_member()] == name;
            works
                .find(named)
                .filter(|work| work["state"] == wanted)
                .map(|_| ())
        });
    }
}

impl Drop for AghNode {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A revision, and how work is written in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rev {
    A,
    B,
}

impl Rev {
    pub fn of_mode(mode: &str) -> &'static [Self] {
        match mode {
            "a" => &[Self::A],
            "b" => &[Self::B],
            _ => &[Self::A, Self::B],
        }
    }

    pub const fn work_member(self) -> &'static str {
        match self {
            Self::A => "interaction_id",
            Self::B => "work_id",
        }
    }

    pub const fn closed(self) -> &'static str {
        match self {
            Self::A => "interaction_closed",
            Self::B => "work_closed",
        }
    }

    fn query(self, before: char) -> String {
        match self {
            Self::A => String::new(),
            Self::B => format!("{before}workspace={WORKSPACE}"),
        }
    }

    /// Members that every envelope of this revision has.
    pub fn base(self, kind: &str) -> Value {
        let mut members = json!({"kind": kind, "channel": CHANNEL});
        if self == Self::B {
            members["workspace_id"] = WORKSPACE.into();
        }
        members
    }

    /// An envelope about work: `direct_id` is for whoever sends it to fill in.
    pub fn about_work(self, kind: &str, to: &str, name: &str, body: Value) -> Value {
        let mut members = self.base(kind);
        members["to"] = to.into();
        members[self.work_member()] = name.into();
        members["body"] = body;
        if self == Self::B {
            members["surface"] = "direct".into();
            members["direct_id"] = "".into();
        }
        members
    }

    /// A request for work.
    pub fn request(self, to: &str, name: &str) -> Value {
        let kind = match self {
            Self::A => "direct",
            Self::B => "say",
        };
        self.about_work(kind, to, name, json!({"text": "run the tests"}))
    }
}

/// The raw client.
pub struct RawPeer {
    child: Child,
    commands: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl RawPeer {
    pub fn join(nats: &str, name: &str) -> Self {
        let script = crate::support::workspace().join("crates/chancery/tests/it/raw/agh_peer.py");
        let mut python = Command::new(python_tool("python"));
        python.arg(script).args([nats, name]);
        let mut child = bound(&python)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut peer = Self {
            commands: child.stdin.take().unwrap(),
            answers: BufReader::new(child.stdout.take().unwrap()),
            child,
        };
        peer.answer();
        peer
    }

    fn answer(&mut self) -> Value {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        serde_json::from_str(&line).expect("the raw client answers; what went wrong is above")
    }

    fn obey(&mut self, command: &Value) -> Value {
        writeln!(self.commands, "{command}").unwrap();
        self.answer()
    }

    /// Publishes an envelope; gives it whole.
    pub fn send(&mut self, envelope: Value) -> Value {
        self.obey(&json!({"do": "send", "envelope": envelope}))
    }

    /// Says that it is there.
    pub fn greet(&mut self, rev: Rev, name: &str) {
        let card = json!({
            "peer_id": name, "profiles_supported": ["agh-network/v0"], "capabilities": [],
            "artifacts_supported": [], "trust_modes_supported": [],
        });
        let mut greeting = rev.base("greet");
        greeting["body"] = json!({"peer_card": card});
        self.send(greeting);
    }

    /// Greets until a node has seen it: the node may not have joined yet.
    pub fn greet_node(&mut self, rev: Rev, name: &str, node: &AghNode) {
        until("a greeting is seen", || {
            self.greet(rev, name);
            node.sees(rev, name).then_some(())
        });
    }

    pub fn bytes(&mut self, subject: &str, text: &str, size: usize) {
        self.obey(&json!({"do": "bytes", "subject": subject, "text": text, "size": size}));
    }

    /// A question by request and reply.
    pub fn ask(&mut self, envelope: Value) -> Value {
        self.obey(&json!({"do": "ask", "envelope": envelope}))
    }

    /// The next envelope heard with these members.
    pub fn hears(&mut self, members: Value) -> Value {
        let heard = self.obey(&json!({"do": "wait", "for": members}));
        heard["envelope"].clone()
    }
}

impl Drop for RawPeer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

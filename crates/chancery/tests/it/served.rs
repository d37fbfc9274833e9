//! The real binary, serving in a directory of a test's own, and the world it serves.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chancery_core::ids::v7;
use chancery_core::json::Object;
use chancery_core::keys::ed25519::{SigningKey, encode_public_key};
use chancery_core::time::{Time, format_millis};
use chancery_testkit::postgres_server::PostgresServer;
use chancery_testkit::process::{bound, spawn};
use chancery_value_context::agent_id::AgentId;
use chancery_value_context::message::{Kind, Recipient};
use chancery_value_context::message_id::MessageId;
use chancery_value_context::sign::{envelope, seal};
use serde_json::{Value, json};

use crate::support::{Place, Ran};
use crate::wire::{Wire, segment};

/// Who sends: an agent elsewhere, whose key the node trusts.
pub const SENDER: &str = "agent://home.test/living-room";
/// Secret of [`SENDER`].
const SENDER_SEED: [u8; 32] = [0x51; 32];

/// The agents that the node hosts.
pub const HOSTED: [&str; 4] = [
    "agent://home.test/kitchen-0",
    "agent://home.test/kitchen-1",
    "agent://home.test/kitchen-2",
    "agent://home.test/kitchen-3",
];

/// More than CH-NET-3 gives a node to stop: a busy machine is no fault.
const STOPS_WITHIN: Duration = Duration::from_secs(30);

/// What a node says that ends by itself.
pub const ENDS_ITSELF: &str = "cannot be trusted any more";

/// This machine's time.
pub fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Time::from_unix_micros(i64::try_from(since.as_micros()).unwrap()).unwrap()
}

/// A key as trust files write it: active, valid for as long as tests run.
pub fn trusted(id: &str, key: &SigningKey) -> Value {
    json!({
        "id": id,
        "algorithm": "ed25519",
        "public_key": encode_public_key(&key.verifying_key()),
        "state": "active",
        "valid_from": "2020-01-01T00:00:00Z",
        "valid_until": "2120-01-01T00:00:00Z",
    })
}

/// The world of these tests: one sender elsewhere, four agents here.
pub fn world() -> Value {
    let key = SigningKey::from_seed(&SENDER_SEED);
    let agent = |id: &&str| json!({"id": id, "parent": null, "children": [], "peers": [SENDER]});
    json!({
        "trust": {"trust_anchors": {SENDER: {"type": "agent", "keys": [trusted("k-01", &key)]}}},
        "local_agents": HOSTED.iter().map(agent).collect::<Vec<_>>(),
    })
}

/// A signed envelope and its identifier.
#[derive(Clone, Debug)]
pub struct Share {
    pub id: String,
    pub bytes: Vec<u8>,
}

/// Gives every share of one test process another identifier.
static MADE: AtomicU64 = AtomicU64::new(0);

/// A share for one of the hosted agents, made at `at`.
pub fn share_at(to: &str, at: Time) -> Share {
    share_with(to, at, payload())
}

/// A share for one of the hosted agents, made now.
pub fn share(to: &str) -> Share {
    share_at(to, now())
}

/// What shares carry.
pub fn payload() -> Object<'static> {
    Object::default().with("context", "⏰🌅|📍🏡").with(
        "constitution_ref",
        "creed://creed.space/family.safe.guide@1.2.0",
    )
}

/// A share with a payload of its own.
pub fn share_with(to: &str, at: Time, payload: Object<'static>) -> Share {
    signed_share(SENDER, SENDER_SEED, to, at, payload)
}

/// A share of another sender, made now.
pub fn share_from(sender: &str, seed: [u8; 32], to: &str) -> Share {
    signed_share(sender, seed, to, now(), payload())
}

fn signed_share(
    sender: &str,
    seed: [u8; 32],
    to: &str,
    at: Time,
    payload: Object<'static>,
) -> Share {
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    let unix_ms = u64::try_from(at.unix_millis()).unwrap();
    // Processes that share a node must not make the same identifiers.
    let spread = (u64::from(std::process::id()) << 40) ^ number;
    let id = MessageId::made(v7(unix_ms, (number & 0xfff) as u16, spread));
    let members = envelope(
        Kind::ContextShare,
        id,
        &AgentId::parse(sender).unwrap(),
        &Recipient::Directed(AgentId::parse(to).unwrap()),
        at,
        payload,
    );
    let sealed = seal(members, &SigningKey::from_seed(&seed));
    Share {
        id: id.to_string(),
        bytes: sealed.bytes.to_vec(),
    }
}

/// A node that serves. Killed when it is dropped.
pub struct Served {
    child: Child,
    stdout: BufReader<ChildStdout>,
    pub start_line: String,
    pub address: SocketAddr,
    stderr: PathBuf,
}

impl Place {
    /// A place with a world file, and an environment in which `serve` serves it from `data` on a free port.
    pub fn for_node() -> Self {
        let place = Self::new();
        place.write("world.json", world().to_string());
        place
            .with("CHANCERY_LISTEN", "127.0.0.1:0")
            .with("CHANCERY_DATA", "data")
            .with("CHANCERY_VALUE_CONTEXT_WORLD", "world.json")
    }

    /// The same, and whoever is on this machine may ask it anything.
    pub fn for_dev_node() -> Self {
        Self::for_node().with("CHANCERY_DEV", "true")
    }

    /// The same place with its journal in PostgreSQL.
    pub fn on(self, server: &PostgresServer, journal: &str) -> Self {
        self.with("CHANCERY_STORE", server.url())
            .with("CHANCERY_JOURNAL", journal)
    }

    /// A fixed clock, as an argument.
    pub fn fixed(at: Time) -> String {
        format!("fixed:{}", format_millis(at).as_str())
    }

    /// Starts a node that has to start.
    pub fn serve(&self) -> Served {
        self.serve_with(&[])
    }

    /// Starts a node with more arguments.
    pub fn serve_with(&self, arguments: &[&str]) -> Served {
        let mut command = self.command(&["serve"]);
        command.args(arguments);
        self.start(command)
    }

    /// Starts a command that becomes a node, and waits for its start line (CH-NET-1).
    pub fn start(&self, command: Command) -> Served {
        let stderr = self.path("stderr.log");
        let log = File::options().create(true).append(true).open(&stderr);
        // Who starts it may be a thread that ends before it.
        let mut command = bound(&command);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log.unwrap());
        let mut child = spawn(command).expect("setpriv can be started");
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut start_line = String::new();
        stdout.read_line(&mut start_line).unwrap();
        if start_line.is_empty() {
            let status = child.wait().unwrap();
            let told = std::fs::read_to_string(&stderr).unwrap();
            panic!("it did not serve ({status}): {told}");
        }
        let told: Value = serde_json::from_str(&start_line).unwrap();
        let address = told["http"].as_str().unwrap().parse().unwrap();
        Served {
            child,
            stdout,
            start_line,
            address,
            stderr,
        }
    }

    /// Runs `serve` where it must not come to serve: ends it when it does.
    pub fn refuses_to_serve(&self, arguments: &[&str]) -> Ran {
        let mut command = self.command(&["serve"]);
        command.args(arguments).stdin(Stdio::null());
        let child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let mut child = child.unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut start_line = String::new();
        stdout.read_line(&mut start_line).unwrap();
        if !start_line.is_empty() {
            let _ = child.kill();
            let _ = child.wait();
            panic!("it serves: {start_line}");
        }
        child.wait_with_output().unwrap().into()
    }

    /// The lines of the log that are whole.
    pub fn log_lines(&self) -> Vec<String> {
        let text = match self.variable("CHANCERY_STORE") {
            Some(_) => self.run(&["log", "export"]).exits(0).text(),
            None => self.read("data/audit.jsonl"),
        };
        text.lines().map(str::to_owned).collect()
    }
}

impl Served {
    pub fn wire(&self) -> Wire {
        Wire::connect(self.address).unwrap()
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Everything that nodes of this place wrote to standard error so far.
    pub fn stderr(&self) -> String {
        std::fs::read_to_string(&self.stderr).unwrap()
    }

    /// Whether it has not ended by itself.
    pub fn still_runs(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// `kill -9`.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Sends SIGTERM and waits for the end. Also gives what came after the start line on standard output.
    pub fn stop(self) -> (ExitStatus, String) {
        self.stop_within(STOPS_WITHIN)
    }

    /// The same for a node that is killed when it takes longer than this.
    pub fn stop_within(mut self, limit: Duration) -> (ExitStatus, String) {
        signal("TERM", self.pid());
        let status = self.ended_within(limit);
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        (status, rest)
    }

    /// Waits for the end of a process that was told to stop.
    pub fn ended(mut self) -> ExitStatus {
        self.ended_within(STOPS_WITHIN)
    }

    /// Waits for the end of a process that nobody told to stop; gives what it said.
    pub fn ended_by_itself(mut self) -> (ExitStatus, String) {
        let status = self.ended_within(Duration::from_secs(90));
        (status, self.stderr())
    }

    /// Stops it; it has to end well.
    pub fn stop_well(self) {
        let stderr = self.stderr.clone();
        let (status, _) = self.stop();
        let told = || std::fs::read_to_string(&stderr).unwrap();
        assert!(status.success(), "{status}: {}", told());
    }

    /// Waits for the end of the process.
    fn ended_within(&mut self, limit: Duration) -> ExitStatus {
        let pid = self.pid();
        let (ended, watched) = mpsc::channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                if watched.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout) {
                    signal("KILL", pid);
                }
            });
            let status = self.child.wait().unwrap();
            drop(ended);
            status
        })
    }

    /// Entries of an inbox, from the first.
    pub fn inbox(&self, agent: &str) -> Vec<Value> {
        let mut wire = self.wire();
        let (mut entries, mut after) = (Vec::new(), 0);
        loop {
            let path = format!(
                "/inbox/value-context/{}?after={after}&limit=1000",
                segment(agent)
            );
            let page = wire.get(&path).unwrap().ok();
            let found = page["entries"].as_array().unwrap();
            if found.is_empty() {
                return entries;
            }
            entries.extend(found.iter().cloned());
            after = page["next"].as_u64().unwrap();
        }
    }

    /// What the node holds about an agent.
    pub fn state(&self, agent: &str) -> Value {
        let path = format!("/state/value-context/{}", segment(agent));
        self.wire().get(&path).unwrap().ok()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a signal to a process of these tests.
pub fn signal(name: &str, pid: u32) {
    let script = format!("kill -{name} {pid}");
    let sent = Command::new("sh").args(["-c", &script]).status().unwrap();
    assert!(sent.success(), "{script}");
}

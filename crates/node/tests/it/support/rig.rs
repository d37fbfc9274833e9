//! A node that speaks the tests' own protocol.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use chancery_core::inbox::InboxName;
use chancery_core::line::{ProtocolName, Seq};
use chancery_core::protocol::{Caller, Door, Input, Protocol, Suite};
use chancery_core::refusal::Refusal;
use chancery_core::time::Time;
use chancery_node::{
    Clock, Decided, Entropy, GateLimits, Node, Options, Overloaded, SideLogs, SoftLimits,
    StartError, Vault,
};
use chancery_store::{Embedded, Memory, SideLog, SideLogLimits, Store, recover};
use chancery_testkit::inputs::unsigned;
use chancery_testkit::{TestAnswer, TestInput, TestSuite};

use super::{HeldStore, Scripted};

/// What a submitted input came to.
pub type Answered = Result<Decided<TestAnswer>, Overloaded>;

/// How a node of the tests is started.
#[derive(Clone)]
pub struct Setup {
    pub clock: Clock,
    pub entropy: Entropy,
    pub gate_limits: GateLimits,
    pub soft_limits: SoftLimits,
    pub carrier: Arc<Scripted>,
    pub vault: Arc<Vault>,
    pub row_cache_bytes: usize,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            clock: Clock::fixed(start_of_tests()),
            entropy: Entropy::System,
            gate_limits: GateLimits::default(),
            soft_limits: SoftLimits::default(),
            carrier: Arc::new(Scripted::default()),
            vault: Arc::new(Vault::new()),
            row_cache_bytes: 16 << 20,
        }
    }
}

impl Setup {
    /// A node over a store in memory.
    pub fn in_memory(&self) -> Rig {
        self.over(Arc::new(Memory::new())).unwrap()
    }

    /// A node over the store of a directory, recovered, with side logs beside it.
    pub fn on_disk(&self, dir: &Path) -> Rig {
        self.try_on_disk(dir).unwrap()
    }

    pub fn try_on_disk(&self, dir: &Path) -> Result<Rig, StartError> {
        let rig = self.over(Arc::new(self.open(dir)))?;
        Ok(rig.in_dir(dir))
    }

    /// The store of a directory, its tail decided again.
    pub fn open(&self, dir: &Path) -> Embedded {
        let options = chancery_store::Options {
            row_cache_bytes: self.row_cache_bytes,
            windows: TestSuite::default().windows(),
            ..chancery_store::Options::new(dir)
        };
        let (store, tail) = Embedded::open(&options).unwrap();
        recover(&TestSuite::default(), &store, &tail).unwrap();
        store
    }

    /// A node over a store that can be held still.
    pub fn held(&self, inner: Arc<dyn Store>) -> (Rig, Arc<HeldStore>) {
        let held = HeldStore::new(inner);
        let rig = self.over(Arc::clone(&held) as Arc<dyn Store>).unwrap();
        (rig, held)
    }

    pub fn over(&self, store: Arc<dyn Store>) -> Result<Rig, StartError> {
        self.with_side_logs(store, SideLogs::default())
    }

    /// A node over the store of a directory, with side logs in it.
    pub fn with_logs_beside(&self, dir: &Path) -> Rig {
        let log = |name| SideLog::open(dir, name, SideLogLimits::default()).unwrap();
        let side_logs = SideLogs::new(log("rejections.jsonl"), log("events.jsonl"));
        let rig = self.with_side_logs(Arc::new(self.open(dir)), side_logs);
        rig.unwrap().in_dir(dir)
    }

    fn with_side_logs(
        &self,
        store: Arc<dyn Store>,
        side_logs: SideLogs,
    ) -> Result<Rig, StartError> {
        let node = Node::start(Options {
            suite: Arc::new(TestSuite::default()),
            store,
            vault: Arc::clone(&self.vault),
            clock: self.clock.clone(),
            entropy: self.entropy,
            gate_limits: self.gate_limits,
            soft_limits: self.soft_limits,
            carrier: Arc::clone(&self.carrier) as Arc<_>,
            side_logs,
            hands: chancery_node::Hands::Own,
            spans: None,
        })?;
        Ok(Rig {
            node: Arc::new(node),
            carrier: Arc::clone(&self.carrier),
            dir: None,
        })
    }
}

/// A running node of the tests.
pub struct Rig {
    pub node: Arc<Node<TestSuite>>,
    pub carrier: Arc<Scripted>,
    dir: Option<PathBuf>,
}

impl Rig {
    fn in_dir(self, dir: &Path) -> Self {
        Self {
            dir: Some(dir.to_owned()),
            ..self
        }
    }

    pub fn store(&self) -> &Arc<dyn Store> {
        self.node.gate().store()
    }

    /// Takes an envelope's bytes as a door does: decode, authenticate, a place, decide.
    pub fn receive(&self, raw: Bytes) -> Pin<Box<dyn Future<Output = Answered> + Send>> {
        let node = Arc::clone(&self.node);
        let gate = node.gate();
        let (settings, keys) = (gate.settings(), gate.keyring());
        let (suite, received) = (gate.suite(), gate.clock().now());
        let caller = Caller::default();
        let message = suite
            .protocol()
            .decode(raw, Door::InProcess, &settings)
            .unwrap();
        let authentic = suite.protocol().authenticate(
            message,
            Door::InProcess,
            &caller,
            &keys,
            &settings,
            received,
        );
        let input = TestInput::Test(Input::Envelope(authentic.unwrap()));
        Box::pin(async move {
            let permit = node.permit(node.gate().suite().urgent(&input))?;
            node.gate().submit(input, received, Some(permit)).await
        })
    }

    /// An envelope without a signature.
    pub fn say(
        &self,
        id: &str,
        from: &str,
        to: &str,
        verb: &str,
        value: Option<&str>,
    ) -> Pin<Box<dyn Future<Output = Answered> + Send>> {
        self.receive(unsigned(id, from, to, verb, value))
    }

    /// The same, recorded; gives its line.
    pub async fn said(
        &self,
        id: &str,
        from: &str,
        to: &str,
        verb: &str,
        value: Option<&str>,
    ) -> Seq {
        let decided = self.say(id, from, to, verb, value).await.unwrap();
        decided.result.unwrap();
        decided.seq.expect("it is on record")
    }

    /// The same, refused.
    pub async fn refused(
        &self,
        id: &str,
        from: &str,
        to: &str,
        verb: &str,
        value: Option<&str>,
    ) -> Refusal {
        let decided = self.say(id, from, to, verb, value).await.unwrap();
        assert_eq!(decided.seq, None);
        decided.result.unwrap_err()
    }

    /// Decides an input of the node's own.
    pub async fn act(&self, input: TestInput) -> Seq {
        let decided = self.node.submit(input).await.unwrap();
        decided.result.unwrap();
        decided.seq.expect("an act is on record")
    }

    /// The entries of an inbox after a line.
    pub fn inbox(&self, agent: &str, after: Seq) -> Vec<Seq> {
        let entries = self
            .node
            .inboxes()
            .read(&inbox_of(agent), after, usize::MAX);
        entries
            .unwrap()
            .into_iter()
            .map(|entry| entry.seq)
            .collect()
    }

    /// Returns once an inbox has an entry after a line; gives the last.
    pub async fn arrived(&self, agent: &str, after: Seq) -> Seq {
        self.node
            .inboxes()
            .wait(&inbox_of(agent), after)
            .await
            .unwrap();
        *self.inbox(agent, after).last().unwrap()
    }

    /// Stops cleanly and gives the directory back.
    pub async fn stop(self) {
        self.node.stop().await.unwrap();
        self.gone().await;
    }

    /// Drops the node as a crash would, and waits until its threads have let go of the store.
    pub async fn crash(self) {
        self.gone().await;
    }

    async fn gone(self) {
        let dir = self.dir.clone();
        drop(self);
        if let Some(dir) = dir {
            free(&dir).await;
        }
    }
}

/// Returns once nobody has the store of a directory open.
pub async fn free(dir: &Path) {
    let lock = std::fs::File::open(dir.join("lock")).unwrap();
    until(|| lock.try_lock().is_ok()).await;
}

pub fn inbox_of(agent: &str) -> InboxName {
    InboxName {
        protocol: ProtocolName::Test,
        agent: agent.to_owned(),
    }
}

/// A moment in the past, so that no clock of a machine is behind it.
pub fn start_of_tests() -> Time {
    Time::from_unix_seconds(1_771_151_610).unwrap()
}

/// Polls a future once, so that it has begun, and expects that it is not done.
pub async fn started<T>(future: &mut Pin<Box<dyn Future<Output = T> + Send>>) {
    tokio::select! {
        biased;
        _ = future => panic!("it is done already"),
        () = std::future::ready(()) => {}
    }
}

/// Waits for a condition that nothing announces.
pub async fn until(mut condition: impl FnMut() -> bool) {
    while !condition() {
        tokio::task::yield_now().await;
        std::thread::yield_now();
    }
}

//! Clients that talk to whichever node answers, and note what they were told and what not.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use chancery_testkit::linear::{Operation, Register, is_linearizable};

use crate::kill::Random;
use crate::wire::{Answer, Wire};

/// How many nodes there are.
pub const NODES: usize = 3;
/// How long a client waits for an answer before it turns to another node: less than a pause.
const PATIENCE: Duration = Duration::from_secs(3);
/// Of so many requests one goes to another node for no reason.
const WANDERS: u64 = 50;

/// Where the nodes are, and whether it is over.
pub struct Fleet {
    addresses: Mutex<[Option<SocketAddr>; NODES]>,
    over: AtomicBool,
    begun: Instant,
    ids: Mutex<Ids>,
}

/// What became of envelopes, by what identifies them on the log.
#[derive(Clone, Default)]
pub struct Ids {
    pub acknowledged: BTreeSet<String>,
    /// Sent at least once without an answer.
    pub unknown: BTreeSet<String>,
}

impl Fleet {
    pub fn new() -> Self {
        Self {
            addresses: Mutex::default(),
            over: AtomicBool::new(false),
            begun: Instant::now(),
            ids: Mutex::default(),
        }
    }

    pub fn set(&self, node: usize, address: Option<SocketAddr>) {
        self.addresses.lock().unwrap()[node] = address;
    }

    pub fn end(&self) {
        self.over.store(true, Ordering::SeqCst);
    }

    pub fn is_over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    /// A moment that all clients share.
    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_nanos()).unwrap()
    }

    pub fn ids(&self) -> Ids {
        self.ids.lock().unwrap().clone()
    }
}

/// What became of a request.
pub enum Sent {
    Told(Answer),
    /// It never left, or the node said that it takes nothing now: nothing happened.
    NotTaken,
    /// The connection ended or stayed silent: it happened once or never, now or later.
    Unknown,
}

/// One client: at one node at a time.
pub struct Client<'f> {
    pub fleet: &'f Fleet,
    pub random: Random,
    node: usize,
    wire: Option<Wire>,
}

impl<'f> Client<'f> {
    pub fn new(fleet: &'f Fleet, node: usize, seed: u64) -> Self {
        Self {
            fleet,
            random: Random::from_seed(seed),
            node: node % NODES,
            wire: None,
        }
    }

    /// Once in so many times.
    pub fn chance(&mut self, of: u64) -> bool {
        self.random.between(0, of) == 0
    }

    /// Sends an envelope once. `id` is what identifies it on the log, if it comes there.
    pub fn send(&mut self, path: &str, body: &[u8], id: &str) -> (Sent, u64) {
        let (sent, begun) = self.ask(path, body);
        let mut ids = self.fleet.ids.lock().unwrap();
        match &sent {
            Sent::Told(answer) if answer.status == 200 => ids.acknowledged.insert(id.to_owned()),
            Sent::Unknown => ids.unknown.insert(id.to_owned()),
            Sent::Told(_) | Sent::NotTaken => false,
        };
        drop(ids);
        (sent, begun)
    }

    /// Asks once; also gives when that began.
    pub fn ask(&mut self, path: &str, body: &[u8]) -> (Sent, u64) {
        if self.chance(WANDERS) {
            self.turn_away();
        }
        let begun = self.fleet.now();
        let Some(mut wire) = self.connection() else {
            self.turn_away();
            // Where nobody is, nothing can be awaited.
            std::thread::sleep(Duration::from_millis(20));
            return (Sent::NotTaken, begun);
        };
        let sent = match wire.post(path, body) {
            Ok(answer) if answer.status == 503 => Sent::NotTaken,
            Ok(answer) => {
                self.wire = Some(wire);
                Sent::Told(answer)
            }
            Err(_) => Sent::Unknown,
        };
        if !matches!(sent, Sent::Told(_)) {
            self.turn_away();
        }
        (sent, begun)
    }

    fn connection(&mut self) -> Option<Wire> {
        let open = self.wire.take();
        open.or_else(|| {
            let address = self.fleet.addresses.lock().unwrap()[self.node]?;
            Wire::connect_for(address, PATIENCE).ok()
        })
    }

    /// The next request goes to another node.
    pub fn turn_away(&mut self) {
        self.wire = None;
        self.node = (self.node + 1) % NODES;
    }
}

/// What was asked of one register, and told.
type History<R> = Vec<Operation<<R as Register>::Op, <R as Register>::Told>>;

/// The same of many.
pub struct Book<R: Register>(Mutex<BTreeMap<String, History<R>>>);

impl<R: Register> Default for Book<R> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<R: Register> Book<R> {
    /// Notes an operation that has just ended, or whose answer nobody waits for any more.
    pub fn note(&self, of: &str, op: R::Op, told: Option<R::Told>, begun: u64, fleet: &Fleet) {
        let ended = fleet.now();
        let operation = Operation {
            op,
            told,
            begun,
            ended,
        };
        let mut book = self.0.lock().unwrap();
        book.entry(of.to_owned()).or_default().push(operation);
    }

    /// Judges all of them; gives how many registers and operations there were.
    pub fn judge(self, register: &R) -> (usize, usize)
    where
        R::Op: Clone + std::fmt::Debug,
        R::Told: Clone + std::fmt::Debug,
    {
        let book = self.0.into_inner().unwrap();
        let operations = book.values().map(Vec::len).sum();
        for (name, history) in &book {
            let is_linear = is_linearizable(register, history.clone());
            assert!(is_linear, "{name} is not linearizable: {history:#?}");
        }
        (book.len(), operations)
    }
}

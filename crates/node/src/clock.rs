//! Where time and entropy come from: the only place in the spine that reads a clock or a random source.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chancery_core::decision::Nonce;
use chancery_core::digest::Sha256Digest;
use chancery_core::line::Seq;
use chancery_core::time::Time;

/// The clock of a node.
#[derive(Clone, Debug)]
pub enum Clock {
    /// The machine's clock.
    System,
    /// The machine's clock, wrong by so much: for tests of nodes whose clocks disagree.
    Shifted {
        /// Whether it is ahead; else it is behind.
        ahead: bool,
        /// By how much.
        by: Duration,
    },
    /// A clock that stands still until it is set (CH-CFG-7).
    Fixed(Arc<Mutex<Time>>),
    /// A clock that goes as the runtime's own time does: where that is simulated, so is this (VX-GEN-2).
    Runtime {
        /// What it said first.
        first: Time,
        /// When that was.
        since: tokio::time::Instant,
    },
}

impl Clock {
    /// A clock that stands at `now`.
    pub fn fixed(now: Time) -> Self {
        Self::Fixed(Arc::new(Mutex::new(now)))
    }

    /// A clock that says `now` now, and goes on with the runtime's time.
    pub fn of_runtime(now: Time) -> Self {
        Self::Runtime {
            first: now,
            since: tokio::time::Instant::now(),
        }
    }

    /// The time, cut to microseconds (CH-JRN-14).
    pub fn now(&self) -> Time {
        match self {
            Self::System => machine_time(),
            Self::Shifted { ahead: true, by } => {
                machine_time().saturating_add(*by).truncate_to_micros()
            }
            Self::Shifted { ahead: false, by } => {
                machine_time().saturating_sub(*by).truncate_to_micros()
            }
            Self::Fixed(now) => now
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .truncate_to_micros(),
            Self::Runtime { first, since } => {
                first.saturating_add(since.elapsed()).truncate_to_micros()
            }
        }
    }

    /// Sets a fixed clock, forwards or back; false for a clock that goes by itself.
    pub fn set(&self, to: Time) -> bool {
        match self {
            Self::System | Self::Shifted { .. } | Self::Runtime { .. } => false,
            Self::Fixed(now) => {
                *now.lock().unwrap_or_else(PoisonError::into_inner) = to;
                true
            }
        }
    }

    /// Whether this clock stands still.
    pub fn is_fixed(&self) -> bool {
        matches!(self, Self::Fixed(_))
    }
}

fn machine_time() -> Time {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_micros())
        .ok()
        .and_then(Time::from_unix_micros)
        .unwrap_or(Time::MAX)
}

/// Where nonces come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entropy {
    /// The machine's secure generator.
    System,
    /// A seed (CH-CFG-8): the same run gives the same identifiers.
    Seed(u64),
}

/// Gives out nonces.
#[derive(Debug)]
pub(crate) struct Nonces {
    entropy: Entropy,
    pool: Vec<Nonce>,
}

/// How many nonces one call of the machine's generator brings.
const POOL: usize = 64;

impl Nonces {
    pub(crate) fn new(entropy: Entropy) -> Self {
        Self {
            entropy,
            pool: Vec::new(),
        }
    }

    /// The nonce of a decision whose first line would be `seq`. With a seed it follows from that number, so that a
    /// restarted node never gives one again that is on record. Otherwise a decision that is made again, because a row
    /// was missing, has the nonce it had before: it makes the same identifiers, and finds what was fetched for them.
    pub(crate) fn of(&mut self, before: &mut Option<Nonce>, seq: Seq) -> Nonce {
        match self.entropy {
            Entropy::Seed(seed) => {
                let mut material = [0; 16];
                material[..8].copy_from_slice(&seed.to_be_bytes());
                material[8..].copy_from_slice(&seq.to_be_bytes());
                let mut nonce = [0; 16];
                nonce.copy_from_slice(&Sha256Digest::of(&material).0[..16]);
                nonce
            }
            Entropy::System => *before.get_or_insert_with(|| {
                if self.pool.is_empty() {
                    self.refill();
                }
                self.pool.pop().expect("the pool was just filled")
            }),
        }
    }

    fn refill(&mut self) {
        let mut bytes = [0; 16 * POOL];
        getrandom::fill(&mut bytes)
            .expect("the machine's secure generator is there once the node runs");
        self.pool.extend(bytes.chunks_exact(16).map(|chunk| {
            let mut nonce = [0; 16];
            nonce.copy_from_slice(chunk);
            nonce
        }));
    }
}

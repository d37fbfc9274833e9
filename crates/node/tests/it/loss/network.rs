//! A network that drops, repeats, delays and cuts, and keeps what it saw.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use chancery_core::admin::RunState;
use chancery_core::delivery::{Delivery, Whisper};
use chancery_core::protocol::Door;
use chancery_node::{Attempt, Carried, Carrier, Leave, Office};
use chancery_store::testing::Chance;
use tokio::time::Instant;

use super::Without;
use super::world::AGENTS;

/// How bad it is out there.
#[derive(Clone, Copy, Debug)]
pub struct Weather {
    /// Of a hundred messages or answers, how many are lost.
    pub lost: u64,
    /// Of a hundred messages, how many arrive once more.
    pub repeated: u64,
    /// The longest time a message or an answer takes.
    pub delay_ms: u64,
}

impl Weather {
    pub fn of(chance: &mut Chance) -> Self {
        Self {
            lost: [0, 10, 30, 60][chance.below(4) as usize],
            repeated: [0, 20, 50][chance.below(3) as usize],
            delay_ms: [1, 200, 3_000][chance.below(3) as usize],
        }
    }
}

/// An escalation that asks for an acknowledgement reached a node.
#[derive(Clone, Debug)]
pub struct Arrival {
    pub id: String,
    pub at: Instant,
    pub node: usize,
    /// How often that node had been started.
    pub life: usize,
}

/// What the network saw, and what it is to do.
pub struct Network {
    weather: Weather,
    without: Option<Without>,
    state: Mutex<State>,
}

struct State {
    chance: Chance,
    offices: [Option<Arc<Office>>; AGENTS.len()],
    lives: [usize; AGENTS.len()],
    cuts: BTreeSet<(usize, usize)>,
    arrivals: Vec<Arrival>,
    /// When copies of an acknowledgement left, by the escalation it is for.
    acknowledgements: BTreeMap<String, Vec<Instant>>,
    /// Acknowledgements whose recipient has said that it has them.
    received: BTreeSet<String>,
    violations: Vec<String>,
}

/// One way of a message and its answer.
struct Way {
    lost: bool,
    answer_lost: bool,
    out: Duration,
    back: Duration,
    once_more: Option<Duration>,
}

impl Network {
    pub fn new(weather: Weather, without: Option<Without>, seed: u64) -> Arc<Self> {
        let state = State {
            chance: Chance::new(seed),
            offices: Default::default(),
            lives: Default::default(),
            cuts: BTreeSet::new(),
            arrivals: Vec::new(),
            acknowledgements: BTreeMap::new(),
            received: BTreeSet::new(),
            violations: Vec::new(),
        };
        Arc::new(Self {
            weather,
            without,
            state: Mutex::new(state),
        })
    }

    /// A node begins to listen.
    pub fn connect(&self, node: usize, office: &Arc<Office>) {
        let mut state = self.lock();
        state.offices[node] = Some(Arc::clone(office));
        state.lives[node] += 1;
    }

    /// A node is gone; gives back what the network held of it.
    pub fn disconnect(&self, node: usize) -> Option<Arc<Office>> {
        self.lock().offices[node].take()
    }

    pub fn office(&self, node: usize) -> Option<Arc<Office>> {
        self.lock().offices[node].clone()
    }

    /// Nothing passes between two nodes any more.
    pub fn cut(&self, a: usize, b: usize) {
        self.lock().cuts.insert((a.min(b), a.max(b)));
    }

    /// Something may pass between them again.
    pub fn mend(&self, a: usize, b: usize) {
        self.lock().cuts.remove(&(a.min(b), a.max(b)));
    }

    pub fn arrivals(&self) -> Vec<Arrival> {
        self.lock().arrivals.clone()
    }

    pub fn life(&self, node: usize) -> usize {
        self.lock().lives[node]
    }

    /// When copies of the acknowledgement of an escalation left.
    pub fn acknowledgements(&self, id: &str) -> Vec<Instant> {
        self.lock()
            .acknowledgements
            .get(id)
            .cloned()
            .unwrap_or_default()
    }

    /// What happened that must not.
    pub fn violations(&self) -> Vec<String> {
        self.lock().violations.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn way(&self, from: usize, to: usize) -> Way {
        let mut state = self.lock();
        let cut = state.cuts.contains(&(from.min(to), from.max(to)));
        let Weather {
            lost,
            repeated,
            delay_ms,
        } = self.weather;
        let chance = &mut state.chance;
        let mut delay = || Duration::from_millis(chance.below(delay_ms));
        let (out, back, later) = (delay(), delay(), delay());
        Way {
            lost: chance.below(100) < lost || cut,
            answer_lost: chance.below(100) < lost,
            out,
            back,
            once_more: (chance.below(100) < repeated).then_some(later),
        }
    }

    /// Looks at what leaves: nothing of a suspended agent but escalations may (VX-RUN-3).
    fn leaves(&self, from: usize, envelope: &serde_json::Value) {
        let is_escalation = envelope["type"] == "escalation";
        let state = self
            .office(from)
            .map(|office| office.run_state(AGENTS[from]).unwrap());
        let mut seen = self.lock();
        if !is_escalation && state == Some(RunState::Suspended) {
            let kind = &envelope["type"];
            seen.violations
                .push(format!("{} is suspended and sends {kind}", AGENTS[from]));
        }
        if let Some(id) = acknowledged(envelope) {
            let sent = seen.acknowledgements.entry(id.to_owned()).or_default();
            sent.push(Instant::now());
        }
    }

    async fn arrive(&self, to: usize, envelope: Bytes, value: &serde_json::Value) -> Carried {
        let failed = Carried::Failed { at_least: None };
        let Some(office) = self.office(to) else {
            return failed;
        };
        let life = self.life(to);
        let at = Instant::now();
        let answer = office.receive_value_context(envelope, Door::Http).await;
        drop(office);
        let asks = value["payload"]["requires_ack"] == true;
        if answer.is_ok() && asks {
            self.lock().arrivals.push(Arrival {
                id: value["message_id"].as_str().unwrap().to_owned(),
                at,
                node: to,
                life,
            });
        }
        match answer {
            Ok(_) => {
                let ack = acknowledged(value).map(str::to_owned);
                self.lock().received.extend(ack);
                Carried::Delivered
            }
            Err(refusal) if refusal.retryable => failed,
            Err(_) => Carried::Refused,
        }
    }

    /// Whether this is the repetition of an acknowledgement that this run does without.
    fn is_done_without(&self, envelope: &serde_json::Value) -> bool {
        self.without == Some(Without::RepeatedAcknowledgements)
            && acknowledged(envelope).is_some_and(|id| self.lock().received.contains(id))
    }

    async fn carry(self: Arc<Self>, from: usize, to: usize, envelope: Bytes) -> Carried {
        let value: serde_json::Value = serde_json::from_slice(&envelope).unwrap();
        if self.is_done_without(&value) {
            return Carried::Delivered;
        }
        self.leaves(from, &value);
        let way = self.way(from, to);
        if way.lost {
            // The outbox cuts an attempt off.
            return std::future::pending().await;
        }
        tokio::time::sleep(way.out).await;
        if let Some(later) = way.once_more {
            let (network, envelope, value) = (Arc::clone(&self), envelope.clone(), value.clone());
            tokio::spawn(async move {
                tokio::time::sleep(later).await;
                network.arrive(to, envelope, &value).await;
            });
        }
        let carried = self.arrive(to, envelope, &value).await;
        tokio::time::sleep(way.back).await;
        if way.answer_lost {
            return std::future::pending().await;
        }
        carried
    }
}

/// The escalation that an envelope acknowledges.
fn acknowledged(envelope: &serde_json::Value) -> Option<&str> {
    let reason = envelope["payload"]["reason"].as_str()?;
    reason.strip_prefix("ACK:")?.get(..36)
}

/// A node's end of the network.
pub struct Link {
    pub network: Arc<Network>,
    pub node: usize,
}

impl Carrier for Link {
    fn carry(&self, delivery: Delivery, envelope: Bytes, _: Leave) -> Attempt {
        let to = AGENTS
            .iter()
            .position(|agent| *agent == delivery.to)
            .expect("agents know only each other");
        Box::pin(Arc::clone(&self.network).carry(self.node, to, envelope))
    }

    fn whisper(&self, _: Whisper) {}
}

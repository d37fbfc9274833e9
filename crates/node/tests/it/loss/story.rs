//! What happens under one seed, and what must be true afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use chancery_core::inbox::InboxName;
use chancery_core::line::{Line, ProtocolName};
use chancery_journal::line::parse;
use chancery_node::suite::Chancery;
use chancery_node::{Clock, Office};
use chancery_store::testing::Chance;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::Without;
use super::network::{Arrival, Network, Weather};
use super::world::{AGENTS, CHILD, ELDER, Machine, PARENT, beginning};
use crate::support::assert_log_gives;

/// Until then things happen.
const STORM_MS: u64 = 60_000;
/// Long enough for every retry, every climb and every judgement to have ended.
const CALM: Duration = Duration::from_secs(600);
/// The most that two clocks disagree.
const SKEW_MS: u64 = 20_000;

/// Something that happens.
#[derive(Clone, Copy, Debug)]
enum Event {
    Says(usize, Saying),
    Cut(usize, usize),
    Mend(usize, usize),
    Crash(usize),
    Start(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Saying {
    Share,
    Warning,
    Critical,
    Emergency,
    Resume,
}

pub struct Story {
    events: Vec<(u64, Event)>,
    machines: Vec<Machine>,
    network: Arc<Network>,
    without: Option<Without>,
    /// A node that never comes back.
    gone: Option<usize>,
    seed: u64,
}

impl Story {
    pub fn new(seed: u64, without: Option<Without>) -> Self {
        let mut chance = Chance::new(seed);
        let weather = Weather::of(&mut chance);
        let gone = chance.one_in(4).then_some(PARENT);
        let events = events(&mut chance, gone);
        let machine = |node: usize| {
            let skew = Duration::from_millis(chance.below(SKEW_MS));
            let clock = Clock::of_runtime(beginning().saturating_add(skew));
            Machine::new(node, chance.next_u64(), clock)
        };
        Self {
            events,
            machines: (0..AGENTS.len()).map(machine).collect(),
            network: Network::new(weather, without, seed ^ 0x5eed),
            without,
            gone,
            seed,
        }
    }

    /// Plays it; what went wrong.
    pub async fn play(mut self) -> Vec<String> {
        let begun = Instant::now();
        for node in 0..AGENTS.len() {
            self.start(node).await;
        }
        for (at_ms, event) in std::mem::take(&mut self.events) {
            tokio::time::sleep_until(begun + Duration::from_millis(at_ms)).await;
            self.happens(event).await;
        }
        self.clear_up().await;
        tokio::time::sleep(CALM).await;
        let faults = self.faults();
        for node in 0..AGENTS.len() {
            self.crash(node).await;
        }
        faults
    }

    async fn happens(&self, event: Event) {
        match event {
            Event::Says(node, saying) => self.say(node, saying).await,
            Event::Cut(a, b) => self.network.cut(a, b),
            Event::Mend(a, b) => self.network.mend(a, b),
            Event::Crash(node) => self.crash(node).await,
            Event::Start(node) => self.start(node).await,
        }
    }

    /// The storm is over: what was cut is mended, and who was down comes back, if it ever does.
    async fn clear_up(&self) {
        for a in 0..AGENTS.len() {
            for b in a + 1..AGENTS.len() {
                self.network.mend(a, b);
            }
            self.start(a).await;
        }
    }

    async fn start(&self, node: usize) {
        let is_down = self.network.office(node).is_none();
        let comes_back = self.gone != Some(node) || self.network.life(node) == 0;
        if is_down && comes_back {
            self.machines[node].start(&self.network, self.without).await;
        }
    }

    /// The power fails: what was not synced is gone.
    async fn crash(&self, node: usize) {
        let Some(office) = self.network.disconnect(node) else {
            return;
        };
        let machine = &self.machines[node];
        machine.disk.cut();
        let watch = Arc::downgrade(&office);
        drop(office);
        // Whatever the node had under way lets go of it. No sleep here: simulated time would run while real threads end.
        while watch.strong_count() > 0 {
            tokio::task::yield_now().await;
        }
        machine.is_free().await;
        machine.disk.heal();
    }

    async fn say(&self, node: usize, saying: Saying) {
        let Some(office) = self.network.office(node) else {
            return;
        };
        let to = match (node, saying) {
            (CHILD, _) => PARENT,
            (PARENT, Saying::Share | Saying::Resume) => CHILD,
            _ => ELDER,
        };
        let (kind, payload) = saying.content();
        let body = json!({
            "sender": AGENTS[node], "recipient": AGENTS[to], "type": kind, "payload": payload,
        });
        // A suspended agent may be refused: that is as it should be.
        let _ = office
            .send_value_context(body.to_string().as_bytes(), None)
            .await;
    }
}

impl Saying {
    fn content(self) -> (&'static str, Value) {
        let escalation = |severity: &str, asks: bool| {
            let payload = json!({
                "severity": severity, "reason": "a reason", "context": "📍💻", "requires_ack": asks,
            });
            ("escalation", payload)
        };
        match self {
            Self::Share => (
                "context_share",
                json!({"context": "⏰🌅|📍🏡", "constitution_ref": "creed://creed.test/a@1.0.0"}),
            ),
            Self::Warning => escalation("warning", false),
            Self::Critical => escalation("critical", true),
            Self::Emergency => escalation("emergency", true),
            Self::Resume => {
                let resume = json!({
                    "type": "x-vcp-resume", "value": {"resume": true},
                    "source_constitution_ref": "creed://creed.test/a@1.0.0",
                });
                (
                    "constraint_propagate",
                    json!({"constraints": [resume], "propagation_mode": "merge"}),
                )
            }
        }
    }
}

fn events(chance: &mut Chance, gone: Option<usize>) -> Vec<(u64, Event)> {
    let mut events = Vec::new();
    for _ in 0..2 + chance.below(8) {
        let (who, saying) = match chance.below(8) {
            0 | 1 => (CHILD, Saying::Share),
            2 => (CHILD, Saying::Warning),
            3 => (CHILD, Saying::Critical),
            4 | 5 => (CHILD, Saying::Emergency),
            6 => (PARENT, Saying::Resume),
            _ => (PARENT, Saying::Share),
        };
        events.push((chance.below(STORM_MS), Event::Says(who, saying)));
    }
    for _ in 0..chance.below(3) {
        let (a, b) = [(CHILD, PARENT), (PARENT, ELDER), (CHILD, ELDER)][chance.below(3) as usize];
        let at = chance.below(STORM_MS);
        events.push((at, Event::Cut(a, b)));
        events.push((at + chance.below(30_000), Event::Mend(a, b)));
    }
    for _ in 0..chance.below(3) {
        let node = chance.below(AGENTS.len() as u64) as usize;
        let at = chance.below(STORM_MS);
        events.push((at, Event::Crash(node)));
        events.push((at + 1 + chance.below(20_000), Event::Start(node)));
    }
    if let Some(node) = gone {
        events.push((chance.below(STORM_MS), Event::Crash(node)));
    }
    events.sort_by_key(|(at, _)| *at);
    events
}

/// What is looked at afterwards.
impl Story {
    fn faults(&self) -> Vec<String> {
        let mut faults = self.network.violations();
        for node in 0..AGENTS.len() {
            if let Some(office) = self.network.office(node) {
                faults.extend(twice_processed(node, &office));
                assert_log_gives(&Chancery::default(), &**office.gate().store());
            }
        }
        let child = self
            .network
            .office(CHILD)
            .unwrap_or_else(|| panic!("seed {}: the child is there at the end", self.seed));
        faults.extend(unanswered(&child));
        if !faults.is_empty() {
            faults.extend(lines(&child).iter().map(told));
        }
        let arrivals = self.network.arrivals();
        faults.extend(arrivals.iter().filter_map(|one| self.not_answered(one)));
        faults
    }

    /// An escalation that arrived, be it a copy, is followed by its acknowledgement (VX-ACK-2, VX-ACK-4).
    fn not_answered(&self, arrival: &Arrival) -> Option<String> {
        let survived = self.network.life(arrival.node) == arrival.life
            && self.network.office(arrival.node).is_some();
        let sent = self.network.acknowledgements(&arrival.id);
        let answered = sent.iter().any(|at| *at >= arrival.at);
        (survived && !answered).then(|| {
            let (id, node) = (&arrival.id, AGENTS[arrival.node]);
            format!("a copy of {id} reached {node} and no acknowledgement left after it")
        })
    }
}

/// A line in a few words: so that a failure tells its story.
fn told(line: &Line) -> String {
    let value = envelope(line);
    let at = line.eval_ts.map(|at| at.to_string()).unwrap_or_default();
    let word = |name: &str| text(&value[name]);
    let payload = &value["payload"];
    format!(
        "{} {at} {} {}{} {}>{} {} {}",
        line.seq,
        line.origin.as_str(),
        word("kind"),
        word("type"),
        word("sender"),
        word("recipient"),
        word("message_id"),
        if payload.is_null() { &value } else { payload },
    )
}

fn lines(office: &Office) -> Vec<Line> {
    let store = office.gate().store();
    let lines = store.lines(1, usize::MAX).unwrap();
    lines.iter().map(|line| parse(line).unwrap()).collect()
}

fn envelope(line: &Line) -> Value {
    serde_json::from_slice(&line.envelope).unwrap()
}

/// Messages that are in an inbox more than once.
fn twice_processed(node: usize, office: &Office) -> Vec<String> {
    let name = InboxName {
        protocol: ProtocolName::ValueContext,
        agent: AGENTS[node].to_owned(),
    };
    let entries = office.inboxes().read(&name, 0, usize::MAX).unwrap();
    let on_record: BTreeMap<u64, Line> = lines(office)
        .into_iter()
        .map(|line| (line.seq, line))
        .collect();
    let mut seen = BTreeSet::new();
    let ids = entries.iter().map(|entry| {
        let value = envelope(&on_record[&entry.seq]);
        value["message_id"].as_str().unwrap().to_owned()
    });
    ids.filter(|id| !seen.insert(id.clone()))
        .map(|id| format!("{} processed {id} twice", AGENTS[node]))
        .collect()
}

/// What became of a grave escalation of the child.
#[derive(Default)]
struct Fate {
    acknowledged: bool,
    /// Whether somebody else was told that it did not arrive (VX-RTY-6).
    reported: bool,
    /// Whether the parent let the child go on after it, which closes it (VX-RUN-6).
    closed: bool,
    /// When it was sent last.
    at: String,
    /// Whom it was sent to, in order.
    asked: Vec<String>,
}

/// Grave escalations of the child that nobody acknowledged, whose failure was not reported, and that did not go all the
/// way up either: to the parent, to the elder, to the parent once more, and then to the operator (VX-ACK-7).
fn unanswered(child: &Office) -> Vec<String> {
    let mut acknowledged = BTreeSet::new();
    let mut reports = String::new();
    let mut firsts = BTreeMap::new();
    let mut fates: BTreeMap<String, Fate> = BTreeMap::new();
    for line in &lines(child) {
        let value = envelope(line);
        if value["type"] == "constraint_propagate" {
            let earlier = |fate: &&mut Fate| fate.at <= text(&value["timestamp"]);
            fates
                .values_mut()
                .filter(earlier)
                .for_each(|fate| fate.closed = true);
        }
        if value["type"] != "escalation" {
            continue;
        }
        let (id, reason) = (
            text(&value["message_id"]),
            text(&value["payload"]["reason"]),
        );
        if let Some(of) = reason.strip_prefix("ACK:") {
            acknowledged.extend(of.get(..36).map(str::to_owned));
        } else if value["sender"] == AGENTS[CHILD] && value["payload"]["requires_ack"] == true {
            // What was sent again because nobody answered stands for the first.
            let first = reason
                .strip_prefix("UNACKED:")
                .and_then(|rest| rest.get(..36));
            let first = first.map_or_else(|| id.clone(), str::to_owned);
            let fate = fates.entry(first.clone()).or_default();
            fate.asked.push(text(&value["recipient"]));
            fate.at = text(&value["timestamp"]);
            firsts.insert(id, first);
        } else if value["sender"] == AGENTS[CHILD] {
            reports.push_str(&reason);
        }
    }
    for (id, first) in firsts {
        let fate = fates.get_mut(&first).expect("every first has a fate");
        fate.acknowledged |= acknowledged.contains(&id);
        fate.reported |= reports.contains(&id);
    }
    let all_the_way = [AGENTS[PARENT], AGENTS[ELDER], AGENTS[PARENT]];
    let is_settled = |fate: &Fate| {
        fate.acknowledged || fate.reported || fate.closed || fate.asked == all_the_way
    };
    let lost = fates.iter().filter(|(_, fate)| !is_settled(fate));
    lost.map(|(id, fate)| {
        format!(
            "{id} was neither acknowledged nor reported, but sent to {:?}",
            fate.asked
        )
    })
    .collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

//! Both ends of an interaction, over a network that loses, repeats and reorders.

use chancery_agh::answer::Answer;
use chancery_agh::body::State;
use chancery_agh::conformance::host::Host;
use chancery_agh::settings::Settings;
use serde_json::{Value, json};

use crate::support::{CHANNEL, NOW, OPS, WORKER, envelope, greet};

/// Schedules that are played, unless the environment asks for more.
const SCHEDULES: u64 = 10_000;
/// Messages of one schedule.
const MESSAGES: u64 = 40;

/// A small generator: a failure names the seed.
struct Chance(u64);

impl Chance {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

/// One end: a node, its peer, and what it saw.
struct End {
    host: Host,
    peer: &'static str,
    other: &'static str,
    /// The message that ended the interaction here, and how.
    ended: Option<(String, State)>,
}

impl End {
    fn new(peer: &'static str, other: &'static str) -> Self {
        let mut host = Host::new(Settings::default()).keeping_units();
        host.host_named(None, CHANNEL, peer).unwrap();
        host.receive(greet("hello", other).to_string(), NOW);
        Self {
            host,
            peer,
            other,
            ended: None,
        }
    }

    fn state(&self) -> Option<State> {
        let record = self.host.interaction(None, CHANNEL, "int_1")?;
        Some(record.interaction.state)
    }

    /// Notes how a message left the interaction; an end never changes. A message is named by its sender and
    /// identifier: the two nodes make theirs alike.
    fn note(&mut self, from: &str, id: &str) {
        let state = self.state();
        match &self.ended {
            Some((_, end)) => assert_eq!(state, Some(*end), "an end changed"),
            None => {
                if let Some(state) = state.filter(|state| state.is_terminal()) {
                    self.ended = Some((format!("{from} {id}"), state));
                }
            }
        }
    }

    /// Says something, if the rules let it; gives the envelope.
    fn say(&mut self, kind: &str, body: &Value) -> Option<Value> {
        let request = json!({
            "from": self.peer, "channel": CHANNEL, "kind": kind, "to": self.other,
            "interaction_id": "int_1", "body": body,
        });
        let answer = self.host.send(request.to_string().as_bytes(), NOW).ok()?;
        let Answer::Decided(outcome) = answer else {
            panic!("a send is decided");
        };
        self.note(self.peer, &outcome.id);
        let unit = self.host.units().last().unwrap();
        serde_json::from_slice(unit.drafts[0].envelope.bytes()).ok()
    }

    fn hear(&mut self, envelope: &Value) {
        self.host.receive(envelope.to_string(), NOW);
        let member = |name: &str| envelope[name].as_str().unwrap();
        self.note(member("from"), member("id"));
    }
}

fn something(chance: &mut Chance) -> (&'static str, Value) {
    let trace = |state: &str| ("trace", json!({"state": state}));
    let receipt = |status: &str| ("receipt", json!({"for_id": "m", "status": status}));
    match chance.next(10) {
        0..=2 => ("direct", json!({"text": "x"})),
        3 => receipt("accepted"),
        4 => receipt("canceled"),
        5 => (
            "receipt",
            json!({"for_id": "m", "status": "rejected", "reason_code": "busy"}),
        ),
        6 => trace("working"),
        7 => trace("needs_input"),
        8 => trace("completed"),
        _ => trace("failed"),
    }
}

/// Plays one schedule; says whether both ends saw the same end first.
fn play(seed: u64) -> bool {
    let mut chance = Chance(seed);
    let mut ends = [End::new(OPS, WORKER), End::new(WORKER, OPS)];
    let mut under_way: Vec<(usize, Value)> = Vec::new();
    for number in 0..1 + chance.next(MESSAGES) {
        let speaker = chance.next(2) as usize;
        let (kind, body) = if number == 0 {
            ("direct", json!({"text": "open"}))
        } else {
            something(&mut chance)
        };
        if let Some(said) = ends[speaker].say(kind, &body) {
            // Lost, sent once, or sent twice.
            for _ in 0..[1, 1, 1, 2, 0][chance.next(5) as usize] {
                under_way.push((1 - speaker, said.clone()));
            }
        }
        // A stranger takes part in nothing.
        if chance.next(8) == 0 {
            let id = format!("stranger-{number}");
            let to = ends[speaker].peer;
            let members = json!({"kind": "trace", "from": "stranger.x", "to": to, "interaction_id": "int_1", "body": {"state": "completed"}});
            let before = ends[speaker].state();
            ends[speaker].hear(&envelope(&id, members));
            assert_eq!(ends[speaker].state(), before);
        }
        // What arrives next is any of what is under way.
        while !under_way.is_empty() && chance.next(3) > 0 {
            let (to, said) = under_way.swap_remove(chance.next(under_way.len() as u64) as usize);
            ends[to].hear(&said);
        }
    }
    match [&ends[0].ended, &ends[1].ended] {
        [Some((first, one)), Some((second, other))] if first == second => {
            assert_eq!(one, other, "the ends disagree");
            true
        }
        _ => false,
    }
}

// AG-LIF-4, AG-LIF-6, AG-LIF-7, AG-DLV-1
#[test]
fn ends_that_saw_the_same_end_first_agree_on_it() {
    let schedules = std::env::var("CHANCERY_AGH_SCHEDULES")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(SCHEDULES);
    let mut agreed = 0;
    for seed in 0..schedules {
        let played = std::panic::catch_unwind(|| play(seed));
        agreed += u64::from(played.unwrap_or_else(|_| panic!("schedule {seed} failed")));
    }
    // Enough of them end on both sides for the claim to mean something.
    assert!(agreed > schedules / 10, "only {agreed} of {schedules}");
}

//! Random stories of the test protocol, and one that uses everything once.

use bytes::Bytes;
use chancery_core::admin::RunState;
use chancery_core::digest::Sha256Digest;
use chancery_core::keys::KeyState;
use chancery_core::protocol::{Failure, Input};
use chancery_core::rows::{MapRows, RowChange};
use chancery_core::time::Time;
use chancery_journal::{ReplayReport, Replayer, Verifier, VerifyReport, line, prepare};
use chancery_testkit::{TestHost, TestInput, TestSettings, TestSuite, inputs};
use proptest::prelude::*;

/// Who takes part. The first two sign, the last two are hosted and signed for.
pub const NAMES: [&str; 4] = ["ann", "bob", "cat", "dan"];
const VERBS: [&str; 13] = [
    "note", "urgent", "batch", "follow", "later", "cancel", "chain", "lookup", "name", "send",
    "whisper", "guarded", "refuse",
];

/// Something that happens.
#[derive(Clone, Debug)]
pub enum Step {
    /// An envelope from outside.
    Receive {
        id: u8,
        from: usize,
        to: usize,
        verb: usize,
        value: u8,
    },
    /// An envelope of a hosted agent.
    Send {
        from: usize,
        to: usize,
        verb: usize,
        value: u8,
    },
    /// An agent is suspended or resumed.
    Run { agent: usize, suspended: bool },
    /// A key changes its state.
    Key { owner: usize, state: usize },
    /// Settings change.
    Config { window_ms: u64 },
    /// Time passes, and timers fire.
    Pass { ms: u64 },
    /// A delivery is given up.
    Fail { seq: u64 },
}

pub fn steps() -> impl Strategy<Value = Vec<Step>> {
    let who = 0..NAMES.len();
    let verb = 0..VERBS.len();
    let step = prop_oneof![
        8 => (any::<u8>(), who.clone(), who.clone(), verb.clone(), 0..9u8)
            .prop_map(|(id, from, to, verb, value)| Step::Receive { id: id % 32, from, to, verb, value }),
        4 => (who.clone(), who.clone(), verb, 0..9u8)
            .prop_map(|(from, to, verb, value)| Step::Send { from, to, verb, value }),
        1 => (who.clone(), any::<bool>()).prop_map(|(agent, suspended)| Step::Run { agent, suspended }),
        1 => (who, 0..KeyState::ALL.len()).prop_map(|(owner, state)| Step::Key { owner, state }),
        1 => (0..200_000u64).prop_map(|window_ms| Step::Config { window_ms }),
        3 => (0..100_000u64).prop_map(|ms| Step::Pass { ms }),
        1 => (1..60u64).prop_map(|seq| Step::Fail { seq }),
    ];
    proptest::collection::vec(step, 1..60)
}

/// A host with keys and agents on record, and the time.
pub struct Story {
    pub host: TestHost,
    pub now: Time,
}

impl Story {
    pub fn begin() -> Self {
        let now = chancery_core::time::parse_audit("2026-02-15T10:30:00.5Z").unwrap();
        let mut story = Self {
            host: TestHost::default(),
            now,
        };
        story.act(&inputs::config_act(&TestSettings::default()));
        for name in NAMES {
            let key = inputs::key_of(name);
            story.act(&inputs::key_act(name, "k1", &key, KeyState::Active));
            story.host.hold_key(name, key);
        }
        for name in &NAMES[2..] {
            story.act(&inputs::host_act(name, Some("k1")));
        }
        story
    }

    pub fn act(&mut self, input: &TestInput) {
        self.host.decide(input, self.now);
    }

    /// An envelope from outside, signed by its sender.
    pub fn receive(&mut self, id: &str, from: &str, to: &str, verb: &str, value: Option<&str>) {
        let unsigned = inputs::unsigned(id, from, to, verb, value);
        self.host
            .receive(inputs::signed(&inputs::key_of(from), &unsigned), self.now);
    }

    pub fn step(&mut self, step: &Step) {
        match step {
            Step::Receive {
                id,
                from,
                to,
                verb,
                value,
            } => {
                let (id, value) = (id.to_string(), value.to_string());
                self.receive(&id, NAMES[*from], NAMES[*to], VERBS[*verb], Some(&value));
            }
            Step::Send {
                from,
                to,
                verb,
                value,
            } => {
                self.act(&inputs::outgoing(
                    NAMES[*from],
                    NAMES[*to],
                    VERBS[*verb],
                    Some(&value.to_string()),
                ));
            }
            Step::Run { agent, suspended } => {
                let state = if *suspended {
                    RunState::Suspended
                } else {
                    RunState::Running
                };
                self.act(&inputs::run_state_act(NAMES[*agent], Some("k1"), state));
            }
            Step::Key { owner, state } => {
                let name = NAMES[*owner];
                self.act(&inputs::key_act(
                    name,
                    "k1",
                    &inputs::key_of(name),
                    KeyState::ALL[*state],
                ));
            }
            Step::Config { window_ms } => {
                let settings = TestSettings {
                    window_ms: *window_ms,
                    ..TestSettings::default()
                };
                self.act(&inputs::config_act(&settings));
            }
            Step::Pass { ms } => {
                self.now = self
                    .now
                    .saturating_add(std::time::Duration::from_millis(*ms));
                self.host.fire_due(self.now);
            }
            Step::Fail { seq } => self.fail(*seq),
        }
    }

    pub fn fail(&mut self, of: u64) {
        let about = "far".to_owned();
        self.act(&TestInput::Test(Input::Failed {
            of,
            about,
            why: Failure::Undeliverable,
        }));
    }

    /// One of everything.
    pub fn everything() -> Self {
        let mut story = Self::begin();
        story.receive("1", "ann", "bob", "note", Some("hello"));
        story.receive("2", "ann", "bob", "batch", None);
        story.receive("3", "bob", "ann", "follow", None);
        story.receive("4", "bob", "ann", "later", Some("1000"));
        story.receive("5", "ann", "bob", "chain", Some("1"));
        story.receive("6", "ann", "bob", "lookup", Some("thing"));
        story.receive("7", "ann", "bob", "send", None);
        let sent = story.host.head().seq;
        story.fail(sent);
        story.step(&Step::Pass { ms: 2_000 });
        story.act(&inputs::outgoing("cat", "ann", "note", Some("from cat")));
        story.act(&inputs::outgoing("dan", "cat", "batch", None));
        story.step(&Step::Run {
            agent: 0,
            suspended: true,
        });
        story
    }
}

pub fn replay(suite: TestSuite, lines: &[Bytes]) -> (ReplayReport, MapRows) {
    let mut replayer = Replayer::new(suite, MapRows::default()).unwrap();
    for line in lines {
        let prepared = prepare(replayer.suite(), line.clone(), replayer.keyring());
        replayer.take(prepared);
    }
    replayer.finish()
}

pub fn verify(lines: &[Bytes], expected: Option<chancery_journal::Head>) -> VerifyReport {
    let mut verifier = Verifier::new(TestSuite::default());
    for line in lines {
        let prepared = prepare(verifier.suite(), line.clone(), verifier.keyring());
        verifier.take(prepared);
    }
    verifier.finish(expected)
}

/// The rows without inboxes, outbox and timers, which replay does not keep.
pub fn without_agenda(rows: &MapRows) -> MapRows {
    let mut kept = MapRows::default();
    let agenda = ["inbox", "inbox-page", "outbox", "timer"];
    let decided = rows
        .iter()
        .filter(|(key, _)| !agenda.iter().any(|space| key.is_in(space)));
    kept.apply(decided.map(|(key, bytes)| -> RowChange { (key.clone(), Some(bytes.clone())) }));
    kept
}

/// Puts other bytes for a line, and chains what follows to it.
pub fn forge(lines: &mut [Bytes], index: usize, forged: Bytes) {
    lines[index] = forged;
    for index in index + 1..lines.len() {
        let before = line::parse(&lines[index]).unwrap().prev.hex();
        let now = Sha256Digest::of(&lines[index - 1]).hex();
        let text = String::from_utf8(lines[index].to_vec()).unwrap();
        lines[index] = Bytes::from(text.replace(&before, &now));
    }
}

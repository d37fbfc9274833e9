//! A host in memory: decides inputs in order and keeps the lines and rows they leave.

use std::collections::BTreeMap;

use bytes::Bytes;
use chancery_core::decision::{Aside, Before, Guards, Nonce, Open, Unit};
use chancery_core::delivery::Delivery;
use chancery_core::keys::ed25519::SigningKey;
use chancery_core::line::{DraftEnvelope, Seq};
use chancery_core::protocol::{Caller, Door, Input, Protocol, Suite};
use chancery_core::refusal::Refusal;
use chancery_core::rows::{MapRows, RowKey, Rows};
use chancery_core::time::Time;
use chancery_core::timer::{TIMERS, parse_timer_key};
use chancery_journal::{Backing, Chain, Head, InForce, InMemory, Lines, Outcome, decide_input};

use crate::rules::TestAnswer;
use crate::settings::TestSettings;
use crate::suite::{TestInput, TestSuite};

/// What became of an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decided {
    /// On record.
    Recorded(TestAnswer),
    /// Nothing to record; these lines are to be delivered once more.
    Passed(TestAnswer, Vec<(Seq, Delivery)>),
    /// Refused.
    Refused(Refusal),
}

/// The host. Identifiers follow from a counter, time is an argument: the same calls give the same log.
pub struct TestHost {
    suite: TestSuite,
    state: InMemory,
    in_force: InForce<TestSuite>,
    chain: Chain,
    lines: Vec<Bytes>,
    signers: BTreeMap<String, SigningKey>,
    nonces: u64,
    /// Deliveries that were to start, with the line each belongs to.
    pub deliveries: Vec<(RowKey, Delivery)>,
    /// What decisions said besides.
    pub aside: Aside,
}

impl Default for TestHost {
    fn default() -> Self {
        Self::new(TestSuite::default())
    }
}

impl TestHost {
    /// A host with nothing on record.
    pub fn new(suite: TestSuite) -> Self {
        let state = InMemory::default();
        let in_force = InForce::of_rows(&suite, &state).expect("no rows are no damaged rows");
        Self {
            suite,
            state,
            in_force,
            chain: Chain::default(),
            lines: Vec::new(),
            signers: BTreeMap::new(),
            nonces: 0,
            deliveries: Vec::new(),
            aside: Aside::default(),
        }
    }

    /// Gives the host the private key of a hosted agent.
    pub fn hold_key(&mut self, agent: &str, key: SigningKey) {
        self.signers.insert(agent.to_owned(), key);
    }

    /// The lines so far, without newlines.
    pub fn lines(&self) -> &[Bytes] {
        &self.lines
    }

    /// The rows so far.
    pub fn rows(&self) -> &MapRows {
        &self.state.rows
    }

    /// The rows and windows so far.
    pub fn state(&self) -> &InMemory {
        &self.state
    }

    /// The last line.
    pub fn head(&self) -> Head {
        self.chain.head()
    }

    /// Receives an envelope: decodes, authenticates and decides it.
    pub fn receive(&mut self, envelope: Bytes, now: Time) -> Decided {
        let settings = self.in_force.settings();
        let protocol = self.suite.protocol();
        let authentic = protocol
            .decode(envelope, Door::InProcess, settings)
            .and_then(|message| {
                let keys = self.in_force.keyring();
                protocol.authenticate(
                    message,
                    Door::InProcess,
                    &Caller::default(),
                    keys,
                    settings,
                    now,
                )
            });
        match authentic {
            Ok(authentic) => self.decide(&TestInput::Test(Input::Envelope(authentic)), now),
            Err(refusal) => Decided::Refused(refusal),
        }
    }

    /// Decides an input with all guards open.
    pub fn decide(&mut self, input: &TestInput, now: Time) -> Decided {
        self.decide_guarded(input, now, &mut Open)
    }

    /// Decides an input under some guards.
    pub fn decide_guarded(
        &mut self,
        input: &TestInput,
        now: Time,
        guards: &mut dyn Guards,
    ) -> Decided {
        let head = self.chain.head();
        let before = Before {
            now: head.decision_time(now),
            seq: head.seq + 1,
            rows: &self.state,
            windows: &self.state,
            guards,
            nonce: self.next_nonce(),
            keeps_agenda: true,
        };
        let settings = self.in_force.settings();
        match decide_input(
            &self.suite,
            input,
            settings,
            head.time_by_position(),
            before,
        ) {
            Outcome::Recorded {
                unit,
                answer,
                aside,
            } => {
                self.say(aside);
                self.commit(unit);
                Decided::Recorded(answer)
            }
            Outcome::Passed {
                answer,
                repeat,
                aside,
            } => {
                self.say(aside);
                Decided::Passed(answer, repeat)
            }
            Outcome::Refused { refusal, aside } => {
                self.say(aside);
                Decided::Refused(refusal)
            }
            Outcome::Missing(keys) => unreachable!("rows in memory are never missing: {keys:?}"),
            Outcome::Damaged(damage) => unreachable!("rows in memory are never damaged: {damage}"),
        }
    }

    /// The nonce of the decision that would be made next: refused ones count too.
    fn next_nonce(&self) -> Nonce {
        let mut nonce = Nonce::default();
        nonce[..8].copy_from_slice(&self.nonces.to_be_bytes());
        nonce
    }

    /// Fires every timer that is due at `now`; says how many were.
    pub fn fire_due(&mut self, now: Time) -> usize {
        let rows = self
            .state
            .scan(&RowKey::text(TIMERS, &[]))
            .expect("rows in memory are never damaged");
        let mut fired = 0;
        for (key, row) in rows {
            let (due, name) = parse_timer_key(&key).expect("a timer's row has a timer's key");
            if due <= now {
                let input = self
                    .suite
                    .timer(&name, &row)
                    .expect("a timer's row holds a timer");
                self.decide(&input, now);
                fired += 1;
            }
        }
        fired
    }

    fn say(&mut self, aside: Aside) {
        self.nonces += 1;
        self.aside.whispers.extend(aside.whispers);
        self.aside.events.extend(aside.events);
    }

    fn commit(&mut self, unit: Unit) {
        let sealed: Vec<Bytes> = unit
            .drafts
            .iter()
            .map(|draft| self.seal(&draft.envelope))
            .collect();
        let mut lines = Lines::default();
        self.chain
            .append_unit(unit.drafts.iter().zip(sealed), &mut lines);
        self.lines.extend(lines.into_bytes());
        let followed = self.in_force.relevant(&unit.rows);
        self.state.take(unit.rows, unit.remembered);
        self.in_force
            .follow(&self.suite, &self.state, &followed)
            .expect("rows in memory are never damaged");
        self.deliveries.extend(unit.deliveries);
    }

    fn seal(&self, envelope: &DraftEnvelope) -> Bytes {
        match envelope {
            DraftEnvelope::Whole(bytes) => bytes.clone(),
            DraftEnvelope::Unsealed { bytes, signer } => {
                let key = self
                    .signers
                    .get(signer)
                    .expect("the host holds the keys of those it signs for");
                let mut sign = |signed: &[u8]| Some(key.sign(signed));
                self.suite
                    .seal(chancery_core::line::ProtocolName::Test, bytes, &mut sign)
                    .expect("it was sealed")
            }
        }
    }

    /// The settings in force.
    pub fn settings(&self) -> &TestSettings {
        self.in_force.settings()
    }
}

//! A host in memory: vacants with their keys, a log, and its replay.

use std::collections::BTreeMap;

use bytes::Bytes;
use chancery_core::admin::{self, Act, RunState};
use chancery_core::decision::{Before, Cx, Open, Stop, Verdict};
use chancery_core::keys::Keyring;
use chancery_core::keys::ed25519::SigningKey;
use chancery_core::line::{Damage, DraftEnvelope, Line, ProtocolName, Seq};
use chancery_core::protocol::{Caller, Door, Failure, Input, Protocol, SignatureCheck, Suite};
use chancery_core::refusal::Refusal;
use chancery_core::rows::{Lookup, MapRows, RowKey, Rows, RowsDamaged};
use chancery_core::time::Time;
use chancery_core::timer::TimerName;
use chancery_core::window::WindowName;
use chancery_journal::{
    Backing as _, Chain, InMemory, LineCheck, Lines, Outcome, ReplayReport, Replayer, Verifier,
    VerifyReport, decide_input, prepare,
};
use chancery_vacant::Vacant;
use chancery_vacant::act::Act as VacantAct;
use chancery_vacant::agent::AgentRecord;
use chancery_vacant::answer::{Accepted, Answer};
use chancery_vacant::envelope::{Draft, Envelope};
use chancery_vacant::id::VacantId;
use chancery_vacant::message::Message;
use chancery_vacant::outgoing::{Call, Outgoing};
use chancery_vacant::payload::{Payload, Profile, Role};
use chancery_vacant::rules::ChainCheck;
use chancery_vacant::rules::chain::{Pair, ReplayState, pair_key};
use chancery_vacant::settings::Settings;
use chancery_vacant::state::State;

/// The vacant rules with the administration beside them.
#[derive(Clone, Copy, Default)]
pub struct VacantSuite(Vacant);

#[expect(clippy::large_enum_variant, reason = "lives on the stack of a test")]
pub enum AnyInput {
    Act(Act),
    Vacant(Input<Vacant>),
}

impl Suite for VacantSuite {
    type Input = AnyInput;
    type Answer = Answer;
    type Settings = Settings;

    fn windows(&self) -> &'static [WindowName] {
        &[chancery_vacant::rules::SENT]
    }

    fn settings(&self, rows: &dyn Rows) -> Result<Settings, RowsDamaged> {
        admin::settings(rows, ProtocolName::Vacant)
    }

    fn urgent(&self, _: &AnyInput) -> bool {
        false
    }

    fn wants(&self, _: &AnyInput, _: &mut Vec<RowKey>) {}

    fn decide(
        &self,
        input: &AnyInput,
        settings: &Settings,
        cx: &mut Cx<'_>,
    ) -> Result<Verdict<Answer>, Stop> {
        match input {
            AnyInput::Vacant(input) => self.0.decide(input, settings, cx),
            AnyInput::Act(act) => {
                let hook: admin::AgentHook<'_> =
                    &|_, id, before, after, cx| self.0.agent_changed(id, before, after, cx);
                let seq = admin::decide(act, hook, cx)?;
                Ok(Verdict::Record {
                    answer: Answer::Acted(seq),
                })
            }
        }
    }

    fn has_rules(&self, _: &Line, _: &Settings) -> bool {
        true
    }

    fn reread(&self, line: &Line, settings: &Settings) -> Result<AnyInput, Damage> {
        if line.protocol == ProtocolName::Vacant {
            return self.0.reread(line, settings).map(AnyInput::Vacant);
        }
        if let Some(act) = VacantAct::of_line(&line.envelope) {
            return Ok(AnyInput::Vacant(Input::Act(act)));
        }
        Ok(match admin::reread(line)? {
            Act::Failed {
                of, about, code, ..
            } => AnyInput::Vacant(Input::Failed {
                of,
                about,
                why: code,
            }),
            act => AnyInput::Act(act),
        })
    }

    fn check_signature(&self, line: &Line, keys: &Keyring) -> SignatureCheck {
        match line.protocol {
            ProtocolName::Vacant => self.0.check_signature(line, keys),
            _ => SignatureCheck::NotSigned,
        }
    }

    fn recorded_signature(&self, line: &Line) -> Option<[u8; 64]> {
        self.0.recorded_signature(line)
    }

    fn seal(
        &self,
        _: ProtocolName,
        unsealed: &Bytes,
        sign: &mut dyn FnMut(&[u8]) -> Option<[u8; 64]>,
    ) -> Option<Bytes> {
        self.0.seal(unsealed, sign)
    }

    fn timer(&self, name: &TimerName, _: &[u8]) -> Result<AnyInput, RowsDamaged> {
        Err(RowsDamaged(name.name.clone()))
    }

    fn failed(&self, _: ProtocolName, of: Seq, about: String, why: Failure) -> AnyInput {
        AnyInput::Vacant(Input::Failed { of, about, why })
    }
}

/// A key of a test, by its name.
pub fn key(name: &str) -> SigningKey {
    let mut seed = [0; 32];
    seed[..name.len()].copy_from_slice(name.as_bytes());
    SigningKey::from_seed(&seed)
}

/// The id of a name.
pub fn id(name: &str) -> VacantId {
    VacantId::of(&key(name))
}

pub type Decided = Result<Answer, Refusal>;

/// The host.
#[derive(Default)]
pub struct Host {
    suite: VacantSuite,
    state: InMemory,
    chain: Chain,
    pub lines: Vec<Bytes>,
    signers: BTreeMap<String, SigningKey>,
    decisions: i64,
}

impl Host {
    /// A host with these vacants, ACTIVE.
    pub fn of(names: &[&str]) -> Self {
        let mut host = Self::default();
        for name in names {
            host.host(name, State::Active, None);
        }
        host
    }

    pub fn host(&mut self, name: &str, state: State, run_state: Option<RunState>) {
        let key = key(name);
        let record = AgentRecord {
            id: id(name),
            state,
            card: None,
            inbox: false,
            agent: None,
        };
        self.signers.insert(id(name).hex(), key);
        let act = Act::Agent {
            protocol: ProtocolName::Vacant,
            id: name.to_owned(),
            record: Some(serde_json::to_value(record).unwrap()),
            run_state,
        };
        self.decide(&AnyInput::Act(act)).unwrap();
    }

    pub fn decide(&mut self, input: &AnyInput) -> Decided {
        self.decisions += 1;
        let mut nonce = [0; 16];
        nonce[..8].copy_from_slice(&self.decisions.to_be_bytes());
        let head = self.chain.head();
        let before = Before {
            now: Time::from_unix_seconds(1_800_000_000 + self.decisions).unwrap(),
            seq: head.seq + 1,
            rows: &self.state,
            windows: &self.state,
            guards: &mut Open,
            nonce,
            keeps_agenda: true,
        };
        let settings = Settings::default();
        let by_position = head.time_by_position();
        match decide_input(&self.suite, input, &settings, by_position, before) {
            Outcome::Recorded { unit, answer, .. } => {
                let drafts = unit.drafts.iter();
                let sealed: Vec<Bytes> = drafts.map(|draft| self.seal(&draft.envelope)).collect();
                let mut lines = Lines::default();
                self.chain
                    .append_unit(unit.drafts.iter().zip(sealed), &mut lines);
                self.lines.extend(lines.into_bytes());
                self.state.take(unit.rows, unit.remembered);
                Ok(answer)
            }
            Outcome::Passed { answer, .. } => Ok(answer),
            Outcome::Refused { refusal, .. } => Err(refusal),
            Outcome::Missing(_) | Outcome::Damaged(_) => panic!("rows in memory are whole"),
        }
    }

    fn seal(&self, envelope: &DraftEnvelope) -> Bytes {
        match envelope {
            DraftEnvelope::Whole(bytes) => bytes.clone(),
            DraftEnvelope::Unsealed { bytes, signer } => {
                let mut sign = |message: &[u8]| Some(self.signers[signer].sign(message));
                Vacant.seal(bytes, &mut sign).unwrap()
            }
        }
    }

    /// An envelope from outside, verified.
    pub fn receive(&mut self, envelope: &Envelope) -> Decided {
        let authentic = authentic(envelope)?;
        self.decide(&AnyInput::Vacant(Input::Envelope(authentic)))
    }

    /// The answer to a call of ours, from elsewhere.
    pub fn reply(&mut self, to: Seq, envelope: &Envelope) -> Decided {
        let message = authentic(envelope)?;
        self.decide(&AnyInput::Vacant(Input::Reply { to, message }))
    }

    pub fn answer(&mut self, name: &str, call: Seq, text: &str) -> Decided {
        self.decide(&AnyInput::Vacant(Input::Outgoing {
            agent: id(name).hex(),
            answers: Some(call),
            idempotency: None,
            content: Outgoing::Answer(Payload::text(Role::Agent, text)),
        }))
    }

    pub fn call(&mut self, from: &str, to: &str, idempotency: Option<&str>) -> Decided {
        self.decide(&AnyInput::Vacant(Input::Outgoing {
            agent: id(from).hex(),
            answers: None,
            idempotency: idempotency.map(str::to_owned),
            content: Outgoing::Call(Call {
                to: id(to),
                payload: Payload::text(Role::User, "hello"),
                endpoint: Some("https://x.example/a2a/message/send".to_owned()),
                profile: None,
            }),
        }))
    }

    pub fn fail(&mut self, of: Seq, why: Failure) -> Decided {
        let about = String::new();
        self.decide(&AnyInput::Vacant(Input::Failed { of, about, why }))
    }

    /// Where a chain stands.
    pub fn pair(&self, from: &str, to: &str) -> ReplayState {
        match self.state.rows.get(&pair_key(&id(from), &id(to))) {
            Lookup::Found(row) => serde_json::from_slice::<Pair>(&row).unwrap().state,
            _ => ReplayState::default(),
        }
    }

    pub fn row<T: serde::de::DeserializeOwned>(&self, key: &RowKey) -> Option<T> {
        match self.state.rows.get(key) {
            Lookup::Found(row) => serde_json::from_slice(&row).ok(),
            _ => None,
        }
    }

    pub fn rows(&self) -> &MapRows {
        &self.state.rows
    }

    /// The envelope on a line.
    pub fn envelope(&self, line: Seq) -> Envelope {
        let text = &self.lines[usize::try_from(line).unwrap() - 1];
        let line = chancery_journal::line::parse(text).unwrap();
        Message::of_record(line.received()).unwrap().envelope
    }

    /// The next envelope of somebody elsewhere, signed.
    pub fn next(&self, from: &str, to: &str, text: &str, profile: Profile) -> Envelope {
        let state = self.pair(from, to);
        envelope(from, to, state.last_sequence_no + 1, state, text, profile)
    }

    pub fn replayed(&self) -> ReplayReport {
        replay(&self.lines)
    }
}

/// An envelope with a number of its own, after a state.
pub fn envelope(
    from: &str,
    to: &str,
    sequence_no: u64,
    after: ReplayState,
    text: &str,
    profile: Profile,
) -> Envelope {
    let draft = Draft {
        from: id(from),
        to: id(to),
        payload: Payload::text(Role::User, text),
        sequence_no,
        prev: after.chain_tip,
        timestamp: Time::from_unix_seconds(1_700_000_000).unwrap(),
        idempotency_key: "k".to_owned(),
        profile,
    };
    draft.sign(&key(from)).unwrap()
}

fn authentic(envelope: &Envelope) -> Result<chancery_core::protocol::Authentic<Message>, Refusal> {
    let message = chancery_vacant::wire::to_message(envelope).into();
    let text = Bytes::from(chancery_core::canonical::to_bytes(
        &message,
        chancery_core::canonical::Dialect::Python,
    ));
    let message = Message::of_record(&text).unwrap();
    Vacant.authenticate(
        message,
        Door::Http,
        &Caller::default(),
        &Keyring::new(),
        &Settings::default(),
        Time::UNIX_EPOCH,
    )
}

/// The call that was accepted.
pub fn accepted(decided: Decided) -> Accepted {
    match decided.unwrap() {
        Answer::Accepted(accepted) => accepted,
        Answer::Called {
            here: Some(accepted),
            ..
        } => accepted,
        other => panic!("{other:?}"),
    }
}

pub fn replay(lines: &[Bytes]) -> ReplayReport {
    let mut replayer = Replayer::new(VacantSuite::default(), MapRows::default()).unwrap();
    for line in lines {
        let keys = replayer.keyring().clone();
        replayer.take(prepare(&VacantSuite::default(), line.clone(), &keys));
    }
    replayer.finish().0
}

struct Chains(ChainCheck);

impl LineCheck for Chains {
    fn line(&mut self, line: &Line) -> Option<String> {
        self.0.line(line)
    }
}

pub fn verify(lines: &[Bytes]) -> VerifyReport {
    let check = Box::new(Chains(ChainCheck::default()));
    let mut verifier = Verifier::new(VacantSuite::default()).with_check(check);
    for line in lines {
        let keys = verifier.keyring().clone();
        verifier.take(prepare(&VacantSuite::default(), line.clone(), &keys));
    }
    verifier.finish(None)
}

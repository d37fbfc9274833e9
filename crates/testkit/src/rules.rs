//! The rules of the test protocol.

mod effects;

use std::time::Duration;

use bytes::Bytes;
use chancery_core::admin::{self, RunState, agent_key, key_key, run_state, run_state_key};
use chancery_core::decision::{Cx, Stop, Verdict};
use chancery_core::delivery::Whisper;
use chancery_core::digest::Sha256Digest;
use chancery_core::keys::{KeyRecord, Keyring};
use chancery_core::line::{
    Damage, Draft, DraftEnvelope, Line, MetaValue, Origin, ProtocolName, Seq,
};
use chancery_core::protocol::{
    Authentic, Caller, Door, Failure, Input, Proof, Protocol, SignatureCheck,
};
use chancery_core::refusal::Refusal;
use chancery_core::rows::RowKey;
use chancery_core::time::Time;
use chancery_core::window::{WindowId, WindowName};
use serde::{Deserialize, Serialize};

use crate::message::{TestMessage, TestOutgoing, envelope};
use crate::seal;
use crate::settings::TestSettings;

/// The window in which an identifier of a sender is seen once.
pub const SEEN: WindowName = "test/seen";

/// A timer of the test protocol: a `later` that became due.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestTimer {
    /// The `later`'s identifier.
    pub id: String,
    /// Who asked for it.
    pub from: String,
    /// Who is told.
    pub to: String,
}

/// Administration of the test protocol.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum TestAct {
    /// Sets a row that `lookup` reads.
    World {
        /// The row.
        name: String,
        /// What it counts from.
        count: u64,
    },
}

/// What a sender is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TestAnswer {
    /// An act is on record.
    Acted {
        /// Its line.
        seq: Seq,
    },
    /// An envelope is on record.
    Accepted {
        /// Its identifier.
        id: String,
        /// Its line.
        seq: Seq,
    },
    /// It was on record before.
    Duplicate {
        /// Its line.
        seq: Seq,
    },
    /// Nothing came of it.
    Nothing,
}

/// The protocol; `altered` has one rule changed, so that replay must notice.
#[derive(Clone, Copy, Debug, Default)]
pub struct TestProtocol {
    /// Whether the derived lines of a `batch` are others than usual.
    pub altered: bool,
}

impl Protocol for TestProtocol {
    const NAME: ProtocolName = ProtocolName::Test;
    type Message = TestMessage;
    type Outgoing = TestOutgoing;
    type Timer = TestTimer;
    type Act = TestAct;
    type Settings = TestSettings;
    type Answer = TestAnswer;

    fn decode(&self, raw: Bytes, _: Door, _: &TestSettings) -> Result<TestMessage, Refusal> {
        TestMessage::decode(&raw)
    }

    fn authenticate(
        &self,
        message: TestMessage,
        door: Door,
        _: &Caller,
        keys: &Keyring,
        _: &TestSettings,
        received: Time,
    ) -> Result<Authentic<TestMessage>, Refusal> {
        seal::authenticate(message, door, keys, received)
    }

    fn urgent(&self, input: &Input<Self>) -> bool {
        matches!(input, Input::Envelope(authentic) if authentic.message.verb == "urgent")
    }

    fn wants(&self, input: &Input<Self>, wants: &mut Vec<RowKey>) {
        match input {
            Input::Envelope(authentic) => {
                let message = &authentic.message;
                wants.push(run_state_key(&message.from));
                if let Proof::Key { id, .. } = &authentic.proof {
                    wants.push(key_key(&message.from, id));
                }
                if message.verb == "chain" {
                    wants.push(chain_key(&message.from, &message.to));
                }
            }
            Input::Outgoing { agent, .. } => {
                wants.extend([agent_key(Self::NAME, agent), run_state_key(agent)]);
            }
            Input::Timer(timer) => wants.push(later_key(&timer.id)),
            Input::Reply { .. } | Input::Failed { .. } | Input::Act(_) => {}
        }
    }

    fn decide(
        &self,
        input: &Input<Self>,
        settings: &TestSettings,
        cx: &mut Cx<'_>,
    ) -> Result<Verdict<TestAnswer>, Stop> {
        let rules = Rules {
            altered: self.altered,
            settings,
        };
        match input {
            Input::Envelope(authentic)
            | Input::Reply {
                message: authentic, ..
            } => rules.envelope(authentic, cx),
            Input::Outgoing {
                agent,
                answers,
                idempotency,
                content,
            } => rules.outgoing(agent, *answers, idempotency.as_deref(), content, cx),
            Input::Timer(timer) => rules.timer(timer, cx),
            Input::Failed { of, about, why } => rules.failed(*of, about, *why, cx),
            Input::Act(act) => Ok(rules.act(act, cx)),
        }
    }

    fn agent_changed(
        &self,
        agent: &str,
        _: Option<&serde_json::Value>,
        after: Option<&serde_json::Value>,
        cx: &mut Cx<'_>,
    ) -> Result<(), Stop> {
        let key = RowKey::text("test-hosted-since", &[agent]);
        match after {
            // The time is that of the decision: it shows whether live and replay agree on it.
            Some(_) => cx.put(key, &cx.now()),
            None => cx.remove(key),
        }
        Ok(())
    }

    fn reread(&self, line: &Line, _: &TestSettings) -> Result<Input<Self>, Damage> {
        let damage = |reason: String| Damage {
            seq: line.seq,
            reason,
        };
        let message =
            TestMessage::decode(line.received()).map_err(|refusal| damage(refusal.to_string()))?;
        match line.origin {
            Origin::External => {
                let proof = match line.meta_text("key") {
                    Some(id) => Proof::Key { id, form: None },
                    None => Proof::Unverified,
                };
                Ok(Input::Envelope(Authentic {
                    message,
                    proof,
                    door: Door::InProcess,
                }))
            }
            Origin::Agent => Ok(Input::Outgoing {
                agent: message.from,
                answers: line.meta_json("answers").and_then(|text| text.parse().ok()),
                idempotency: line.meta_text("idempotency"),
                content: TestOutgoing {
                    to: message.to,
                    verb: message.verb,
                    value: message.value,
                },
            }),
            Origin::Runtime => Err(damage("a derived line begins no unit".to_owned())),
        }
    }

    fn check_signature(&self, line: &Line, keys: &Keyring) -> SignatureCheck {
        seal::check(line, keys)
    }

    fn recorded_signature(&self, line: &Line) -> Option<[u8; 64]> {
        seal::recorded(line)
    }

    fn seal(
        &self,
        unsealed: &Bytes,
        sign: &mut dyn FnMut(&[u8]) -> Option<[u8; 64]>,
    ) -> Option<Bytes> {
        seal::seal(unsealed, sign)
    }
}

/// The row of a pair's chain.
pub fn chain_key(from: &str, to: &str) -> RowKey {
    RowKey::text("test-chain", &[from, to])
}

/// The row of a `later` that is not due yet.
pub fn later_key(id: &str) -> RowKey {
    RowKey::text("test-later", &[id])
}

/// The row that a `lookup` counts in.
pub fn thing_key(name: &str) -> RowKey {
    RowKey::text("test-thing", &[name])
}

fn sent_key(seq: Seq) -> RowKey {
    RowKey::new("test-sent", &[&seq.to_be_bytes()])
}

fn window_id(from: &str, id: &str) -> WindowId {
    let digest = Sha256Digest::of([from, "\n", id].concat().as_bytes());
    let mut first = WindowId::default();
    first.copy_from_slice(&digest.as_bytes()[..16]);
    first
}

/// The rules under the settings in force.
struct Rules<'s> {
    altered: bool,
    settings: &'s TestSettings,
}

impl Rules<'_> {
    fn envelope(
        &self,
        authentic: &Authentic<TestMessage>,
        cx: &mut Cx<'_>,
    ) -> Result<Verdict<TestAnswer>, Stop> {
        let message = &authentic.message;
        if let Proof::Key { id, .. } = &authentic.proof {
            check_key(&message.from, id, cx)?;
        }
        check_running(&message.from, cx)?;
        let id = window_id(&message.from, &message.id);
        if let Some(seq) = cx.seen(SEEN, &id) {
            let mut repeat = Vec::new();
            if message.verb == "send" {
                repeat.push((seq, self.delivery(&message.from, &message.to)));
            }
            return Ok(Verdict::Pass {
                answer: TestAnswer::Duplicate { seq },
                repeat,
            });
        }
        let mut meta = Vec::new();
        if let Proof::Key { id, .. } = &authentic.proof {
            meta.push(("key", MetaValue::Text(id.clone())));
        }
        let draft = Draft {
            protocol: ProtocolName::Test,
            origin: Origin::External,
            envelope: DraftEnvelope::Whole(message.canonical.clone()),
            raw: None,
            signature: None,
            eval_ts: Some(cx.now()),
            meta,
        };
        let content = TestOutgoing {
            to: message.to.clone(),
            verb: message.verb.clone(),
            value: message.value.clone(),
        };
        let verdict = self.verb(&message.id, &message.from, &content, draft, cx)?;
        if let Verdict::Record {
            answer: TestAnswer::Accepted { seq, .. },
        } = &verdict
        {
            cx.remember(
                SEEN,
                id,
                *seq,
                Duration::from_millis(self.settings.window_ms),
            );
        }
        Ok(verdict)
    }

    fn outgoing(
        &self,
        agent: &str,
        answers: Option<Seq>,
        idempotency: Option<&str>,
        content: &TestOutgoing,
        cx: &mut Cx<'_>,
    ) -> Result<Verdict<TestAnswer>, Stop> {
        let record: Option<serde_json::Value> = cx.row(&agent_key(ProtocolName::Test, agent))?;
        let Some(record) = record else {
            return Err(
                Refusal::new("not_hosted", 404, "CH-ID-1", "no such agent is hosted here").into(),
            );
        };
        check_running(agent, cx)?;
        if let Some(seq) = self.said_before(agent, answers, idempotency, cx)? {
            return Ok(Verdict::Pass {
                answer: TestAnswer::Duplicate { seq },
                repeat: Vec::new(),
            });
        }
        let key = record.get("key").and_then(serde_json::Value::as_str);
        if let Some(key) = key {
            check_key(agent, key, cx)?;
        }
        let id = cx.uuid7().to_string();
        let bytes = envelope(&[
            ("id", Some(&id)),
            ("from", Some(agent)),
            ("to", Some(&content.to)),
            ("verb", Some(&content.verb)),
            ("ts", Some(&cx.now().to_string())),
            ("value", content.value.as_deref()),
        ]);
        let mut meta = Vec::new();
        meta.extend(answers.map(|seq| ("answers", MetaValue::Integer(seq))));
        meta.extend(idempotency.map(|key| ("idempotency", MetaValue::Text(key.to_owned()))));
        let (envelope, proof) = match key {
            Some(key) => (
                DraftEnvelope::Unsealed {
                    bytes,
                    signer: agent.to_owned(),
                },
                ("key", MetaValue::Text(key.to_owned())),
            ),
            None => (
                DraftEnvelope::Whole(bytes),
                ("via", MetaValue::Text("in_process".to_owned())),
            ),
        };
        meta.push(proof);
        let draft = Draft {
            protocol: ProtocolName::Test,
            origin: Origin::Agent,
            envelope,
            raw: None,
            signature: None,
            eval_ts: Some(cx.now()),
            meta,
        };
        let seq = cx.next_seq();
        let verdict = self.verb(&id, agent, content, draft, cx)?;
        self.note_said(agent, answers, idempotency, seq, cx);
        Ok(verdict)
    }

    /// A turn cannot speak twice, nor a repeated request act twice (CH-JRN-16).
    fn said_before(
        &self,
        agent: &str,
        answers: Option<Seq>,
        idempotency: Option<&str>,
        cx: &Cx<'_>,
    ) -> Result<Option<Seq>, Stop> {
        if let Some(key) = idempotency
            && let Some(seq) = cx.row(&RowKey::text("test-idempotent", &[agent, key]))?
        {
            return Ok(Some(seq));
        }
        let Some(answers) = answers else {
            return Ok(None);
        };
        match cx.bytes(&answered_key(agent, answers))? {
            Some(_) => Err(Refusal::new(
                "answered",
                409,
                "CH-JRN-16",
                "that line is answered already",
            )
            .into()),
            None => Ok(None),
        }
    }

    fn note_said(
        &self,
        agent: &str,
        answers: Option<Seq>,
        idempotency: Option<&str>,
        seq: Seq,
        cx: &mut Cx<'_>,
    ) {
        if let Some(key) = idempotency {
            cx.put(RowKey::text("test-idempotent", &[agent, key]), &seq);
        }
        if let Some(answers) = answers {
            cx.put(answered_key(agent, answers), &seq);
        }
    }

    fn act(&self, act: &TestAct, cx: &mut Cx<'_>) -> Verdict<TestAnswer> {
        let TestAct::World { name, count } = act;
        cx.put(thing_key(name), count);
        let seq = cx.line(node_line(act, None));
        Verdict::Record {
            answer: TestAnswer::Acted { seq },
        }
    }
}

/// A signature counts only under a key that is valid at this line.
fn check_key(owner: &str, id: &str, cx: &Cx<'_>) -> Result<(), Stop> {
    let record: Option<KeyRecord> = cx.row(&key_key(owner, id))?;
    if record.is_some_and(|record| record.usable_at(cx.now())) {
        return Ok(());
    }
    Err(Refusal::new("key_not_valid", 401, "CH-ID-1", "the key is not valid here").into())
}

fn answered_key(agent: &str, answers: Seq) -> RowKey {
    RowKey::new("test-answered", &[agent.as_bytes(), &answers.to_be_bytes()])
}

fn check_running(participant: &str, cx: &Cx<'_>) -> Result<(), Stop> {
    match run_state(cx, participant)? {
        RunState::Suspended => {
            Err(Refusal::new("suspended", 423, "CH-ID-5", "the sender is suspended").into())
        }
        RunState::Running | RunState::Paused => Ok(()),
    }
}

/// A `node` line of this protocol's own.
fn node_line<T: Serialize>(content: &T, eval_ts: Option<Time>) -> Draft {
    Draft {
        protocol: ProtocolName::Node,
        origin: Origin::External,
        envelope: DraftEnvelope::Whole(admin::canonical_json(content)),
        raw: None,
        signature: None,
        eval_ts,
        meta: Vec::new(),
    }
}

fn whisper(to: &str) -> Whisper {
    Whisper {
        protocol: ProtocolName::Test,
        to: to.to_owned(),
        bytes: Bytes::from_static(b"psst"),
        signer: None,
    }
}

/// What a delivery that was given up leaves on record: also what its line holds.
fn failed_act(of: Seq, about: &str, code: Failure) -> admin::Act {
    admin::Act::Failed {
        protocol: ProtocolName::Test,
        of,
        about: about.to_owned(),
        code,
    }
}

//! One turn: a bounded loop of single inferences that ends in at most one envelope (VC-TURN-1).
//!
//! The loop is a machine without I/O. Whoever drives it asks the behaviour, hands the text in, and takes an envelope
//! that passed the outbound checks to the gate; what the gate refuses comes back as an observation. So the loop is the
//! same for rules in this process, for a model elsewhere and in tests.

use std::sync::Arc;

use chancery_core::canonical::write_string;
use chancery_core::refusal::Refusal;
use chancery_core::time::format_audit;
use chancery_vibe::action::Action;
use chancery_vibe::code::Code;
use chancery_vibe::message::Message;

use crate::agent::{Agent, Inbound};
use crate::budget::Usage;
use crate::context::{Context, Observation};
use crate::decision::{Decision, Emit, decode};
use crate::memory::Memory;
use crate::record::{Outcome, StepRecord, TurnRecord};
use crate::skill::Skill;
use crate::snapshot::{Outbound, Snapshot};

/// An output that holds no decision, two envelopes, or more than it may.
pub const UNDECODABLE: &str = "undecodable_decision";
/// A skill that this side does not have.
pub const UNKNOWN_SKILL: &str = "unknown_skill";
/// A value that is not of the type it is said to be.
pub const MEMORY_TYPE: &str = "memory_type";
/// A value for which memory has no room.
pub const MEMORY_FULL: &str = "memory_full";

/// What comes next.
#[derive(Debug)]
pub enum Next {
    /// Ask the behaviour.
    Infer,
    /// Take this envelope to the gate, and say what came of it with [`Turn::sent`].
    Send(Box<Outbound>),
    /// The turn is over.
    Ended,
}

/// A turn under way.
pub struct Turn {
    agent: Arc<Agent>,
    inbound: Arc<Inbound>,
    turn_id: String,
    memory: Memory,
    skills: Vec<Skill>,
    observations: Vec<Observation>,
    steps: Vec<StepRecord>,
    usage: Usage,
    sending: Option<String>,
    ended: Option<(Outcome, Option<String>)>,
}

impl Turn {
    /// A turn that an envelope drives, with what the agent has kept in its session.
    pub fn new(agent: Arc<Agent>, inbound: Arc<Inbound>, memory: Memory) -> Self {
        Self {
            turn_id: agent.derived_id("turn", &inbound.msg_id),
            agent,
            inbound,
            memory,
            skills: Vec::new(),
            observations: Vec::new(),
            steps: Vec::new(),
            usage: Usage::FREE,
            sending: None,
            ended: None,
        }
    }

    /// What the behaviour is shown for the next step.
    pub fn context<'c>(&'c self, snapshot: &'c Snapshot<'c>) -> Context<'c> {
        Context {
            turn_id: &self.turn_id,
            step: self.step() + 1,
            agent: &self.agent,
            inbound: &self.inbound,
            snapshot,
            memory: &self.memory,
            skills: &self.skills,
            observations: &self.observations,
        }
    }

    /// Its identifier.
    pub fn id(&self) -> &str {
        &self.turn_id
    }

    /// Takes the text of one inference in.
    pub fn heard(&mut self, output: &str, usage: Usage, snapshot: &Snapshot<'_>) -> Next {
        self.usage = self.usage.and(usage);
        self.steps.push(StepRecord {
            decisions: Vec::new(),
            code: None,
        });
        let Some(decisions) = decode(output) else {
            return self.observe(UNDECODABLE, None);
        };
        for decision in decisions {
            if let Some(step) = self.steps.last_mut() {
                step.decisions.push(decision.kind());
            }
            match self.carry_out(decision, snapshot) {
                Ok(Next::Infer) => {}
                Ok(next) => return next,
                Err((code, at)) => return self.observe(code, at),
            }
        }
        self.go_on()
    }

    fn carry_out(
        &mut self,
        decision: Decision,
        snapshot: &Snapshot<'_>,
    ) -> Result<Next, (&'static str, Option<String>)> {
        match decision {
            Decision::LoadSkill { skill } => {
                let found = self.agent.skills.get(&skill);
                let found = found.ok_or((UNKNOWN_SKILL, None))?;
                if !self.skills.contains(found) {
                    self.skills.push(found.clone());
                }
                Ok(Next::Infer)
            }
            Decision::MemoryUpdate { key, entry } => {
                let entry = entry.map_err(|_| (MEMORY_TYPE, None))?;
                let kept = self.memory.put(key, entry);
                kept.map_err(|_| (MEMORY_FULL, None))?;
                Ok(Next::Infer)
            }
            Decision::NoReply { .. } => {
                self.ended = Some((Outcome::NoReply, None));
                Ok(Next::Ended)
            }
            Decision::Emit(emit) => {
                let outbound = self.outbound(&emit, snapshot).and_then(|outbound| {
                    snapshot.check(self.inbound.seq, &outbound, &self.memory)?;
                    Ok(outbound)
                });
                let outbound = outbound.map_err(|refusal| (refusal.code, refusal.path.clone()))?;
                self.sending = Some(outbound.message.msg_id.clone());
                Ok(Next::Send(Box::new(outbound)))
            }
        }
    }

    /// The envelope that a decision makes: the runtime supplies all that the agent does not decide (VC-TURN-4).
    fn outbound(&self, emit: &Emit, snapshot: &Snapshot<'_>) -> Result<Outbound, Refusal> {
        let opens_dispute = is_kind(&emit.action, Action::OpenDispute.kind());
        let session_id = if opens_dispute {
            // A dispute has a session of its own (VC-DSP-1).
            self.agent.derived_id("session", &self.inbound.msg_id)
        } else {
            self.inbound.session_id.clone()
        };
        let mut text = Vec::with_capacity(512 + emit.action.len());
        text.extend_from_slice(b"{\"action\":");
        text.extend_from_slice(&emit.action);
        let mut put = |name: &str, value: Option<&str>| {
            text.extend_from_slice(format!(",\"{name}\":").as_bytes());
            match value {
                Some(value) => write_string(value, &mut text),
                None => text.extend_from_slice(b"null"),
            }
        };
        put("from", Some(&self.agent.record.address));
        put("idempotency_key", emit.idempotency_key.as_deref());
        put("in_reply_to", emit.in_reply_to.as_deref());
        put(
            "msg_id",
            Some(&self.agent.derived_id("emit", &self.inbound.msg_id)),
        );
        put("protocol", Some("vcp"));
        put("session_id", Some(&session_id));
        put("signature", None);
        put("to", Some(&emit.to));
        put("ts", Some(format_audit(snapshot.now).as_str()));
        put("version", Some("1.0"));
        text.push(b'}');
        let message = Message::decode(&text, snapshot.settings)?;
        Ok(Outbound { text, message })
    }

    /// What the gate said to the envelope that this turn wanted to send.
    pub fn sent(&mut self, answer: Result<(), &Refusal>) -> Next {
        let msg_id = self.sending.take();
        match answer {
            Ok(()) => {
                self.ended = Some((Outcome::Emitted, msg_id));
                Next::Ended
            }
            // A turn that ran before a crash has said it already: this one has nothing to add.
            Err(refusal) if refusal.code == Code::AlreadyAnswered.as_str() => {
                self.ended = Some((Outcome::Emitted, msg_id));
                Next::Ended
            }
            Err(refusal) => self.observe(refusal.code, refusal.path.clone()),
        }
    }

    /// Ends a turn whose envelope an earlier run has sent.
    pub fn resume_sent(&mut self) {
        let msg_id = self.agent.derived_id("emit", &self.inbound.msg_id);
        self.ended = Some((Outcome::Emitted, Some(msg_id)));
    }

    /// Ends the turn from outside: its time is over, or its behaviour cannot be asked.
    pub fn end(&mut self, outcome: Outcome, code: &'static str, usage: Usage) {
        self.usage = self.usage.and(usage);
        let step = StepRecord {
            decisions: Vec::new(),
            code: Some(code),
        };
        self.steps.push(step);
        self.ended = Some((outcome, None));
    }

    fn observe(&mut self, code: &'static str, at: Option<String>) -> Next {
        let step = self.step();
        if let Some(record) = self.steps.last_mut() {
            record.code = Some(code);
        }
        self.observations.push(Observation { step, code, at });
        self.go_on()
    }

    fn go_on(&mut self) -> Next {
        if self.step() >= self.agent.budget.steps || self.usage.exceeds(&self.agent.budget) {
            self.ended = Some((Outcome::BudgetExhausted, None));
            return Next::Ended;
        }
        Next::Infer
    }

    fn step(&self) -> u32 {
        u32::try_from(self.steps.len()).unwrap_or(u32::MAX)
    }

    /// What the agent has kept so far.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// What is kept of the turn: its record and the agent's memory. Loaded skills are dropped (VC-TURN-9).
    pub fn finish(self) -> (TurnRecord, Memory) {
        let (outcome, outbound_msg_id) = self.ended.unwrap_or((Outcome::Failed, None));
        let record = TurnRecord {
            turn_id: self.turn_id,
            agent: self.agent.name.clone(),
            inbound_msg_id: self.inbound.msg_id.clone(),
            session_id: self.inbound.session_id.clone(),
            inference_calls: u32::try_from(self.steps.len()).unwrap_or(u32::MAX),
            steps: self.steps,
            outcome,
            outbound_msg_id,
            usage: self.usage,
        };
        (record, self.memory)
    }
}

/// Whether an action is of that kind, before it is decoded.
fn is_kind(action: &[u8], kind: &str) -> bool {
    let action = chancery_core::json::read(action, &chancery_core::json::ReadRules::VIBE);
    let found = action.as_ref().ok().and_then(|action| action.get("kind"));
    found.and_then(chancery_core::json::Value::as_str) == Some(kind)
}

/// Drives a turn with rules in this process; `send` takes an envelope to the gate.
pub fn run(
    mut turn: Turn,
    behaviour: &dyn crate::behaviour::Infer,
    snapshot: &Snapshot<'_>,
    mut send: impl FnMut(Outbound) -> Result<(), Refusal>,
) -> (TurnRecord, Memory) {
    let mut next = Next::Infer;
    loop {
        next = match next {
            Next::Infer => {
                let output = behaviour.infer(&turn.context(snapshot));
                turn.heard(&output, Usage::FREE, snapshot)
            }
            Next::Send(outbound) => {
                let answer = send(*outbound);
                turn.sent(answer.as_ref().copied())
            }
            Next::Ended => return turn.finish(),
        };
    }
}

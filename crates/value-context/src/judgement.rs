//! What a hosted parent decides about a child's escalation (VX-RUN-7): resolve it, hold the child, or pass it on.
//!
//! A judgement is a convenience of `POST /send/value-context`: it becomes an ordinary message of the parent, which is
//! what goes on record and what every other way of sending could have sent.

use chancery_core::json::{Object, Place, Value};

use crate::agent::AgentRecord;
use crate::agent_id::AgentId;
use crate::code::Fault;
use crate::members::{closed, required_text};
use crate::message::{Kind, Recipient, Version, read_recipient, read_sender};
use crate::message_id::MessageId;
use crate::outgoing::Outgoing;
use crate::payload::{Payload, RESUME, Severity};
use crate::rules::{Evaluation, as_forward};

/// The source of a resume whose sender has no constitution.
const NO_CONSTITUTION: &str = "creed://chancery.invalid/resume";

/// What a parent decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The child goes on, perhaps under further constraints.
    Resolve,
    /// The child stays stopped; nobody else is told.
    Hold,
    /// The parent's own parent is told.
    Escalate,
}

/// Which escalation is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum About {
    /// This one.
    Escalation(MessageId),
    /// All open ones of this child.
    Child(AgentId),
}

/// A judgement as it is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// Who judges.
    pub sender: AgentId,
    /// About what.
    pub about: About,
    /// How.
    pub verdict: Verdict,
    /// Further constraints of a resolution, as they stand in a payload.
    pub constraints: Vec<Value<'static>>,
}

/// An escalation that was received and not resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// Who sent it.
    pub child: String,
    /// What it said, while a judgement is waited for.
    pub evaluation: Option<Evaluation>,
}

impl Judgement {
    /// Reads a judgement from a send request; none when the body is an ordinary message.
    pub fn read(value: &Value<'_>) -> Option<Result<Self, Fault>> {
        value.get("verdict")?;
        Some(Self::read_members(value))
    }

    fn read_members(value: &Value<'_>) -> Result<Self, Fault> {
        const NAMES: [&str; 5] = [
            "sender",
            "verdict",
            "escalation_id",
            "recipient",
            "constraints",
        ];
        let [sender, verdict, escalation_id, recipient, constraints] =
            closed(value, &Place::ROOT, NAMES)?;
        let verdict = read_verdict(verdict)?;
        let about = match (escalation_id, recipient) {
            (Some(_), None) => About::Escalation(read_id(escalation_id)?),
            (None, Some(_)) if verdict == Verdict::Resolve => match read_recipient(recipient)? {
                Recipient::Directed(child) => About::Child(child),
                Recipient::Broadcast => return Err(unclear()),
            },
            _ => return Err(unclear()),
        };
        let constraints = match constraints {
            Some(Value::Array(items)) if verdict == Verdict::Resolve => {
                items.iter().map(|item| item.clone().into_owned()).collect()
            }
            None => Vec::new(),
            Some(_) => {
                let place = Place::ROOT.child("constraints");
                let message = "an array, and only with resolve";
                return Err(Fault::schema(&place, message, "VX-RUN-7"));
            }
        };
        Ok(Self {
            sender: read_sender(sender)?,
            about,
            verdict,
            constraints,
        })
    }

    /// The message that carries the judgement out. None when the escalation is not waiting for one.
    pub fn into_message(
        self,
        record: &AgentRecord,
        pending: &Pending,
        signed: bool,
    ) -> Result<Option<Outgoing>, Fault> {
        let (kind, to, payload) = match (self.verdict, &pending.evaluation, &self.about) {
            (Verdict::Resolve, _, about) => {
                let payload = resume(record, about, self.constraints);
                (Kind::ConstraintPropagate, Some(&pending.child), payload)
            }
            (Verdict::Hold, Some(evaluation), _) => {
                let payload = hold(record, evaluation);
                (Kind::Escalation, Some(&pending.child), payload)
            }
            (Verdict::Escalate, Some(evaluation), _) => {
                let payload = as_forward(evaluation);
                (Kind::Escalation, record.parent.as_ref(), payload)
            }
            (_, None, _) => return Ok(None),
        };
        let Some(to) = to.and_then(|to| AgentId::parse(to).ok()) else {
            return Ok(None);
        };
        let value = Value::Object(payload);
        let place = Place::ROOT.child("payload");
        let content = Payload::read(kind, Version::V1_2, &value, &place)?;
        let Value::Object(payload) = value else {
            return Ok(None);
        };
        Ok(Some(Outgoing {
            sender: self.sender,
            recipient: Recipient::Directed(to),
            kind,
            payload,
            content,
            signed,
            greeting: false,
        }))
    }
}

fn read_verdict(member: Option<&Value<'_>>) -> Result<Verdict, Fault> {
    let place = Place::ROOT.child("verdict");
    match required_text(member, &place)? {
        "resolve" => Ok(Verdict::Resolve),
        "hold" => Ok(Verdict::Hold),
        "escalate" => Ok(Verdict::Escalate),
        _ => {
            let message = "must be resolve, hold or escalate";
            Err(Fault::schema(&place, message, "VX-RUN-7"))
        }
    }
}

fn read_id(member: Option<&Value<'_>>) -> Result<MessageId, Fault> {
    let place = Place::ROOT.child("escalation_id");
    MessageId::parse_any(required_text(member, &place)?)
        .ok_or_else(|| Fault::schema(&place, "must be a message identifier", "VX-RUN-7"))
}

fn unclear() -> Fault {
    let place = Place::ROOT.child("escalation_id");
    let message = "name an escalation, or with resolve a child as recipient";
    Fault::schema(&place, message, "VX-RUN-7")
}

/// Constraints, and the control entry that says what they mean for open escalations (VX-CP-10).
fn resume(
    record: &AgentRecord,
    about: &About,
    mut constraints: Vec<Value<'static>>,
) -> Object<'static> {
    let mut value = Object::new().with("resume", true);
    if let About::Escalation(id) = about {
        value.insert("escalation_id", id.to_string());
    }
    let source = record.constitution_ref.as_deref();
    let entry = Object::new()
        .with("type", RESUME)
        .with("value", value)
        .with(
            "source_constitution_ref",
            source.unwrap_or(NO_CONSTITUTION).to_owned(),
        );
    constraints.push(Value::Object(entry));
    Object::new()
        .with("constraints", constraints)
        .with("propagation_mode", "merge")
}

/// An acknowledgement that says that the child stays stopped.
fn hold(record: &AgentRecord, evaluation: &Evaluation) -> Object<'static> {
    let state = match evaluation.severity {
        Severity::Emergency => "suspended",
        _ => "paused",
    };
    let context = record.context.as_deref().unwrap_or("📍💻").to_owned();
    Object::new()
        .with("severity", evaluation.severity.as_str())
        .with("reason", format!("ACK:{};state={state}", evaluation.id))
        .with("context", context)
        .with("requires_ack", false)
}

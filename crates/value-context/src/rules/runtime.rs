//! What follows from a message: its effects on both sides, and the messages that the rules derive from it.
//!
//! Sender and recipient may both be hosted here. Then one decision has the effects of both (CH-JRN-10), and a derived
//! message has its own effects in turn: they are worked off one after another, so that a long line of ancestors is a
//! long queue and not a deep stack.

use std::collections::VecDeque;

use chancery_core::decision::{Cx, Event, Stop};
use chancery_core::delivery::{Ask, Delivery};
use chancery_core::json::Object;
use chancery_core::line::{MetaValue, Origin, ProtocolName, Seq};

use super::audience::{hand_over, listeners};
use super::made::Made;
use super::told::Told;
use super::{announcements, constrained};
use crate::agent::{AgentRecord, hosted, participant};
use crate::agent_id::AgentId;
use crate::message::{Kind, Payload, Recipient, Timestamp, Version};
use crate::message_id::MessageId;
use crate::payload::{Escalation, MAX_REASON, Severity};
use crate::settings::Settings;

/// The pauses before the second, third and fourth attempt (VX-RTY-1).
const PAUSES_MS: [u32; 3] = [1_000, 2_000, 4_000];
/// How long one attempt may take (VX-RTY-2).
const ATTEMPT_MS: u32 = 5_000;
/// How long after it was signed a message may still be attempted (VX-RTY-7).
const WITHIN_MS: u32 = 240_000;
/// The context of an agent that has none (VX-ACK-1).
const NO_CONTEXT: &str = "📍💻";

/// A message that the rules derived, with whom it reached here.
struct Said {
    id: MessageId,
    tag: u64,
    version: Version,
    sender: String,
    recipient: Recipient,
    timestamp: Timestamp,
    payload: Payload,
    listeners: Vec<String>,
    line: Seq,
}

impl Said {
    fn told(&self) -> Told<'_> {
        Told {
            id: self.id,
            tag: self.tag,
            version: self.version,
            sender: &self.sender,
            recipient: &self.recipient,
            timestamp: &self.timestamp,
            payload: &self.payload,
            greeting: false,
        }
    }
}

/// The effects of one decision.
pub(super) struct Runtime<'s> {
    pub(super) settings: &'s Settings,
    said: VecDeque<Said>,
}

impl<'s> Runtime<'s> {
    pub(super) fn new(settings: &'s Settings) -> Self {
        Self {
            settings,
            said: VecDeque::new(),
        }
    }

    /// The effects of a message on record, and of all that follows from it.
    pub(super) fn follow(
        mut self,
        told: &Told<'_>,
        listeners: &[String],
        line: Seq,
        cx: &mut Cx<'_>,
    ) -> Result<(), Stop> {
        self.effects(told, listeners, line, cx)?;
        self.work_off(cx)
    }

    /// The effects of all derived messages.
    pub(super) fn work_off(mut self, cx: &mut Cx<'_>) -> Result<(), Stop> {
        while let Some(said) = self.said.pop_front() {
            self.effects(&said.told(), &said.listeners, said.line, cx)?;
        }
        Ok(())
    }

    fn effects(
        &mut self,
        told: &Told<'_>,
        listeners: &[String],
        _line: Seq,
        cx: &mut Cx<'_>,
    ) -> Result<(), Stop> {
        let sender = hosted(cx, told.sender)?;
        match told.payload {
            Payload::ContextShare(_) | Payload::Escalation(_) => {}
            Payload::ConstitutionAnnounce(announce) => {
                if sender.is_some() {
                    announcements::keep_own(told, announce, cx)?;
                }
            }
            Payload::ConstraintPropagate(propagate) => {
                constrained::apply(told, propagate, listeners, self, cx)?;
            }
        }
        Ok(())
    }

    /// An escalation of a hosted agent's runtime to its parent, which asks for no acknowledgement. Without a parent
    /// nobody is told.
    pub(super) fn escalate_to_parent(
        &mut self,
        agent: &str,
        record: &AgentRecord,
        severity: Severity,
        reason: &str,
        cx: &mut Cx<'_>,
    ) -> Result<(), Stop> {
        let Some(parent) = &record.parent else {
            return Ok(());
        };
        let escalation = Escalation {
            severity,
            reason: cut(reason),
            context: context_of(record),
            requires_ack: severity.is_grave(),
            blocked_action: None,
            acknowledges: None,
        };
        self.escalate(agent, record, parent, escalation, Version::V1_2, cx)?;
        Ok(())
    }

    /// An escalation or acknowledgement that the rules derive. None when it would have to be signed to leave and the
    /// node does not hold the sender's key.
    pub(super) fn escalate(
        &mut self,
        agent: &str,
        record: &AgentRecord,
        to: &str,
        escalation: Escalation,
        version: Version,
        cx: &mut Cx<'_>,
    ) -> Result<Option<(MessageId, Seq)>, Stop> {
        let (Ok(sender), Ok(recipient)) = (AgentId::parse(agent), AgentId::parse(to)) else {
            return Ok(None);
        };
        let recipient = Recipient::Directed(recipient);
        let listeners = listeners(agent, &recipient, cx)?;
        if listeners.is_empty() && !record.signs {
            return Ok(None);
        }
        let members = escalation_members(&escalation);
        let made = Made::new(Kind::Escalation, version, &sender, &recipient, members, cx)?;
        let draft = made.draft(&sender, record.signs, Origin::Runtime, no_meta());
        let line = cx.line(draft);
        let said = Said {
            id: made.id,
            tag: made.tag(),
            version,
            sender: agent.to_owned(),
            recipient,
            timestamp: made.timestamp.clone(),
            payload: Payload::Escalation(escalation),
            listeners,
            line,
        };
        hand_over(&said.told(), &said.listeners, line, self.settings, cx);
        if said.listeners.is_empty() {
            let from = participant(agent, Some(record));
            let delivery = delivery(from, to.to_owned(), &said.payload, None);
            cx.deliver(line, delivery);
        }
        let id = said.id;
        self.said.push_back(said);
        Ok(Some((id, line)))
    }

    /// Tells that something happened (VX-AUD-3).
    #[expect(clippy::unused_self, reason = "events belong to a decision's effects")]
    pub(super) fn event(&self, name: &'static str, id: MessageId, cx: &mut Cx<'_>) {
        cx.event(Event {
            name,
            protocol: ProtocolName::ValueContext,
            message_id: Some(id.to_string()),
        });
    }
}

/// How a message is brought to somebody elsewhere.
pub(super) fn delivery(
    from: &str,
    to: String,
    payload: &Payload,
    then_ask: Option<Ask>,
) -> Delivery {
    Delivery {
        protocol: ProtocolName::ValueContext,
        from: from.to_owned(),
        to,
        exempt: payload.is_exempt(),
        pauses_ms: PAUSES_MS.to_vec(),
        attempt_ms: ATTEMPT_MS,
        within_ms: Some(WITHIN_MS),
        then_ask,
    }
}

/// An agent's current context.
pub(super) fn context_of(record: &AgentRecord) -> Box<str> {
    record.context.as_deref().unwrap_or(NO_CONTEXT).into()
}

/// A reason, cut to what a message may carry.
pub(super) fn cut(reason: &str) -> Box<str> {
    match reason.char_indices().nth(MAX_REASON) {
        Some((end, _)) => reason[..end].into(),
        None => reason.into(),
    }
}

fn escalation_members(escalation: &Escalation) -> Object<'static> {
    let members = Object::with_capacity(5)
        .with("severity", escalation.severity.as_str())
        .with("reason", escalation.reason.to_string())
        .with("context", escalation.context.to_string())
        .with("requires_ack", escalation.requires_ack);
    match &escalation.blocked_action {
        Some(action) => members.with("blocked_action", action.to_string()),
        None => members,
    }
}

fn no_meta() -> Vec<(&'static str, MetaValue)> {
    Vec::new()
}

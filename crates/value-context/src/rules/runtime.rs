//! What follows from a message: its effects on both sides, and the messages that the rules derive from it.
//!
//! Sender and recipient may both be hosted here. Then one decision has the effects of both (CH-JRN-10), and a derived
//! message has its own effects in turn: they are worked off one after another, so that a long line of ancestors is a
//! long queue and not a deep stack.

use std::collections::VecDeque;

use bytes::Bytes;
use chancery_core::decision::{Cx, Event, Stop};
use chancery_core::delivery::Delivery;
use chancery_core::json::Object;
use chancery_core::line::{Origin, ProtocolName, Seq};

use super::audience::{hand_over, listeners};
use super::made::Made;
use super::open::Standing;
use super::told::Told;
use super::{announcements, constrained, escalated, resumes, shares, unacknowledged};
use crate::agent::{AgentRecord, hosted, may_sign, participant};
use crate::agent_id::AgentId;
use crate::attempts::{ATTEMPT_MS, PAUSES_MS, WITHIN_MS};
use crate::constraints::Stamp;
use crate::message::{Kind, Payload, Recipient, Timestamp, Version};
use crate::message_id::MessageId;
use crate::payload::{Escalation, MAX_REASON, Severity};
use crate::settings::Settings;

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
    envelope: Bytes,
    listeners: Vec<String>,
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
            envelope: &self.envelope,
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
        cx: &mut Cx<'_>,
    ) -> Result<(), Stop> {
        if let Some(record) = hosted(cx, told.sender)? {
            self.sent(told, &record, cx)?;
        }
        self.received(told, listeners, cx)?;
        self.work_off(cx)
    }

    /// The effects of all derived messages.
    pub(super) fn work_off(mut self, cx: &mut Cx<'_>) -> Result<(), Stop> {
        while let Some(said) = self.said.pop_front() {
            self.received(&said.told(), &said.listeners, cx)?;
        }
        Ok(())
    }

    /// What a message of its own means for a hosted sender.
    fn sent(&mut self, told: &Told<'_>, record: &AgentRecord, cx: &mut Cx<'_>) -> Result<(), Stop> {
        match told.payload {
            Payload::ContextShare(share) => {
                shares::keep_own(told.sender, &share.context, cx)?;
                resumes::sent(told, cx)
            }
            Payload::ConstitutionAnnounce(announce) => announcements::keep_own(told, announce, cx),
            Payload::ConstraintPropagate(_) => resumes::sent(told, cx),
            Payload::Escalation(escalation) => escalated::sent(told, record, escalation, self, cx),
        }
    }

    /// What a message means for those it reached here.
    fn received(
        &mut self,
        told: &Told<'_>,
        listeners: &[String],
        cx: &mut Cx<'_>,
    ) -> Result<(), Stop> {
        match told.payload {
            Payload::ContextShare(_) => resumes::received(told, listeners, cx),
            Payload::ConstitutionAnnounce(_) => Ok(()),
            Payload::ConstraintPropagate(propagate) => {
                constrained::apply(told, propagate, listeners, self, cx)?;
                resumes::received(told, listeners, cx)
            }
            Payload::Escalation(escalation) => {
                escalated::received(told, escalation, listeners, self, cx)
            }
        }
    }

    /// An escalation of a hosted agent's runtime that asks for no acknowledgement.
    pub(super) fn escalate(
        &mut self,
        agent: &str,
        record: &AgentRecord,
        to: &str,
        severity: Severity,
        reason: &str,
        cx: &mut Cx<'_>,
    ) -> Result<(), Stop> {
        let escalation = Escalation {
            severity,
            reason: cut(reason),
            context: context_of(agent, record, cx)?,
            requires_ack: false,
            blocked_action: None,
            acknowledges: None,
        };
        self.say(agent, record, to, escalation, Version::V1_2, cx)?;
        Ok(())
    }

    /// An escalation or acknowledgement that the rules derive. None when it would have to be signed to leave and the
    /// node does not hold a usable key of the sender.
    pub(super) fn say(
        &mut self,
        agent: &str,
        record: &AgentRecord,
        to: &str,
        escalation: Escalation,
        version: Version,
        cx: &mut Cx<'_>,
    ) -> Result<Option<Stamp>, Stop> {
        let (Ok(sender), Ok(recipient)) = (AgentId::parse(agent), AgentId::parse(to)) else {
            return Ok(None);
        };
        let recipient = Recipient::Directed(recipient);
        let listeners = listeners(agent, &recipient, cx)?;
        let signed = record.signs && may_sign(agent, record, cx)?;
        if listeners.is_empty() && !signed {
            return Ok(None);
        }
        let members = escalation_members(&escalation);
        let kind = Kind::Escalation;
        let made = Made::new(kind, version, &sender, &recipient, members, None, cx)?;
        let line = cx.line(made.draft(&sender, signed, Origin::Runtime, Vec::new()));
        let said = Said {
            id: made.id,
            tag: made.tag(),
            version,
            sender: agent.to_owned(),
            recipient,
            timestamp: made.timestamp,
            payload: Payload::Escalation(escalation),
            envelope: made.envelope,
            listeners,
        };
        let stamp = said.told().stamp();
        hand_over(&said.told(), &said.listeners, line, self.settings, cx);
        if said.listeners.is_empty() {
            leave(agent, record, to, line, &said.told(), cx)?;
        }
        let standing = Standing { agent, record };
        standing.nothing_open(said.id, cx);
        escalated::remember_sent(agent, to, said.id, self, cx);
        self.said.push_back(said);
        Ok(Some(stamp))
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

/// Brings a message to somebody elsewhere, after the commit.
pub(super) fn leave(
    agent: &str,
    record: &AgentRecord,
    to: &str,
    line: Seq,
    told: &Told<'_>,
    cx: &mut Cx<'_>,
) -> Result<(), Stop> {
    let delivery = Delivery {
        then_ask: unacknowledged::ask_for(agent, told.id, told.payload),
        ..delivery(
            participant(agent, Some(record)),
            to,
            told.payload.is_exempt(),
        )
    };
    cx.deliver(line, delivery);
    unacknowledged::follow_delivery(to, line, agent, told.id, told.payload, cx)
}

/// How a message is brought to somebody elsewhere.
pub(super) fn delivery(from: &str, to: &str, exempt: bool) -> Delivery {
    Delivery {
        protocol: ProtocolName::ValueContext,
        from: from.to_owned(),
        to: to.to_owned(),
        exempt,
        pauses_ms: PAUSES_MS.to_vec(),
        attempt_ms: ATTEMPT_MS,
        within_ms: Some(WITHIN_MS),
        then_ask: None,
    }
}

/// An agent's current context.
pub(super) fn context_of(agent: &str, record: &AgentRecord, cx: &Cx<'_>) -> Result<Box<str>, Stop> {
    let shared: Option<Box<str>> = cx.row(&shares::own_context_key(agent))?;
    Ok(shared
        .or_else(|| record.context.as_deref().map(Into::into))
        .unwrap_or_else(|| NO_CONTEXT.into()))
}

/// A reason, cut to what a message may carry.
pub(super) fn cut(reason: &str) -> Box<str> {
    match reason.char_indices().nth(MAX_REASON) {
        Some((end, _)) => reason[..end].into(),
        None => reason.into(),
    }
}

/// The payload of an escalation.
pub(super) fn escalation_members(escalation: &Escalation) -> Object<'static> {
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

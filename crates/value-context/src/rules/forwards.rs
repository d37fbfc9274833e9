//! Telling one's own parent what a child escalated (VX-RUN-7, VX-RUN-8).

use std::time::Duration;

use chancery_core::admin::canonical_json;
use chancery_core::decision::{Audit, Cx, Stop};
use chancery_core::json::Object;
use chancery_core::line::ProtocolName;

use super::evaluations::Evaluation;
use super::open::{Open, Standing};
use super::runtime::{Runtime, cut, escalation_members};
use super::told::Told;
use super::{FORWARDED, window_id};
use crate::agent::AgentRecord;
use crate::constraints::Stamp;
use crate::message::Version;
use crate::message_id::MessageId;
use crate::payload::{Escalation, Severity};

/// How long an escalation is known to have been forwarded: longer than any ring of parents takes.
const REMEMBERED: Duration = Duration::from_secs(24 * 60 * 60);
/// The length of an identifier's text.
const ID_LENGTH: usize = 36;

/// The identifier that follows a mark at the beginning of a reason, before a blank.
fn id_after(mark: &str, reason: &str) -> Option<MessageId> {
    let rest = reason.strip_prefix(mark)?;
    let id = MessageId::parse_any(rest.get(..ID_LENGTH)?)?;
    let rest = &rest[ID_LENGTH..];
    (rest.is_empty() || rest.starts_with(' ')).then_some(id)
}

/// The escalation that a forwarded one began as.
pub(super) fn forwarded_from(reason: &str) -> Option<MessageId> {
    id_after("FWD:", reason)
}

/// The escalation that nobody acknowledged and this one repeats (VX-ACK-7).
pub(super) fn repeats(reason: &str) -> Option<MessageId> {
    id_after("UNACKED:", reason)
}

/// What is to be forwarded.
pub(super) struct Received<'a> {
    pub(super) id: MessageId,
    pub(super) sender: &'a str,
    pub(super) severity: Severity,
    pub(super) reason: &'a str,
    pub(super) context: &'a str,
    pub(super) blocked_action: Option<&'a str>,
}

impl<'a> Received<'a> {
    pub(super) fn of(told: &Told<'a>, escalation: &'a Escalation) -> Self {
        Self {
            id: told.id,
            sender: told.sender,
            severity: escalation.severity,
            reason: &escalation.reason,
            context: &escalation.context,
            blocked_action: escalation.blocked_action.as_deref(),
        }
    }

    fn waiting(evaluation: &'a Evaluation) -> Self {
        Self {
            id: evaluation.id,
            sender: &evaluation.child,
            severity: evaluation.severity,
            reason: &evaluation.reason,
            context: &evaluation.context,
            blocked_action: evaluation.blocked_action.as_deref(),
        }
    }

    /// The identifier it was first sent under.
    fn original(&self) -> MessageId {
        forwarded_from(self.reason).unwrap_or(self.id)
    }

    /// The escalation that tells the parent. One that was forwarded before is passed on as it is, so the root sees the
    /// first identifier.
    pub(super) fn as_forward(&self) -> Escalation {
        let reason = if self.reason.starts_with("FWD:") {
            self.reason.into()
        } else {
            cut(&format!("FWD:{} {}: {}", self.id, self.sender, self.reason))
        };
        Escalation {
            severity: self.severity,
            reason,
            context: self.context.into(),
            requires_ack: true,
            blocked_action: self.blocked_action.map(Into::into),
            acknowledges: None,
        }
    }
}

/// The payload that passes an escalation on to the parent.
pub fn as_forward(evaluation: &Evaluation) -> Object<'static> {
    escalation_members(&Received::waiting(evaluation).as_forward())
}

/// Remembers that `agent` forwarded an escalation; false when it had already.
pub(super) fn remember(agent: &str, original: MessageId, cx: &mut Cx<'_>) -> bool {
    let id = window_id(agent, original.uuid().as_bytes());
    if cx.seen(FORWARDED, &id).is_some() {
        return false;
    }
    cx.remember(FORWARDED, id, 1, REMEMBERED);
    true
}

/// Forwards an escalation to the parent, once. The forwarder's own state stays as it is until its parent says
/// otherwise.
pub(super) fn forward(
    agent: &str,
    record: &AgentRecord,
    received: &Received<'_>,
    runtime: &mut Runtime<'_>,
    cx: &mut Cx<'_>,
) -> Result<(), Stop> {
    let Some(parent) = &record.parent else {
        return Ok(());
    };
    if !remember(agent, received.original(), cx) {
        return Ok(());
    }
    let escalation = received.as_forward();
    let version = Version::V1_2;
    let said = runtime.say(agent, record, parent, escalation.clone(), version, cx)?;
    if let Some(stamp) = said {
        runtime.event("forwarded", received.id, cx);
        let standing = Standing { agent, record };
        standing.add(&waiting(stamp, record, parent, &escalation), cx)?;
    }
    Ok(())
}

/// An escalation that waits for its acknowledgement and holds nobody.
pub(super) fn waiting(
    stamp: Stamp,
    record: &AgentRecord,
    to: &str,
    escalation: &Escalation,
) -> Open {
    let mut open = Open::new(stamp, to, escalation);
    open.left = super::unacknowledged::left_after(record, to);
    open
}

/// A judgement that did not come: the parent is asked, or without one the owner is told.
pub(super) fn unanswered(
    agent: &str,
    record: &AgentRecord,
    evaluation: &Evaluation,
    runtime: &mut Runtime<'_>,
    cx: &mut Cx<'_>,
) -> Result<(), Stop> {
    if record.parent.is_some() {
        let received = Received::waiting(evaluation);
        return forward(agent, record, &received, runtime, cx);
    }
    runtime.event("unresolved", evaluation.id, cx);
    let at = cx.now();
    cx.audit(Audit {
        name: "unresolved",
        protocol: ProtocolName::ValueContext,
        at,
        envelope: canonical_json(evaluation),
    });
    Ok(())
}

//! Who may send what to whom (check 8: VX-CP-9, VX-ES-4, VX-RUN-4).

use std::sync::Arc;

use chancery_core::admin::{RunState, run_state};
use chancery_core::decision::{Cx, Stop};
use chancery_core::fault;
use chancery_core::json::Place;

use crate::agent::{AgentRecord, hosted, participant};
use crate::code::{Code, Fault};
use crate::message::{Payload, Recipient};

/// Refuses what goes the wrong way to a hosted agent. A broadcast is refused to nobody: those it is not meant for
/// ignore it.
pub(super) fn check_receiving(
    sender: &str,
    recipient: &Recipient,
    payload: &Payload,
    cx: &Cx<'_>,
) -> Result<(), Stop> {
    let Recipient::Directed(recipient) = recipient else {
        return Ok(());
    };
    let allowed = match payload {
        Payload::ConstraintPropagate(_) => {
            is_parent_of(sender, recipient.as_str(), cx)? || fault::on("vx-anybody-constrains")
        }
        Payload::Escalation(escalation) if !escalation.is_acknowledgement() => {
            is_supervised_by(sender, recipient.as_str(), cx)? || fault::on("vx-anybody-escalates")
        }
        _ => true,
    };
    if allowed {
        return Ok(());
    }
    let requirement = match payload {
        Payload::Escalation(_) => "VX-ES-4",
        _ => "VX-CP-9",
    };
    let message = "the sender may not send this to the recipient";
    let fault = Fault::new(Code::NotAuthorized, message).under(requirement);
    Err(fault
        .at(&Place::ROOT.child("sender"))
        .into_refusal("direction")
        .into())
}

/// Refuses what a hosted agent may not send to somebody elsewhere.
pub(super) fn check_sending(
    record: &AgentRecord,
    recipient: &Recipient,
    payload: &Payload,
) -> Result<(), Stop> {
    let Recipient::Directed(recipient) = recipient else {
        return Ok(());
    };
    let is = |id: &String| id == recipient.as_str();
    let (allowed, requirement) = match payload {
        Payload::ConstraintPropagate(_) => (record.children.iter().any(is), "VX-CP-9"),
        Payload::Escalation(escalation) if !escalation.is_acknowledgement() => (
            record.parent.iter().chain(&record.escalation_path).any(is),
            "VX-ES-4",
        ),
        _ => return Ok(()),
    };
    if allowed {
        return Ok(());
    }
    let message = "the sender may not send this to the recipient";
    let fault = Fault::new(Code::NotAuthorized, message).under(requirement);
    Err(fault
        .at(&Place::ROOT.child("recipient"))
        .into_refusal("direction")
        .into())
}

/// Whether the hosted agent `child` says that `agent` is its parent.
pub(super) fn is_parent_of(agent: &str, child: &str, cx: &Cx<'_>) -> Result<bool, Stop> {
    let record = hosted(cx, child)?;
    Ok(record.is_some_and(|record| record.parent.as_deref() == Some(agent)))
}

/// Whether the hosted agent `supervisor` takes escalations of `agent`: its child, or one hosted here that names it as
/// an ancestor to turn to (VX-ACK-7).
pub(super) fn is_supervised_by(agent: &str, supervisor: &str, cx: &Cx<'_>) -> Result<bool, Stop> {
    let has_it = |record: Arc<AgentRecord>| record.children.iter().any(|child| child == agent);
    if hosted(cx, supervisor)?.is_some_and(has_it) {
        return Ok(true);
    }
    Ok(hosted(cx, agent)?.is_some_and(|record| {
        let mut path = record.parent.iter().chain(&record.escalation_path);
        path.any(|ancestor| ancestor == supervisor)
    }))
}

/// Refuses what a suspended sender says, except what it may always say (VX-RUN-3, VX-RUN-4).
pub(super) fn check_suspension(
    sender: &str,
    payload: &Payload,
    listeners: &[String],
    cx: &Cx<'_>,
) -> Result<(), Stop> {
    if payload.is_exempt() || fault::on("vx-suspended-let-through") {
        return Ok(());
    }
    let record = hosted(cx, sender)?;
    let mut held = run_state(cx, participant(sender, record.as_deref()))? == RunState::Suspended;
    for listener in listeners {
        held = held || super::children::is_held_suspended(listener, sender, cx)?;
    }
    if !held {
        return Ok(());
    }
    let fault = Fault::new(Code::SenderSuspended, "the sender is suspended");
    Err(fault.into_refusal("direction").into())
}

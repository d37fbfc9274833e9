//! An escalation that reached a hosted agent, or that one sent (sections 14.1 and 14.2).

use std::time::Duration;

use chancery_core::admin::RunState;
use chancery_core::decision::{Audit, Cx, Stop};
use chancery_core::line::ProtocolName;

use super::children::{OpenOfChild, put_view, view_of};
use super::duties::{Duties, held_by};
use super::forwards::{self, Received, forward, forwarded_from, repeats};
use super::open::{Open, Standing};
use super::runtime::{Runtime, context_of};
use super::told::Told;
use super::{ACKED, ESCALATED, evaluations, window_id};
use crate::agent::{AgentRecord, hosted};
use crate::message::Recipient;
use crate::message_id::MessageId;
use crate::payload::{Acknowledgement, Escalation, Severity};

/// The escalation as each hosted agent takes it that it reached.
pub(super) fn received(
    told: &Told<'_>,
    escalation: &Escalation,
    listeners: &[String],
    runtime: &mut Runtime<'_>,
    cx: &mut Cx<'_>,
) -> Result<(), Stop> {
    for listener in listeners {
        let Some(record) = hosted(cx, listener)? else {
            continue;
        };
        if let Some(ack) = escalation.acknowledges {
            let heard = Heard { escalation, ack };
            acknowledged(listener, &record, told, &heard, runtime, cx)?;
        } else if told.is_directed() || is_parent(listener, &record, told.sender, cx)? {
            take(listener, &record, told, escalation, runtime, cx)?;
        }
    }
    Ok(())
}

/// A broadcast escalation creates duties for the sender's parent alone (VX-ES-4).
fn is_parent(
    listener: &str,
    record: &AgentRecord,
    sender: &str,
    cx: &Cx<'_>,
) -> Result<bool, Stop> {
    if record.children.iter().any(|child| child == sender) {
        return Ok(true);
    }
    let sender = hosted(cx, sender)?;
    Ok(sender.is_some_and(|sender| sender.parent.as_deref() == Some(listener)))
}

/// The duties, in their order: hold the child, acknowledge, tell the own parent, audit, then wait for a judgement
/// (VX-ACK-5).
fn take(
    agent: &str,
    record: &AgentRecord,
    told: &Told<'_>,
    escalation: &Escalation,
    runtime: &mut Runtime<'_>,
    cx: &mut Cx<'_>,
) -> Result<(), Stop> {
    let duties = Duties::of(escalation, record.parent.is_some(), runtime.settings);
    // An ancestor that is not the parent is told, and holds nobody: it could not let the sender go on either.
    let held = match is_parent(agent, record, told.sender, cx)? {
        true => hold_child(agent, told, escalation, &duties, runtime, cx)?,
        false => None,
    };
    if duties.acknowledges {
        acknowledge(agent, record, told, escalation, held, runtime, cx)?;
    }
    if duties.propagates {
        let received = Received::of(told, escalation);
        forward(agent, record, &received, runtime, cx)?;
    }
    if duties.audits_in_full {
        let at = cx.now();
        cx.audit(Audit {
            name: escalation.severity.as_str(),
            protocol: ProtocolName::ValueContext,
            at,
            envelope: told.envelope.clone(),
        });
    }
    if escalation.severity == Severity::Critical {
        evaluations::begin(agent, told, escalation, cx);
    }
    Ok(())
}

/// Holds the sender to what the escalation asks for; gives the state it is held to then.
fn hold_child(
    agent: &str,
    told: &Told<'_>,
    escalation: &Escalation,
    duties: &Duties,
    runtime: &Runtime<'_>,
    cx: &mut Cx<'_>,
) -> Result<Option<RunState>, Stop> {
    let Some(holds) = duties.holds_child else {
        return Ok(None);
    };
    let mut view = view_of(agent, told.sender, cx)?;
    view.hold(OpenOfChild {
        stamp: told.stamp(),
        first: repeats(&escalation.reason).unwrap_or(told.id),
        holds,
    });
    if escalation.severity == Severity::Emergency && view.count_emergency(cx.now()) {
        runtime.event("emergency_alert", told.id, cx);
    }
    put_view(agent, told.sender, &view, cx);
    Ok(Some(view.state))
}

fn acknowledge(
    agent: &str,
    record: &AgentRecord,
    told: &Told<'_>,
    escalation: &Escalation,
    held: Option<RunState>,
    runtime: &mut Runtime<'_>,
    cx: &mut Cx<'_>,
) -> Result<(), Stop> {
    let state = held.map_or_else(String::new, |state| format!(";state={}", state.as_str()));
    let acknowledgement = Escalation {
        severity: escalation.severity,
        reason: format!("ACK:{}{state}", told.id).into(),
        context: context_of(agent, record, cx)?,
        requires_ack: false,
        blocked_action: None,
        acknowledges: Some(Acknowledgement {
            of: told.id,
            state: held,
        }),
    };
    let line = cx.next_seq();
    let said = runtime.say(
        agent,
        record,
        told.sender,
        acknowledgement,
        told.version,
        cx,
    )?;
    if said.is_none() {
        runtime.event("ack_unsigned", told.id, cx);
        return Ok(());
    }
    runtime.event("ack_sent", told.id, cx);
    let window = Duration::from_secs(runtime.settings.dedupe_window_s);
    let id = window_id(agent, told.id.uuid().as_bytes());
    cx.remember(ACKED, id, line, window);
    Ok(())
}

/// An acknowledgement: it counts only from whom the escalation was sent to (VX-ACK-6), and what it says about the
/// sender's state only from its parent (VX-RUN-6).
fn acknowledged(
    agent: &str,
    record: &AgentRecord,
    told: &Told<'_>,
    heard: &Heard<'_>,
    runtime: &Runtime<'_>,
    cx: &mut Cx<'_>,
) -> Result<(), Stop> {
    let ack = heard.ack;
    let standing = Standing { agent, record };
    let open = standing
        .find(ack.of, cx)?
        .filter(|open| open.to == told.sender);
    let sent_to = escalated_id(agent, told.sender, ack.of);
    if open.is_none() && cx.seen(ESCALATED, &sent_to).is_none() {
        runtime.event("ack_unmatched", ack.of, cx);
        return Ok(());
    }
    runtime.event("ack_received", ack.of, cx);
    let from_parent = record.parent.as_deref() == Some(told.sender);
    match open {
        Some(mut open) => {
            open.waits = false;
            standing.keep(&open, cx);
            if let Some(state) = ack.state.filter(|_| from_parent) {
                follow_parent(&standing, open, state, told, cx)?;
            }
        }
        // What was closed by a resume is not opened by an acknowledgement that was made before it.
        None if from_parent && !standing.is_overtaken(told.timestamp.instant, cx)? => {
            if let Some(state) = ack.state {
                follow_parent(&standing, heard.as_open(told), state, told, cx)?;
            }
        }
        None => {}
    }
    Ok(())
}

/// An acknowledgement with the message that carries it.
struct Heard<'a> {
    escalation: &'a Escalation,
    ack: Acknowledgement,
}

impl Heard<'_> {
    /// The escalation it is for, as far as it tells: that one is not on record as open.
    fn as_open(&self, told: &Told<'_>) -> Open {
        let mut open = Open::new(told.stamp(), told.sender, self.escalation);
        open.id = self.ack.of;
        open.first = self.ack.of;
        open
    }
}

/// The parent tells what it did: `running` lets a paused agent go on and never a suspended one.
fn follow_parent(
    standing: &Standing<'_>,
    mut open: Open,
    state: RunState,
    told: &Told<'_>,
    cx: &mut Cx<'_>,
) -> Result<(), Stop> {
    match state {
        RunState::Running if open.holds == RunState::Paused => {
            let first = open.first;
            let same = |other: &Open| other.first == first && other.holds != RunState::Suspended;
            let at = told.timestamp.instant.max(open.at);
            standing.close(at, told.id, same, cx)
        }
        RunState::Running => Ok(()),
        state => {
            open.holds = super::duties::stricter(open.holds, state);
            standing.keep(&open, cx);
            standing.hold(state, told.id, cx)
        }
    }
}

/// An escalation or acknowledgement that a hosted agent sent of its own.
pub(super) fn sent(
    told: &Told<'_>,
    record: &AgentRecord,
    escalation: &Escalation,
    runtime: &Runtime<'_>,
    cx: &mut Cx<'_>,
) -> Result<(), Stop> {
    let standing = Standing {
        agent: told.sender,
        record,
    };
    if let Some(ack) = escalation.acknowledges {
        return judged(told, ack, cx);
    }
    let to = match told.recipient {
        Recipient::Directed(agent) => agent.as_str(),
        Recipient::Broadcast => record.parent.as_deref().unwrap_or_default(),
    };
    remember_sent(told.sender, to, told.id, runtime, cx);
    let mut open = forwards::waiting(told.stamp(), record, to, escalation);
    let is_forward = passes_on(told.sender, escalation, cx)?;
    if !is_forward && let Some(state) = own_state(escalation.severity, runtime) {
        open.holds = state;
        standing.add(&open, cx)?;
        return standing.hold(state, told.id, cx);
    }
    standing.add(&open, cx)
}

/// The state that an agent enters by sending an escalation (VX-RUN-2).
fn own_state(severity: Severity, runtime: &Runtime<'_>) -> Option<RunState> {
    held_by(severity)
        .filter(|_| severity != Severity::Critical || runtime.settings.pause_on_critical)
}

/// Whether an agent's own escalation passes on one that it is to judge: then that judgement has come (VX-RUN-7), and
/// its own state stays.
fn passes_on(agent: &str, escalation: &Escalation, cx: &mut Cx<'_>) -> Result<bool, Stop> {
    let Some(original) = forwarded_from(&escalation.reason) else {
        return Ok(false);
    };
    for evaluation in evaluations::all(agent, cx)? {
        let first = forwarded_from(&evaluation.reason).unwrap_or(evaluation.id);
        if first == original {
            forwards::remember(agent, original, cx);
            evaluations::end(agent, evaluation.id, cx)?;
            return Ok(true);
        }
    }
    Ok(false)
}

/// An acknowledgement that a hosted parent sends itself is its judgement: `running` lets a paused child go on, anything
/// else holds it.
fn judged(told: &Told<'_>, ack: Acknowledgement, cx: &mut Cx<'_>) -> Result<(), Stop> {
    let Recipient::Directed(child) = told.recipient else {
        return Ok(());
    };
    evaluations::end(told.sender, ack.of, cx)?;
    let mut view = view_of(told.sender, child.as_str(), cx)?;
    match ack.state {
        Some(RunState::Running) => {
            let first = view.open.iter().find(|open| open.stamp.id == ack.of);
            let Some(first) = first.map(|open| open.first) else {
                return Ok(());
            };
            let at = told.timestamp.instant;
            let paused = |open: &OpenOfChild| open.first == first && open.holds == RunState::Paused;
            let newest = view.open.iter().map(|open| open.stamp.at).max();
            view.close(newest.map_or(at, |newest| newest.max(at)), paused);
        }
        Some(state) => {
            for open in view.open.iter_mut().filter(|open| open.stamp.id == ack.of) {
                open.holds = super::duties::stricter(open.holds, state);
            }
            let holds = view.open.iter().map(|open| open.holds);
            view.state = holds.fold(RunState::Running, super::duties::stricter);
        }
        None => return Ok(()),
    }
    put_view(told.sender, child.as_str(), &view, cx);
    Ok(())
}

/// Remembers whom an escalation was sent to, so that its acknowledgement is recognised.
pub(super) fn remember_sent(
    agent: &str,
    to: &str,
    id: MessageId,
    runtime: &Runtime<'_>,
    cx: &mut Cx<'_>,
) {
    let window = Duration::from_secs(runtime.settings.dedupe_window_s);
    cx.remember(ESCALATED, escalated_id(agent, to, id), 1, window);
}

fn escalated_id(agent: &str, to: &str, id: MessageId) -> chancery_core::window::WindowId {
    let name = [id.uuid().as_bytes().as_slice(), to.as_bytes()].concat();
    window_id(agent, &name)
}

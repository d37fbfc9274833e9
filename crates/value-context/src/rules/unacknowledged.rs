//! Escalations that nobody acknowledged, and messages that did not arrive (VX-ACK-6, VX-ACK-7, VX-RTY-6).

use std::time::Duration;

use chancery_core::admin::{Act, canonical_json, node_line};
use chancery_core::decision::{Audit, Cx, Event, Stop, Verdict};
use chancery_core::delivery::Ask;
use chancery_core::line::{Origin, ProtocolName, Seq};
use chancery_core::protocol::Failure;
use chancery_core::rows::RowKey;
use chancery_core::time::Time;
use serde::{Deserialize, Serialize};

use super::duties::ACK_DEADLINE_MS;
use super::open::{Open, Standing};
use super::runtime::{Runtime, cut};
use super::timer::Timer;
use crate::agent::{AgentRecord, hosted};
use crate::message::{Payload, Version};
use crate::message_id::MessageId;
use crate::payload::{Escalation, Severity};
use crate::protocol::Answer;
use crate::settings::Settings;

/// How long the way back may take beyond the time that an acknowledgement has.
const WAY_BACK_MS: u32 = 1_000;
/// How many messages on their way to one recipient are followed; beyond it the oldest is not reported.
const MAX_UNDER_WAY: usize = 256;
/// After this time no message is under way any more.
const UNDER_WAY: Duration = Duration::from_secs(60 * 60);

/// What the host asks some time after an escalation arrived.
pub(super) fn ask_for(agent: &str, id: MessageId, payload: &Payload) -> Option<Ask> {
    let Payload::Escalation(escalation) = payload else {
        return None;
    };
    if escalation.is_acknowledgement() || !escalation.requires_ack {
        return None;
    }
    let timer = Timer::AckMissing {
        agent: agent.to_owned(),
        id,
    };
    Some(Ask {
        after_ms: ACK_DEADLINE_MS + WAY_BACK_MS,
        timer: serde_json::to_string(&timer).expect("a timer is plain data"),
    })
}

/// Whom an escalation is sent to next, in order, when `to` does not acknowledge it: the rest of the escalation path,
/// then the parent once more.
pub(super) fn left_after(record: &AgentRecord, to: &str) -> Vec<String> {
    let path: Vec<&String> = record
        .parent
        .iter()
        .chain(&record.escalation_path)
        .collect();
    let tried = path
        .iter()
        .position(|entry| *entry == to)
        .map_or(0, |place| place + 1);
    let rest = path[tried..].iter().copied();
    rest.chain(&record.parent).cloned().collect()
}

/// An escalation counts as unacknowledged: a grave one goes to the next entry of the path, and with none left to the
/// operator.
pub(super) fn climb(
    standing: &Standing<'_>,
    mut open: Open,
    runtime: &mut Runtime<'_>,
    cx: &mut Cx<'_>,
) -> Result<(), Stop> {
    open.waits = false;
    standing.keep(&open, cx);
    runtime.event("ack_missing", open.id, cx);
    if !open.severity.is_grave() {
        return Ok(());
    }
    let escalation = Escalation {
        severity: open.severity,
        reason: again(&open),
        context: open.context.clone(),
        requires_ack: true,
        blocked_action: open.blocked_action.clone(),
        acknowledges: None,
    };
    let (agent, record) = (standing.agent, standing.record);
    let mut left = open.left.clone().into_iter();
    while let Some(next) = left.next() {
        let said = runtime.say(agent, record, &next, escalation.clone(), Version::V1_2, cx)?;
        let Some(stamp) = said else { continue };
        let mut climbed = Open::new(stamp, &next, &escalation);
        climbed.first = open.first;
        climbed.reason = open.reason.clone();
        climbed.left = left.collect();
        return standing.add(&climbed, cx);
    }
    tell_operator(&open, runtime, cx);
    Ok(())
}

fn again(open: &Open) -> Box<str> {
    cut(&format!("UNACKED:{} {}", open.first, open.reason))
}

/// Nobody is left to turn to.
fn tell_operator(open: &Open, runtime: &Runtime<'_>, cx: &mut Cx<'_>) {
    runtime.event("operator_alert", open.id, cx);
    let at = cx.now();
    cx.audit(Audit {
        name: "unacknowledged",
        protocol: ProtocolName::ValueContext,
        at,
        envelope: canonical_json(open),
    });
}

/// A message on its way whose failure has consequences.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct UnderWay {
    seq: Seq,
    at: Time,
    sender: String,
    id: MessageId,
    /// Whether the sender's parent is told when it does not arrive.
    matters: bool,
}

fn under_way_key(to: &str) -> RowKey {
    RowKey::text("vx-under-way", &[to])
}

/// Follows a message that leaves for somebody elsewhere, where its failure has consequences.
pub(super) fn follow_delivery(
    to: &str,
    seq: Seq,
    sender: &str,
    id: MessageId,
    payload: &Payload,
    cx: &mut Cx<'_>,
) -> Result<(), Stop> {
    let (follows, matters) = match payload {
        Payload::ConstraintPropagate(_) => (true, true),
        Payload::Escalation(escalation) => (
            !escalation.is_acknowledgement() && escalation.requires_ack,
            escalation.severity.is_grave(),
        ),
        _ => (false, false),
    };
    if !follows {
        return Ok(());
    }
    let key = under_way_key(to);
    let mut all: Vec<UnderWay> = cx.row(&key)?.unwrap_or_default();
    let oldest = cx.now().saturating_sub(UNDER_WAY);
    all.retain(|one| one.at >= oldest);
    let surplus = (all.len() + 1).saturating_sub(MAX_UNDER_WAY);
    all.drain(..surplus);
    all.push(UnderWay {
        seq,
        at: cx.now(),
        sender: sender.to_owned(),
        id,
        matters,
    });
    cx.put(key, &all);
    Ok(())
}

fn take_under_way(to: &str, seq: Seq, cx: &mut Cx<'_>) -> Result<Option<UnderWay>, Stop> {
    let key = under_way_key(to);
    let mut all: Vec<UnderWay> = cx.row(&key)?.unwrap_or_default();
    let Some(place) = all.iter().position(|one| one.seq == seq) else {
        return Ok(None);
    };
    let found = all.remove(place);
    if all.is_empty() {
        cx.remove(key);
    } else {
        cx.put(key, &all);
    }
    Ok(Some(found))
}

/// Puts a delivery that was given up on record, with what follows.
pub fn failed(
    of: Seq,
    about: &str,
    why: Failure,
    settings: &Settings,
    cx: &mut Cx<'_>,
) -> Result<Verdict<Answer>, Stop> {
    let act = Act::Failed {
        protocol: ProtocolName::ValueContext,
        of,
        about: about.to_owned(),
        code: why,
    };
    let now = cx.now();
    cx.line(node_line(&act, Origin::External, Some(now)));
    cx.event(Event {
        name: "delivery_failed",
        protocol: ProtocolName::ValueContext,
        message_id: None,
    });
    if let Some(lost) = take_under_way(about, of, cx)?
        && let Some(record) = hosted(cx, &lost.sender)?
    {
        let mut runtime = Runtime::new(settings);
        let standing = Standing {
            agent: &lost.sender,
            record: &record,
        };
        lose(&standing, &lost, about, &mut runtime, cx)?;
        runtime.work_off(cx)?;
    }
    Ok(Verdict::Record {
        answer: Answer::Noted,
    })
}

fn lose(
    standing: &Standing<'_>,
    lost: &UnderWay,
    recipient: &str,
    runtime: &mut Runtime<'_>,
    cx: &mut Cx<'_>,
) -> Result<(), Stop> {
    let open = standing.find(lost.id, cx)?;
    if let Some(open) = open.filter(|open| open.waits && open.to == recipient) {
        climb(standing, open, runtime, cx)?;
    }
    if !lost.matters {
        return Ok(());
    }
    let path = standing
        .record
        .parent
        .iter()
        .chain(&standing.record.escalation_path);
    let Some(to) = path.into_iter().find(|entry| *entry != recipient) else {
        return Ok(());
    };
    let reason = format!("message {} could not be delivered to {recipient}", lost.id);
    let (agent, record) = (standing.agent, standing.record);
    let to = to.clone();
    runtime.escalate(agent, record, &to, Severity::Warning, &reason, cx)
}

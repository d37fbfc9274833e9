//! Critical escalations that a hosted parent has to answer within a minute (VX-RUN-7).

use std::time::Duration;

use chancery_core::decision::{Cx, Stop};
use chancery_core::line::ProtocolName;
use chancery_core::rows::{Row, RowKey, RowsDamaged};
use chancery_core::time::Time;
use chancery_core::timer::TimerName;
use serde::{Deserialize, Serialize};

use super::timer::Timer;
use super::told::Told;
use crate::message_id::MessageId;
use crate::payload::{Escalation, Severity};

/// How long the parent's own judgement may take.
pub const EVALUATION: Duration = Duration::from_secs(60);

/// An escalation whose receiver has not said yet what becomes of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evaluation {
    /// Its identifier.
    pub id: MessageId,
    /// Who sent it.
    pub child: String,
    /// How grave it is.
    pub severity: Severity,
    /// Until when an answer is waited for.
    pub due: Time,
    /// What it said.
    pub reason: Box<str>,
    /// The context it gave.
    pub context: Box<str>,
    /// The action it named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_action: Option<Box<str>>,
}

/// The row of a judgement that is waited for.
pub fn evaluation_key(agent: &str, id: MessageId) -> RowKey {
    RowKey::text("vx-evaluate", &[agent, &id.to_string()])
}

fn name(agent: &str, id: MessageId) -> TimerName {
    TimerName {
        protocol: ProtocolName::ValueContext,
        name: format!("evaluate {id} {agent}"),
    }
}

/// Waits for the judgement of `agent`.
pub(super) fn begin(agent: &str, told: &Told<'_>, escalation: &Escalation, cx: &mut Cx<'_>) {
    let due = cx.now().saturating_add(EVALUATION).truncate_to_micros();
    let evaluation = Evaluation {
        id: told.id,
        child: told.sender.to_owned(),
        severity: escalation.severity,
        due,
        reason: escalation.reason.clone(),
        context: escalation.context.clone(),
        blocked_action: escalation.blocked_action.clone(),
    };
    cx.put(evaluation_key(agent, told.id), &evaluation);
    let timer = Timer::Evaluate {
        agent: agent.to_owned(),
        id: told.id,
    };
    cx.set_timer(&name(agent, told.id), due, &timer);
}

/// The judgement that is waited for.
pub(super) fn find(agent: &str, id: MessageId, cx: &Cx<'_>) -> Result<Option<Evaluation>, Stop> {
    cx.row(&evaluation_key(agent, id))
}

/// All judgements that are waited for from `agent`.
pub(super) fn all(agent: &str, cx: &Cx<'_>) -> Result<Vec<Evaluation>, Stop> {
    let rows = cx.scan(&RowKey::text("vx-evaluate", &[agent]))?;
    let read = |(key, bytes): (RowKey, Row)| {
        serde_json::from_slice(&bytes)
            .map_err(|error| RowsDamaged(format!("{key:?}: {error}")).into())
    };
    rows.into_iter().map(read).collect()
}

/// Waits no longer; whether it was waited for.
pub(super) fn end(agent: &str, id: MessageId, cx: &mut Cx<'_>) -> Result<bool, Stop> {
    let Some(evaluation) = find(agent, id, cx)? else {
        return Ok(false);
    };
    cx.remove(evaluation_key(agent, id));
    cx.cancel_timer(&name(agent, id), evaluation.due);
    Ok(true)
}

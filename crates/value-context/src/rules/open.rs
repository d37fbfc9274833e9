//! The escalations of a hosted agent that are not closed, and the run state they hold it to (VX-RUN-2, 5, 6).
//!
//! The state of an agent is the strictest that any of its open escalations holds it to. Only its parent closes one.
//! An escalation that was sent again because nobody acknowledged it belongs to the first: both are closed together.

use chancery_core::admin::{RunState, run_state, run_state_key};
use chancery_core::decision::{Cx, Event, Stop};
use chancery_core::line::ProtocolName;
use chancery_core::rows::{Row, RowKey, RowsDamaged};
use chancery_core::time::Time;
use serde::{Deserialize, Serialize};

use super::duties::stricter;
use super::{children, evaluations};
use crate::agent::{AgentRecord, hosted, participant};
use crate::constraints::Stamp;
use crate::message_id::MessageId;
use crate::payload::{Escalation, Severity};

/// How many open escalations of an agent are kept; beyond it the oldest is closed.
pub const MAX_OPEN: usize = 256;

/// An escalation that its sender has not seen closed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Open {
    /// Its identifier.
    pub id: MessageId,
    /// When it was made.
    pub at: Time,
    /// Whom it was sent to.
    pub to: String,
    /// How grave it is.
    pub severity: Severity,
    /// What it holds its sender to.
    pub holds: RunState,
    /// The escalation it repeats; itself when it is the first.
    pub first: MessageId,
    /// Whom it is sent to next when nobody acknowledges it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<String>,
    /// Whether an acknowledgement is waited for.
    pub waits: bool,
    /// What it said, for saying it again.
    pub reason: Box<str>,
    /// The context it gave.
    pub context: Box<str>,
    /// The action it named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked_action: Option<Box<str>>,
}

impl Open {
    /// An escalation that was just sent.
    pub(super) fn new(stamp: Stamp, to: &str, escalation: &Escalation) -> Self {
        Self {
            id: stamp.id,
            at: stamp.at,
            to: to.to_owned(),
            severity: escalation.severity,
            holds: RunState::Running,
            first: stamp.id,
            left: Vec::new(),
            waits: escalation.requires_ack,
            reason: escalation.reason.clone(),
            context: escalation.context.clone(),
            blocked_action: escalation.blocked_action.clone(),
        }
    }

    /// Whether there is a reason to keep it.
    fn is_wanted(&self) -> bool {
        self.waits || self.holds != RunState::Running
    }
}

/// The row of an open escalation. Run states belong to participants, so their escalations stand together.
pub fn open_key(participant: &str, agent: &str, id: MessageId) -> RowKey {
    open_prefix(participant, agent).child(id.to_string().as_bytes())
}

/// The prefix of an agent's open escalations.
pub fn open_prefix(participant: &str, agent: &str) -> RowKey {
    RowKey::text("vx-open", &[participant, agent])
}

/// The time of the newest resume that an agent got: what was said before it no longer counts.
fn resumed_key(agent: &str) -> RowKey {
    RowKey::text("vx-resumed", &[agent])
}

/// A hosted agent with what is open of it.
pub(super) struct Standing<'a> {
    pub(super) agent: &'a str,
    pub(super) record: &'a AgentRecord,
}

impl Standing<'_> {
    fn participant(&self) -> &str {
        participant(self.agent, Some(self.record))
    }

    fn key(&self, id: MessageId) -> RowKey {
        open_key(self.participant(), self.agent, id)
    }

    pub(super) fn find(&self, id: MessageId, cx: &Cx<'_>) -> Result<Option<Open>, Stop> {
        cx.row(&self.key(id))
    }

    /// All that is open of it, oldest identifier first.
    pub(super) fn all(&self, cx: &Cx<'_>) -> Result<Vec<Open>, Stop> {
        read_all(cx.scan(&open_prefix(self.participant(), self.agent))?)
    }

    /// Puts an escalation on record that was just sent.
    ///
    /// Its row is not looked up before: under an identifier that this decision made there is none, and a row that is
    /// not in memory would have the decision made again, under another identifier.
    pub(super) fn add(&self, open: &Open, cx: &mut Cx<'_>) -> Result<(), Stop> {
        self.keep(open, cx);
        let all = self.all(cx)?;
        for oldest in all.iter().take(all.len().saturating_sub(MAX_OPEN)) {
            cx.remove(self.key(oldest.id));
        }
        Ok(())
    }

    /// Puts an open escalation on record, or takes it off when nothing about it is open any more.
    pub(super) fn keep(&self, open: &Open, cx: &mut Cx<'_>) {
        if open.is_wanted() {
            cx.put(self.key(open.id), open);
        } else {
            cx.remove(self.key(open.id));
        }
    }

    /// Notes that nothing is open under an identifier that this decision made.
    pub(super) fn nothing_open(&self, id: MessageId, cx: &mut Cx<'_>) {
        cx.remove(self.key(id));
    }

    /// Holds the agent to at least this state.
    pub(super) fn hold(&self, state: RunState, of: MessageId, cx: &mut Cx<'_>) -> Result<(), Stop> {
        let now = run_state(cx, self.participant())?;
        self.set(now, stricter(now, state), of, cx);
        Ok(())
    }

    /// Closes those that `closes` names and that are not newer than `at`; the state follows when any was.
    pub(super) fn close(
        &self,
        at: Time,
        of: MessageId,
        closes: impl Fn(&Open) -> bool,
        cx: &mut Cx<'_>,
    ) -> Result<(), Stop> {
        let mut closed = false;
        for open in self.all(cx)? {
            if open.at <= at && closes(&open) {
                cx.remove(self.key(open.id));
                closed = true;
            }
        }
        if !closed {
            return Ok(());
        }
        let key = resumed_key(self.agent);
        let newest: Option<Time> = cx.row(&key)?;
        cx.put(key, &newest.map_or(at, |newest| newest.max(at)));
        self.follow(of, cx)
    }

    /// Whether something that was said at `at` was overtaken by a resume.
    pub(super) fn is_overtaken(&self, at: Time, cx: &Cx<'_>) -> Result<bool, Stop> {
        let newest: Option<Time> = cx.row(&resumed_key(self.agent))?;
        Ok(newest.is_some_and(|newest| at <= newest))
    }

    /// Brings the state in line with what is open of the whole participant.
    pub(super) fn follow(&self, of: MessageId, cx: &mut Cx<'_>) -> Result<(), Stop> {
        let now = run_state(cx, self.participant())?;
        let prefix = RowKey::text("vx-open", &[self.participant()]);
        let state = read_all(cx.scan(&prefix)?)?
            .iter()
            .fold(RunState::Running, |state, open| stricter(state, open.holds));
        self.set(now, state, of, cx);
        Ok(())
    }

    fn set(&self, from: RunState, to: RunState, of: MessageId, cx: &mut Cx<'_>) {
        if from == to {
            return;
        }
        cx.put(run_state_key(self.participant()), &to);
        let name = match to {
            RunState::Running => "resumed",
            RunState::Paused => "paused",
            RunState::Suspended => "suspended",
        };
        cx.event(Event {
            name,
            protocol: ProtocolName::ValueContext,
            message_id: Some(of.to_string()),
        });
    }
}

/// The operator lets an agent go on: nothing of it is open any more, and its parent holds it to nothing.
pub fn operator_resumed(agent: &str, cx: &mut Cx<'_>) -> Result<(), Stop> {
    let record = hosted(cx, agent)?;
    let prefix = RowKey::text("vx-open", &[participant(agent, record.as_deref())]);
    for (key, _) in cx.scan(&prefix)? {
        cx.remove(key);
    }
    let Some(parent) = record
        .as_deref()
        .and_then(|record| record.parent.as_deref())
    else {
        return Ok(());
    };
    for open in children::view_of(parent, agent, cx)?.open {
        evaluations::end(parent, open.stamp.id, cx)?;
    }
    cx.remove(children::child_key(parent, agent));
    Ok(())
}

fn read_all(rows: Vec<(RowKey, Row)>) -> Result<Vec<Open>, Stop> {
    let read = |(key, bytes): (RowKey, Row)| {
        serde_json::from_slice(&bytes)
            .map_err(|error| RowsDamaged(format!("{key:?}: {error}")).into())
    };
    rows.into_iter().map(read).collect()
}

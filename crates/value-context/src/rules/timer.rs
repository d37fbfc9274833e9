//! The timers of these rules, and what comes of one that is due.

use chancery_core::admin::{Act, node_line};
use chancery_core::decision::{Cx, Stop, Verdict};
use chancery_core::line::{Origin, ProtocolName};
use serde::{Deserialize, Serialize};

use super::open::Standing;
use super::runtime::Runtime;
use super::{evaluations, forwards, unacknowledged};
use crate::agent::hosted;
use crate::message_id::MessageId;
use crate::protocol::Answer;
use crate::settings::Settings;

/// A timer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "timer", rename_all = "snake_case")]
pub enum Timer {
    /// An acknowledgement should have come by now (VX-ACK-6).
    AckMissing {
        /// Who escalated.
        agent: String,
        /// What.
        id: MessageId,
    },
    /// A judgement should have come by now (VX-RUN-7).
    Evaluate {
        /// Who is to judge.
        agent: String,
        /// What.
        id: MessageId,
    },
}

/// Decides a timer that is due: whether it is still wanted, and what follows.
pub fn due(timer: &Timer, settings: &Settings, cx: &mut Cx<'_>) -> Result<Verdict<Answer>, Stop> {
    let (agent, id) = match timer {
        Timer::AckMissing { agent, id } | Timer::Evaluate { agent, id } => (agent, *id),
    };
    let Some(record) = hosted(cx, agent)? else {
        return Ok(nothing());
    };
    let mut runtime = Runtime::new(settings);
    match timer {
        Timer::AckMissing { .. } => {
            let standing = Standing {
                agent,
                record: &record,
            };
            let Some(open) = standing.find(id, cx)?.filter(|open| open.waits) else {
                return Ok(nothing());
            };
            note(timer, cx);
            unacknowledged::climb(&standing, open, &mut runtime, cx)?;
        }
        Timer::Evaluate { .. } => {
            let Some(evaluation) = evaluations::find(agent, id, cx)? else {
                return Ok(nothing());
            };
            note(timer, cx);
            evaluations::end(agent, id, cx)?;
            forwards::unanswered(agent, &record, &evaluation, &mut runtime, cx)?;
        }
    }
    runtime.work_off(cx)?;
    Ok(Verdict::Record {
        answer: Answer::Noted,
    })
}

/// A timer that was still wanted is a line: it caused something.
fn note(timer: &Timer, cx: &mut Cx<'_>) {
    let act = Act::Timer {
        protocol: ProtocolName::ValueContext,
        timer: serde_json::to_value(timer).expect("a timer is plain data"),
    };
    let now = cx.now();
    cx.line(node_line(&act, Origin::External, Some(now)));
}

fn nothing() -> Verdict<Answer> {
    Verdict::Pass {
        answer: Answer::Noted,
        repeat: Vec::new(),
    }
}

//! A call without an answer: its behaviour failed, or it never arrived.

use chancery_core::admin::{Act, node_line};
use chancery_core::decision::{Cx, Stop, Verdict};
use chancery_core::line::{Origin, ProtocolName, Seq};
use chancery_core::protocol::Failure;

use super::chain::{pair, pair_key};
use super::judge::{Outcome, judge};
use super::{OpenCall, SentCall, open_call_key, sent_call_key};
use crate::answer::Answer;

/// Puts a failure on record, if the call still waits. An accepted call stays accepted (VA-SRV-9); one that the target
/// did not take gives its number back (VA-DSP-10).
pub fn failed(
    of: Seq,
    about: &str,
    why: Failure,
    cx: &mut Cx<'_>,
) -> Result<Verdict<Answer>, Stop> {
    let accepted: Option<OpenCall> = cx.row(&open_call_key(of))?;
    let sent: Option<SentCall> = cx.row(&sent_call_key(of))?;
    match (&accepted, &sent) {
        (Some(call), _) => {
            cx.remove(open_call_key(of));
            if call.ours {
                judge(&call.from, &call.to, Outcome::Failed, cx)?;
            }
        }
        (None, Some(sent)) => {
            settle(of, sent, why, cx)?;
            judge(&sent.from, &sent.to, Outcome::Failed, cx)?;
        }
        (None, None) => {
            return Ok(Verdict::Pass {
                answer: Answer::Noted,
                repeat: Vec::new(),
            });
        }
    }
    let act = Act::Failed {
        protocol: ProtocolName::Vacant,
        of,
        about: about.to_owned(),
        code: why,
    };
    let now = cx.now();
    cx.line(node_line(&act, Origin::External, Some(now)));
    Ok(Verdict::Record {
        answer: Answer::Noted,
    })
}

/// A call of ours that ended without an answer.
fn settle(of: Seq, sent: &SentCall, why: Failure, cx: &mut Cx<'_>) -> Result<(), Stop> {
    cx.remove(sent_call_key(of));
    let mut asked = pair(cx, &sent.from, &sent.to)?;
    let Some(pending) = asked.pending.take_if(|pending| pending.line == of) else {
        return Ok(());
    };
    if !was_accepted(why) {
        // Whatever was built on it the target cannot have accepted either: chains have no gaps.
        asked.state = pending.before;
    }
    cx.put(pair_key(&sent.from, &sent.to), &asked);
    Ok(())
}

/// Whether a target that fails this way has taken the call.
const fn was_accepted(why: Failure) -> bool {
    match why {
        Failure::BehaviourFailed | Failure::BehaviourTimeout => true,
        Failure::Undeliverable | Failure::Interrupted | Failure::CallRefused => false,
    }
}

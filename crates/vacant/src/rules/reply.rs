//! The signed answer to a call of ours, from a vacant elsewhere (VA-DSP-6).

use chancery_core::decision::{Cx, Stop, Verdict};
use chancery_core::line::Seq;
use chancery_core::protocol::Authentic;
use chancery_core::refusal::Refusal;

use super::chain::{pair, pair_key, put_advanced};
use super::judge::{Outcome, judge};
use super::serve::draft;
use super::{SentCall, inbox, refuse, sent_call_key};
use crate::agent::hosted;
use crate::answer::Answer;
use crate::error::ProtocolError;
use crate::message::Message;

/// Decides an answer: it is from the target, for the caller, and next in its chain.
pub fn reply(
    to: Seq,
    authentic: &Authentic<Message>,
    cx: &mut Cx<'_>,
) -> Result<Verdict<Answer>, Stop> {
    let message = &authentic.message;
    let envelope = &message.envelope;
    let sent: Option<SentCall> = cx.row(&sent_call_key(to))?;
    let Some(sent) = sent else {
        let message = "no call of that line waits for an answer";
        return Err(Refusal::new("ANSWERED", 409, "CH-JRN-16", message).into());
    };
    if envelope.from != sent.to || envelope.to != sent.from {
        let reason = "the answer is of another pair";
        return Err(refuse(ProtocolError::format(reason)));
    }
    let verified = message.verified.ok_or_else(|| {
        refuse(ProtocolError::EnvelopeSignature(
            "the answer was not verified",
        ))
    })?;
    // The target has accepted the call, or it would have no answer.
    let mut asked = pair(cx, &sent.from, &sent.to)?;
    asked.pending = None;
    let mut back = pair(cx, &sent.to, &sent.from)?;
    back.state
        .check_and_advance(envelope, verified.hash)
        .map_err(Refusal::from)?;
    put_advanced(envelope, verified, &mut back, cx);
    let line = cx.line(draft(message, verified, Some(to), cx));
    // Whoever asked for the call once more finds its answer (CH-NET).
    asked.call = Some(to);
    asked.answer = Some(line);
    cx.put(pair_key(&sent.from, &sent.to), &asked);
    cx.remove(sent_call_key(to));
    if hosted(cx, &sent.from)?.is_some_and(|caller| caller.inbox) {
        cx.inbox(inbox(&sent.name), line);
    }
    judge(&sent.from, &sent.to, Outcome::Answered, cx)?;
    Ok(Verdict::Record {
        answer: Answer::Replied(line),
    })
}

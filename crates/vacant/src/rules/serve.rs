//! A call from outside: accepted and on record before its behaviour runs (VA-REP-11).

use chancery_core::decision::{Cx, Guard, Stop, Verdict};
use chancery_core::fault;
use chancery_core::line::{Draft, DraftEnvelope, MetaValue, Origin, ProtocolName, Seq};
use chancery_core::protocol::Authentic;
use chancery_core::refusal::Refusal;

use super::chain::{Pair, pair, put_advanced};
use super::{CHECKS, OpenCall, check_can_be_called, inbox, open_call_key, refuse};
use crate::agent::{Hosted, hosted};
use crate::answer::{Accepted, Answer};
use crate::envelope::{Envelope, Verified};
use crate::error::ProtocolError;
use crate::message::Message;
use crate::native::OutOfTurn;

/// Decides an authentic call.
pub fn serve(authentic: &Authentic<Message>, cx: &mut Cx<'_>) -> Result<Verdict<Answer>, Stop> {
    let message = &authentic.message;
    let envelope = &message.envelope;
    let target = hosted(cx, &envelope.to)?.ok_or_else(|| refuse(ProtocolError::Misdirected))?;
    let verified = message.verified.ok_or_else(|| {
        refuse(ProtocolError::EnvelopeSignature(
            "the envelope was not verified",
        ))
    })?;
    check_can_be_called(&target, cx)?;
    let mut pair = pair(cx, &envelope.from, &envelope.to)?;
    pair.state
        .check_and_advance(envelope, verified.hash)
        .map_err(|error| out_of_turn(error, &pair, verified))?;
    ask_for_room(&target, cx)?;
    let line = cx.line(draft(message, verified, None, cx));
    let accepted = open(envelope, verified, &target, false, line, &mut pair, cx);
    Ok(Verdict::Record {
        answer: Answer::Accepted(accepted),
    })
}

/// Opens a call that the line records: its chain advances and it waits for one outcome. `ours` when a vacant of this
/// node made it.
pub(super) fn open(
    envelope: &Envelope,
    verified: Verified,
    target: &Hosted,
    ours: bool,
    line: Seq,
    pair: &mut Pair,
    cx: &mut Cx<'_>,
) -> Accepted {
    pair.call = Some(line);
    pair.answer = None;
    put_advanced(envelope, verified, pair, cx);
    let call = OpenCall {
        from: envelope.from,
        to: envelope.to,
        name: target.name.clone(),
        profile: verified.profile,
        ours,
    };
    cx.put(open_call_key(line), &call);
    if target.inbox {
        cx.inbox(inbox(&target.name), line);
    }
    Accepted {
        call: line,
        name: call.name,
        caller: call.from,
        profile: call.profile,
    }
}

/// A vacant that answers from its inbox needs room there.
pub(super) fn ask_for_room(target: &Hosted, cx: &mut Cx<'_>) -> Result<(), Stop> {
    if !target.inbox {
        return Ok(());
    }
    let name = inbox(&target.name);
    cx.guard(Guard::Inbox { name: &name }, || {
        ProtocolError::Overloaded("the inbox of the vacant is full").into()
    })
}

/// The sender learns where its own chain stands, and gets the answer it lost (VA-SRV-11, VA-SRV-12).
fn out_of_turn(error: ProtocolError, pair: &Pair, verified: Verified) -> Refusal {
    let is_last_again =
        pair.state.chain_tip == verified.hash && !fault::on("va-lost-answer-stays-lost");
    let place = OutOfTurn {
        answer: pair.answer.filter(|_| is_last_again),
        chain_tip: pair.state.chain_tip.hex(),
        last_sequence_no: pair.state.last_sequence_no,
    };
    place.refuse(error)
}

/// The line of an envelope from outside; `answers` names the call of ours that it answers.
pub(super) fn draft(
    message: &Message,
    verified: Verified,
    answers: Option<Seq>,
    cx: &Cx<'_>,
) -> Draft {
    let mut meta = vec![
        ("checks_passed", MetaValue::Words(CHECKS)),
        ("key", MetaValue::Text(message.envelope.from.hex())),
    ];
    let form = verified.profile.form();
    meta.extend(form.map(|form| ("form", MetaValue::Text(form.to_owned()))));
    meta.extend(answers.map(|line| ("answers", MetaValue::Integer(line))));
    Draft {
        protocol: ProtocolName::Vacant,
        origin: Origin::External,
        envelope: DraftEnvelope::Whole(message.canonical.clone()),
        raw: message.raw.clone(),
        signature: None,
        eval_ts: Some(cx.now()),
        meta,
    }
}

//! What a hosted vacant sends: the answer to a call, or a call of its own.

use std::time::Duration;

use bytes::Bytes;
use chancery_core::canonical::{Dialect, to_bytes};
use chancery_core::decision::{Cx, Stop, Verdict};
use chancery_core::delivery::Delivery;
use chancery_core::fault;
use chancery_core::line::{Draft, DraftEnvelope, MetaValue, Origin, ProtocolName, Seq};
use chancery_core::refusal::Refusal;

use super::chain::{Pair, Pending, pair, pair_key, put_advanced};
use super::judge::{Outcome, judge};
use super::serve::{ask_for_room, open};
use super::{
    CHECKS, OpenCall, SENT, SentCall, check_can_be_called, check_not_suspended, open_call_key,
    refuse, sent_call_key, window_id,
};
use crate::agent::{Hosted, hosted};
use crate::answer::Answer;
use crate::envelope::{self, Envelope, Verified};
use crate::error::ProtocolError;
use crate::id::VacantId;
use crate::outgoing::Call;
use crate::payload::{Payload, Profile};
use crate::wire::to_unsealed;

/// How long a repeated request to send is recognised.
const IDEMPOTENCY: Duration = Duration::from_secs(24 * 60 * 60);
/// The pauses before the second and further attempts: as long as a restart of the target may take. A repeat is
/// harmless: the target says that it has the envelope, and what it answered (VA-SRV-12).
const PAUSES_MS: [u32; 7] = [1_000, 2_000, 4_000, 8_000, 15_000, 30_000, 60_000];
/// How long one attempt may take (VA-DSP-9).
const ATTEMPT_MS: u32 = 60_000;

/// Decides the answer to an accepted call (VA-RSP-1): reading the tip, numbering and recording are one step (VA-RSP-3).
pub fn answer(
    agent: &str,
    to_line: Seq,
    payload: &Payload,
    cx: &mut Cx<'_>,
) -> Result<Verdict<Answer>, Stop> {
    let (id, sender) = sender(agent, cx)?;
    let call = open_call(&id, to_line, cx)?;
    check_not_suspended(sender.participant(), cx)?;
    let mut back = pair(cx, &call.to, &call.from)?;
    if fault::on("va-answers-start-anew") {
        back = Pair::default();
    }
    let profile = if fault::on("va-answers-in-base") {
        Profile::Base
    } else {
        call.profile
    };
    let made = Made::new(call.to, call.from, payload, profile, &back, cx)?;
    let line = cx.line(made.draft(Some(to_line), Vec::new(), cx));
    made.advance(&mut back, cx)?;
    keep_answer(&call, to_line, line, cx)?;
    cx.remove(open_call_key(to_line));
    if call.ours {
        judge(&call.from, &call.to, Outcome::Answered, cx)?;
    }
    Ok(Verdict::Record {
        answer: Answer::Answered(line),
    })
}

/// The call that is answered: it waits, and for this vacant. It has one outcome (CH-JRN-16).
fn open_call(id: &VacantId, line: Seq, cx: &Cx<'_>) -> Result<OpenCall, Stop> {
    let call: Option<OpenCall> = cx.row(&open_call_key(line))?;
    call.filter(|call| call.to == *id).ok_or_else(|| {
        let message = "no call of that line waits for an answer of this vacant";
        Refusal::new("ANSWERED", 409, "CH-JRN-16", message).into()
    })
}

/// The answer stays at hand as long as its call is the last of its pair (VA-SRV-12).
fn keep_answer(call: &OpenCall, to_line: Seq, line: Seq, cx: &mut Cx<'_>) -> Result<(), Stop> {
    let mut asked = pair(cx, &call.from, &call.to)?;
    if asked.call == Some(to_line) {
        asked.answer = Some(line);
        cx.put(pair_key(&call.from, &call.to), &asked);
    }
    Ok(())
}

/// Decides a call that a hosted vacant makes.
pub fn call(
    agent: &str,
    call: &Call,
    idempotency: Option<&str>,
    cx: &mut Cx<'_>,
) -> Result<Verdict<Answer>, Stop> {
    let (id, sender) = sender(agent, cx)?;
    check_can_be_called(&sender, cx)?;
    let request = idempotency.map(|key| window_id(agent, key));
    if let Some(line) = request.and_then(|request| cx.seen(SENT, &request)) {
        return Ok(Verdict::Pass {
            answer: Answer::SentBefore(line),
            repeat: Vec::new(),
        });
    }
    let known = pair(cx, &call.to, &id)?.profile;
    let profile = call.profile.unwrap_or(known);
    let mut out = pair(cx, &id, &call.to)?;
    let made = Made::new(id, call.to, &call.payload, profile, &out, cx)?;
    let line = cx.next_seq();
    let mut meta: Vec<_> = idempotency
        .into_iter()
        .map(|key| ("idempotency", key))
        .collect();
    let answer = match hosted(cx, &call.to)? {
        Some(target) => {
            check_can_be_called(&target, cx)?;
            ask_for_room(&target, cx)?;
            cx.line(made.draft(None, meta, cx));
            made.step(&mut out)?;
            let accepted = open(
                &made.envelope,
                made.verified,
                &target,
                true,
                line,
                &mut out,
                cx,
            );
            Answer::Called {
                line,
                here: Some(accepted),
            }
        }
        None => {
            check_free(&out)?;
            let endpoint = call.endpoint.as_deref().ok_or_else(|| {
                refuse(ProtocolError::TargetNotFound("the target has no endpoint"))
            })?;
            meta.push(("endpoint", endpoint));
            cx.line(made.draft(None, meta, cx));
            send_out(&sender, endpoint, &made, line, &mut out, cx)?;
            Answer::Called { line, here: None }
        }
    };
    if let Some(request) = request {
        cx.remember(SENT, request, line, IDEMPOTENCY);
    }
    Ok(Verdict::Record { answer })
}

/// One call to a target at a time: the next number is known only when the target has taken the last (VA-DSP-10).
fn check_free(out: &Pair) -> Result<(), Stop> {
    if out.pending.is_some() {
        let reason = "a call of this target is under way";
        return Err(refuse(ProtocolError::Overloaded(reason)));
    }
    Ok(())
}

/// The chain goes forward at once, so that an answer of ours in between has its place, and back again if the target
/// says that it never accepted the call.
fn send_out(
    sender: &Hosted,
    endpoint: &str,
    made: &Made,
    line: Seq,
    out: &mut Pair,
    cx: &mut Cx<'_>,
) -> Result<(), Stop> {
    out.pending = Some(Pending {
        line,
        before: out.state,
    });
    out.call = None;
    out.answer = None;
    made.advance(out, cx)?;
    let sent = SentCall {
        from: made.envelope.from,
        name: sender.name.clone(),
        to: made.envelope.to,
        hash: made.verified.hash,
    };
    cx.put(sent_call_key(line), &sent);
    let delivery = Delivery {
        protocol: ProtocolName::Vacant,
        from: sender.participant().to_owned(),
        to: endpoint.to_owned(),
        exempt: false,
        pauses_ms: PAUSES_MS.to_vec(),
        attempt_ms: ATTEMPT_MS,
        within_ms: None,
        then_ask: None,
    };
    cx.deliver(line, delivery);
    Ok(())
}

/// The vacant that sends, by its id: it is hosted here.
fn sender(agent: &str, cx: &Cx<'_>) -> Result<(VacantId, Hosted), Stop> {
    let unknown = || refuse(ProtocolError::NotFound("no such vacant is hosted here"));
    let id = VacantId::from_hex(agent).map_err(|_| unknown())?;
    let sender = hosted(cx, &id)?.ok_or_else(unknown)?;
    Ok((id, sender))
}

/// An envelope that was made here and waits for its signature.
struct Made {
    envelope: Envelope,
    verified: Verified,
}

impl Made {
    /// The next envelope of a pair: number, hash before, time and a fresh key are the node's (VA-RSP-1, VA-ENV-10).
    fn new(
        from: VacantId,
        to: VacantId,
        payload: &Payload,
        profile: Profile,
        pair: &Pair,
        cx: &mut Cx<'_>,
    ) -> Result<Self, Stop> {
        let draft = envelope::Draft {
            from,
            to,
            payload: payload.clone(),
            sequence_no: pair.state.next_sequence_no().map_err(Refusal::from)?,
            prev: pair.state.chain_tip,
            timestamp: cx.now(),
            idempotency_key: cx.uuid4().to_string(),
            profile,
        };
        let profile = draft.profile_of_payload();
        let envelope = draft.unsigned();
        let verified = Verified {
            profile,
            hash: envelope.hash(profile),
        };
        Ok(Self { envelope, verified })
    }

    /// Moves a pair's state on to this envelope.
    fn step(&self, pair: &mut Pair) -> Result<(), Stop> {
        let advanced = pair
            .state
            .check_and_advance(&self.envelope, self.verified.hash);
        Ok(advanced.map_err(Refusal::from)?)
    }

    fn advance(&self, pair: &mut Pair, cx: &mut Cx<'_>) -> Result<(), Stop> {
        self.step(pair)?;
        put_advanced(&self.envelope, self.verified, pair, cx);
        Ok(())
    }

    /// The line. `endpoint` in `meta` is where a call was posted: recovery starts its delivery again from there.
    fn draft(
        &self,
        answers: Option<Seq>,
        further: Vec<(&'static str, &str)>,
        cx: &Cx<'_>,
    ) -> Draft {
        let message = to_unsealed(&self.envelope, self.verified.profile);
        let bytes: Bytes = to_bytes(&message.into(), Dialect::Vibe).into();
        let mut meta = vec![("checks_passed", MetaValue::Words(CHECKS))];
        let form = self.verified.profile.form();
        meta.extend(form.map(|form| ("form", MetaValue::Text(form.to_owned()))));
        meta.extend(answers.map(|line| ("answers", MetaValue::Integer(line))));
        let text = |(name, text): (&'static str, &str)| (name, MetaValue::Text(text.to_owned()));
        meta.extend(further.into_iter().map(text));
        Draft {
            protocol: ProtocolName::Vacant,
            origin: Origin::Agent,
            envelope: DraftEnvelope::Unsealed {
                bytes,
                signer: self.envelope.from.hex(),
            },
            raw: None,
            signature: None,
            eval_ts: Some(cx.now()),
            meta,
        }
    }
}

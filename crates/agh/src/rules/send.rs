//! An envelope of a local peer: the same table holds for what is sent as for what is received (AG-LIF-10).

use std::time::Duration;

use bytes::Bytes;
use chancery_core::admin::{RunState, run_state};
use chancery_core::canonical::{Dialect, to_bytes};
use chancery_core::decision::{Cx, Guard, Stop, Verdict};
use chancery_core::json::{Object, Value};
use chancery_core::line::{Draft, DraftEnvelope, MetaValue, Origin, ProtocolName, Seq};
use chancery_core::refusal::Refusal;

use super::audience::{hand_over, local_recipients, publish};
use super::interactions;
use super::receive::{take_effect, work_of};
use super::respond::answer_question;
use super::{CHECKS, SEEN, SENT, envelope_id, memory_span, window_id};
use crate::answer::{Answer, Outcome, Verdict as Word};
use crate::fault::{ErrorName, Fault, Stage};
use crate::grammar::is_sent_work_id;
use crate::kind::Kind;
use crate::lifecycle::{self, Move};
use crate::message::{Content, Message};
use crate::outgoing::Outgoing;
use crate::peer::{PeerRecord, address, local};
use crate::revision::Revision;
use crate::secret;
use crate::settings::Settings;
use crate::soft::present_name;

/// How long a repeated request is recognised.
const IDEMPOTENCY: Duration = Duration::from_secs(24 * 60 * 60);

/// Decides what a local peer wants to send.
pub fn send(
    outgoing: &Outgoing,
    idempotency: Option<&str>,
    settings: &Settings,
    cx: &mut Cx<'_>,
) -> Result<Verdict<Answer>, Stop> {
    let (workspace, channel, from) = outgoing.place();
    let own_address = address(workspace, channel, from);
    let record = sending_peer(workspace, channel, from, cx)?;
    let request = idempotency.map(|key| window_id(&[&own_address, key]));
    if let Some(seq) = request.and_then(|request| cx.seen(SENT, &request)) {
        return Ok(Verdict::Pass {
            answer: Answer::SentBefore(seq),
            repeat: Vec::new(),
        });
    }
    let (bytes, message) = make(outgoing, &record, settings, cx)?;
    if let Err(fault) = check(&message, stricter, cx)? {
        return Err(refused(fault, &message).into());
    }
    let drafted = draft(outgoing, bytes, idempotency, cx);
    let (line, outcome) = carry_out(&message, &record, drafted, settings, cx)?;
    if let Some(request) = request {
        cx.remember(SENT, request, line, IDEMPOTENCY);
    }
    Ok(Verdict::Record {
        answer: Answer::Decided(Box::new(outcome)),
    })
}

/// Puts an envelope of a local peer on the log, moves its interaction, and brings it to whom it is for: inboxes here,
/// everybody else over the network.
pub(super) fn carry_out(
    message: &Message,
    record: &PeerRecord,
    drafted: Draft,
    settings: &Settings,
    cx: &mut Cx<'_>,
) -> Result<(Seq, Outcome), Stop> {
    let step = step_of(message, settings, cx)?;
    let recipients = local_recipients(
        message,
        step.as_ref().and_then(|(_, stored, _)| stored.as_ref()),
        cx,
    )?;
    let stays_here = message.to.as_ref().is_some_and(|_| !recipients.is_empty());
    let busy = || refused(Fault::new(ErrorName::Busy, Stage::Routing), message);
    cx.guard(Guard::Window, busy)?;
    if !stays_here {
        let network = Guard::Network {
            protocol: ProtocolName::Agh,
        };
        cx.guard(network, busy)?;
    }
    let line = cx.line(drafted);
    let span = memory_span(message, cx.now(), settings);
    cx.remember(SEEN, envelope_id(message), line, span);
    let mut outcome = Outcome::new(Word::Accept, &message.id, message.revision);
    outcome.trust = message.trust.as_str();
    outcome.step = step.as_ref().map(|(_, _, step)| *step);
    outcome.state = take_effect(message, step, line, settings, cx)?;
    if let Ok(Content::Request { query, wanted }) = &message.content {
        outcome.emitted = answer_question(message, query.as_deref(), wanted, settings, cx)?;
    } else if message.kind != Some(Kind::Greet) {
        hand_over(message, &recipients, line, cx);
        outcome.deliver_to = recipients;
    }
    if !stays_here {
        let address = record.address();
        publish(message, record.participant(&address), line, cx);
    }
    Ok((line, outcome))
}

/// The sender's record: a peer that is hosted here, in that channel, and free to speak.
pub(super) fn sending_peer(
    workspace: Option<&str>,
    channel: &str,
    from: &str,
    cx: &Cx<'_>,
) -> Result<PeerRecord, Stop> {
    let revision = workspace.map_or(Revision::A, |_| Revision::B);
    let Some(record) = local(cx, workspace, channel, from)? else {
        let fault = Fault::new(ErrorName::NotFound, Stage::Routing).at("from");
        let mut refusal = fault.into_refusal(revision);
        refusal.status = 404;
        return Err(refusal.into());
    };
    if run_state(cx, record.participant(&record.address()))? == RunState::Suspended {
        let fault = Fault::new(ErrorName::SenderSuspended, Stage::Routing);
        return Err(fault.into_refusal(revision).into());
    }
    Ok(record)
}

/// The envelope that is made of a request, checked as a receiver would (AG-VAL-8).
fn make(
    outgoing: &Outgoing,
    record: &PeerRecord,
    settings: &Settings,
    cx: &mut Cx<'_>,
) -> Result<(Bytes, Message), Stop> {
    let id = (!outgoing.has_id()).then(|| cx.uuid7().to_string());
    let now = cx.now().unix_seconds();
    let envelope = outgoing
        .envelope(id, now, record.public_key.as_deref(), settings)
        .ok_or_else(|| {
            Fault::new(ErrorName::ProofInvalid, Stage::Trust).into_refusal(Revision::A)
        })?;
    if settings.secret_guard_outbound {
        guard_secrets(&envelope)?;
    }
    let bytes: Bytes = to_bytes(&Value::Object(envelope), Dialect::Vibe).into();
    // The proof is put in after the decision; what a receiver will make of it is not asked here.
    let mut as_received = settings.clone();
    as_received.trust.enabled = false;
    let with_handle = settings.trust.enabled && outgoing.signed;
    if with_handle {
        as_received.trust = crate::settings::Trust {
            enabled: true,
            ..Default::default()
        };
    }
    as_received.secret_guard_inbound = false;
    let message = Message::decode(bytes.clone(), &as_received, None)
        .map_err(|undecodable| undecodable.fault.into_refusal(undecodable.revision))?;
    Ok((bytes, message))
}

fn guard_secrets(envelope: &Object<'_>) -> Result<(), Refusal> {
    let member = |name| envelope.get(name).and_then(Value::as_object);
    let Some(body) = member("body") else {
        return Ok(());
    };
    secret::check(body, None, member("ext")).map_err(|fault| fault.into_refusal(Revision::A))
}

/// Whether the form is good, the envelope is new, and the target is there (AG-PRS-7). `also` is asked of the form.
pub(super) fn check(
    message: &Message,
    also: impl FnOnce(&Message) -> Option<Fault>,
    cx: &mut Cx<'_>,
) -> Result<Result<(), Fault>, Stop> {
    if message.kind.is_none() {
        let fault = Fault::new(ErrorName::UnsupportedKind, Stage::Members);
        return Ok(Err(fault.at("kind")));
    }
    if let Err(fault) = &message.content {
        return Ok(Err(fault.clone()));
    }
    if let Some(fault) = also(message) {
        return Ok(Err(fault));
    }
    if cx.seen(SEEN, &envelope_id(message)).is_some() {
        return Ok(Err(Fault::new(ErrorName::Duplicate, Stage::Routing)));
    }
    let Some(to) = message.to.as_deref() else {
        return Ok(Ok(()));
    };
    let workspace = message.workspace.as_deref();
    if local(cx, workspace, &message.channel, to)?.is_some() {
        return Ok(Ok(()));
    }
    let there = cx.passes(Guard::Present {
        protocol: ProtocolName::Agh,
        name: &present_name(workspace, &message.channel, to),
    });
    Ok(if there {
        Ok(())
    } else {
        Err(Fault::new(ErrorName::NotFound, Stage::Routing).at("to"))
    })
}

/// What is asked of senders beyond what receivers tolerate: AG-RCP-3, AG-TRC-2, AG-B-8.
fn stricter(message: &Message) -> Option<Fault> {
    let fault = |error, member| Some(Fault::new(error, Stage::Body).at(member));
    let in_b = message.revision == Revision::B;
    match (message.kind?, message.work.as_deref()) {
        (Kind::Receipt | Kind::Trace, _) if message.to.is_none() => {
            fault(ErrorName::ToRequired, "to")
        }
        (Kind::Capability, None) if in_b && message.to.is_some() => {
            fault(ErrorName::WorkIdRequired, "work_id")
        }
        (_, Some(work)) if in_b && !is_sent_work_id(work) => {
            fault(ErrorName::InvalidWorkId, "work_id")
        }
        _ => None,
    }
}

type Step = (
    chancery_core::rows::RowKey,
    Option<interactions::Stored>,
    Move,
);

/// The step that the message takes; one that would be ignored or rejected is not sent.
fn step_of(message: &Message, settings: &Settings, cx: &Cx<'_>) -> Result<Option<Step>, Stop> {
    let Some((said, key)) = work_of(message) else {
        return Ok(None);
    };
    let stored = interactions::find(&key, settings, cx)?;
    match lifecycle::decide(stored.as_ref().map(|stored| &stored.interaction), &said) {
        Move::Ignore(error) | Move::Reject(error) => {
            let fault = Fault::new(error, Stage::Lifecycle);
            Err(refused(fault, message).into())
        }
        step => Ok(Some((key, stored, step))),
    }
}

pub(super) fn refused(fault: Fault, message: &Message) -> Refusal {
    fault
        .into_refusal(message.revision)
        .of_message(&*message.id)
}

fn draft(outgoing: &Outgoing, bytes: Bytes, idempotency: Option<&str>, cx: &Cx<'_>) -> Draft {
    let mut meta = vec![("checks_passed", MetaValue::Words(CHECKS))];
    if let Some(key) = idempotency {
        meta.push(("idempotency", MetaValue::Text(key.to_owned())));
    }
    let (_, _, from) = outgoing.place();
    let envelope = if outgoing.signed {
        let signer = from.to_owned();
        DraftEnvelope::Unsealed { bytes, signer }
    } else {
        meta.push(("via", MetaValue::Text("in_process".to_owned())));
        DraftEnvelope::Whole(bytes)
    };
    Draft {
        protocol: ProtocolName::Agh,
        origin: Origin::Agent,
        envelope,
        raw: None,
        signature: None,
        eval_ts: Some(cx.now()),
        meta,
    }
}

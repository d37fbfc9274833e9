//! An envelope from the network, or from a peer at a door.

use bytes::Bytes;
use chancery_core::decision::{Cx, Guard, Stop, Verdict};
use chancery_core::fault;
use chancery_core::line::{Draft, DraftEnvelope, MetaValue, Origin, ProtocolName, Seq};
use chancery_core::protocol::{Authentic, Door};

use super::audience::{hand_over, local_recipients};
use super::conversations::{self, Worked};
use super::interactions::{self, Stored};
use super::respond::{answer_question, ignore, pass, reject, remember_softly};
use super::{CHECKS, SEEN, envelope_id, memory_span};
use crate::answer::{Answer, Outcome, Verdict as Word};
use crate::body::State;
use crate::fault::{ErrorName, Fault, Stage};
use crate::freshness;
use crate::greeting::answers_own_question;
use crate::lifecycle::{self, Event, Move, Said};
use crate::message::{Content, Message};
use crate::peer::local;
use crate::settings::Settings;
use crate::soft::Seen;
use crate::trust::TrustState;

/// Decides an envelope.
pub fn receive(
    authentic: &Authentic<Message>,
    settings: &Settings,
    cx: &mut Cx<'_>,
) -> Result<Verdict<Answer>, Stop> {
    let message = &authentic.message;
    let content = match check_alone(message, settings, cx) {
        Ok(content) => content,
        Err(fault) => return reject(message, fault, authentic.door, settings, cx),
    };
    if let Some(fault) = check_route(message, cx)? {
        return reject(message, fault, authentic.door, settings, cx);
    }
    match content {
        Content::Greet(card) => Ok(take_sign(
            message,
            &sign(message, card, None),
            settings,
            cx,
        )?),
        Content::Request { query, wanted } => {
            if message.to.as_deref() == Some(&*message.from) {
                let ignored = ignore(message, ErrorName::NotTarget, Stage::Routing, settings, cx);
                return Ok(ignored);
            }
            remember_softly(message, settings, cx);
            let mut outcome = accepted(message);
            outcome.emitted = answer_question(message, query.as_deref(), wanted, settings, cx)?;
            Ok(pass(outcome))
        }
        Content::Response { card, catalog } => {
            let seen = sign(message, card, catalog.clone());
            match &message.to {
                None => take_sign(message, &seen, settings, cx),
                Some(_) if answers_own_question(message) => take_sign(message, &seen, settings, cx),
                Some(_) => {
                    let seen = remote_only(message, seen, cx)?;
                    let mut verdict = record(message, None, authentic, settings, cx)?;
                    if let Verdict::Record {
                        answer: Answer::Decided(outcome),
                    } = &mut verdict
                    {
                        outcome.seen = seen;
                    }
                    Ok(verdict)
                }
            }
        }
        Content::Said | Content::Report(_) => speak(message, authentic, settings, cx),
    }
}

/// Steps that need nothing but the time: freshness, then the faults that were carried here.
pub(super) fn check_alone<'m>(
    message: &'m Message,
    settings: &Settings,
    cx: &Cx<'_>,
) -> Result<&'m Content, Fault> {
    if message.kind.is_none() {
        return Err(Fault::new(ErrorName::UnsupportedKind, Stage::Members).at("kind"));
    }
    if fault::on("ag-body-before-freshness") {
        message.content.as_ref().map_err(Clone::clone)?;
    }
    freshness::check(
        message.ts,
        message.expires_at,
        cx.now().unix_seconds(),
        settings.max_replay_age_s,
    )?;
    let content = message.content.as_ref().map_err(Clone::clone)?;
    match &message.trust {
        TrustState::Rejected(fault) => Err(fault.clone()),
        _ => Ok(content),
    }
}

/// Local target, then duplicates (AG-RTE-1, AG-DUP-2).
fn check_route(message: &Message, cx: &mut Cx<'_>) -> Result<Option<Fault>, Stop> {
    let fault = |error| Ok(Some(Fault::new(error, Stage::Routing)));
    if let Some(to) = &message.to {
        let workspace = message.workspace.as_deref();
        let is_local = local(cx, workspace, &message.channel, to)?.is_some();
        if !is_local && !fault::on("ag-anybody-is-target") {
            return fault(ErrorName::NotTarget);
        }
    }
    let id = envelope_id(message);
    let unseen = Guard::Once {
        protocol: ProtocolName::Agh,
        id: &id,
        until: None,
    };
    let seen = cx.seen(SEEN, &id).is_some() || !cx.passes(unseen);
    if seen && !fault::on("ag-duplicate-processed") {
        return fault(ErrorName::Duplicate);
    }
    Ok(None)
}

fn accepted(message: &Message) -> Outcome {
    let mut outcome = Outcome::new(Word::Accept, &message.id, message.revision);
    outcome.trust = message.trust.as_str();
    outcome
}

fn sign(
    message: &Message,
    card: &crate::body::card::PeerCard,
    catalog: Option<crate::whois::Catalog>,
) -> Seen {
    Seen {
        workspace: message.workspace.as_deref().map(str::to_owned),
        channel: message.channel.to_string(),
        card: card.clone(),
        catalog,
    }
}

/// A sign of life that leaves no line. A local peer wins over an announcement of its name (AG-PRS-3).
fn take_sign(
    message: &Message,
    seen: &Seen,
    settings: &Settings,
    cx: &mut Cx<'_>,
) -> Result<Verdict<Answer>, Stop> {
    let Some(seen) = remote_only(message, seen.clone(), cx)? else {
        return Ok(ignore(
            message,
            ErrorName::NotTarget,
            Stage::Routing,
            settings,
            cx,
        ));
    };
    remember_softly(message, settings, cx);
    let mut outcome = accepted(message);
    outcome.seen = Some(seen);
    Ok(pass(outcome))
}

fn remote_only(message: &Message, seen: Seen, cx: &Cx<'_>) -> Result<Option<Seen>, Stop> {
    let workspace = message.workspace.as_deref();
    let hosted = local(cx, workspace, &message.channel, &message.from)?;
    Ok(hosted.is_none().then_some(seen))
}

/// `say`, `direct`, `capability`, `receipt`, `trace`: the interaction, then delivery.
fn speak(
    message: &Message,
    authentic: &Authentic<Message>,
    settings: &Settings,
    cx: &mut Cx<'_>,
) -> Result<Verdict<Answer>, Stop> {
    let Some((said, key)) = work_of(message) else {
        let to_itself = message.to.as_deref() == Some(&*message.from);
        if to_itself {
            let error = ErrorName::NotTarget;
            return Ok(ignore(message, error, Stage::Lifecycle, settings, cx));
        }
        return record(message, None, authentic, settings, cx);
    };
    let stored = interactions::find(&key, settings, cx)?;
    let step = lifecycle::decide(stored.as_ref().map(|stored| &stored.interaction), &said);
    match step {
        Move::Ignore(error) => Ok(ignore(message, error, Stage::Lifecycle, settings, cx)),
        Move::Reject(error) => {
            let fault = Fault::new(error, Stage::Lifecycle);
            // It was processed: the same envelope again is a duplicate, not another rejection.
            remember_softly(message, settings, cx);
            reject(message, fault, authentic.door, settings, cx)
        }
        step => record(message, Some((key, stored, step)), authentic, settings, cx),
    }
}

/// What a message asks of its interaction, and where that is; none when it takes part in none (AG-SAY-3, AG-B-23).
pub(super) fn work_of(message: &Message) -> Option<(Said<'_>, chancery_core::rows::RowKey)> {
    let key = interactions::key_of(message)?;
    let report = match message.content {
        Ok(Content::Report(event)) => Some(event),
        _ => None,
    };
    let event: Event = lifecycle::event_of(message.kind?, message.revision, report)?;
    let said = Said {
        revision: message.revision,
        from: &message.from,
        to: message.to.as_deref(),
        container: message.container.as_ref().map(|container| &*container.id),
        event,
    };
    Some((said, key))
}

/// The step that a message takes in an interaction.
type Step = (chancery_core::rows::RowKey, Option<Stored>, Move);

/// Puts an accepted message on the log and hands it over.
fn record(
    message: &Message,
    step: Option<Step>,
    authentic: &Authentic<Message>,
    settings: &Settings,
    cx: &mut Cx<'_>,
) -> Result<Verdict<Answer>, Stop> {
    let mut outcome = accepted(message);
    let stored = step.as_ref().and_then(|(_, stored, _)| stored.as_ref());
    outcome.deliver_to = local_recipients(message, stored, cx)?;
    if step.is_none() && outcome.deliver_to.is_empty() {
        // It reaches nobody and moves nothing: nothing to put on record (CH-JRN-13).
        remember_softly(message, settings, cx);
        return Ok(pass(outcome));
    }
    ask_for_room(message, cx)?;
    let line = cx.line(draft(message, authentic.door, cx));
    cx.remember(
        SEEN,
        envelope_id(message),
        line,
        memory_span(message, cx.now(), settings),
    );
    outcome.step = step.as_ref().map(|(_, _, step)| *step);
    outcome.state = take_effect(message, step, line, settings, cx)?;
    hand_over(message, &outcome.deliver_to, line, cx);
    Ok(Verdict::Record {
        answer: Answer::Decided(Box::new(outcome)),
    })
}

/// What a recorded message does to its interaction and its conversation.
pub(super) fn take_effect(
    message: &Message,
    step: Option<Step>,
    line: Seq,
    settings: &Settings,
    cx: &mut Cx<'_>,
) -> Result<Option<State>, Stop> {
    let mut worked = Worked::default();
    if let Some((key, stored, step)) = step {
        worked.before = stored.as_ref().map(|stored| stored.interaction.state);
        let after = interactions::apply(key, stored, step, message, line, settings, cx)?;
        worked.after = Some(after);
    }
    conversations::note(message, worked, line, settings, cx)?;
    Ok(worked.after)
}

fn ask_for_room(message: &Message, cx: &mut Cx<'_>) -> Result<(), Stop> {
    let busy = || {
        Fault::new(ErrorName::Busy, Stage::Routing)
            .into_refusal(message.revision)
            .of_message(&*message.id)
    };
    cx.guard(
        Guard::Rate {
            sender: &message.from,
        },
        busy,
    )?;
    cx.guard(Guard::Window, busy)
}

fn draft(message: &Message, door: Door, cx: &Cx<'_>) -> Draft {
    let mut meta = vec![("checks_passed", MetaValue::Words(CHECKS))];
    if let TrustState::Verified { key_id } = &message.trust {
        meta.push(("key", MetaValue::Text(key_id.clone())));
    }
    if door == Door::InProcess {
        meta.push(("via", MetaValue::Text("in_process".to_owned())));
    }
    Draft {
        protocol: ProtocolName::Agh,
        origin: Origin::External,
        envelope: DraftEnvelope::Whole(Bytes::copy_from_slice(message.journal_bytes())),
        raw: message.raw_for_journal().cloned(),
        signature: None,
        eval_ts: Some(cx.now()),
        meta,
    }
}

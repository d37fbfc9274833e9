//! What the node says by itself: rejections with their receipts, and answers to questions. On no log.

use bytes::Bytes;
use chancery_core::decision::{Cx, Event, Guard, Stop, Verdict};
use chancery_core::delivery::Whisper;
use chancery_core::line::ProtocolName;
use chancery_core::protocol::Door;

use super::{envelope_id, memory_span};
use crate::answer::{Answer, Outcome, Verdict as Word};
use crate::fault::{ErrorName, Fault, Stage};
use crate::message::Message;
use crate::peer::{PeerRecord, Voice, in_channel, local};
use crate::receipts;
use crate::settings::Settings;
use crate::subject;
use crate::whois::{Wanted, answer};

/// The quota of answers to questions.
const ANSWERS: &str = "agh/answers";
/// The quota of automatic receipts.
const RECEIPTS: &str = "agh/receipts";

/// Refuses a message, with the receipt that is due.
pub(super) fn reject(
    message: &Message,
    fault: Fault,
    door: Door,
    settings: &Settings,
    cx: &mut Cx<'_>,
) -> Result<Verdict<Answer>, Stop> {
    let mut outcome = Outcome::new(Word::Reject, &message.id, message.revision);
    outcome
        .emitted
        .extend(receipt(message, &fault, door, settings, cx)?);
    tell(fault.error.as_str(), message, cx);
    outcome.trust = message.trust.as_str();
    outcome.fault = Some(fault);
    Ok(pass(outcome))
}

fn receipt(
    message: &Message,
    fault: &Fault,
    door: Door,
    settings: &Settings,
    cx: &mut Cx<'_>,
) -> Result<Option<Bytes>, Stop> {
    let Some((status, reason)) = receipts::due(message, fault) else {
        return Ok(None);
    };
    let (workspace, channel) = (message.workspace.as_deref(), &*message.channel);
    let to = message.to.as_deref().unwrap_or_default();
    let Some(record) = local(cx, workspace, channel, to)? else {
        return Ok(None);
    };
    let voice = record.voice(settings);
    if voice == Voice::Mute {
        return Ok(None);
    }
    // An own envelope that comes back over a broker is no repetition of anybody's.
    let came_back = fault.error == ErrorName::Duplicate && door == Door::Nats;
    if came_back && local(cx, workspace, channel, &message.from)?.is_some() {
        return Ok(None);
    }
    let quota = Guard::Quota {
        of: RECEIPTS,
        who: &message.from,
        per_second: settings.auto_receipts_per_second,
    };
    if !cx.passes(quota) {
        tell("receipt_dropped", message, cx);
        return Ok(None);
    }
    let id = cx.uuid7().to_string();
    let now = cx.now().unix_seconds();
    let bytes = receipts::receipt(message, status, reason, id, now, voice.public());
    whisper(message, bytes.clone(), voice.signer(to), cx);
    Ok(Some(bytes))
}

/// Leaves a message without effect (AG-LIF-9). A repetition of it is a duplicate all the same.
pub(super) fn ignore(
    message: &Message,
    error: ErrorName,
    stage: Stage,
    settings: &Settings,
    cx: &mut Cx<'_>,
) -> Verdict<Answer> {
    remember_softly(message, settings, cx);
    let mut outcome = Outcome::new(Word::Ignore, &message.id, message.revision);
    outcome.fault = Some(Fault::new(error, stage));
    outcome.trust = message.trust.as_str();
    tell(error.as_str(), message, cx);
    pass(outcome)
}

/// Answers a question (AG-WHO-3, AG-WHO-4).
pub(super) fn answer_question(
    message: &Message,
    query: Option<&str>,
    wanted: &Wanted,
    settings: &Settings,
    cx: &mut Cx<'_>,
) -> Result<Vec<Bytes>, Stop> {
    let (workspace, channel) = (message.workspace.as_deref(), &*message.channel);
    let asked = match message.to.as_deref() {
        Some(to) => vec![to.to_owned()],
        None => in_channel(cx, workspace, channel)?,
    };
    let mut answers = Vec::new();
    for peer in asked.iter().filter(|peer| ***peer != *message.from) {
        let Some(record) = local(cx, workspace, channel, peer)? else {
            continue;
        };
        let is_meant = message.to.is_some() || record.shown_card().matches(query);
        if is_meant {
            answers.extend(answer_of(&record, message, wanted, settings, cx));
        }
    }
    Ok(answers)
}

fn answer_of(
    record: &PeerRecord,
    message: &Message,
    wanted: &Wanted,
    settings: &Settings,
    cx: &mut Cx<'_>,
) -> Option<Bytes> {
    let voice = record.voice(settings);
    let who = format!("{}/{}", message.from, record.card.peer_id);
    let quota = Guard::Quota {
        of: ANSWERS,
        who: &who,
        per_second: settings.whois_answers_per_second,
    };
    if !cx.passes(quota) {
        tell("answer_dropped", message, cx);
        return None;
    }
    if voice == Voice::Mute {
        ask_itself(record, message, cx);
        return None;
    }
    let id = cx.uuid7().to_string();
    let made = answer(
        message,
        wanted,
        record,
        id,
        cx.now().unix_seconds(),
        settings.max_payload,
        voice.public(),
    );
    match made {
        Some(bytes) => {
            whisper(
                message,
                bytes.clone(),
                voice.signer(&record.card.peer_id),
                cx,
            );
            Some(bytes)
        }
        None => {
            tell(ErrorName::TooLarge.as_str(), message, cx);
            None
        }
    }
}

/// Remembers a message that leaves no line; says whether it is the first.
pub(super) fn remember_softly(message: &Message, settings: &Settings, cx: &mut Cx<'_>) -> bool {
    let span = memory_span(message, cx.now(), settings);
    let until = cx.now().saturating_add(span);
    cx.passes(Guard::Once {
        protocol: ProtocolName::Agh,
        id: &envelope_id(message),
        until: Some(until),
    })
}

/// Brings a question to a connected peer that has to answer by itself: only it can prove who it is.
fn ask_itself(record: &PeerRecord, message: &Message, cx: &mut Cx<'_>) {
    let workspace = message.workspace.as_deref();
    cx.whisper(Whisper {
        protocol: ProtocolName::Agh,
        to: subject::direct(workspace, &message.channel, &record.card.peer_id),
        bytes: message.received().clone(),
        signer: None,
    });
}

fn whisper(message: &Message, bytes: Bytes, signer: Option<String>, cx: &mut Cx<'_>) {
    let workspace = message.workspace.as_deref();
    cx.whisper(Whisper {
        protocol: ProtocolName::Agh,
        to: subject::of(workspace, &message.channel, Some(&message.from)),
        bytes,
        signer,
    });
}

pub(super) fn tell(name: &'static str, message: &Message, cx: &mut Cx<'_>) {
    cx.event(Event {
        name,
        protocol: ProtocolName::Agh,
        message_id: Some(message.id.to_string()),
    });
}

pub(super) fn pass(outcome: Outcome) -> Verdict<Answer> {
    Verdict::Pass {
        answer: Answer::Decided(Box::new(outcome)),
        repeat: Vec::new(),
    }
}

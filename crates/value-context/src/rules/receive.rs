//! A message from outside, or from another agent of this process.

use chancery_core::admin::key_key;
use chancery_core::decision::{Cx, Event, Stop, Verdict};
use chancery_core::fault;
use chancery_core::json::Place;
use chancery_core::keys::KeyValidity;
use chancery_core::line::{Draft, DraftEnvelope, MetaValue, Origin, ProtocolName};
use chancery_core::protocol::{Authentic, Door, Proof};

use super::audience::{ask_for_room, drop_those_who_have_it, hand_over, keep_newest, listeners};
use super::direction::{check_receiving, check_suspension};
use super::runtime::{Runtime, delivery};
use super::told::Told;
use super::{ACKED, CHECKS, content_tag, window_id};
use crate::agent::{hosted, participant};
use crate::code::{Code, Fault};
use crate::context::Context;
use crate::message::{Message, Payload};
use crate::protocol::Answer;
use crate::settings::Settings;
use crate::verify::check_window;

/// Decides an authentic message.
pub fn receive(
    authentic: &Authentic<Message>,
    settings: &Settings,
    cx: &mut Cx<'_>,
) -> Result<Verdict<Answer>, Stop> {
    let message = &authentic.message;
    let name = |stop| match stop {
        Stop::Refused(refusal) => Stop::Refused(refusal.of_message(message.message_id.to_string())),
        other => other,
    };
    decide(authentic, settings, cx).map_err(name)
}

fn decide(
    authentic: &Authentic<Message>,
    settings: &Settings,
    cx: &mut Cx<'_>,
) -> Result<Verdict<Answer>, Stop> {
    let message = &authentic.message;
    check_window(message.timestamp.instant, cx.now())
        .map_err(|fault| fault.into_refusal("temporal"))?;
    check_key(authentic, cx)?;
    let mut listeners = find_listeners(message, cx)?;
    if let Some(tag) = drop_those_who_have_it(&mut listeners, message.message_id, cx)
        && listeners.is_empty()
    {
        return duplicate(message, tag, cx);
    }
    let (sender, payload) = (message.sender.as_str(), &message.payload);
    check_receiving(sender, &message.recipient, payload, cx)?;
    check_suspension(sender, payload, &listeners, cx)?;
    ask_for_room(sender, payload, &listeners, cx)?;
    let envelope = message.journal_bytes();
    let told = Told {
        id: message.message_id,
        tag: content_tag(message.signed.jcs()),
        version: message.version,
        sender,
        recipient: &message.recipient,
        timestamp: &message.timestamp,
        payload,
        envelope,
        greeting: authentic.door == Door::WebSocket { greeting: true },
    };
    let mut meta = meta(authentic);
    if matches!(&authentic.proof, Proof::Key { form: Some(_), .. }) {
        tell("legacy_canonical", message, cx);
    }
    if let Payload::Escalation(escalation) = payload
        && Context::parse(&escalation.context).is_err()
    {
        tell("context_opaque", message, cx);
    }
    meta.extend(keep_newest(&told, &listeners, cx)?);
    let now = cx.now();
    let line = cx.line(Draft {
        protocol: ProtocolName::ValueContext,
        origin: Origin::External,
        envelope: DraftEnvelope::Whole(envelope.clone()),
        raw: message.raw_for_journal().cloned(),
        signature: None,
        eval_ts: Some(now),
        meta,
    });
    hand_over(&told, &listeners, line, settings, cx);
    Runtime::new(settings).follow(&told, &listeners, cx)?;
    Ok(Verdict::Record {
        answer: Answer::Accepted(message.message_id),
    })
}

/// A signature counts only under a key that is usable here and now, whatever it was when it was checked.
fn check_key(authentic: &Authentic<Message>, cx: &Cx<'_>) -> Result<(), Stop> {
    let Proof::Key { id, .. } = &authentic.proof else {
        return Ok(());
    };
    let validity: Option<KeyValidity> = cx.row(&key_key(authentic.message.sender.as_str(), id))?;
    let is_usable = validity.is_some_and(|validity| validity.usable_at(cx.now()));
    if is_usable || fault::on("vx-retired-key-accepted") {
        return Ok(());
    }
    let fault = Fault::new(Code::KeyNotValid, "the signing key is not usable now");
    Err(fault
        .at(&Place::ROOT.child("signature"))
        .into_refusal("signature")
        .into())
}

fn find_listeners(message: &Message, cx: &Cx<'_>) -> Result<Vec<String>, Stop> {
    let listeners = listeners(message.sender.as_str(), &message.recipient, cx)?;
    if listeners.is_empty() {
        let fault = Fault::new(Code::RecipientUnknown, "no such agent is hosted here");
        return Err(fault
            .at(&Place::ROOT.child("recipient"))
            .into_refusal("recipient")
            .into());
    }
    Ok(listeners)
}

/// A repeated escalation gets its acknowledgement again: the repetition suggests that it was lost (VX-ACK-4).
fn duplicate(message: &Message, tag: u64, cx: &mut Cx<'_>) -> Result<Verdict<Answer>, Stop> {
    let name = if tag == content_tag(message.signed.jcs()) {
        "duplicate"
    } else {
        "id_conflict"
    };
    tell(name, message, cx);
    let mut repeat = Vec::new();
    let sender = message.sender.as_str();
    if name == "duplicate" && hosted(cx, sender)?.is_none() {
        for listener in listeners(sender, &message.recipient, cx)? {
            let id = window_id(&listener, message.message_id.uuid().as_bytes());
            if let Some(line) = cx.seen(ACKED, &id) {
                let record = hosted(cx, &listener)?;
                let from = participant(&listener, record.as_deref());
                repeat.push((line, delivery(from, sender, true)));
            }
        }
    }
    Ok(Verdict::Pass {
        answer: Answer::Duplicate(message.message_id),
        repeat,
    })
}

fn tell(name: &'static str, message: &Message, cx: &mut Cx<'_>) {
    cx.event(Event {
        name,
        protocol: ProtocolName::ValueContext,
        message_id: Some(message.message_id.to_string()),
    });
}

fn meta(authentic: &Authentic<Message>) -> Vec<(&'static str, MetaValue)> {
    let mut meta = Vec::with_capacity(4);
    meta.push(("checks_passed", MetaValue::Words(CHECKS)));
    match &authentic.proof {
        Proof::Key { id, form } => {
            meta.push(("key", MetaValue::Text(id.clone())));
            if let Some(form) = form {
                meta.push(("form", MetaValue::Text((*form).to_owned())));
            }
        }
        _ => meta.push(("via", MetaValue::Text("in_process".to_owned()))),
    }
    if authentic.door == (Door::WebSocket { greeting: true }) {
        meta.push(("via", MetaValue::Text("greeting".to_owned())));
    }
    meta
}

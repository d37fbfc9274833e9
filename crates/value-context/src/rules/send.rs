//! A message of a hosted agent: the node adds identifier and time, and a signature when it holds the key.

use std::sync::Arc;
use std::time::Duration;

use chancery_core::admin::run_state;
use chancery_core::decision::{Cx, Event, Stop, Verdict};
use chancery_core::json::Place;
use chancery_core::line::{MetaValue, Origin, ProtocolName};
use chancery_core::time::Time;

use super::audience::{ask_for_room, hand_over, keep_newest, listeners};
use super::children::view_of;
use super::direction::{check_receiving, check_sending};
use super::made::Made;
use super::runtime::{Runtime, leave};
use super::told::Told;
use super::{SENT, window_id};
use crate::agent::{AgentRecord, hosted, may_sign, participant};
use crate::code::{Code, Fault};
use crate::message::{Payload, Recipient, Version};
use crate::outgoing::Outgoing;
use crate::protocol::Answer;
use crate::runtime::{Emission, may_emit};
use crate::settings::Settings;

/// How long a repeated request is recognised.
const IDEMPOTENCY: Duration = Duration::from_secs(24 * 60 * 60);

/// Decides what a hosted agent wants to send.
pub fn send(
    outgoing: &Outgoing,
    idempotency: Option<&str>,
    settings: &Settings,
    cx: &mut Cx<'_>,
) -> Result<Verdict<Answer>, Stop> {
    let sender = outgoing.sender.as_str();
    let record = sending_agent(outgoing, cx)?;
    let request = idempotency.map(|key| window_id(sender, key.as_bytes()));
    if let Some(seq) = request.and_then(|request| cx.seen(SENT, &request)) {
        return Ok(Verdict::Pass {
            answer: Answer::SentBefore(seq),
            repeat: Vec::new(),
        });
    }
    check_consent(outgoing, settings)?;
    let listeners = listeners(sender, &outgoing.recipient, cx)?;
    let remote = remote_recipients(outgoing, &record, &listeners);
    if listeners.is_empty() {
        check_sending(&record, &outgoing.recipient, &outgoing.content)?;
    } else {
        check_receiving(sender, &outgoing.recipient, &outgoing.content, cx)?;
    }
    check_can_sign(outgoing, &record, &remote, cx)?;
    ask_for_room(sender, &outgoing.content, &listeners, cx)?;
    let made = Made::new(
        outgoing.kind,
        Version::V1_2,
        &outgoing.sender,
        &outgoing.recipient,
        outgoing.payload.clone(),
        not_before(outgoing, cx)?,
        cx,
    )?;
    tell_divergence(&outgoing.content, &made, cx);
    let told = Told {
        id: made.id,
        tag: made.tag(),
        version: Version::V1_2,
        sender,
        recipient: &outgoing.recipient,
        timestamp: &made.timestamp,
        payload: &outgoing.content,
        envelope: &made.envelope,
        greeting: outgoing.greeting,
    };
    let mut meta = Vec::new();
    if outgoing.greeting && outgoing.signed {
        meta.push(("via", MetaValue::Text("greeting".to_owned())));
    }
    if let Some(key) = idempotency {
        meta.push(("idempotency", MetaValue::Text(key.to_owned())));
    }
    meta.extend(keep_newest(&told, &listeners, cx)?);
    let draft = made.draft(&outgoing.sender, outgoing.signed, Origin::Agent, meta);
    let seq = cx.line(draft);
    if let Some(request) = request {
        cx.remember(SENT, request, seq, IDEMPOTENCY);
    }
    hand_over(&told, &listeners, seq, settings, cx);
    for to in remote {
        leave(sender, &record, &to, seq, &told, cx)?;
    }
    Runtime::new(settings).follow(&told, &listeners, cx)?;
    Ok(Verdict::Record {
        answer: Answer::Accepted(made.id),
    })
}

/// Counts a message whose two canonical forms differ (VX-CAN-6): one with numbers or names of the sender's choice may.
fn tell_divergence(payload: &Payload, made: &Made, cx: &mut Cx<'_>) {
    let may_diverge = match payload {
        Payload::ContextShare(share) => share.personal_state.is_some(),
        Payload::ConstraintPropagate(_) => true,
        _ => false,
    };
    if may_diverge && made.diverges() {
        cx.event(Event {
            name: "canonical_divergence",
            protocol: ProtocolName::ValueContext,
            message_id: Some(made.id.to_string()),
        });
    }
}

/// A child takes nothing as a resume that is stamped before its escalation (VX-RUN-6). Its clock may be ahead of ours,
/// so what we send it while it waits is stamped no earlier.
fn not_before(outgoing: &Outgoing, cx: &Cx<'_>) -> Result<Option<Time>, Stop> {
    let Recipient::Directed(child) = &outgoing.recipient else {
        return Ok(None);
    };
    let view = view_of(outgoing.sender.as_str(), child.as_str(), cx)?;
    Ok(view.open.iter().map(|open| open.stamp.at).max())
}

/// The sender's record: it must be hosted here and free to speak.
fn sending_agent(outgoing: &Outgoing, cx: &Cx<'_>) -> Result<Arc<AgentRecord>, Stop> {
    let sender = outgoing.sender.as_str();
    let Some(record) = hosted(cx, sender)? else {
        let fault = Fault::new(Code::NotFound, "the sender is not hosted here").under("VX-RUN-3");
        return Err(fault
            .at(&Place::ROOT.child("sender"))
            .into_refusal("sender")
            .into());
    };
    let state = run_state(cx, participant(sender, Some(&record)))?;
    may_emit(Emission::Message(&outgoing.content), state)
        .map_err(|forbidden| Fault::from(forbidden).into_refusal("direction"))?;
    Ok(record)
}

/// A personal state leaves only with its owner's consent (VX-PS-5).
fn check_consent(outgoing: &Outgoing, settings: &Settings) -> Result<(), Stop> {
    let Payload::ContextShare(share) = &outgoing.content else {
        return Ok(());
    };
    let allowed = settings.share_personal_state
        && (outgoing.recipient != Recipient::Broadcast || settings.share_personal_state_broadcast);
    if share.personal_state.is_none() || allowed {
        return Ok(());
    }
    let fault = Fault::new(
        Code::NotAuthorized,
        "sharing personal states is not switched on",
    )
    .under("VX-PS-5");
    Err(fault
        .at(&Place::ROOT.child("payload").child("personal_state"))
        .into_refusal("direction")
        .into())
}

fn remote_recipients(outgoing: &Outgoing, record: &AgentRecord, local: &[String]) -> Vec<String> {
    let is_local = |id: &str| local.iter().any(|listener| listener == id);
    match &outgoing.recipient {
        Recipient::Directed(agent) if is_local(agent.as_str()) => Vec::new(),
        Recipient::Directed(agent) => vec![agent.as_str().to_owned()],
        Recipient::Broadcast => record
            .known()
            .into_iter()
            .filter(|id| !is_local(id))
            .map(str::to_owned)
            .collect(),
    }
}

/// Whatever leaves this process is signed (VX-SIG-1), and nothing is signed under a key that does not count (VX-KEY-5).
fn check_can_sign(
    outgoing: &Outgoing,
    record: &AgentRecord,
    remote: &[String],
    cx: &Cx<'_>,
) -> Result<(), Stop> {
    let fault = if outgoing.signed && !may_sign(outgoing.sender.as_str(), record, cx)? {
        let message = "the key that this node signs with for the sender is not usable now";
        Fault::new(Code::KeyNotValid, message)
    } else if outgoing.signed || remote.is_empty() {
        return Ok(());
    } else {
        let message = "this node holds no key of the sender to sign with";
        Fault::new(Code::SignatureMissing, message)
    };
    Err(fault
        .at(&Place::ROOT.child("sender"))
        .into_refusal("signature")
        .into())
}

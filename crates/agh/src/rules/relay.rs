//! An envelope of a peer that is connected here: whole, as the peer made it, and carried on for it.
//!
//! To everybody else the peer is one of this node's: the table holds for what it sends, its envelopes reach local inboxes
//! and the network, and what would be ignored or rejected is refused to it (AG-LIF-10).

use bytes::Bytes;
use chancery_core::admin::agent_key;
use chancery_core::decision::{Cx, Guard, Stop, Verdict};
use chancery_core::delivery::Whisper;
use chancery_core::line::{Draft, DraftEnvelope, MetaValue, Origin, ProtocolName};
use chancery_core::protocol::Authentic;

use super::receive::check_alone;
use super::respond::{pass, remember_softly, tell};
use super::send::{carry_out, check, refused, sending_peer};
use super::{CHECKS, envelope_id};
use crate::answer::{Answer, Outcome, Verdict as Word};
use crate::body::card::PeerCard;
use crate::fault::{ErrorName, Fault, Stage};
use crate::message::{Content, Message};
use crate::peer::PeerRecord;
use crate::settings::Settings;
use crate::subject;
use crate::trust::TrustState;

/// How a line says that its envelope came from a connected peer: replay then decides it in this way again.
pub(crate) const VIA: &str = "websocket";

/// Decides an envelope that came over its sender's own connection.
pub fn relay(
    authentic: &Authentic<Message>,
    settings: &Settings,
    cx: &mut Cx<'_>,
) -> Result<Verdict<Answer>, Stop> {
    let message = &authentic.message;
    let content = match check_alone(message, settings, cx) {
        Ok(content) => content,
        Err(fault) => return Ok(turned_away(message, fault, cx)),
    };
    let workspace = message.workspace.as_deref();
    let mut record = sending_peer(workspace, &message.channel, &message.from, cx)?;
    if !record.connected {
        let fault = Fault::new(ErrorName::NotFound, Stage::Routing).at("from");
        return Err(refused(fault, message).into());
    }
    if let Err(fault) = check(message, |_| None, cx)? {
        return Err(refused(fault, message).into());
    }
    let unseen = Guard::Once {
        protocol: ProtocolName::Agh,
        id: &envelope_id(message),
        until: None,
    };
    if !cx.passes(unseen) {
        return Err(refused(Fault::new(ErrorName::Duplicate, Stage::Routing), message).into());
    }
    let busy = || refused(Fault::new(ErrorName::Busy, Stage::Routing), message);
    let rate = Guard::Rate {
        sender: &message.from,
    };
    cx.guard(rate, busy)?;
    if let Content::Greet(card) = content {
        if record.card == **card {
            return Ok(pass_on(message, settings, cx));
        }
        take_card(&mut record, card, cx);
    }
    let (_, outcome) = carry_out(message, &record, draft(message, cx), settings, cx)?;
    Ok(Verdict::Record {
        answer: Answer::Decided(Box::new(outcome)),
    })
}

/// Refuses what is wrong in itself. The peer is told over its connection, so no receipt is due.
fn turned_away(message: &Message, fault: Fault, cx: &mut Cx<'_>) -> Verdict<Answer> {
    tell(fault.error.as_str(), message, cx);
    let mut outcome = Outcome::new(Word::Reject, &message.id, message.revision);
    outcome.trust = message.trust.as_str();
    outcome.fault = Some(fault);
    pass(outcome)
}

/// A greeting that says nothing new: on no log (CH-JRN-13).
fn pass_on(message: &Message, settings: &Settings, cx: &mut Cx<'_>) -> Verdict<Answer> {
    remember_softly(message, settings, cx);
    cx.whisper(Whisper {
        protocol: ProtocolName::Agh,
        to: subject::broadcast(message.workspace.as_deref(), &message.channel),
        bytes: message.received().clone(),
        signer: None,
    });
    let mut outcome = Outcome::new(Word::Accept, &message.id, message.revision);
    outcome.trust = message.trust.as_str();
    pass(outcome)
}

/// What the peer says about itself from here on: the node answers questions about it with this card.
fn take_card(record: &mut PeerRecord, card: &PeerCard, cx: &mut Cx<'_>) {
    record.card = card.clone();
    cx.put(agent_key(ProtocolName::Agh, &record.address()), &*record);
}

fn draft(message: &Message, cx: &Cx<'_>) -> Draft {
    let mut meta = vec![("checks_passed", MetaValue::Words(CHECKS))];
    if let TrustState::Verified { key_id } = &message.trust {
        meta.push(("key", MetaValue::Text(key_id.clone())));
    }
    meta.push(("via", MetaValue::Text(VIA.to_owned())));
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

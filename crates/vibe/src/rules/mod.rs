//! The rules: what becomes of an envelope, in the order of the pipeline (section 3).
//!
//! Decode and authenticate have done steps 1 to 9 where they need no state; here are the others. An action's rule first
//! checks everything, then writes: a follow-up that is refused leaves nothing behind.

pub mod diff;

mod admission;
mod batch;
mod bound_keys;
mod certify;
mod delegate;
mod dispute;
mod follow;
mod fulfil;
mod idempotency;
mod lines;
mod negotiate;
mod rank;
mod record;
mod reputation;
mod settle;
mod turn;
mod views;

use chancery_core::decision::{Cx, Stop, Verdict};
use chancery_core::line::Seq;
use chancery_core::protocol::{Authentic, Proof};
use chancery_core::rows::RowKey;

pub use admission::check_static;
pub use record::inbox;

use crate::answer::Answer;
use crate::message::Message;
use crate::payload::Payload;
use crate::seal;
use crate::settings::Settings;
use crate::state::key;
use crate::world::rows::world_hash_key;
use turn::{Effect, Step, Turn};

/// Decides an envelope.
pub fn decide(
    authentic: &Authentic<Message>,
    settings: &Settings,
    cx: &mut Cx<'_>,
) -> Result<Verdict<Answer>, Stop> {
    let sender = Sender {
        principal: principal(authentic),
        is_hosted: false,
        answers: None,
    };
    admission::admit(&authentic.message, &sender, settings, cx)
        .map_err(|stop| named(stop, &authentic.message))
}

/// Decides an envelope of a hosted agent: the same rules, and one answer to an envelope at most (CH-JRN-16).
pub fn decide_outgoing(
    agent: &str,
    answers: Option<Seq>,
    message: &Message,
    settings: &Settings,
    cx: &mut Cx<'_>,
) -> Result<Verdict<Answer>, Stop> {
    let sender = Sender {
        principal: Some(agent),
        is_hosted: true,
        answers,
    };
    crate::agent::check(agent, answers, message, settings, cx)
        .and_then(|()| admission::admit(message, &sender, settings, cx))
        .map_err(|stop| named(stop, message))
}

fn named(stop: Stop, message: &Message) -> Stop {
    match stop {
        Stop::Refused(refusal) => Stop::Refused(refusal.of_message(message.msg_id.clone())),
        other => other,
    }
}

/// Who sends, as a line tells it.
#[derive(Clone, Copy)]
struct Sender<'s> {
    /// The principal.
    principal: Option<&'s str>,
    /// Whether it is an agent that lives in this node.
    is_hosted: bool,
    /// The line that a hosted agent answers.
    answers: Option<Seq>,
}

/// The rows that a decision will surely read.
pub fn wants(message: &Message, principal: Option<&str>, wants: &mut Vec<RowKey>) {
    wants.push(key::session(&message.session_id));
    wants.push(key::msg(&message.msg_id));
    wants.push(world_hash_key());
    if let Some(replied) = &message.in_reply_to {
        wants.push(key::msg(replied));
    }
    if let Some(idempotency_key) = &message.idempotency_key {
        wants.push(key::idempotency(
            principal,
            &message.from_text,
            idempotency_key,
        ));
    }
    wants.extend(seal::key_rows(message).into_iter().flatten());
    if let Ok(payload) = &message.payload {
        wants_of(payload, wants);
    }
}

/// The rows that a payload names.
fn wants_of(payload: &Payload, wants: &mut Vec<RowKey>) {
    match payload {
        Payload::CreatePurchaseMandate(mandate) => wants.push(key::mandate(&mandate.mandate_id)),
        Payload::ApprovePurchase { cert_id }
        | Payload::RejectPurchase { cert_id }
        | Payload::SettlePayment { cert_id, .. } => wants.push(key::cert(cert_id)),
        Payload::AuthorizePayment(authorize) => wants.push(key::cert(&authorize.cert_id)),
        Payload::ProposeOffer(offer) | Payload::CounterOffer(offer) => {
            wants.push(key::offer(&offer.offer_id));
            wants.push(key::goal(&offer.merchant_id, &offer.sku_id));
        }
        Payload::AcceptOffer { offer_id }
        | Payload::RejectOffer { offer_id }
        | Payload::VerifyClaims { offer_id, .. } => wants.push(key::offer(offer_id)),
        Payload::CreateMatchCertificate(cert) => wants.push(key::offer(&cert.offer_id)),
        Payload::CreateCart(cart) => wants.push(key::offer(&cart.offer_id)),
        Payload::Dispatch { order_id, .. } => wants.push(key::order_file(order_id)),
        Payload::RequestReturn { tx_id }
        | Payload::RefundPayment { tx_id, .. }
        | Payload::OpenDispute { tx_id, .. } => wants.push(key::transaction(tx_id)),
        Payload::RespondReturn { return_id, .. } => wants.push(key::return_(return_id)),
        Payload::RequestEvidence { dispute_id } | Payload::SubmitEvidence { dispute_id, .. } => {
            wants.push(key::case_file(dispute_id));
        }
        Payload::RuleDispute(ruling) => wants.push(key::case_file(&ruling.dispute_id)),
        _ => {}
    }
}

/// The principal that a line names.
pub fn principal(authentic: &Authentic<Message>) -> Option<&str> {
    match &authentic.proof {
        Proof::Principal(principal) => Some(principal),
        _ => None,
    }
}

/// Steps 15 and 17: an action's preconditions and its effect on rows.
fn act(turn: &mut Turn<'_, '_>, step: &Step<'_>, payload: &Payload) -> Result<Effect, Stop> {
    match payload {
        Payload::CreatePurchaseMandate(mandate) => delegate::create_mandate(turn, step, mandate),
        Payload::ApprovePurchase { cert_id } => delegate::approve(turn, cert_id),
        Payload::RejectPurchase { cert_id } => delegate::reject(turn, cert_id),
        Payload::SetBusinessGoal(goal) => delegate::set_goal(turn, goal),
        Payload::Search(_) => Ok(Effect::default()),
        Payload::RequestOffer {
            merchant_id,
            sku_id,
            has_inquiry,
        } => negotiate::request_offer(turn, merchant_id, sku_id, *has_inquiry),
        Payload::ProposeOffer(offer) => negotiate::propose(turn, step, offer),
        Payload::CounterOffer(offer) => negotiate::counter(turn, step, offer),
        Payload::AcceptOffer { offer_id } => negotiate::accept(turn, step, offer_id),
        Payload::RejectOffer { offer_id } => negotiate::reject(turn, step, offer_id),
        Payload::CreateCart(cart) => negotiate::create_cart(turn, cart),
        Payload::RespondInquiry => negotiate::respond_inquiry(turn, step),
        Payload::Dispatch { order_id, qty } => fulfil::dispatch(turn, step, order_id, *qty),
        Payload::RequestReturn { tx_id } => fulfil::request_return(turn, step, tx_id),
        Payload::RespondReturn {
            return_id,
            refund_amount,
            restock,
        } => fulfil::respond_return(turn, step, return_id, *refund_amount, *restock),
        Payload::RankOffers { query_msg_id } => rank::by_hand(step, query_msg_id),
        Payload::VerifyClaims {
            offer_id, results, ..
        } => certify::verify_claims(turn, offer_id, results),
        Payload::CreateMatchCertificate(cert) => certify::certify(turn, cert),
        Payload::AuthorizePayment(authorize) => settle::authorize(turn, step, authorize),
        Payload::SettlePayment { cert_id, auth_id } => {
            settle::settle(turn, step, cert_id, auth_id.as_deref())
        }
        Payload::RefundPayment {
            tx_id,
            amount,
            return_id,
        } => fulfil::refund(turn, tx_id, *amount, return_id),
        Payload::OpenDispute {
            tx_id,
            reason,
            evidence,
        } => dispute::open(turn, step, tx_id, reason, evidence),
        Payload::RequestEvidence { dispute_id } => {
            dispute::request_evidence(turn, step, dispute_id)
        }
        Payload::SubmitEvidence {
            dispute_id,
            evidence,
        } => dispute::submit_evidence(turn, step, dispute_id, evidence),
        Payload::RuleDispute(ruling) => dispute::rule(turn, step, ruling),
        Payload::UpdateReputation {
            subject,
            delta,
            evidence,
        } => reputation::update(turn, subject, *delta, evidence),
    }
}

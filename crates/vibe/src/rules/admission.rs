//! Steps 6 to 14 of the pipeline, and the hand-over to the action and the record.

use std::sync::Arc;
use std::time::Duration;

use chancery_core::admin::{PrincipalRecord, RunState, principal_key, run_state};
use chancery_core::decision::{Cx, Stop, Verdict};
use chancery_core::fault;
use chancery_core::refusal::Refusal;
use chancery_core::time::Time;

use super::Sender;
use super::dispute;
use super::idempotency::{self, Bound};
use super::record;
use super::turn::{Step, Turn};
use crate::action::Action;
use crate::address::Side;
use crate::answer::Answer;
use crate::code::{Code, Fault};
use crate::guard::Private;
use crate::message::Message;
use crate::partition::TABLE;
use crate::payload::Payload;
use crate::seal;
use crate::settings::{Clock, Settings};
use crate::state::{
    CaseFile, CertRow, MsgRow, OfferRow, Phase, ReturnRow, Session, SessionKind, key,
};
use crate::world::rows::{OrderRow, Table, currencies_key};

/// A merchant's floors on record: by sku, the value and its currency.
pub(super) type Floors = std::collections::BTreeMap<String, (u64, String)>;

/// Steps 7 to 9, which need no state (VC-PIPE-1). An R action from outside is refused by the same step as one that the table denies.
pub fn check_static(message: &Message) -> Result<Action, Refusal> {
    let action = message
        .action
        .ok_or_else(|| message.refuse(Code::UnknownAction, "action"))?;
    if fault::on("vc-key-before-partition") {
        check_key(message, action)?;
    }
    if let Err(denied) = TABLE.check(action, message.sender(), message.receiver())
        && !(action == Action::RankOffers && fault::on("vc-buyer-ranks"))
    {
        let mut refusal = message.refuse(Code::PartitionDenied, "partition");
        refusal.details = Some(format!("{{\"failed\":\"{}\"}}", denied.as_str()));
        return Err(refusal);
    }
    if action.is_runtime_only() {
        return Err(message.refuse(Code::OutsideTransaction, "partition"));
    }
    check_key(message, action)?;
    Ok(action)
}

/// Step 9.
fn check_key(message: &Message, action: Action) -> Result<(), Refusal> {
    if action.is_mutation() && message.idempotency_key.is_none() {
        return Err(message.refuse(Code::IdempotencyKeyRequired, "idempotency"));
    }
    Ok(())
}

/// Takes an authentic envelope through the rest of the pipeline.
pub(super) fn admit(
    message: &Message,
    sender: &Sender<'_>,
    settings: &Settings,
    cx: &mut Cx<'_>,
) -> Result<Verdict<Answer>, Stop> {
    let existing: Option<Session> = cx.row(&key::session(&message.session_id))?;
    let eval = eval_ts(message, existing.as_ref(), settings, cx.now());
    if settings.signed {
        seal::check_key_at(message, eval, cx)?;
        check_fresh(message, eval, settings)?;
    }
    let action = check_static(message)?;
    let scope = sender.principal;
    let principal: Option<PrincipalRecord> = match scope {
        Some(name) => Some(cx.row(&principal_key(name))?.unwrap_or_default()),
        None => None,
    };
    check_running(principal.as_ref(), cx)?;
    if action.is_mutation() {
        match idempotency::look_up(message, scope, eval, settings, cx)? {
            Bound::Not => {}
            Bound::Same(_) if fault::on("vc-repeat-runs-again") => {}
            Bound::Other if fault::on("vc-key-conflict-runs") => {}
            Bound::Same(body) => {
                let answer = Answer::Accepted {
                    body,
                    replayed: true,
                };
                let repeat = Vec::new();
                return Ok(Verdict::Pass { answer, repeat });
            }
            Bound::Other => return Err(Code::IdempotencyConflict.stop()),
        }
    }
    if cx.bytes(&key::msg(&message.msg_id))?.is_some() && !fault::on("vc-msg-id-twice") {
        return Err(Code::DuplicateMsgId.stop());
    }
    let payload = match &message.payload {
        Ok(payload) => payload,
        Err(fault) => return Err(fault.clone().into_refusal("payload").into()),
    };
    check_guard(message, payload, existing.as_ref(), principal.as_ref(), cx)?;
    let is_new = existing.is_none();
    let (session, step) = enter(message, action, existing, principal.as_ref(), eval, cx)?;
    check_identity(message, payload, &session, principal.as_ref())?;
    let turn = Turn {
        cx,
        settings,
        eval,
        session_id: &message.session_id,
        session,
        is_new,
        principal,
    };
    let answer = record::accept(turn, &step, payload, message, sender)?;
    Ok(Verdict::Record { answer })
}

/// CH-ID-5: who is suspended says nothing, by no token and through no agent.
fn check_running(principal: Option<&PrincipalRecord>, cx: &Cx<'_>) -> Result<(), Stop> {
    let Some(participant) = principal.and_then(|principal| principal.agent.as_deref()) else {
        return Ok(());
    };
    match run_state(cx, participant)? {
        RunState::Suspended => Err(Code::Suspended.refuse().in_check("principal").into()),
        RunState::Running | RunState::Paused => Ok(()),
    }
}

/// VC-PIPE-4: never earlier than what the session has seen.
fn eval_ts(message: &Message, session: Option<&Session>, settings: &Settings, now: Time) -> Time {
    let own = match settings.clock {
        Clock::Envelope => message.ts,
        Clock::Wall => now,
    };
    session.map_or(own, |session| session.clock.max(own))
}

/// VC-SIG-5: the window includes its boundary.
fn check_fresh(message: &Message, eval: Time, settings: &Settings) -> Result<(), Stop> {
    let window = Duration::from_secs(settings.policy.freshness_window_s);
    if eval.distance(message.ts) > window {
        return Err(Code::StaleEnvelope.stop());
    }
    Ok(())
}

/// Step 13: no private value of the sender's own side (section 6).
fn check_guard(
    message: &Message,
    payload: &Payload,
    session: Option<&Session>,
    principal: Option<&PrincipalRecord>,
    cx: &Cx<'_>,
) -> Result<(), Stop> {
    if message.facts.is_empty() {
        return Ok(());
    }
    let store = match message.sender().side {
        Side::Buyer => buyer_store(payload, session, principal, cx)?,
        Side::Merchant if fault::on("vc-floor-leaked") => return Ok(()),
        Side::Merchant => {
            let own = principal.and_then(|principal| principal.merchant_id.clone());
            let merchant = match own {
                Some(own) => Some(own),
                None => merchant_of(payload, cx)?,
            };
            merchant_store(merchant.as_deref(), cx)?
        }
        _ => return Ok(()),
    };
    if store.is_empty() {
        return Ok(());
    }
    let currencies = cx
        .shared::<Vec<String>>(&currencies_key())?
        .unwrap_or_default();
    match message.facts.leak(&store, &currencies) {
        None => Ok(()),
        Some(index) => {
            let mut refusal = Code::PrivateUtilityLeak.refuse().in_check("guard");
            refusal.path = message.place_of_fact(index);
            Err(refusal.into())
        }
    }
}

/// What a buyer keeps private in its session. A dispute has none yet when it is opened: there it is the session that the
/// order came from (VC-CLR-16). Another's store is not looked at, because a refusal would tell a stranger what is in it.
fn buyer_store(
    payload: &Payload,
    session: Option<&Session>,
    principal: Option<&PrincipalRecord>,
    cx: &Cx<'_>,
) -> Result<Vec<Private>, Stop> {
    let origin = match (session, payload) {
        (None, Payload::OpenDispute { tx_id, .. }) => dispute::origin(tx_id, cx)?,
        _ => None,
    };
    let own = principal.and_then(|principal| principal.consumer_id.as_ref());
    let session = session
        .or(origin.as_ref())
        .filter(|session| own.is_none() || session.consumer_id.as_ref() == own);
    let Some(session) = session else {
        return Ok(Vec::new());
    };
    let private = session.private.iter().map(|secret| Private {
        value: secret.value,
        currency: session.currency.clone(),
    });
    Ok(private.collect())
}

/// The floors of one merchant, or of all where none can be told (VC-PRIV-3).
fn merchant_store(merchant_id: Option<&str>, cx: &Cx<'_>) -> Result<Vec<Private>, Stop> {
    let of = |floors: Floors| {
        floors
            .into_values()
            .map(|(value, currency)| Private { value, currency })
            .collect::<Vec<_>>()
    };
    if let Some(merchant_id) = merchant_id {
        let floors: Option<Floors> = cx.row(&key::floors(merchant_id))?;
        return Ok(floors.map(of).unwrap_or_default());
    }
    let mut store = Vec::new();
    for (row_key, row) in cx.scan(&key::all_floors())? {
        let floors: Floors = serde_json::from_slice(&row)
            .map_err(|error| chancery_core::rows::RowsDamaged(format!("{row_key:?}: {error}")))?;
        store.extend(of(floors));
    }
    Ok(store)
}

/// The merchant that an envelope is about: of its payload, offer, order, return or dispute (VC-ADR-9).
pub(super) fn merchant_of(payload: &Payload, cx: &Cx<'_>) -> Result<Option<String>, Stop> {
    let of_offer = |offer_id: &str| {
        let row = cx.shared::<OfferRow>(&key::offer(offer_id))?;
        Ok::<_, Stop>(row.map(|row| row.merchant_id.clone()))
    };
    let of_cert = |cert_id: &str| {
        let row = cx.shared::<CertRow>(&key::cert(cert_id))?;
        Ok::<_, Stop>(row.map(|row| row.merchant_id.clone()))
    };
    let of_order = |order_id: &str| {
        let row = cx.shared::<OrderRow>(&Table::Orders.key(order_id))?;
        Ok::<_, Stop>(row.map(|row| row.merchant_id.clone()))
    };
    let of_tx = |tx_id: &str| match cx.row::<String>(&key::transaction(tx_id))? {
        Some(order_id) => of_order(&order_id),
        None => Ok(None),
    };
    let of_dispute = |dispute_id: &str| {
        let row = cx.shared::<CaseFile>(&key::case_file(dispute_id))?;
        Ok::<_, Stop>(row.map(|row| row.merchant_id.clone()))
    };
    match payload {
        Payload::SetBusinessGoal(goal) => Ok(Some(goal.merchant_id.clone())),
        Payload::RequestOffer { merchant_id, .. } => Ok(Some(merchant_id.clone())),
        Payload::ProposeOffer(offer) | Payload::CounterOffer(offer) => {
            Ok(Some(offer.merchant_id.clone()))
        }
        Payload::CreateMatchCertificate(cert) => Ok(Some(cert.merchant_id.clone())),
        Payload::AcceptOffer { offer_id }
        | Payload::RejectOffer { offer_id }
        | Payload::VerifyClaims { offer_id, .. } => of_offer(offer_id),
        Payload::CreateCart(cart) => of_offer(&cart.offer_id),
        Payload::ApprovePurchase { cert_id }
        | Payload::RejectPurchase { cert_id }
        | Payload::SettlePayment { cert_id, .. } => of_cert(cert_id),
        Payload::AuthorizePayment(authorize) => of_cert(&authorize.cert_id),
        Payload::Dispatch { order_id, .. } => of_order(order_id),
        Payload::RequestReturn { tx_id }
        | Payload::RefundPayment { tx_id, .. }
        | Payload::OpenDispute { tx_id, .. } => of_tx(tx_id),
        Payload::RespondReturn { return_id, .. } => {
            match cx.row::<ReturnRow>(&key::return_(return_id))? {
                Some(row) => of_order(&row.order_id),
                None => Ok(None),
            }
        }
        Payload::RequestEvidence { dispute_id } | Payload::SubmitEvidence { dispute_id, .. } => {
            of_dispute(dispute_id)
        }
        Payload::RuleDispute(ruling) => of_dispute(&ruling.dispute_id),
        Payload::CreatePurchaseMandate(_)
        | Payload::Search(_)
        | Payload::RespondInquiry
        | Payload::RankOffers { .. }
        | Payload::UpdateReputation { .. } => Ok(None),
    }
}

/// Step 14, first half: the session, and the envelope that is answered.
fn enter<'m>(
    message: &'m Message,
    action: Action,
    existing: Option<Session>,
    principal: Option<&PrincipalRecord>,
    eval: Time,
    cx: &Cx<'_>,
) -> Result<(Session, Step<'m>), Stop> {
    let session = match existing {
        Some(session) => enter_existing(action, session)?,
        None => open(action, principal, eval)?,
    };
    if action == Action::OpenDispute && message.in_reply_to.is_some() {
        let place = chancery_core::json::Place::ROOT;
        let fault = Fault::at(Code::MalformedPayload, &place.child("in_reply_to"));
        return Err(fault.into_refusal("session").into());
    }
    let replied = match &message.in_reply_to {
        None if action.is_answer() => return Err(Code::InReplyToRequired.stop()),
        None => None,
        Some(replied) => {
            let row: Option<Arc<MsgRow>> = cx.shared(&key::msg(replied))?;
            let row = row.filter(|row| *row.session_id == *message.session_id);
            let is_needed = !fault::on("vc-answers-nothing");
            match row {
                None if is_needed => return Err(Code::InReplyToNotFound.stop()),
                row => row,
            }
        }
    };
    let step = Step {
        msg_id: &message.msg_id,
        ts_text: &message.ts_text,
        from: message.sender(),
        from_text: &message.from_text,
        to: message.receiver(),
        to_text: &message.to_text,
        key: message.idempotency_key.as_deref(),
        action,
        in_reply_to: message.in_reply_to.as_deref(),
        replied,
    };
    Ok((session, step))
}

/// Whether an action fits a session that is there (VC-SM-1, VC-CLR-8).
fn enter_existing(action: Action, session: Session) -> Result<Session, Stop> {
    let is_buyers = session.kind == SessionKind::BuyerJourney;
    let fits = match action {
        Action::OpenDispute => return Err(Code::SessionExists.stop()),
        Action::CreatePurchaseMandate | Action::Search if !is_buyers => {
            return Err(Code::SessionExists.stop());
        }
        Action::SetBusinessGoal if session.kind != SessionKind::Merchant => {
            return Err(Code::SessionExists.stop());
        }
        Action::RequestOffer
        | Action::ProposeOffer
        | Action::CounterOffer
        | Action::AcceptOffer
        | Action::RejectOffer => is_buyers,
        _ => true,
    };
    if fits {
        Ok(session)
    } else {
        Err(Code::SessionNotFound.stop())
    }
}

/// A session that its first action opens.
fn open(action: Action, principal: Option<&PrincipalRecord>, eval: Time) -> Result<Session, Stop> {
    let kind = match action {
        Action::CreatePurchaseMandate | Action::Search => SessionKind::BuyerJourney,
        Action::SetBusinessGoal => SessionKind::Merchant,
        Action::OpenDispute => SessionKind::Dispute,
        _ => return Err(Code::SessionNotFound.stop()),
    };
    let mut session = Session::new(kind, Phase::Browsing, eval);
    if kind == SessionKind::BuyerJourney {
        session.consumer_id = principal.and_then(|principal| principal.consumer_id.clone());
    }
    Ok(session)
}

/// Step 14, second half: nobody acts in another's session or on another's name (VC-ADR-8).
fn check_identity(
    message: &Message,
    payload: &Payload,
    session: &Session,
    principal: Option<&PrincipalRecord>,
) -> Result<(), Stop> {
    let Some(principal) = principal else {
        return Ok(());
    };
    let fits = match message.sender().side {
        Side::Consumer | Side::Buyer => match &principal.consumer_id {
            None => true,
            // A dispute's session gets its owner from the order, which the action looks up.
            Some(_) if matches!(payload, Payload::OpenDispute { .. }) => true,
            Some(own) => {
                let named = match payload {
                    Payload::CreatePurchaseMandate(mandate) => mandate.consumer_id.as_ref(),
                    _ => None,
                };
                session.consumer_id.as_ref() == Some(own) && named.is_none_or(|named| named == own)
            }
        },
        Side::Merchant => match (&principal.merchant_id, payload) {
            (Some(own), Payload::SetBusinessGoal(goal)) => {
                let opened_by = session.merchant_id.as_ref();
                goal.merchant_id == *own && opened_by.is_none_or(|by| by == own)
            }
            (Some(own), Payload::ProposeOffer(offer) | Payload::CounterOffer(offer)) => {
                offer.merchant_id == *own
            }
            _ => true,
        },
        Side::Platform | Side::World => true,
    };
    if fits {
        Ok(())
    } else {
        Err(Code::IdentityMismatch.stop())
    }
}

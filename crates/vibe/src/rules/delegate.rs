//! What principals tell their agents: mandates, goals, and the human gate (section 5.1).

use std::sync::Arc;

use chancery_core::decision::Stop;

use super::admission::Floors;
use super::diff::Diff;
use super::settle::release_hold;
use super::turn::{Effect, Step, Turn};
use super::views;
use crate::code::Code;
use crate::payload::{Goal, Mandate};
use crate::state::{AuthState, CertState, GoalRow, MandateRow, Phase, Secret, key};

/// `delegate.create_purchase_mandate`
pub(super) fn create_mandate(
    turn: &mut Turn<'_, '_>,
    _: &Step<'_>,
    mandate: &Mandate,
) -> Result<Effect, Stop> {
    if turn.session.mandate_id.is_some() {
        return Err(Code::MandateExists.stop());
    }
    let row_key = key::mandate(&mandate.mandate_id);
    if turn.cx.bytes(&row_key)?.is_some() {
        return Err(Code::DuplicateObject.stop());
    }
    if mandate.intent_expiry.at <= turn.eval {
        return Err(Code::MandateExpired.stop());
    }
    let consumer_id = mandate
        .consumer_id
        .clone()
        .or_else(|| turn.session.consumer_id.clone())
        .unwrap_or_else(|| ["c_", turn.session_id].concat());
    let row = mandate_row(mandate, turn.session_id, &consumer_id);
    turn.session.consumer_id = Some(consumer_id);
    turn.session.mandate_id = Some(mandate.mandate_id.clone());
    turn.session.currency.clone_from(&mandate.currency);
    let secret = |(name, value): &(String, u64)| Secret {
        name: name.clone(),
        value: *value,
    };
    turn.session.private = mandate.private.iter().map(secret).collect();
    turn.session.reach(Phase::Mandated);
    let mut diff = Diff::default();
    let after = turn.tells(|| views::mandate(&row));
    diff.ops.note("mandates", &mandate.mandate_id, None, after);
    turn.cx.put_value(row_key, row);
    Ok(Effect::of(diff))
}

fn mandate_row(mandate: &Mandate, session_id: &str, consumer_id: &str) -> MandateRow {
    MandateRow {
        session_id: session_id.to_owned(),
        consumer_id: consumer_id.to_owned(),
        consumed: false,
        goal: mandate.goal.clone(),
        merchants: mandate.merchants.clone(),
        skus: mandate.skus.clone(),
        requires_refundability: mandate.requires_refundability,
        intent_expiry: mandate.intent_expiry.at,
        can_buy_without_confirmation: mandate.can_buy_without_confirmation,
        max_spend_without_confirmation: mandate.max_spend_without_confirmation,
        can_negotiate: mandate.can_negotiate,
        can_accept_substitutes: mandate.can_accept_substitutes,
        budget: mandate.budget,
        currency: mandate.currency.clone(),
        delivery_days: mandate.delivery_days,
        must_have: mandate.must_have.clone(),
        min_reputation: mandate.min_reputation,
        payment_instrument: mandate.payment_instrument.clone(),
        cart: None,
    }
}

/// `delegate.approve_purchase`
pub(super) fn approve(turn: &mut Turn<'_, '_>, cert_id: &str) -> Result<Effect, Stop> {
    let mut cert = turn.cert(cert_id)?;
    turn.check_cert(&cert)?;
    if cert.state == CertState::Approved {
        return Err(Code::AlreadyApproved.stop());
    }
    let before = turn.tells(|| views::cert(&cert));
    Arc::make_mut(&mut cert).state = CertState::Approved;
    turn.session.reach(Phase::Approved);
    let mut diff = Diff::default();
    let after = turn.tells(|| views::cert(&cert));
    diff.ops.note("certs", cert_id, before, after);
    turn.cx.put_shared(key::cert(cert_id), cert);
    turn.cx.remove(key::waiting(cert_id));
    Ok(Effect::of(diff))
}

/// `delegate.reject_purchase`: also withdraws an approval, with the authorization made under it.
pub(super) fn reject(turn: &mut Turn<'_, '_>, cert_id: &str) -> Result<Effect, Stop> {
    let mut cert = turn.cert(cert_id)?;
    turn.check_cert(&cert)?;
    let before = turn.tells(|| views::cert(&cert));
    let rejected = Arc::make_mut(&mut cert);
    rejected.state = CertState::Rejected;
    if let Some(auth) = rejected
        .auth
        .as_mut()
        .filter(|auth| auth.state == AuthState::Live)
    {
        auth.state = AuthState::Voided;
        release_hold(turn, &auth.account_id, &auth.auth_id)?;
    }
    let mut diff = Diff::default();
    let after = turn.tells(|| views::cert(&cert));
    diff.ops.note("certs", cert_id, before, after);
    turn.cx.put_shared(key::cert(cert_id), cert);
    turn.cx.remove(key::waiting(cert_id));
    Ok(Effect::of(diff))
}

/// `delegate.set_business_goal`: replaces earlier goals for its skus from here on.
pub(super) fn set_goal(turn: &mut Turn<'_, '_>, goal: &Goal) -> Result<Effect, Stop> {
    let floors_key = key::floors(&goal.merchant_id);
    let mut floors: Floors = turn.cx.row(&floors_key)?.unwrap_or_default();
    let row = GoalRow {
        offer_mandate_id: goal.offer_mandate_id.clone(),
        floor_price: goal.floor_price,
        floor_currency: goal.floor_currency.clone(),
        permitted_claims: goal.permitted_claims.clone(),
        max_rounds: goal.max_rounds,
        refundable: goal.refundable,
        valid_until: goal.valid_until.as_ref().map(|until| until.at),
    };
    for sku_id in &goal.skus {
        turn.cx.put(key::goal(&goal.merchant_id, sku_id), &row);
        // Zero says nothing (VC-PRIV-3).
        if goal.floor_price == 0 {
            floors.remove(sku_id);
        } else {
            floors.insert(
                sku_id.clone(),
                (goal.floor_price, goal.floor_currency.clone()),
            );
        }
    }
    turn.cx.put(floors_key, &floors);
    // Without tokens anybody may speak for any merchant here: the session stays that of the first.
    let opened_by = turn.session.merchant_id.take();
    turn.session.merchant_id = opened_by.or_else(|| Some(goal.merchant_id.clone()));
    turn.session.reach(Phase::Mandated);
    let named_key = key::offer_mandate(&goal.merchant_id, &goal.offer_mandate_id);
    let named: Option<Vec<String>> = turn.cx.row(&named_key)?;
    turn.cx.put(named_key, &goal.skus);
    let mut diff = Diff::default();
    let view = |skus: &[String]| turn.tells(|| views::goal(&goal.merchant_id, skus));
    let (before, after) = (named.as_deref().and_then(view), view(&goal.skus));
    diff.ops
        .note("mandates", &goal.offer_mandate_id, before, after);
    Ok(Effect::of(diff))
}

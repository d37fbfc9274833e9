//! Payment: authorization with a hold, and the one transaction in which money and stock change (sections 5.3, 10).

use std::sync::Arc;
use std::time::Duration;

use chancery_core::decision::Stop;
use chancery_core::ids::{ObjectKind, object_id};
use serde::Serialize;

use super::batch::{PSP, Payer, plan_stock, plan_transfer};
use super::diff::Diff;
use super::negotiate::change_offer;
use super::turn::{Child, Effect, Step, Turn};
use super::views;
use crate::action::Action;
use crate::code::Code;
use crate::payload::Authorize;
use crate::settings::Clock;
use crate::state::{
    AuthRow, AuthState, CertRow, CertState, Hold, Holds, MandateRow, OfferState, OrderFile, Phase,
    key,
};
use crate::world::rows::{LedgerRow, Merchant, OrderRow, OrderState, Table, merchant_key};

/// The mandate that a certificate binds.
fn mandate_of(turn: &Turn<'_, '_>, cert: &CertRow) -> Result<Arc<MandateRow>, Stop> {
    let row = turn.cx.shared(&key::mandate(&cert.mandate_id))?;
    row.ok_or_else(|| Code::MandateRequired.stop())
}

/// `platform.authorize_payment`: the cart and payment comparison that AP2 leaves open is a hard gate here.
pub(super) fn authorize(
    turn: &mut Turn<'_, '_>,
    step: &Step<'_>,
    payment: &Authorize,
) -> Result<Effect, Stop> {
    let mut cert = turn.cert(&payment.cert_id)?;
    turn.check_cert(&cert)?;
    let mandate = mandate_of(turn, &cert)?;
    if !turn.gate_is_satisfied(&cert, &mandate) {
        return Err(Code::ApprovalRequired.stop());
    }
    check_amount(&cert, &mandate, payment)?;
    let account_id = &payment.instrument.account_id;
    let account: Option<Arc<LedgerRow>> = turn.cx.shared(&Table::Ledger.key(account_id))?;
    let account = account
        .filter(|account| Some(&account.owner) == turn.session.consumer_id.as_ref())
        .ok_or_else(|| Code::IdentityMismatch.stop())?;
    if cert
        .auth
        .as_ref()
        .is_some_and(|auth| auth.is_live(turn.eval))
    {
        return Err(Code::AlreadyAuthorized.stop());
    }
    check_funds(turn, &account, &holds_on(turn, account_id)?, &cert)?;
    let lives = Duration::from_secs(turn.settings.policy.auth_ttl_s);
    let auth = AuthRow {
        auth_id: object_id(ObjectKind::Auth, step.msg_id),
        account_id: account_id.clone(),
        until: turn.eval.saturating_add(lives).min(cert.expires_at),
        state: AuthState::Live,
    };
    let before = turn.tells(|| views::cert(&cert));
    // The one before has lapsed here, and would go on counting where a clock is behind.
    if let Some(lapsed) = &cert.auth {
        release_hold(turn, &lapsed.account_id, &lapsed.auth_id)?;
    }
    hold(turn, &auth, cert.total)?;
    Arc::make_mut(&mut cert).auth = Some(auth);
    let mut diff = Diff::default();
    let after = turn.tells(|| views::cert(&cert));
    diff.ops.note("certs", &payment.cert_id, before, after);
    turn.cx.put_shared(key::cert(&payment.cert_id), cert);
    turn.session.reach(Phase::Authorized);
    Ok(Effect::of(diff))
}

fn check_amount(cert: &CertRow, mandate: &MandateRow, payment: &Authorize) -> Result<(), Stop> {
    // VC-AP2-2: a hash must be that of the cart on record.
    let cart_hash = mandate.cart.as_ref().map(|cart| cart.hash.as_str());
    let hash_fits = payment
        .cart_mandate_hash
        .as_deref()
        .is_none_or(|hash| Some(hash) == cart_hash);
    let fits = payment.amount == cert.total
        && payment.currency == cert.currency
        && payment.merchant_agent == cert.merchant_id
        && hash_fits;
    if fits {
        Ok(())
    } else {
        Err(Code::AmountMismatch.stop())
    }
}

fn check_funds(
    turn: &Turn<'_, '_>,
    account: &LedgerRow,
    holds: &Holds,
    cert: &CertRow,
) -> Result<(), Stop> {
    let live = holds.0.iter().filter(|hold| turn.eval < hold.until);
    let held: u128 = live.map(|hold| u128::from(hold.amount)).sum();
    let wanted = held + u128::from(cert.total);
    let balance = u128::try_from(account.balance).unwrap_or(0);
    if account.currency == cert.currency && wanted <= balance {
        Ok(())
    } else {
        Err(Code::PaymentDeclined.stop())
    }
}

/// Adds a hold. Lapsed ones stay while another session's clock may be behind this one's (VC-CLR-17): never under the
/// wall clock, which all sessions share.
fn hold(turn: &mut Turn<'_, '_>, auth: &AuthRow, amount: u64) -> Result<(), Stop> {
    let mut holds = holds_on(turn, &auth.account_id)?;
    if turn.settings.clock == Clock::Wall {
        holds.0.retain(|hold| turn.eval < hold.until);
    }
    holds.0.push(Hold {
        auth_id: auth.auth_id.clone(),
        amount,
        until: auth.until,
    });
    turn.cx.put_value(key::holds(&auth.account_id), holds);
    Ok(())
}

fn holds_on(turn: &Turn<'_, '_>, account_id: &str) -> Result<Holds, Stop> {
    Ok(turn.cx.row(&key::holds(account_id))?.unwrap_or_default())
}

/// Gives held money back.
pub(super) fn release_hold(
    turn: &mut Turn<'_, '_>,
    account_id: &str,
    auth_id: &str,
) -> Result<(), Stop> {
    let row_key = key::holds(account_id);
    let Some(mut holds) = turn.cx.row::<Holds>(&row_key)? else {
        return Ok(());
    };
    holds.0.retain(|hold| hold.auth_id != auth_id);
    if holds.0.is_empty() {
        turn.cx.remove(row_key);
    } else {
        turn.cx.put_value(row_key, holds);
    }
    Ok(())
}

/// `platform.settle_payment`: order, reservation and ledger together or not at all (VC-SET-1).
pub(super) fn settle(
    turn: &mut Turn<'_, '_>,
    step: &Step<'_>,
    cert_id: &str,
    auth_id: Option<&str>,
) -> Result<Effect, Stop> {
    let cert = turn.cert(cert_id)?;
    turn.check_cert(&cert)?;
    let mandate = mandate_of(turn, &cert)?;
    if mandate.consumed {
        return Err(Code::MandateConsumed.stop());
    }
    if !turn.gate_is_satisfied(&cert, &mandate) {
        return Err(Code::ApprovalRequired.stop());
    }
    let auth = cert
        .auth
        .clone()
        .filter(|auth| auth.is_live(turn.eval))
        .filter(|auth| auth_id.is_none_or(|named| named == auth.auth_id))
        .ok_or_else(|| Code::PaymentNotAuthorized.stop())?;
    let qty = i64::try_from(cert.qty).map_err(|_| Code::InsufficientInventory.stop())?;
    let (merchant_id, sku_id) = (&cert.merchant_id, &cert.sku_id);
    let reservation = plan_stock(
        turn,
        merchant_id,
        sku_id,
        0,
        qty,
        Code::InsufficientInventory,
    )?;
    let merchant: Option<Arc<Merchant>> = turn.cx.shared(&merchant_key(merchant_id))?;
    let merchant = merchant.ok_or_else(|| Code::InvariantViolation.stop())?;
    let (payer, payee) = (&auth.account_id, &merchant.account_id);
    let transfer = plan_transfer(turn, Payer::Consumer, payer, payee, cert.total)?;
    let order = order_row(step, cert_id, &cert, &auth, &merchant);

    let mut diff = Diff {
        tx_id: Some(order.tx_id.clone()),
        actor: Some(PSP),
        ..Diff::default()
    };
    let children = vec![
        create_order(turn, &order, &mut diff)?,
        reservation.write_reservation(turn, &mut diff)?,
        transfer.write(turn, &order.tx_id, &mut diff)?,
    ];
    release_hold(turn, &auth.account_id, &auth.auth_id)?;
    consume(turn, cert_id, cert, mandate, &mut diff)?;
    turn.session.orders.push(order.order_id.clone());
    turn.session.reach(Phase::Settled);
    Ok(Effect {
        children,
        ..Effect::of(diff)
    })
}

fn order_row(
    step: &Step<'_>,
    cert_id: &str,
    cert: &CertRow,
    auth: &AuthRow,
    merchant: &Merchant,
) -> OrderRow {
    OrderRow {
        buyer_account: auth.account_id.clone(),
        cert_id: cert_id.to_owned(),
        currency: cert.currency.clone(),
        mandate_id: cert.mandate_id.clone(),
        merchant_account: merchant.account_id.clone(),
        merchant_id: cert.merchant_id.clone(),
        offer_id: cert.offer_id.clone(),
        order_id: object_id(ObjectKind::Order, step.msg_id),
        qty: cert.qty,
        refunded_total: 0,
        sku_id: cert.sku_id.clone(),
        state: OrderState::Paid,
        total: cert.total,
        tx_id: object_id(ObjectKind::Tx, step.msg_id),
        unit_price: cert.unit_price,
    }
}

/// The payload of `world.create_order`: an order's row without its state.
#[derive(Serialize)]
struct CreateOrder<'o> {
    buyer_account: &'o str,
    cert_id: &'o str,
    currency: &'o str,
    mandate_id: &'o str,
    merchant_account: &'o str,
    merchant_id: &'o str,
    offer_id: &'o str,
    order_id: &'o str,
    qty: u64,
    sku_id: &'o str,
    total: u64,
    tx_id: &'o str,
    unit_price: u64,
}

fn create_order(turn: &mut Turn<'_, '_>, order: &OrderRow, diff: &mut Diff) -> Result<Child, Stop> {
    let payload = CreateOrder {
        buyer_account: &order.buyer_account,
        cert_id: &order.cert_id,
        currency: &order.currency,
        mandate_id: &order.mandate_id,
        merchant_account: &order.merchant_account,
        merchant_id: &order.merchant_id,
        offer_id: &order.offer_id,
        order_id: &order.order_id,
        qty: order.qty,
        sku_id: &order.sku_id,
        total: order.total,
        tx_id: &order.tx_id,
        unit_price: order.unit_price,
    };
    let child = Child::new(Action::CreateOrder, PSP, &payload);
    diff.ops
        .put_row(Table::Orders, &order.order_id, order.clone(), turn.cx)?;
    turn.cx
        .put_value(key::transaction(&order.tx_id), order.order_id.clone());
    let file = OrderFile {
        session_id: turn.session_id.to_owned(),
        consumer_id: turn.session.consumer_id.clone().unwrap_or_default(),
        return_id: None,
        open_dispute: None,
    };
    turn.cx.put_value(key::order_file(&order.order_id), file);
    Ok(child)
}

/// What a settlement uses up: the certificate, the mandate, and every other offer of the session (VC-SET-4).
fn consume(
    turn: &mut Turn<'_, '_>,
    cert_id: &str,
    mut cert: Arc<CertRow>,
    mut mandate: Arc<MandateRow>,
    diff: &mut Diff,
) -> Result<(), Stop> {
    assert!(!mandate.consumed, "a mandate buys once");
    let before = turn.tells(|| views::mandate(&mandate));
    Arc::make_mut(&mut mandate).consumed = true;
    let after = turn.tells(|| views::mandate(&mandate));
    diff.ops.note("mandates", &cert.mandate_id, before, after);
    turn.cx.put_shared(key::mandate(&cert.mandate_id), mandate);
    let before = turn.tells(|| views::cert(&cert));
    let consumed = Arc::make_mut(&mut cert);
    consumed.state = CertState::Consumed;
    if let Some(auth) = &mut consumed.auth {
        auth.state = AuthState::Captured;
    }
    let after = turn.tells(|| views::cert(&cert));
    diff.ops.note("certs", cert_id, before, after);
    turn.cx.put_shared(key::cert(cert_id), Arc::clone(&cert));
    for waiting in turn.session.certs.clone() {
        turn.cx.remove(key::waiting(&waiting));
    }
    for offer_id in turn.session.offers.clone() {
        let offer = turn.offer(&offer_id)?;
        let next = match offer.state {
            _ if offer_id == cert.offer_id => OfferState::Settled,
            OfferState::Open | OfferState::Accepted | OfferState::Certified => OfferState::Closed,
            _ => continue,
        };
        change_offer(turn, &offer_id, offer, diff, |offer| offer.state = next);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use chancery_core::time::Time;

    use super::*;
    use crate::rules::turn::with_turn;

    fn mandate(consumed: bool) -> MandateRow {
        MandateRow {
            session_id: "s".to_owned(),
            consumer_id: "c".to_owned(),
            consumed,
            goal: "a keyboard".to_owned(),
            merchants: None,
            skus: None,
            requires_refundability: false,
            intent_expiry: Time::UNIX_EPOCH,
            can_buy_without_confirmation: true,
            max_spend_without_confirmation: 0,
            can_negotiate: true,
            can_accept_substitutes: false,
            budget: 1,
            currency: "USD".to_owned(),
            delivery_days: None,
            must_have: Vec::new(),
            min_reputation: None,
            payment_instrument: None,
            cart: None,
        }
    }

    fn cert() -> CertRow {
        CertRow {
            session_id: "s".to_owned(),
            mandate_id: "man".to_owned(),
            offer_id: "off".to_owned(),
            merchant_id: "m".to_owned(),
            sku_id: "s1".to_owned(),
            qty: 1,
            unit_price: 1,
            total: 1,
            currency: "USD".to_owned(),
            policy_version: "verify-1".to_owned(),
            issued_at: String::new(),
            expires_at: Time::UNIX_EPOCH,
            expires_text: String::new(),
            state: CertState::Issued,
            auth: None,
        }
    }

    fn use_up(mandate: MandateRow) {
        with_turn(|turn| {
            let (cert, mandate) = (Arc::new(cert()), Arc::new(mandate));
            consume(turn, "cert", cert, mandate, &mut Diff::default()).unwrap();
        });
    }

    // VC-OBJ-PurchaseMandate-2
    #[test]
    #[should_panic(expected = "a mandate buys once")]
    fn a_mandate_that_would_buy_twice_stops_the_node() {
        use_up(mandate(true));
    }

    // VC-OBJ-PurchaseMandate-2
    #[test]
    fn a_mandate_that_has_not_bought_is_used_up() {
        use_up(mandate(false));
    }
}

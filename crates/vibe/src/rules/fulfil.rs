//! After the settlement: dispatch, returns, refunds (section 5.2, second half; VC-SM-3).

use chancery_core::decision::Stop;
use chancery_core::fault;
use chancery_core::ids::{ObjectKind, object_id};

use super::batch::{AGGREGATOR, PSP, Payer, plan_stock, plan_transfer, update_order};
use super::certify::is_refundable;
use super::diff::Diff;
use super::turn::{Child, Effect, Step, Turn};
use crate::code::Code;
use crate::state::{OrderFile, Phase, ReturnRow, ReturnState, key};
use crate::world::rows::{CatalogRow, OrderRow, OrderState, Table, item};

/// What is known about an order; one of another session is none (VC-DSP-2).
fn file_here(turn: &Turn<'_, '_>, order_id: &str) -> Result<OrderFile, Stop> {
    let file: Option<OrderFile> = turn.cx.row(&key::order_file(order_id))?;
    file.filter(|file| file.session_id == turn.session_id)
        .ok_or_else(|| Code::OrderNotFound.stop())
}

fn check_undisputed(file: &OrderFile) -> Result<(), Stop> {
    match file.open_dispute {
        Some(_) => Err(Code::DisputeOpen.stop()),
        None => Ok(()),
    }
}

fn check_state(order: &OrderRow, state: OrderState) -> Result<(), Stop> {
    if order.state == state {
        Ok(())
    } else {
        Err(Code::InvalidOrderState.stop())
    }
}

/// `commerce.dispatch`: the merchant's stock is written by the platform, never by itself.
pub(super) fn dispatch(
    turn: &mut Turn<'_, '_>,
    step: &Step<'_>,
    order_id: &str,
    qty: Option<i64>,
) -> Result<Effect, Stop> {
    let file = file_here(turn, order_id)?;
    let order = turn.order(order_id)?;
    turn.check_merchant(step, &order.merchant_id)?;
    check_undisputed(&file)?;
    check_state(&order, OrderState::Paid)?;
    let whole = i64::try_from(order.qty).map_err(|_| Code::InvariantViolation.stop())?;
    if qty.is_some_and(|qty| qty != whole) {
        return Err(Code::PartialDispatchUnsupported.stop());
    }
    let code = Code::InvariantViolation;
    let stock = plan_stock(
        turn,
        &order.merchant_id,
        &order.sku_id,
        -whole,
        -whole,
        code,
    )?;
    let mut diff = Diff::default();
    let children = vec![
        stock.write(turn, &mut diff)?,
        update_order(
            turn,
            order,
            OrderState::Shipped,
            None,
            AGGREGATOR,
            &mut diff,
        )?,
    ];
    turn.session.reach(Phase::Fulfilled);
    Ok(batch(diff, children))
}

fn batch(diff: Diff, children: Vec<Child>) -> Effect {
    Effect {
        children,
        ..Effect::of(diff)
    }
}

/// `commerce.request_return`
pub(super) fn request_return(
    turn: &mut Turn<'_, '_>,
    step: &Step<'_>,
    tx_id: &str,
) -> Result<Effect, Stop> {
    let order = turn.order_of(tx_id)?;
    let mut file = file_here(turn, &order.order_id)?;
    check_state(&order, OrderState::Shipped)?;
    let entry = item(&order.merchant_id, &order.sku_id);
    let listing: Option<CatalogRow> = turn.cx.row(&Table::Catalog.key(&entry))?;
    let goal = turn.goal(&order.merchant_id, &order.sku_id)?;
    if !is_refundable(listing.as_ref(), goal.as_deref()) {
        return Err(Code::NotRefundable.stop());
    }
    check_undisputed(&file)?;
    let return_id = object_id(ObjectKind::Return, step.msg_id);
    let row = ReturnRow {
        order_id: order.order_id.clone(),
        session_id: turn.session_id.to_owned(),
        state: ReturnState::Requested,
        refund_amount: 0,
        restock: false,
    };
    turn.cx.put(key::return_(&return_id), &row);
    file.return_id = Some(return_id);
    turn.cx.put(key::order_file(&order.order_id), &file);
    let mut diff = Diff::default();
    let state = OrderState::ReturnRequested;
    let child = update_order(turn, order, state, None, AGGREGATOR, &mut diff)?;
    Ok(batch(diff, vec![child]))
}

/// `commerce.respond_return`: an amount approves, none denies.
pub(super) fn respond_return(
    turn: &mut Turn<'_, '_>,
    step: &Step<'_>,
    return_id: &str,
    refund_amount: Option<u64>,
    restock: bool,
) -> Result<Effect, Stop> {
    let row: Option<ReturnRow> = turn.cx.row(&key::return_(return_id))?;
    let mut row = row
        .filter(|row| row.session_id == turn.session_id)
        .ok_or_else(|| Code::ReturnNotFound.stop())?;
    let order = turn.order(&row.order_id)?;
    turn.check_merchant(step, &order.merchant_id)?;
    if row.state != ReturnState::Requested {
        return Err(Code::InvalidOrderState.stop());
    }
    check_state(&order, OrderState::ReturnRequested)?;
    check_undisputed(&file_here(turn, &order.order_id)?)?;
    let left = order.total - order.refunded_total;
    let state = match refund_amount {
        Some(amount) if !(1..=left).contains(&amount) && !fault::on("vc-refund-above-total") => {
            return Err(Code::RefundExceedsTotal.stop());
        }
        Some(amount) => {
            row.state = ReturnState::Approved;
            row.refund_amount = amount;
            row.restock = restock;
            OrderState::ReturnApproved
        }
        None => {
            row.state = ReturnState::Denied;
            OrderState::Shipped
        }
    };
    turn.cx.put(key::return_(return_id), &row);
    let mut diff = Diff::default();
    let child = update_order(turn, order, state, None, AGGREGATOR, &mut diff)?;
    Ok(batch(diff, vec![child]))
}

/// `platform.refund_payment`: what an approved return promised.
pub(super) fn refund(
    turn: &mut Turn<'_, '_>,
    tx_id: &str,
    amount: u64,
    return_id: &str,
) -> Result<Effect, Stop> {
    let order = turn.order_of(tx_id)?;
    let file = file_here(turn, &order.order_id)?;
    let row: Option<ReturnRow> = turn.cx.row(&key::return_(return_id))?;
    let mut row = row
        .filter(|row| row.order_id == order.order_id)
        .filter(|row| row.state == ReturnState::Approved && row.refund_amount == amount)
        .filter(|_| order.state == OrderState::ReturnApproved || file.open_dispute.is_some())
        .ok_or_else(|| Code::RefundNotAuthorized.stop())?;
    check_undisputed(&file)?;
    let refunded = order.refunded_total + amount;
    if refunded > order.total {
        return Err(Code::RefundExceedsTotal.stop());
    }
    let (payer, payee) = (&order.merchant_account, &order.buyer_account);
    let transfer = plan_transfer(turn, Payer::Merchant, payer, payee, amount)?;
    let qty = i64::try_from(order.qty).map_err(|_| Code::InvariantViolation.stop())?;
    let stock = if row.restock {
        let code = Code::InvariantViolation;
        Some(plan_stock(
            turn,
            &order.merchant_id,
            &order.sku_id,
            qty,
            0,
            code,
        )?)
    } else {
        None
    };
    row.state = ReturnState::Paid;
    turn.cx.put(key::return_(return_id), &row);
    let mut diff = Diff::default();
    let mut children = vec![transfer.write(turn, tx_id, &mut diff)?];
    let state = refunded_state(turn, refunded, order.total);
    children.push(update_order(
        turn,
        order,
        state,
        Some(refunded),
        PSP,
        &mut diff,
    )?);
    if let Some(stock) = stock {
        children.push(stock.write(turn, &mut diff)?);
    }
    Ok(batch(diff, children))
}

/// The end of an order; a refund of all closes its session.
fn refunded_state(turn: &mut Turn<'_, '_>, refunded: u64, total: u64) -> OrderState {
    if refunded == total {
        turn.session.reach(Phase::Closed);
        OrderState::Refunded
    } else {
        OrderState::PartiallyRefunded
    }
}

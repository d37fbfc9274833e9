//! Disputes: opened in a session of their own, decided on evidence that is on record (sections 5.3, 16; VC-SM-4).

use chancery_core::decision::{Cx, Stop};
use chancery_core::ids::{ObjectKind, object_id};
use serde::Serialize;

use super::batch::{
    ADJUDICATOR, PSP, Payer, Restocking, Transfer, plan_stock, plan_transfer, update_order,
};
use super::diff::Diff;
use super::reputation;
use super::turn::{Child, Effect, Step, Turn};
use crate::action::Action;
use crate::code::Code;
use crate::payload::{Ruling, RulingKind};
use crate::state::{CaseFile, OrderFile, Phase, Session, key};
use crate::world::rows::{DisputeRow, DisputeState, OrderRow, OrderState, RulingRow, Table, bytes};

#[derive(Serialize)]
struct RecordDispute<'d> {
    dispute_id: &'d str,
    opened_by: &'d str,
    order_id: &'d str,
    reason: &'d str,
    tx_id: &'d str,
}

/// The session that an order came from, by its transaction.
pub(super) fn origin(tx_id: &str, cx: &Cx<'_>) -> Result<Option<Session>, Stop> {
    let Some(order_id) = cx.row::<String>(&key::transaction(tx_id))? else {
        return Ok(None);
    };
    match cx.row::<OrderFile>(&key::order_file(&order_id))? {
        Some(file) => cx.row(&key::session(&file.session_id)),
        None => Ok(None),
    }
}

/// `platform.open_dispute`
pub(super) fn open(
    turn: &mut Turn<'_, '_>,
    step: &Step<'_>,
    tx_id: &str,
    reason: &str,
    evidence: &[String],
) -> Result<Effect, Stop> {
    let not_found = || Code::OrderNotFound.stop();
    let order = turn.order_of(tx_id)?;
    let file: Option<OrderFile> = turn.cx.row(&key::order_file(&order.order_id))?;
    let mut file = file.ok_or_else(not_found)?;
    let own = turn
        .principal
        .as_ref()
        .and_then(|own| own.consumer_id.as_ref());
    if own.is_some_and(|own| *own != file.consumer_id) {
        return Err(not_found());
    }
    if order.state.is_final() {
        return Err(Code::InvalidOrderState.stop());
    }
    if file.open_dispute.is_some() {
        return Err(Code::DisputeExists.stop());
    }
    turn.check_evidence(evidence)?;
    let dispute = DisputeRow {
        dispute_id: object_id(ObjectKind::Dispute, step.msg_id),
        evidence: Vec::new(),
        opened_by: file.consumer_id.clone(),
        order_id: order.order_id.clone(),
        reason: reason.to_owned(),
        state: DisputeState::Open,
        tx_id: tx_id.to_owned(),
    };
    // The buyer's private values stay private here (VC-CLR-16).
    let origin: Option<Session> = turn.cx.row(&key::session(&file.session_id))?;
    if let Some(origin) = origin {
        turn.session.private = origin.private;
        turn.session.currency = origin.currency;
    }
    turn.session.consumer_id = Some(file.consumer_id.clone());
    file.open_dispute = Some(dispute.dispute_id.clone());
    turn.cx.put(key::order_file(&order.order_id), &file);
    let case = CaseFile {
        session_id: turn.session_id.to_owned(),
        merchant_id: order.merchant_id,
        unanswered: Vec::new(),
    };
    turn.cx.put(key::case_file(&dispute.dispute_id), &case);
    let payload = RecordDispute {
        dispute_id: &dispute.dispute_id,
        opened_by: &dispute.opened_by,
        order_id: &dispute.order_id,
        reason,
        tx_id,
    };
    let child = Child::new(Action::RecordDispute, ADJUDICATOR, &payload);
    let mut diff = about(tx_id);
    diff.ops.put(
        Table::Disputes,
        &dispute.dispute_id,
        bytes(&dispute),
        turn.cx,
    )?;
    Ok(Effect {
        children: vec![child],
        ..Effect::of(diff)
    })
}

fn about(tx_id: &str) -> Diff {
    Diff {
        tx_id: Some(tx_id.to_owned()),
        ..Diff::default()
    }
}

/// A dispute of this session that is not ruled.
fn open_case(turn: &Turn<'_, '_>, dispute_id: &str) -> Result<(CaseFile, DisputeRow), Stop> {
    let (case, dispute) = case_here(turn, dispute_id)?;
    check_not_ruled(&dispute)?;
    Ok((case, dispute))
}

fn check_not_ruled(dispute: &DisputeRow) -> Result<(), Stop> {
    match dispute.state {
        DisputeState::Ruled => Err(Code::DisputeClosed.stop()),
        DisputeState::Open | DisputeState::EvidenceRequested => Ok(()),
    }
}

/// A dispute of this session.
fn case_here(turn: &Turn<'_, '_>, dispute_id: &str) -> Result<(CaseFile, DisputeRow), Stop> {
    let not_found = || Code::DisputeNotFound.stop();
    let case: Option<CaseFile> = turn.cx.row(&key::case_file(dispute_id))?;
    let case = case
        .filter(|case| case.session_id == turn.session_id)
        .ok_or_else(not_found)?;
    let dispute: Option<DisputeRow> = turn.cx.row(&Table::Disputes.key(dispute_id))?;
    Ok((case, dispute.ok_or_else(not_found)?))
}

#[derive(Serialize)]
struct UpdateDispute<'d> {
    dispute_id: &'d str,
    evidence_added: &'d [String],
    state: DisputeState,
}

fn update_dispute(
    turn: &mut Turn<'_, '_>,
    case: &CaseFile,
    mut dispute: DisputeRow,
    evidence: &[String],
) -> Result<Effect, Stop> {
    dispute.state = if case.unanswered.is_empty() {
        DisputeState::Open
    } else {
        DisputeState::EvidenceRequested
    };
    dispute.evidence.extend_from_slice(evidence);
    let payload = UpdateDispute {
        dispute_id: &dispute.dispute_id,
        evidence_added: evidence,
        state: dispute.state,
    };
    let child = Child::new(Action::UpdateDispute, ADJUDICATOR, &payload);
    turn.cx.put(key::case_file(&dispute.dispute_id), case);
    let mut diff = about(&dispute.tx_id);
    diff.ops.put(
        Table::Disputes,
        &dispute.dispute_id,
        bytes(&dispute),
        turn.cx,
    )?;
    Ok(Effect {
        children: vec![child],
        ..Effect::of(diff)
    })
}

/// `platform.request_evidence`
pub(super) fn request_evidence(
    turn: &mut Turn<'_, '_>,
    step: &Step<'_>,
    dispute_id: &str,
) -> Result<Effect, Stop> {
    let (mut case, dispute) = open_case(turn, dispute_id)?;
    case.unanswered.push(step.msg_id.to_owned());
    update_dispute(turn, &case, dispute, &[])
}

/// `platform.submit_evidence`
pub(super) fn submit_evidence(
    turn: &mut Turn<'_, '_>,
    step: &Step<'_>,
    dispute_id: &str,
    evidence: &[String],
) -> Result<Effect, Stop> {
    let (mut case, dispute) = case_here(turn, dispute_id)?;
    // Who it is comes first: a stranger does not learn how it ended.
    turn.check_merchant(step, &case.merchant_id)?;
    check_not_ruled(&dispute)?;
    let asked = step.replied.as_ref().is_some_and(|replied| {
        replied.kind == Action::RequestEvidence && replied.to == step.from.side
    });
    if !asked {
        return Err(Code::ThreadMismatch.stop());
    }
    turn.check_evidence(evidence)?;
    case.unanswered
        .retain(|request| Some(request.as_str()) != step.in_reply_to);
    update_dispute(turn, &case, dispute, evidence)
}

/// What a ruling gives back: money, and the reservation of an order that was never dispatched.
struct Refund {
    amount: u64,
    state: OrderState,
    transfer: Transfer,
    stock: Option<Restocking>,
}

fn plan_refund(
    turn: &Turn<'_, '_>,
    ruling: &Ruling,
    order: &OrderRow,
) -> Result<Option<Refund>, Stop> {
    let left = order.total - order.refunded_total;
    let (amount, state) = match ruling.kind {
        RulingKind::Deny => return Ok(None),
        RulingKind::RefundFull => {
            if ruling.refund_amount.is_some_and(|named| named != left) {
                return Err(Code::AmountMismatch.stop());
            }
            (left, OrderState::Refunded)
        }
        RulingKind::RefundPartial => {
            let amount = ruling.refund_amount.unwrap_or_default();
            if !(1..left).contains(&amount) {
                return Err(Code::RefundExceedsTotal.stop());
            }
            (amount, OrderState::PartiallyRefunded)
        }
    };
    let (payer, payee) = (&order.merchant_account, &order.buyer_account);
    let transfer = plan_transfer(turn, Payer::Merchant, payer, payee, amount)?;
    let stock = if order.state == OrderState::Paid {
        let code = Code::InvariantViolation;
        let qty = i64::try_from(order.qty).map_err(|_| code.stop())?;
        Some(plan_stock(
            turn,
            &order.merchant_id,
            &order.sku_id,
            0,
            -qty,
            code,
        )?)
    } else {
        None
    };
    Ok(Some(Refund {
        amount,
        state,
        transfer,
        stock,
    }))
}

/// `platform.rule_dispute`: one batch with all that follows from it.
pub(super) fn rule(
    turn: &mut Turn<'_, '_>,
    step: &Step<'_>,
    ruling: &Ruling,
) -> Result<Effect, Stop> {
    let (case, mut dispute) = open_case(turn, &ruling.dispute_id)?;
    let order = turn.order(&dispute.order_id)?;
    let refund = plan_refund(turn, ruling, &order)?;
    turn.check_evidence(&ruling.evidence)?;
    let standing = reputation::plan(turn, &case.merchant_id, ruling.reputation_delta)?;
    let mut diff = about(&order.tx_id);
    let row = RulingRow {
        dispute_id: dispute.dispute_id.clone(),
        refund_amount: refund.as_ref().map_or(0, |refund| refund.amount),
        ruling: ruling.kind.as_str().to_owned(),
        ruling_id: object_id(ObjectKind::Ruling, step.msg_id),
    };
    let mut children = vec![Child::new(Action::RecordRuling, ADJUDICATOR, &row)];
    diff.ops
        .put(Table::Rulings, &row.ruling_id, bytes(&row), turn.cx)?;
    dispute.state = DisputeState::Ruled;
    diff.ops.put(
        Table::Disputes,
        &dispute.dispute_id,
        bytes(&dispute),
        turn.cx,
    )?;
    close_case(turn, &order.order_id)?;
    if let Some(refund) = refund {
        children.push(refund.transfer.write(turn, &order.tx_id, &mut diff)?);
        let refunded = order.refunded_total + refund.amount;
        let (state, total) = (refund.state, Some(refunded));
        children.push(update_order(turn, order, state, total, PSP, &mut diff)?);
        if let Some(stock) = refund.stock {
            children.push(stock.write(turn, &mut diff)?);
        }
    }
    if let Some(standing) = standing {
        let reason = ["ruling ", &row.ruling_id].concat();
        children.push(standing.write(turn, &reason, &ruling.evidence, &mut diff)?);
    }
    turn.session.reach(Phase::Closed);
    Ok(Effect {
        children,
        ..Effect::of(diff)
    })
}

fn close_case(turn: &mut Turn<'_, '_>, order_id: &str) -> Result<(), Stop> {
    let row_key = key::order_file(order_id);
    if let Some(mut file) = turn.cx.row::<OrderFile>(&row_key)? {
        file.open_dispute = None;
        turn.cx.put(row_key, &file);
    }
    Ok(())
}

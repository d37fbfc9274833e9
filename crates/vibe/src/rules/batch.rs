//! Writes of the world inside a batch: each makes its world envelope, changes its row and keeps the invariants
//! (VC-ACT-world-2, VC-ACT-world-4).
//!
//! The `plan_` functions check and compute; the others write what was planned. So nothing is written before all of a
//! batch has been checked.

use chancery_core::decision::Stop;
use serde::Serialize;

use super::diff::{Diff, InventoryDelta};
use super::turn::{Child, Turn};
use crate::action::Action;
use crate::code::Code;
use crate::money::MAX;
use crate::world::rows::{InventoryRow, LedgerRow, OrderRow, OrderState, Table, item};

/// The platform roles that write.
pub(super) const PSP: &str = "platform:psp";
/// The platform's broker.
pub(super) const AGGREGATOR: &str = "platform:aggregator";
/// The platform's judge.
pub(super) const ADJUDICATOR: &str = "platform:adjudicator";
/// The platform's keeper of reputation.
pub(super) const REPUTATION: &str = "platform:reputation";

/// Money that moves from one account to another: both rows as they will be.
pub(super) struct Transfer {
    rows: [LedgerRow; 2],
    amount: i64,
}

/// Whose account pays.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Payer {
    /// A consumer's: it has what it pays.
    Consumer,
    /// That of a merchant that gives money back: it may go below zero.
    Merchant,
}

/// Plans to move an amount; refuses what would break the ledger.
pub(super) fn plan_transfer(
    turn: &Turn<'_, '_>,
    whose: Payer,
    from: &str,
    to: &str,
    amount: u64,
) -> Result<Transfer, Stop> {
    let violation = || Code::InvariantViolation.stop();
    let account = |id: &str| {
        let row: Option<LedgerRow> = turn.cx.row(&Table::Ledger.key(id))?;
        row.ok_or_else(violation)
    };
    let (mut payer, mut payee) = (account(from)?, account(to)?);
    let amount = i64::try_from(amount).map_err(|_| violation())?;
    if from == to || payer.currency != payee.currency {
        return Err(violation());
    }
    let before = sum([&payer, &payee]);
    payer.balance = payer.balance.checked_sub(amount).ok_or_else(violation)?;
    payee.balance = payee.balance.checked_add(amount).ok_or_else(violation)?;
    if payer.balance < 0 && whose == Payer::Consumer {
        return Err(violation());
    }
    let in_range = |row: &LedgerRow| row.balance.unsigned_abs() <= MAX;
    if !in_range(&payer) || !in_range(&payee) {
        return Err(violation());
    }
    Ok(Transfer::of([payer, payee], amount, before))
}

fn sum(rows: [&LedgerRow; 2]) -> i128 {
    rows.iter().map(|row| i128::from(row.balance)).sum()
}

#[derive(Serialize)]
struct UpdateLedger<'p> {
    entries: [Entry<'p>; 2],
    tx_id: &'p str,
}

#[derive(Serialize)]
struct Entry<'p> {
    account_id: &'p str,
    delta: i64,
}

impl Transfer {
    /// A transfer between two accounts that had `before` together.
    fn of(rows: [LedgerRow; 2], amount: i64, before: i128) -> Self {
        let [payer, payee] = &rows;
        assert_eq!(
            before,
            sum([payer, payee]),
            "a transfer neither makes nor loses money"
        );
        Self { rows, amount }
    }

    /// Writes it: `world.update_ledger`.
    pub(super) fn write(
        self,
        turn: &mut Turn<'_, '_>,
        tx_id: &str,
        diff: &mut Diff,
    ) -> Result<Child, Stop> {
        let [payer, payee] = &self.rows;
        let deltas = [-self.amount, self.amount];
        let payload = UpdateLedger {
            entries: [
                Entry {
                    account_id: &payer.account_id,
                    delta: deltas[0],
                },
                Entry {
                    account_id: &payee.account_id,
                    delta: deltas[1],
                },
            ],
            tx_id,
        };
        let child = Child::new(Action::UpdateLedger, PSP, &payload);
        for (row, delta) in self.rows.iter().zip(deltas) {
            diff.ops
                .put_row(Table::Ledger, &row.account_id, row.clone(), turn.cx)?;
            diff.ledger.push((row.account_id.clone(), delta));
        }
        Ok(child)
    }
}

/// A stock as it will be.
pub(super) struct Restocking {
    row: InventoryRow,
    on_hand_delta: i64,
    reserved_delta: i64,
}

/// Plans to change a stock; refuses with `code` what would leave `0 ≤ reserved ≤ on_hand`.
pub(super) fn plan_stock(
    turn: &Turn<'_, '_>,
    merchant_id: &str,
    sku_id: &str,
    on_hand_delta: i64,
    reserved_delta: i64,
    code: Code,
) -> Result<Restocking, Stop> {
    let entry = item(merchant_id, sku_id);
    let row: Option<InventoryRow> = turn.cx.row(&Table::Inventory.key(&entry))?;
    let mut row = row.ok_or_else(|| code.stop())?;
    let moved = |value: u64, delta: i64| {
        value
            .checked_add_signed(delta)
            .filter(|value| *value <= MAX)
    };
    row.on_hand = moved(row.on_hand, on_hand_delta).ok_or_else(|| code.stop())?;
    row.reserved = moved(row.reserved, reserved_delta).ok_or_else(|| code.stop())?;
    if row.reserved > row.on_hand {
        return Err(code.stop());
    }
    Ok(Restocking {
        row,
        on_hand_delta,
        reserved_delta,
    })
}

#[derive(Serialize)]
struct UpdateInventory<'p> {
    merchant_id: &'p str,
    on_hand_delta: i64,
    reserved_delta: i64,
    sku_id: &'p str,
}

#[derive(Serialize)]
struct ReserveInventory<'p> {
    merchant_id: &'p str,
    qty: i64,
    sku_id: &'p str,
}

impl Restocking {
    /// Writes it: `world.update_inventory`.
    pub(super) fn write(self, turn: &mut Turn<'_, '_>, diff: &mut Diff) -> Result<Child, Stop> {
        let payload = UpdateInventory {
            merchant_id: &self.row.merchant_id,
            on_hand_delta: self.on_hand_delta,
            reserved_delta: self.reserved_delta,
            sku_id: &self.row.sku_id,
        };
        let child = Child::new(Action::UpdateInventory, AGGREGATOR, &payload);
        self.apply(turn, diff)?;
        Ok(child)
    }

    /// Writes it as the reservation of a settlement: `world.reserve_inventory`.
    pub(super) fn write_reservation(
        self,
        turn: &mut Turn<'_, '_>,
        diff: &mut Diff,
    ) -> Result<Child, Stop> {
        let payload = ReserveInventory {
            merchant_id: &self.row.merchant_id,
            qty: self.reserved_delta,
            sku_id: &self.row.sku_id,
        };
        let child = Child::new(Action::ReserveInventory, PSP, &payload);
        self.apply(turn, diff)?;
        Ok(child)
    }

    fn apply(self, turn: &mut Turn<'_, '_>, diff: &mut Diff) -> Result<(), Stop> {
        assert!(
            self.row.reserved <= self.row.on_hand,
            "what is reserved is on hand"
        );
        let entry = item(&self.row.merchant_id, &self.row.sku_id);
        diff.ops
            .put_row(Table::Inventory, &entry, self.row.clone(), turn.cx)?;
        diff.inventory.push(InventoryDelta {
            merchant_id: self.row.merchant_id,
            sku_id: self.row.sku_id,
            on_hand_delta: self.on_hand_delta,
            reserved_delta: self.reserved_delta,
        });
        Ok(())
    }
}

#[derive(Serialize)]
struct UpdateOrder<'p> {
    order_id: &'p str,
    #[serde(skip_serializing_if = "Option::is_none")]
    refunded_total: Option<u64>,
    state: OrderState,
}

/// Writes an order's new state, with what has been refunded where that changes: `world.update_order`.
pub(super) fn update_order(
    turn: &mut Turn<'_, '_>,
    mut order: OrderRow,
    state: OrderState,
    refunded_total: Option<u64>,
    from: &'static str,
    diff: &mut Diff,
) -> Result<Child, Stop> {
    order.state = state;
    order.refunded_total = refunded_total.unwrap_or(order.refunded_total);
    assert!(
        order.refunded_total <= order.total,
        "no more is refunded than was paid"
    );
    let payload = UpdateOrder {
        order_id: &order.order_id,
        refunded_total,
        state,
    };
    let child = Child::new(Action::UpdateOrder, from, &payload);
    diff.tx_id = Some(order.tx_id.clone());
    diff.ops
        .put_row(Table::Orders, &order.order_id, order.clone(), turn.cx)?;
    Ok(child)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::turn::with_turn;

    fn account(account_id: &str, balance: i64) -> LedgerRow {
        LedgerRow {
            account_id: account_id.to_owned(),
            balance,
            currency: "USD".to_owned(),
            owner: "c".to_owned(),
        }
    }

    // VC-ACT-world-4
    #[test]
    #[should_panic(expected = "a transfer neither makes nor loses money")]
    fn money_that_a_transfer_would_make_stops_the_node() {
        Transfer::of([account("a", 95), account("b", 6)], 5, 100);
    }

    // VC-ACT-world-4
    #[test]
    #[should_panic(expected = "a transfer neither makes nor loses money")]
    fn money_that_a_transfer_would_lose_stops_the_node() {
        Transfer::of([account("a", 95), account("b", 4)], 5, 100);
    }

    fn stock(on_hand: u64, reserved: u64) -> Restocking {
        Restocking {
            row: InventoryRow {
                merchant_id: "m".to_owned(),
                on_hand,
                reserved,
                sku_id: "s".to_owned(),
            },
            on_hand_delta: 0,
            reserved_delta: 1,
        }
    }

    // VC-ACT-world-4
    #[test]
    #[should_panic(expected = "what is reserved is on hand")]
    fn a_reservation_of_what_is_not_there_stops_the_node() {
        with_turn(|turn| {
            let _ = stock(2, 3).write_reservation(turn, &mut Diff::default());
        });
    }

    // VC-ACT-world-4
    #[test]
    #[should_panic(expected = "what is reserved is on hand")]
    fn a_dispatch_of_what_is_reserved_for_others_stops_the_node() {
        with_turn(|turn| {
            let _ = stock(2, 3).write(turn, &mut Diff::default());
        });
    }

    fn order(total: u64) -> OrderRow {
        OrderRow {
            buyer_account: "a".to_owned(),
            cert_id: "cert".to_owned(),
            currency: "USD".to_owned(),
            mandate_id: "man".to_owned(),
            merchant_account: "b".to_owned(),
            merchant_id: "m".to_owned(),
            offer_id: "off".to_owned(),
            order_id: "ord".to_owned(),
            qty: 1,
            refunded_total: 0,
            sku_id: "s".to_owned(),
            state: OrderState::ReturnApproved,
            total,
            tx_id: "tx".to_owned(),
            unit_price: total,
        }
    }

    // VC-DSP-3
    #[test]
    #[should_panic(expected = "no more is refunded than was paid")]
    fn a_refund_of_more_than_was_paid_stops_the_node() {
        with_turn(|turn| {
            let (state, mut diff) = (OrderState::Refunded, Diff::default());
            let _ = update_order(turn, order(100), state, Some(101), PSP, &mut diff);
        });
    }

    // VC-ACT-world-4, VC-DSP-3
    #[test]
    fn what_keeps_the_invariants_is_written() {
        let transfer = Transfer::of([account("a", 95), account("b", 5)], 5, 100);
        with_turn(|turn| {
            let mut diff = Diff::default();
            let tables = [
                transfer.write(turn, "tx", &mut diff).unwrap(),
                stock(3, 3).write(turn, &mut diff).unwrap(),
                update_order(
                    turn,
                    order(100),
                    OrderState::Refunded,
                    Some(100),
                    PSP,
                    &mut diff,
                )
                .unwrap(),
            ];
            assert_eq!(tables.len(), 3);
            assert_eq!(diff.ledger, [("a".to_owned(), -5), ("b".to_owned(), 5)]);
            assert_eq!(diff.inventory.len(), 1);
        });
    }
}

//! What a market came to.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use chancery_core::rows::Rows as _;
use chancery_node::Office;
use chancery_store::StoreRows;
use chancery_vibe::world::rows::{OrderRow, RulingRow, Table};
use serde::Serialize;

use super::people::People;
use super::round::Said;
use super::{MarketError, failed};

/// Figures of a market.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Wishes in all.
    pub deals: u64,
    /// Wishes that were settled.
    pub settled: u64,
    /// The sum of all settled totals.
    pub turnover: u64,
    /// What was paid on average, in hundredths of the list price.
    pub percent_of_list: u64,
    /// Purchases that their person did not approve.
    pub rejected_by_people: u64,
    /// Offers that an agent rejected.
    pub rejected_by_agents: u64,
    /// Rulings for the buyer.
    pub rulings_for_buyers: u64,
    /// Rulings for the merchant.
    pub rulings_for_merchants: u64,
    /// Refunds, in minor units.
    pub refunded: u64,
    /// Orders below the merchant's floor: none.
    pub below_floor: u64,
    /// Orders above the buyer's budget: none.
    pub above_budget: u64,
    /// Turns by outcome.
    pub turns: BTreeMap<&'static str, u64>,
    /// Refusals by code: of people's envelopes, and of what agents wanted to say.
    pub refusals: BTreeMap<&'static str, u64>,
    /// Lines of the log.
    pub lines: u64,
    /// How long it took.
    #[serde(skip)]
    pub elapsed: Duration,
    #[serde(skip)]
    ended: BTreeSet<String>,
}

impl Report {
    /// Deals that came to their end so far.
    pub(super) fn deals_ended(&self) -> u64 {
        self.ended.len() as u64
    }

    /// Notes a refusal.
    pub(super) fn refused(&mut self, code: &'static str) {
        *self.refusals.entry(code).or_default() += 1;
    }

    /// Notes a turn.
    pub(super) fn take(&mut self, said: &Said, people: &People) {
        *self.turns.entry(said.record.outcome.as_str()).or_default() += 1;
        for code in said.record.steps.iter().filter_map(|step| step.code) {
            self.refused(code);
        }
        let Some((kind, message)) = &said.sent else {
            return;
        };
        if kind == "commerce.reject_offer" {
            self.rejected_by_agents += 1;
        }
        let is_deal = people
            .wishes
            .iter()
            .any(|wish| wish.session_id == message.session_id);
        let ends = matches!(
            kind.as_str(),
            "platform.settle_payment" | "commerce.reject_offer"
        );
        if is_deal && ends {
            self.ended.insert(message.session_id.clone());
        }
    }

    /// Reads the result from the world: orders against floors and budgets, rulings, refunds.
    pub(super) fn close(&mut self, office: &Office, people: &People) -> Result<(), MarketError> {
        let store = &**office.gate().store();
        let rows = StoreRows(store);
        let mut list_total: u64 = 0;
        for (_, row) in rows.scan(&Table::Orders.prefix()).map_err(failed)? {
            let order: OrderRow = serde_json::from_slice(&row).map_err(failed)?;
            let item = people
                .items
                .iter()
                .find(|item| item.merchant_id == order.merchant_id && item.sku_id == order.sku_id);
            let wish = people
                .wishes
                .iter()
                .find(|wish| order.mandate_id == format!("mandate-{}", wish.session_id));
            let (Some(item), Some(wish)) = (item, wish) else {
                return Err(failed("an order is nobody's"));
            };
            self.settled += 1;
            self.turnover += order.total;
            self.refunded += order.refunded_total;
            list_total += item.list_price * order.qty;
            self.below_floor += u64::from(order.unit_price < item.floor_price);
            self.above_budget += u64::from(order.total > wish.budget);
        }
        self.percent_of_list = (self.turnover * 100).checked_div(list_total).unwrap_or(0);
        for (_, row) in rows.scan(&Table::Rulings.prefix()).map_err(failed)? {
            let ruling: RulingRow = serde_json::from_slice(&row).map_err(failed)?;
            if ruling.refund_amount > 0 {
                self.rulings_for_buyers += 1;
            } else {
                self.rulings_for_merchants += 1;
            }
        }
        self.lines = store.head().seq;
        Ok(())
    }
}

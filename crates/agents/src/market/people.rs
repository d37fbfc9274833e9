//! The people of a market and what they own: a world, goals, wishes, tastes. All of it follows from the seed.

use serde_json::{Value, json};

use super::Size;
use super::chance::Chance;

const KINDS: [&str; 8] = [
    "keyboard", "lamp", "chair", "headset", "monitor", "kettle", "backpack", "notebook",
];
const TRAITS: [&str; 6] = ["quiet", "bright", "light", "sturdy", "compact", "warm"];
/// Items that a merchant lists.
const ITEMS: u64 = 3;
/// Money that a buyer has.
const BALANCE: u64 = 1_000_000_000;

/// An item and what its merchant keeps to itself.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) merchant_id: String,
    pub(super) sku_id: String,
    pub(super) title: String,
    pub(super) list_price: u64,
    pub(super) floor_price: u64,
    eta_days: u64,
}

/// A wish of a consumer, and how it will take what comes of it.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    pub(super) session_id: String,
    pub(super) consumer_id: String,
    goal: String,
    pub(super) budget: u64,
    qty: u64,
    can_negotiate: bool,
    needs_approval: bool,
    pub(super) approves: bool,
    taste: Value,
    /// Whether what is sent for it can be traced.
    pub(super) has_tracking: bool,
}

/// Everybody and everything.
pub(super) struct People {
    pub(super) items: Vec<Item>,
    pub(super) wishes: Vec<Wish>,
    size: Size,
}

impl People {
    pub(super) fn of(size: Size) -> Self {
        let items = (0..size.merchants).flat_map(|merchant| {
            (0..ITEMS).map(move |number| Item::of(size.seed, merchant, number))
        });
        let items: Vec<Item> = items.collect();
        let wishes = (0..size.deals).map(|deal| Wish::of(size, deal, &items));
        let wishes = wishes.collect();
        Self {
            items,
            wishes,
            size,
        }
    }

    /// The world seed (VC-WLD-1).
    pub(super) fn world(&self) -> Value {
        let merchants = 0..self.size.merchants;
        let account = |id: String, owner: String, balance: u64| json!({"account_id": id, "owner": owner, "currency": "USD", "balance": balance});
        let buyers = (0..self.size.buyers)
            .map(|buyer| account(format!("a_{}", consumer(buyer)), consumer(buyer), BALANCE));
        let sellers = merchants
            .clone()
            .map(|one| account(format!("a_{}", merchant(one)), merchant(one), 0));
        let listed = self.items.iter().map(|item| {
            json!({"merchant_id": item.merchant_id, "sku_id": item.sku_id, "title": item.title,
                   "attributes": [], "list_price": item.list_price, "eta_days": item.eta_days,
                   "refundable": true})
        });
        let stock = self.items.iter().map(|item| {
            json!({"merchant_id": item.merchant_id, "sku_id": item.sku_id,
                   "on_hand": self.size.deals * 4, "reserved": 0})
        });
        json!({
            "seed_id": format!("market-{}", self.size.seed), "currency": "USD",
            "policy": {"verification_version": "verify-1", "ranking_version": "rank-1",
                       "min_reputation": 0, "cert_ttl_s": 900, "auth_ttl_s": 900,
                       "freshness_window_s": 300},
            "merchants": merchants.clone().map(|one| json!({
                "merchant_id": merchant(one), "name": merchant(one),
                "account_id": format!("a_{}", merchant(one))})).collect::<Vec<_>>(),
            "catalog": listed.collect::<Vec<_>>(),
            "inventory": stock.collect::<Vec<_>>(),
            "ledger": buyers.chain(sellers).collect::<Vec<_>>(),
            "reputation": merchants.map(|one| json!({
                "merchant_id": merchant(one), "score": 500})).collect::<Vec<_>>(),
        })
    }
}

/// The consumer of a number.
pub(super) fn consumer(number: u64) -> String {
    format!("c{number}")
}

/// The merchant of a number.
pub(super) fn merchant(number: u64) -> String {
    format!("m{number}")
}

impl Item {
    fn of(seed: u64, merchant_number: u64, number: u64) -> Self {
        let mut chance = Chance::of(seed, &format!("item/{merchant_number}/{number}"));
        let list_price = chance.between(20, 400) * 100 - chance.between(1, 99);
        let floor_price = list_price * chance.between(55, 88) / 100;
        let title = format!("{} {}", chance.pick(&TRAITS), chance.pick(&KINDS));
        Self {
            merchant_id: merchant(merchant_number),
            sku_id: format!("sku-{number}"),
            title,
            list_price,
            floor_price,
            eta_days: chance.between(1, 6),
        }
    }

    /// What its owner tells the merchant's agent.
    pub(super) fn goal(&self) -> Value {
        json!({
            "offer_mandate_id": format!("goal-{}-{}", self.merchant_id, self.sku_id),
            "merchant_id": self.merchant_id,
            "goal": "sell",
            "skus": [self.sku_id],
            "pricing": {"list_price": self.list_price, "floor_price": self.floor_price,
                        "floor_currency": "USD"},
            "permitted_claims": ["in stock"],
            "negotiation": {"can_negotiate": true, "max_rounds": 20},
            "fulfillment": {"methods": ["courier"]},
            "returns": {"refundable": true},
            "valid_until": null,
        })
    }
}

impl Wish {
    fn of(size: Size, deal: u64, items: &[Item]) -> Self {
        let mut chance = Chance::of(size.seed, &format!("wish/{deal}"));
        let like = chance.pick(items);
        let qty = chance.between(1, 3);
        Self {
            session_id: format!("deal-{deal}"),
            consumer_id: consumer(deal % size.buyers),
            goal: like.title.clone(),
            // Never a round part of a price: a budget is a number that should turn up nowhere by chance.
            budget: like.list_price * qty * chance.between(65, 140) / 100 + chance.between(1, 9),
            qty,
            can_negotiate: chance.happens(92),
            needs_approval: chance.happens(30),
            approves: chance.happens(90),
            taste: json!({
                "grumbles": chance.happens(5),
                "finds_fault": chance.happens(5),
                "changes_mind": chance.happens(5),
            }),
            has_tracking: chance.happens(95),
        }
    }

    /// What its consumer tells the buyer's agent.
    pub(super) fn mandate(&self, until: &str) -> Value {
        let ceiling = if self.needs_approval { 0 } else { BALANCE };
        json!({
            "mandate_id": format!("mandate-{}", self.session_id),
            "consumer_id": self.consumer_id,
            "ap2_intent_mandate": {"goal": self.goal, "merchants": null, "skus": null,
                "requires_refundability": false, "intent_expiry": until},
            "ap2_cart_mandate": null,
            "authority": {
                "can_buy_without_confirmation": !self.needs_approval,
                "max_spend_without_confirmation": ceiling,
                "can_negotiate": self.can_negotiate,
                "can_accept_substitutes": false,
                "can_share_with_merchant": [],
                "must_not_share_with_merchant": []},
            "hard_constraints": {"budget": self.budget, "currency": "USD", "must_have": []},
            "soft_preferences": {"qty": self.qty},
            "taste": self.taste,
            "payment_instrument": {"type": "account", "account_id": format!("a_{}", self.consumer_id)},
        })
    }
}

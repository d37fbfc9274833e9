//! The envelopes of one buyer's journey.

use std::time::Duration;

use chancery_core::time::{Time, format_millis};
use chancery_node::Clock;
use serde_json::{Value, json};

use super::super::setup::{CONSUMER, MERCHANT, SKU};
use super::super::{Exchange, Kit, fresh_id};
use super::VCP;
use crate::exit::Failure;

/// The merchant's private floor.
pub(super) const FLOOR: u64 = 12_347;
/// The buyer's private budget.
pub(super) const BUDGET: u64 = 54_323;
/// What the buyer's agent may spend by itself: less than this.
pub(super) const CEILING: u64 = 20_000;

/// What became of an envelope.
pub(super) fn told(exchange: &Exchange) -> String {
    let word = match &exchange.body["code"] {
        code if code.is_string() => code,
        _ => &exchange.body["status"],
    };
    exchange.told(word)
}

/// A session and its clock, which the kit keeps: each envelope is stamped a little later.
pub(super) struct Journey {
    session_id: String,
    at: Time,
}

impl Journey {
    pub(super) fn new() -> Result<Self, Failure> {
        Ok(Self {
            session_id: fresh_id()?,
            at: Clock::System.now(),
        })
    }

    /// A journey whose merchant has a goal and whose buyer has a mandate.
    pub(super) async fn open(kit: &Kit<'_>) -> Result<Self, Failure> {
        Self::set_goal(kit).await?;
        let mut journey = Self::new()?;
        kit.post(&VCP, journey.mandate()?.to_string()).await?;
        Ok(journey)
    }

    /// The merchant's goal, told anew in a session of its own.
    pub(super) async fn set_goal(kit: &Kit<'_>) -> Result<(), Failure> {
        let goal = Self::new()?.goal()?;
        kit.post(&VCP, goal.to_string()).await.map(drop)
    }

    fn stamp(&mut self) -> String {
        self.at = self.at.saturating_add(Duration::from_millis(1));
        format_millis(self.at).as_str().to_owned()
    }

    /// The instant so many seconds from now.
    pub(super) fn in_seconds(&self, seconds: u64) -> String {
        let at = self.at.saturating_add(Duration::from_secs(seconds));
        format_millis(at).as_str().to_owned()
    }

    /// An envelope with fresh identifiers.
    pub(super) fn envelope(
        &mut self,
        kind: &str,
        (from, to): (&str, &str),
        payload: &Value,
    ) -> Result<Value, Failure> {
        Ok(json!({
            "protocol": "vcp",
            "version": "1.0",
            "msg_id": fresh_id()?,
            "ts": self.stamp(),
            "from": from,
            "to": to,
            "session_id": self.session_id,
            "in_reply_to": null,
            "idempotency_key": fresh_id()?,
            "signature": null,
            "action": {"kind": kind, "payload": payload},
        }))
    }

    pub(super) fn search(&mut self) -> Result<Value, Failure> {
        let way = ("buyer:discovery", "platform:aggregator");
        self.envelope("commerce.search", way, &json!({"query": "a lamp"}))
    }

    fn goal(&mut self) -> Result<Value, Failure> {
        let goal = json!({
            "offer_mandate_id": fresh_id()?,
            "merchant_id": MERCHANT,
            "goal": "sell lamps",
            "skus": [SKU],
            "pricing": {"list_price": 20_000, "floor_price": FLOOR, "floor_currency": "USD"},
            "permitted_claims": ["warm"],
            "negotiation": {"can_negotiate": true, "max_rounds": 20},
            "fulfillment": {"methods": ["courier"]},
            "returns": {"refundable": true},
            "valid_until": null,
        });
        let way = ("merchant:owner", "merchant:pricing");
        self.envelope("delegate.set_business_goal", way, &goal)
    }

    pub(super) fn mandate(&mut self) -> Result<Value, Failure> {
        let mandate = json!({
            "mandate_id": fresh_id()?,
            "consumer_id": CONSUMER,
            "ap2_intent_mandate": {
                "goal": "a lamp",
                "merchants": null,
                "skus": null,
                "requires_refundability": false,
                "intent_expiry": self.in_seconds(86_400),
            },
            "ap2_cart_mandate": null,
            "authority": {
                "can_buy_without_confirmation": true,
                "max_spend_without_confirmation": CEILING,
                "can_negotiate": true,
                "can_accept_substitutes": false,
                "can_share_with_merchant": [],
                "must_not_share_with_merchant": ["budget"],
            },
            "hard_constraints": {"budget": BUDGET, "currency": "USD", "must_have": []},
            "soft_preferences": {},
            "taste": {},
        });
        let way = ("consumer:persona", "buyer:intent");
        self.envelope("delegate.create_purchase_mandate", way, &mandate)
    }

    fn offered(&self, unit_price: u64, claims: &[&str]) -> Result<Value, Failure> {
        Ok(json!({
            "offer_id": fresh_id()?,
            "merchant_id": MERCHANT,
            "sku_id": SKU,
            "qty": 1,
            "unit_price": unit_price,
            "currency": "USD",
            "fulfillment": {"method": "courier", "eta_days": 2},
            "claims": claims,
            "expires_at": self.in_seconds(1_800),
        }))
    }

    /// An offer of the merchant.
    pub(super) fn offer(&mut self, unit_price: u64, claims: &[&str]) -> Result<Value, Failure> {
        let offer = self.offered(unit_price, claims)?;
        let way = ("merchant:pricing", "buyer:negotiation");
        self.envelope("commerce.propose_offer", way, &offer)
    }

    /// An offer of the buyer.
    pub(super) fn bid(&mut self, unit_price: u64) -> Result<Value, Failure> {
        let offer = self.offered(unit_price, &[])?;
        let way = ("buyer:negotiation", "merchant:pricing");
        self.envelope("commerce.propose_offer", way, &offer)
    }

    /// The buyer's acceptance of the offer that an envelope carries, which also asks to have it verified.
    pub(super) fn accept(&mut self, offer: &Value) -> Result<Value, Failure> {
        let payload = json!({"offer_id": offer["action"]["payload"]["offer_id"]});
        let way = ("buyer:negotiation", "platform:aggregator");
        let mut accept = self.envelope("commerce.accept_offer", way, &payload)?;
        accept["in_reply_to"] = offer["msg_id"].clone();
        Ok(accept)
    }
}

//! Ready roles that need no model: `rules:buyer`, `rules:merchant`, `rules:support`, `rules:adjudicator`.
//!
//! Each is a function of its context: the same envelope, memory and rows give the same decision. None says a number
//! that its side keeps to itself; the outbound checks would refuse it.

mod adjudicator;
mod buyer;
mod merchant;
mod support;

use std::sync::Arc;
use std::time::Duration;

use chancery_core::time::{Time, format_audit, parse_vibe};
use serde_json::{Value, json};

pub use adjudicator::Adjudicator;
pub use buyer::Buyer;
pub use merchant::Merchant;
pub use support::Support;

use super::Infer;
use crate::context::Context;

/// How long an offer of these roles stands.
const OFFER_STANDS: Duration = Duration::from_secs(3_600);

/// The role of a name.
pub fn role(name: &str) -> Option<Arc<dyn Infer>> {
    match name {
        "buyer" => Some(Arc::new(Buyer)),
        "merchant" => Some(Arc::new(Merchant)),
        "support" => Some(Arc::new(Support)),
        "adjudicator" => Some(Arc::new(Adjudicator)),
        _ => None,
    }
}

/// The names of the roles.
pub const ROLES: [&str; 4] = ["buyer", "merchant", "support", "adjudicator"];

/// An envelope that answers the inbound one, under a key of its own.
fn say(context: &Context<'_>, to: &str, kind: &str, payload: &Value) -> Value {
    json!({
        "decision": "emit_envelope",
        "to": to,
        "in_reply_to": context.inbound.msg_id,
        "idempotency_key": context.turn_id,
        "action": {"kind": kind, "payload": payload},
    })
}

/// An envelope that begins something, under a key of its own.
fn begin(context: &Context<'_>, to: &str, kind: &str, payload: &Value) -> Value {
    let mut decision = say(context, to, kind, payload);
    decision["in_reply_to"] = Value::Null;
    decision
}

fn quiet(reason: &str) -> Value {
    json!({"decision": "no_reply", "reason": reason})
}

fn keep(key: &str, value: &Value, kind: &str) -> Value {
    json!({"decision": "memory_update", "key": key, "value": value, "type": kind, "tag": null})
}

fn keep_private(key: &str, amount: u64) -> Value {
    json!({"decision": "memory_update", "key": key, "value": amount, "type": "int",
           "tag": crate::memory::PRIVATE_UTILITY})
}

/// An offer as the negotiating roles write it.
struct Terms<'t> {
    merchant_id: &'t str,
    sku_id: &'t str,
    qty: u64,
    unit_price: u64,
    eta_days: u64,
    claims: Vec<String>,
}

impl Terms<'_> {
    fn payload(&self, context: &Context<'_>) -> Value {
        let until = time(context).saturating_add(OFFER_STANDS);
        json!({
            "offer_id": context.turn_id,
            "merchant_id": self.merchant_id,
            "sku_id": self.sku_id,
            "qty": self.qty,
            "unit_price": self.unit_price,
            "fulfillment": {"method": "courier", "eta_days": self.eta_days},
            "claims": self.claims,
            "expires_at": format_audit(until).as_str(),
        })
    }
}

/// The time as this envelope's session may see it: senders stamp their own.
fn time(context: &Context<'_>) -> Time {
    let stamped = context.inbound.envelope["ts"].as_str().map(parse_vibe);
    let now = context.snapshot.now;
    stamped
        .and_then(Result::ok)
        .map_or(now, |stamped| stamped.max(now))
}

/// The share of a span that is walked after some of so many rounds.
fn walked(span: u64, round: u64, rounds: u64) -> u64 {
    u64::try_from(u128::from(span) * u128::from(round.min(rounds)) / u128::from(rounds))
        .unwrap_or(span)
}

//! A buyer that negotiates inside its mandate.

use serde_json::{Value, json};

use super::{Terms, begin, keep, keep_private, quiet, say, walked};
use crate::behaviour::Infer;
use crate::context::Context;

/// Rounds after which it takes or leaves what is offered.
const ROUNDS: u64 = 5;

/// Searches for what its mandate wants, asks the best match for an offer, bids from below towards its limit, never
/// beyond it, asks for verification of what it accepts, settles once the payment is authorized, and disputes what was
/// sent without tracking.
#[derive(Clone, Copy, Debug, Default)]
pub struct Buyer;

impl Infer for Buyer {
    fn infer(&self, context: &Context<'_>) -> String {
        if let Some(refused) = context.observations.last() {
            return quiet(refused.code).to_string();
        }
        let decision = match context.inbound.kind.as_str() {
            "delegate.create_purchase_mandate" => search(context),
            "platform.rank_offers" => ask(context, context.inbound.payload()["candidates"].clone()),
            "commerce.propose_offer" | "commerce.counter_offer" => answer(context),
            "commerce.accept_offer" => verify(context, context.inbound.text("offer_id")),
            "commerce.reject_offer" => {
                let others = context.memory.get("others").cloned();
                ask(context, others.unwrap_or_default())
            }
            "platform.authorize_payment" => settle(context),
            "commerce.dispatch" => received(context),
            "commerce.respond_return" => returned(context),
            "platform.request_evidence" => evidence(context),
            _ => quiet("there is nothing to do"),
        };
        decision.to_string()
    }
}

/// Takes the mandate in and looks for what it wants. Its budget stays in private memory.
fn search(context: &Context<'_>) -> Value {
    let payload = context.inbound.payload();
    let wish = &payload["ap2_intent_mandate"]["goal"];
    let hard = &payload["hard_constraints"];
    let mut constraints = json!({});
    for name in ["delivery_days", "must_have"] {
        if !hard[name].is_null() {
            constraints[name] = hard[name].clone();
        }
    }
    let search = json!({"query": wish, "constraints": constraints});
    let qty = payload["soft_preferences"]["qty"].as_u64().unwrap_or(1);
    json!([
        keep_private("budget", hard["budget"].as_u64().unwrap_or(0)),
        keep("qty", &json!(qty.max(1)), "int"),
        keep("taste", &payload["taste"], "json"),
        begin(context, "platform:aggregator", "commerce.search", &search),
    ])
}

/// Asks the first candidate that has it; the others are for later.
fn ask(context: &Context<'_>, candidates: Value) -> Value {
    let mut candidates: Vec<Value> = match candidates {
        Value::Array(candidates) => candidates,
        _ => Vec::new(),
    };
    candidates.retain(|candidate| candidate["in_stock"] == true);
    if candidates.is_empty() {
        return quiet("nobody has it");
    }
    let first = candidates.remove(0);
    candidates.truncate(2);
    let request = json!({
        "merchant_id": first["merchant_id"],
        "sku_id": first["sku_id"],
        "qty": context.memory.amount("qty").unwrap_or(1),
    });
    let to = "merchant:pricing";
    json!([
        keep("others", &json!(candidates), "json"),
        keep("round", &json!(0), "int"),
        say(context, to, "commerce.request_offer", &request),
    ])
}

/// Accepts, counters or rejects what a merchant offers.
fn answer(context: &Context<'_>) -> Value {
    let inbound = context.inbound;
    let Some(mandate) = context.snapshot.mandate(&inbound.session_id) else {
        return quiet("there is no mandate");
    };
    let (Some(price), Some(qty)) = (inbound.number("unit_price"), inbound.number("qty")) else {
        return quiet("it is no offer");
    };
    let fee = inbound.payload()["fulfillment"]["fee"]
        .as_u64()
        .unwrap_or(0);
    let Some(total) = price.checked_mul(qty).and_then(|sum| sum.checked_add(fee)) else {
        return quiet("it is beyond any budget");
    };
    let round = context.memory.amount("round").unwrap_or(0) + 1;
    let first_ask = context.memory.amount("first_ask").unwrap_or(price);
    let bid = bid(
        mandate.budget.saturating_sub(fee) / qty.max(1),
        first_ask,
        round,
    );
    let affordable = total <= mandate.budget;
    let close = price <= bid.saturating_add(price / 100);
    if affordable && (close || round > ROUNDS || !mandate.can_negotiate) {
        return verify(context, inbound.text("offer_id"));
    }
    if mandate.can_negotiate && round <= ROUNDS && bid > 0 && bid < price {
        let text = |name| inbound.text(name).unwrap_or_default();
        let terms = Terms {
            merchant_id: text("merchant_id"),
            sku_id: text("sku_id"),
            qty,
            unit_price: bid,
            eta_days: inbound.payload()["fulfillment"]["eta_days"]
                .as_u64()
                .unwrap_or(0),
            claims: Vec::new(),
        };
        let counter = terms.payload(context);
        return json!([
            keep("round", &json!(round), "int"),
            keep("first_ask", &json!(first_ask), "int"),
            say(
                context,
                "merchant:pricing",
                "commerce.counter_offer",
                &counter
            ),
        ]);
    }
    let offer = json!({"offer_id": inbound.text("offer_id"), "reason": "it is more than we pay"});
    say(context, "merchant:pricing", "commerce.reject_offer", &offer)
}

/// What it bids in a round: from three fifths of the first price towards its limit, which itself is never said.
fn bid(limit: u64, first_ask: u64, round: u64) -> u64 {
    let limit = limit.saturating_sub(1).min(first_ask);
    let start = (first_ask / 5 * 3).min(limit);
    start + walked(limit - start, round - 1, ROUNDS)
}

/// Agrees, and asks the platform to verify the offer.
fn verify(context: &Context<'_>, offer_id: Option<&str>) -> Value {
    let accepted = json!({"offer_id": offer_id});
    say(
        context,
        "platform:aggregator",
        "commerce.accept_offer",
        &accepted,
    )
}

fn settle(context: &Context<'_>) -> Value {
    let cert = json!({"cert_id": context.inbound.text("cert_id")});
    say(context, "platform:psp", "platform.settle_payment", &cert)
}

/// Looks at what was sent: without tracking it is disputed; else the consumer's taste says whether it is kept.
fn received(context: &Context<'_>) -> Value {
    let inbound = context.inbound;
    let order = inbound
        .text("order_id")
        .and_then(|id| context.snapshot.order(id));
    let Some(order) = order else {
        return quiet("it is not our order");
    };
    let taste = |name: &str| {
        context
            .memory
            .get("taste")
            .is_some_and(|taste| taste[name] == true)
    };
    let has_tracking = inbound
        .text("tracking")
        .is_some_and(|text| !text.is_empty());
    if !has_tracking || taste("grumbles") {
        return dispute(context, &order.tx_id, "it cannot be traced");
    }
    let reason = match (taste("finds_fault"), taste("changes_mind")) {
        (true, _) => "defective",
        (false, true) => "changed mind",
        (false, false) => return quiet("it is fine"),
    };
    let request = json!({"tx_id": order.tx_id, "reason": reason});
    json!([
        keep("tx_id", &json!(order.tx_id), "string"),
        keep("dispatch", &json!(inbound.msg_id), "string"),
        say(
            context,
            "merchant:support",
            "commerce.request_return",
            &request
        ),
    ])
}

/// A return that is denied although something is broken goes to the adjudicator.
fn returned(context: &Context<'_>) -> Value {
    let denied = context.inbound.text("decision") == Some("deny");
    let taste = context.memory.get("taste");
    let insists = taste.is_some_and(|taste| taste["finds_fault"] == true);
    match context.memory.text("tx_id") {
        Some(tx_id) if denied && insists => dispute(context, tx_id, "it is broken"),
        _ => quiet("it is settled"),
    }
}

fn dispute(context: &Context<'_>, tx_id: &str, reason: &str) -> Value {
    let shown = context
        .memory
        .text("dispatch")
        .unwrap_or(&context.inbound.msg_id);
    let dispute = json!({
        "tx_id": tx_id, "reason": reason, "evidence": [shown], "requested": "refund_full",
    });
    begin(
        context,
        "platform:adjudicator",
        "platform.open_dispute",
        &dispute,
    )
}

/// Stands by what the adjudicator cites.
fn evidence(context: &Context<'_>) -> Value {
    super::support::stand_by(context)
}

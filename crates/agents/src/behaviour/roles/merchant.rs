//! A merchant that prices between its floor and its list price.

use serde_json::{Value, json};

use super::{Support, Terms, keep, keep_private, quiet, say, walked};
use crate::behaviour::Infer;
use crate::context::Context;

/// Rounds over which it comes down to its floor.
const ROUNDS: u64 = 5;
/// Claims that an offer makes at most.
const CLAIMS: usize = 3;

/// Offers at its list price, comes down round by round towards its floor and never below it, and takes a bid as soon
/// as it is what the round allows. What is for its support it answers as [`Support`] does.
#[derive(Clone, Copy, Debug, Default)]
pub struct Merchant;

impl Infer for Merchant {
    fn infer(&self, context: &Context<'_>) -> String {
        if let Some(refused) = context.observations.last() {
            return quiet(refused.code).to_string();
        }
        let decision = match context.inbound.kind.as_str() {
            "delegate.set_business_goal" => {
                let floor = &context.inbound.payload()["pricing"]["floor_price"];
                json!([
                    keep_private("floor", floor.as_u64().unwrap_or(0)),
                    quiet("the goal is known"),
                ])
            }
            "commerce.request_offer" if !is_for_support(context) => offer(context),
            "commerce.propose_offer" | "commerce.counter_offer" => answer(context),
            _ => return Support.infer(context),
        };
        decision.to_string()
    }
}

fn is_for_support(context: &Context<'_>) -> bool {
    let to = context.inbound.envelope["to"].as_str();
    matches!(to, Some("merchant:support" | "merchant:retrieval"))
        && context.inbound.text("inquiry").is_some()
}

/// The least it takes and what it lists, for an item of its own.
fn prices(context: &Context<'_>, merchant_id: &str, sku_id: &str) -> Option<(u64, u64)> {
    let listed = context.snapshot.catalog(merchant_id, sku_id)?.list_price;
    let floor = context
        .snapshot
        .goal(sku_id)
        .map_or(listed, |goal| goal.floor_price);
    Some((floor, listed.max(floor)))
}

fn terms<'t>(
    context: &Context<'_>,
    merchant_id: &'t str,
    sku_id: &'t str,
    qty: u64,
    unit_price: u64,
) -> Terms<'t> {
    let goal = context.snapshot.goal(sku_id);
    let mut claims = goal.map(|goal| goal.permitted_claims).unwrap_or_default();
    claims.truncate(CLAIMS);
    let listed = context.snapshot.catalog(merchant_id, sku_id);
    Terms {
        merchant_id,
        sku_id,
        qty,
        unit_price,
        eta_days: listed.map_or(0, |listed| listed.eta_days),
        claims,
    }
}

fn offer(context: &Context<'_>) -> Value {
    let inbound = context.inbound;
    let (Some(merchant_id), Some(sku_id)) = (inbound.text("merchant_id"), inbound.text("sku_id"))
    else {
        return quiet("it names no item");
    };
    let Some((_, listed)) = prices(context, merchant_id, sku_id) else {
        return quiet("we do not list it");
    };
    let qty = inbound.number("qty").unwrap_or(1);
    let offer = terms(context, merchant_id, sku_id, qty, listed).payload(context);
    say(
        context,
        "buyer:negotiation",
        "commerce.propose_offer",
        &offer,
    )
}

/// Accepts, counters or rejects a bid.
fn answer(context: &Context<'_>) -> Value {
    let inbound = context.inbound;
    let text = |name| inbound.text(name).unwrap_or_default();
    let (merchant_id, sku_id) = (text("merchant_id"), text("sku_id"));
    let Some((floor, listed)) = prices(context, merchant_id, sku_id) else {
        return quiet("we do not list it");
    };
    let (Some(bid), Some(qty)) = (inbound.number("unit_price"), inbound.number("qty")) else {
        return quiet("it is no offer");
    };
    let round = context.memory.amount("round").unwrap_or(0) + 1;
    let wants = listed - walked(listed - floor, round, ROUNDS);
    if bid >= wants.max(floor) {
        let accepted = json!({"offer_id": inbound.text("offer_id")});
        return say(
            context,
            "buyer:negotiation",
            "commerce.accept_offer",
            &accepted,
        );
    }
    // The floor itself is not said (VC-PRIV-9), and a price below the bid helps nobody.
    let ask = wants
        .max(floor.saturating_add(1))
        .max(bid.saturating_add(1));
    if round > ROUNDS || ask > listed {
        let rejected =
            json!({"offer_id": inbound.text("offer_id"), "reason": "we cannot go there"});
        return say(
            context,
            "buyer:negotiation",
            "commerce.reject_offer",
            &rejected,
        );
    }
    let counter = terms(context, merchant_id, sku_id, qty, ask).payload(context);
    json!([
        keep("round", &json!(round), "int"),
        say(
            context,
            "buyer:negotiation",
            "commerce.counter_offer",
            &counter
        ),
    ])
}

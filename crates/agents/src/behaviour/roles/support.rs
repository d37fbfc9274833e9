//! A merchant's support: questions, returns, evidence.

use chancery_core::ids::{ObjectKind, object_id};
use serde_json::{Value, json};

use super::{quiet, say};
use crate::behaviour::Infer;
use crate::context::Context;

/// Evidence that is cited at most.
const CITED: usize = 32;

/// Answers questions from the catalog, takes back what is broken and nothing else, and stands by the envelopes that
/// an adjudicator asks about.
#[derive(Clone, Copy, Debug, Default)]
pub struct Support;

impl Infer for Support {
    fn infer(&self, context: &Context<'_>) -> String {
        if let Some(refused) = context.observations.last() {
            return quiet(refused.code).to_string();
        }
        let decision = match context.inbound.kind.as_str() {
            "commerce.request_offer" => inform(context),
            "commerce.request_return" => take_back(context),
            "platform.request_evidence" => stand_by(context),
            _ => quiet("there is nothing to do"),
        };
        decision.to_string()
    }
}

/// What the catalog says about an item, and no more than may be claimed.
fn inform(context: &Context<'_>) -> Value {
    let inbound = context.inbound;
    let item = inbound.text("merchant_id").zip(inbound.text("sku_id"));
    let listed = item.and_then(|(merchant, sku)| context.snapshot.catalog(merchant, sku));
    let (Some(listed), Some(_)) = (listed, inbound.text("inquiry")) else {
        return quiet("there is no question");
    };
    let answer = format!("{}: {}", listed.title, listed.attributes.join(", "));
    let claims = context.snapshot.goal(&listed.sku_id);
    let claims = claims.map(|goal| goal.permitted_claims).unwrap_or_default();
    let payload = json!({"answer": answer, "claims": claims});
    let to = inbound.envelope["from"].as_str().unwrap_or_default();
    // A bare buyer is answered where it negotiates.
    let to = if to == "buyer" {
        "buyer:negotiation"
    } else {
        to
    };
    say(context, to, "commerce.respond_inquiry", &payload)
}

fn take_back(context: &Context<'_>) -> Value {
    let inbound = context.inbound;
    let order = inbound
        .text("tx_id")
        .and_then(|tx| context.snapshot.order_of(tx));
    let Some(order) = order else {
        return quiet("it is not our order");
    };
    let left = order.total.saturating_sub(order.refunded_total);
    let is_broken = inbound.text("reason") == Some("defective");
    let return_id = object_id(ObjectKind::Return, &inbound.msg_id);
    let payload = if is_broken && left > 0 {
        json!({"return_id": return_id, "decision": "approve", "refund_amount": left, "restock": false})
    } else {
        json!({"return_id": return_id, "decision": "deny", "reason": "we take back what is broken"})
    };
    say(
        context,
        "buyer:authorization",
        "commerce.respond_return",
        &payload,
    )
}

/// Cites what the adjudicator asks about.
pub(super) fn stand_by(context: &Context<'_>) -> Value {
    let inbound = context.inbound;
    let mut cited: Vec<Value> = match &inbound.payload()["cites"] {
        Value::Array(cited) => cited.clone(),
        _ => Vec::new(),
    };
    cited.truncate(CITED);
    if cited.is_empty() {
        return quiet("nothing is asked about");
    }
    let payload = json!({
        "dispute_id": inbound.text("dispute_id"),
        "evidence": cited,
        "statement": "these envelopes say how it was",
    });
    say(
        context,
        "platform:adjudicator",
        "platform.submit_evidence",
        &payload,
    )
}

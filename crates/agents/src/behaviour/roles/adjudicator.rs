//! An adjudicator that follows the evidence.

use chancery_core::ids::{ObjectKind, object_id};
use serde_json::{Value, json};

use super::{keep, quiet, say};
use crate::behaviour::Infer;
use crate::context::Context;

/// Evidence that is looked at at most.
const LOOKED_AT: usize = 32;

/// Asks the other side once for its evidence, then rules by what the cited envelopes say and by nothing else: an order
/// whose dispatch is among them and names tracking was sent as promised, any other is refunded.
#[derive(Clone, Copy, Debug, Default)]
pub struct Adjudicator;

impl Infer for Adjudicator {
    fn infer(&self, context: &Context<'_>) -> String {
        if let Some(refused) = context.observations.last() {
            return quiet(refused.code).to_string();
        }
        let decision = match context.inbound.kind.as_str() {
            "platform.open_dispute" => ask(context),
            "platform.submit_evidence" => rule(context),
            _ => quiet("there is nothing to rule"),
        };
        decision.to_string()
    }
}

fn ask(context: &Context<'_>) -> Value {
    let inbound = context.inbound;
    let cited = match &inbound.payload()["evidence"] {
        Value::Array(cited) => cited.clone(),
        _ => Vec::new(),
    };
    let to = if cited.is_empty() {
        "buyer:authorization"
    } else {
        "merchant:support"
    };
    let question = json!({
        "dispute_id": object_id(ObjectKind::Dispute, &inbound.msg_id),
        "question": "Which envelopes show how the order was sent?",
        "cites": cited,
    });
    json!([
        keep("tx_id", &inbound.payload()["tx_id"], "json"),
        keep("cited", &json!(cited), "json"),
        say(context, to, "platform.request_evidence", &question),
    ])
}

fn rule(context: &Context<'_>) -> Value {
    let inbound = context.inbound;
    let tx_id = context.memory.text("tx_id").unwrap_or_default();
    let order = context.snapshot.order_of(tx_id);
    let mut cited: Vec<&str> = Vec::new();
    let said = [
        context.memory.get("cited"),
        inbound.payload().get("evidence"),
    ];
    for list in said.into_iter().flatten().filter_map(Value::as_array) {
        for id in list.iter().filter_map(Value::as_str) {
            if cited.len() < LOOKED_AT && !cited.contains(&id) {
                cited.push(id);
            }
        }
    }
    let Some(order) = order.filter(|_| !cited.is_empty()) else {
        return quiet("there is no case");
    };
    let shows_dispatch = |id: &&str| {
        context.snapshot.envelope(id).is_some_and(|envelope| {
            let action = &envelope["action"];
            let tracking = action["payload"]["tracking"].as_str();
            action["kind"] == "commerce.dispatch"
                && action["payload"]["order_id"] == order.order_id
                && tracking.is_some_and(|tracking| !tracking.is_empty())
        })
    };
    let (ruling, rationale) = if cited.iter().any(shows_dispatch) {
        ("deny", "the dispatch on record names its tracking")
    } else {
        (
            "refund_full",
            "no envelope on record shows a dispatch that can be traced",
        )
    };
    let payload = json!({
        "dispute_id": inbound.text("dispute_id"),
        "ruling": ruling,
        "evidence": cited,
        "rationale": rationale,
    });
    say(
        context,
        "buyer:authorization",
        "platform.rule_dispute",
        &payload,
    )
}

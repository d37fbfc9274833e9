//! `echo`: answers a question with the question.

use serde_json::json;

use super::Infer;
use crate::context::Context;

/// Answers an inquiry with `echo: ` and its text, and says nothing to anything else.
#[derive(Clone, Copy, Debug, Default)]
pub struct Echo;

impl Infer for Echo {
    fn infer(&self, context: &Context<'_>) -> String {
        let inbound = context.inbound;
        let inquiry = inbound.text("inquiry");
        let decision = match (inbound.kind.as_str(), inquiry) {
            // A first answer that was refused is not better the second time.
            ("commerce.request_offer", Some(inquiry)) if context.observations.is_empty() => json!({
                "decision": "emit_envelope",
                "to": inbound.envelope["from"],
                "in_reply_to": inbound.msg_id,
                "idempotency_key": null,
                "action": {
                    "kind": "commerce.respond_inquiry",
                    "payload": {"answer": format!("echo: {inquiry}")},
                },
            }),
            _ => json!({"decision": "no_reply", "reason": "there is no question"}),
        };
        decision.to_string()
    }
}

//! How the node's tools look to a client.

use serde_json::{Value, json};

use crate::mcp::ToolFace;

/// The node's tools, in their order.
pub fn node_tools() -> Vec<ToolFace> {
    let mut tools = log_tools();
    tools.extend(send_tools());
    tools
}

fn log_tools() -> Vec<ToolFace> {
    let protocols = ["vibe", "value-context", "vacant", "agh", "node"];
    vec![
        ToolFace {
            name: "log_tail",
            title: "Read the log",
            description: "Gives the last lines of the node's log, or those from one on. Each line is a text, as it \
                          stands on the log. Needs read:log."
                .to_owned(),
            input: json!({
                "type": "object",
                "properties": {
                    "limit": {"type": "integer", "minimum": 1, "maximum": 1_000, "default": 20},
                    "from": {"type": "integer", "minimum": 1, "description": "the number of the first line"},
                    "protocol": {"type": "string", "enum": protocols},
                },
            }),
            output: Some(json!({
                "type": "object",
                "properties": {
                    "lines": {"type": "array", "items": {"type": "string"}},
                    "next": {"type": "integer", "description": "the number to go on from"},
                    "error": {"type": "string"},
                },
            })),
        },
        ToolFace {
            name: "log_explain",
            title: "Explain an envelope",
            description: "Tells which checks an envelope passed or failed, what it changed, and what came of it. \
                          Needs read:log."
                .to_owned(),
            input: json!({
                "type": "object",
                "properties": {"id": {
                    "type": "string",
                    "description": "the identifier of an envelope or of a vibe session, or the number of a line",
                }},
                "required": ["id"],
            }),
            output: Some(any_object()),
        },
        ToolFace {
            name: "log_verify",
            title: "Verify the log",
            description: "Checks the form, the sequence, the hash chain and every signature of the node's log. \
                          Needs read:log."
                .to_owned(),
            input: json!({"type": "object", "properties": {}}),
            output: Some(any_object()),
        },
    ]
}

fn send_tools() -> Vec<ToolFace> {
    let text = json!({"type": "string"});
    let object = json!({"type": "object"});
    vec![
        send(
            "send_vibe",
            "Send a vibe envelope",
            "Sends an envelope of vibe-commerce without msg_id and ts, as an address of the token.",
            json!({"from": text, "to": text, "session_id": text, "action": object}),
            &["from", "to", "action"],
        ),
        send(
            "send_value_context",
            "Send a value-context message",
            "Sends as a hosted agent. A verdict about an escalation has verdict (resolve, hold, escalate) and \
             escalation_id instead of type and payload. Needs send:AGENT.",
            json!({
                "sender": text, "recipient": text, "type": text, "payload": object,
                "verdict": text, "escalation_id": text,
            }),
            &["sender"],
        ),
        send(
            "send_vacant",
            "Call a vacant",
            "Calls another vacant as a hosted one and gives its signed answer. answers, the line of a call in the \
             inbox, instead of to answers that call. Needs send:NAME.",
            json!({
                "from": text, "text": text, "answers": {"type": "integer"},
                "to": {"type": "string", "description": "a vacant id, or the address of a card"},
            }),
            &["from", "text"],
        ),
        send(
            "send_agh",
            "Send an AGH envelope",
            "Sends as a hosted peer of a channel. Needs send:CHANNEL/PEER or send:PEER.",
            json!({"from": text, "channel": text, "kind": text, "to": text, "body": object}),
            &["from", "channel", "kind", "body"],
        ),
    ]
}

fn send(
    name: &'static str,
    title: &'static str,
    description: &str,
    mut properties: Value,
    required: &[&str],
) -> ToolFace {
    properties["idempotency_key"] =
        json!({"type": "string", "description": "makes a repeat safe for 24 hours"});
    ToolFace {
        name,
        title,
        description: description.to_owned(),
        // The protocol's own rules judge what else is there.
        input: json!({"type": "object", "properties": properties, "required": required}),
        output: Some(json!({
            "type": "object",
            "properties": {
                "status": {"type": "integer", "description": "as of POST /send"},
                "answer": {"description": "as of POST /send"},
                "error": {"type": "string"},
            },
        })),
    }
}

fn any_object() -> Value {
    json!({"type": "object"})
}

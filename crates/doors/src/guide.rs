//! What people are told of the errors that A2A and MCP name themselves: when they come and what to do.

use chancery_core::guide::Guide;
use rmcp::model::ErrorCode;

use crate::a2a::Kind;

/// Every error of A2A, then every one of MCP. Envelopes inside them are refused with the codes of vacant.
pub fn guides() -> Vec<Guide> {
    let a2a = Kind::ALL.map(of_a2a).into_iter();
    let required = Guide {
        code: "EXTENSION_REQUIRED",
        ..of_a2a(Kind::ExtensionSupportRequired)
    };
    a2a.chain([required]).chain(MCP.map(of_mcp)).collect()
}

fn of_a2a(kind: Kind) -> Guide {
    let (number, status, _, code) = kind.row();
    let (requirement, when, next) = texts(kind);
    Guide {
        group: "a2a",
        code,
        status: Some(status),
        wire: Some(number.to_string()),
        again: false,
        requirement,
        when,
        next,
    }
}

const fn texts(kind: Kind) -> (&'static str, &'static str, &'static str) {
    match kind {
        Kind::TaskNotFound => (
            "VA-A2A-10",
            "No such task, or none that the caller may see.",
            "Name the task's id as the answer gave it; tasks are kept for a while only.",
        ),
        Kind::TaskNotCancelable => (
            "VA-A2A-10",
            "The task has ended.",
            "Nothing: read its outcome.",
        ),
        Kind::PushNotificationNotSupported => (
            "VA-A2A-2",
            "The agent notifies nobody.",
            "Use `message:stream` or ask for the task.",
        ),
        Kind::UnsupportedOperation => (
            "VA-A2A-2",
            "The agent does not do that.",
            "The card at `/.well-known/agent-card.json` says what it does.",
        ),
        Kind::ContentTypeNotSupported => (
            "VA-A2A-9",
            "A part of the message is no text.",
            "Send parts of text alone.",
        ),
        Kind::ExtendedAgentCardNotConfigured => (
            "VA-A2A-2",
            "There is no other card than the public one.",
            "Read `/.well-known/agent-card.json`.",
        ),
        Kind::ExtensionSupportRequired => (
            "VA-A2A-5",
            "The agent asks for an envelope in `metadata[\"urn:vacant:v1\"]`, and the message has none.",
            "Sign the call, or set `vacant.require_envelope = false` on the node.",
        ),
        Kind::VersionNotSupported => (
            "VA-A2A-2",
            "The version that `A2A-Version` names is not spoken here.",
            "Speak 0.3 or 1.0.",
        ),
        Kind::Parse => (
            "VA-A2A-9",
            "The body is no JSON.",
            "Send one JSON object as a JSON library writes it.",
        ),
        Kind::InvalidRequest => (
            "VA-A2A-9",
            "The frame of JSON-RPC is wrong.",
            "Send `jsonrpc`, `id`, `method` and `params`.",
        ),
        Kind::MethodNotFound => (
            "VA-A2A-9",
            "No such method.",
            "Use the methods of A2A 0.3 or 1.0.",
        ),
        Kind::InvalidParams => (
            "VA-A2A-9",
            "A parameter is missing or wrong.",
            "The sentence of the error names it.",
        ),
        Kind::Internal => (
            "VA-A2A-9",
            "The agent failed.",
            "Try again; tell the operator if it stays. The node's log on stderr says what happened.",
        ),
    }
}

fn of_mcp((number, code, requirement, when, next): McpText) -> Guide {
    Guide {
        group: "mcp",
        code,
        status: None,
        wire: Some(number.0.to_string()),
        again: false,
        requirement,
        when,
        next,
    }
}

/// A code of MCP, its name, the requirement, when it comes, and what to do next.
type McpText = (
    ErrorCode,
    &'static str,
    &'static str,
    &'static str,
    &'static str,
);

/// MCP numbers its errors; the names are those of its schema.
static MCP: [McpText; 9] = [
    (
        ErrorCode::PARSE_ERROR,
        "PARSE_ERROR",
        "VA-MCP-2",
        "The body is no JSON.",
        "Send one JSON object as a JSON library writes it.",
    ),
    (
        ErrorCode::INVALID_REQUEST,
        "INVALID_REQUEST",
        "VA-MCP-2",
        "The frame of JSON-RPC is wrong, or the body is a list.",
        "Send one request at a time, with `jsonrpc`, `id`, `method` and `params`.",
    ),
    (
        ErrorCode::METHOD_NOT_FOUND,
        "METHOD_NOT_FOUND",
        "VA-MCP-8",
        "The server has no such method.",
        "What it declared in its capabilities is what it has.",
    ),
    (
        ErrorCode::INVALID_PARAMS,
        "INVALID_PARAMS",
        "VA-MCP-8",
        "A parameter is missing or wrong, or there is no such tool.",
        "`tools/list` tells the tools and the schema of their arguments.",
    ),
    (
        ErrorCode::INTERNAL_ERROR,
        "INTERNAL_ERROR",
        "VA-MCP-2",
        "The server failed.",
        "Try again; tell the operator if it stays. The node's log on stderr says what happened.",
    ),
    (
        ErrorCode::RESOURCE_NOT_FOUND,
        "RESOURCE_NOT_FOUND",
        "VA-MCP-12",
        "There is no such resource.",
        "`resources/list` tells those that there are.",
    ),
    (
        ErrorCode::HEADER_MISMATCH,
        "HEADER_MISMATCH",
        "VA-MCP-10",
        "A header names another method or version than the body.",
        "Send the headers that the revision in use asks for, with the values of the body.",
    ),
    (
        ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY,
        "MISSING_REQUIRED_CLIENT_CAPABILITY",
        "VA-MCP-10",
        "The client has not declared a capability that the request needs.",
        "Declare what `requiredCapabilities` names, or do without the request.",
    ),
    (
        ErrorCode::UNSUPPORTED_PROTOCOL_VERSION,
        "UNSUPPORTED_PROTOCOL_VERSION",
        "VA-MCP-10",
        "The revision of MCP is not spoken here.",
        "Use one that the error or `initialize` names.",
    ),
];

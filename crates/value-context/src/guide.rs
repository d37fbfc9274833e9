//! What people are told of each refusal: when it comes and what to do.

use chancery_core::guide::Guide;

use crate::code::Code;

/// Every code of this protocol.
pub fn guides() -> Vec<Guide> {
    TEXTS.map(guide).to_vec()
}

fn guide((code, when, next): Text) -> Guide {
    Guide {
        group: "value-context",
        code: code.as_str(),
        status: Some(code.status()),
        wire: None,
        again: code.retryable(),
        requirement: code.requirement(),
        when,
        next,
    }
}

/// A code, when it comes, and what to do next.
type Text = (Code, &'static str, &'static str);

static TEXTS: [Text; Code::ALL.len()] = [
    (
        Code::MalformedJson,
        "The body is not I-JSON: a syntax error, a repeated member name, an unpaired surrogate, an integer beyond 2^53 − 1, invalid UTF-8, or more than 32 levels.",
        "Send one JSON object as a JSON library writes it. Large integers belong in strings.",
    ),
    (
        Code::SchemaInvalid,
        "A member is missing, unknown, of the wrong type, or outside its grammar. `path` names it.",
        "Mend the member that `path` names. For a missing one, `path` is where it should be.",
    ),
    (
        Code::UnsupportedVersion,
        "`vcp_message` is a string other than `1.2`.",
        "Speak 1.2.",
    ),
    (
        Code::ContextInvalid,
        "The context string of a share does not follow the grammar of section 7.",
        "Check for blanks, letters, a symbol without a value, or a symbol that occurs twice.",
    ),
    (
        Code::ConstraintInvalid,
        "A constraint of a known type has a value of the wrong kind. Nothing of the message was applied.",
        "Compare the value with the table of VX-CP-2.",
    ),
    (
        Code::TimestampStale,
        "The message is stamped more than 5 minutes ago, or before a node without memory started.",
        "Make a new message with a new identifier. If it happens to fresh messages, compare the clocks.",
    ),
    (
        Code::TimestampFuture,
        "The message is stamped more than 30 seconds ahead.",
        "Compare the clocks; a few seconds may cure it.",
    ),
    (
        Code::SignatureMissing,
        "A message from another process has no signature; or a hosted agent whose key this node does not hold wants to send to another node.",
        "Sign the message, or give the node the agent's key.",
    ),
    (
        Code::SignatureInvalid,
        "The signature verifies under no key of the sender, in no form.",
        "Sign the RFC 8785 form of the whole envelope without `signature`; encode with standard base64 and padding.",
    ),
    (
        Code::KeyNotValid,
        "The signature verifies, but only under a key that is not usable now: pending, retired, compromised, revoked, or outside its validity.",
        "Sign with the active key. If that is the one you used, look at its record: `chancery key list`.",
    ),
    (
        Code::SenderUnknown,
        "No key of the sender is on record.",
        "Add the sender's key to the trust file, or with `chancery key add`.",
    ),
    (
        Code::NotAuthorized,
        "The sender may not do this: constraints go from a parent to its child (VX-CP-9), escalations from a child to its parent (VX-ES-4), personal states leave only where that is switched on (VX-PS-5).",
        "See the requirement that the refusal names, and the relations in the world file.",
    ),
    (
        Code::RecipientUnknown,
        "The recipient is not hosted here; for a broadcast, no hosted agent knows the sender.",
        "Check the recipient's spelling: identifiers are compared byte for byte.",
    ),
    (
        Code::NotFound,
        "There is nothing at this path; the sender of a send request is not hosted here; or no escalation of that name waits for a judgement.",
        "The path of messages is exactly `/.well-known/vcp/messages`. `GET /state/value-context/AGENT` lists open escalations.",
    ),
    (
        Code::MethodNotAllowed,
        "Messages are sent with POST.",
        "Use POST.",
    ),
    (
        Code::Timeout,
        "The body did not arrive within 10 seconds.",
        "Send it again.",
    ),
    (
        Code::PayloadTooLarge,
        "The body is larger than `max_bytes` (65,536 unless configured).",
        "Send less, or raise `[value_context] max_bytes` (up to 1 MiB).",
    ),
    (
        Code::UnsupportedMediaType,
        "`Content-Type` is missing or not `application/json` (charset `utf-8` if any), or the body is encoded.",
        "Set `Content-Type: application/json; charset=utf-8` and send it plain.",
    ),
    (
        Code::SenderSuspended,
        "The sender is suspended, or its parent holds it suspended. Escalations and acknowledgements still pass.",
        "It speaks again once its parent resumes it (VX-RUN-6), or the operator: `chancery agent resume AGENT`.",
    ),
    (
        Code::RateLimited,
        "This sender, or this address with failing requests, sends too much. `Retry-After` says how long to wait.",
        "Wait, then send again.",
    ),
    (
        Code::Internal,
        "A fault of the node itself.",
        "Send it again; tell the operator if it stays. The node's log on stderr says what happened.",
    ),
    (
        Code::TypeDisabled,
        "Messages of this type are switched off (`value_context.disabled_types`).",
        "Send another type, or ask the operator of the node.",
    ),
    (
        Code::Overloaded,
        "Too many requests are under way, an inbox or the memory of identifiers is full, or the node is stopping. `Retry-After` says how long to wait.",
        "Wait, then send the same bytes again: the identifier is not used up.",
    ),
];

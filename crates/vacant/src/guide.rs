//! What people are told of each code: when it comes and what to do.

use chancery_core::guide::Guide;
use chancery_core::refusal::Refusal;

use crate::error::rpc_code_of;

/// Every code of this protocol, also of its door, inbox and registry.
pub fn guides() -> Vec<Guide> {
    TEXTS.map(guide).to_vec()
}

fn guide((code, status, requirement, when, next): Text) -> Guide {
    let refusal = Refusal::new(code, status, requirement, "");
    Guide {
        group: "vacant",
        code,
        status: Some(status),
        wire: Some(rpc_code_of(&refusal).to_string()),
        again: matches!(status, 502 | 503),
        requirement,
        when,
        next,
    }
}

/// A code, its status on the native path, the requirement, when it comes, and what to do next.
type Text = (&'static str, u16, &'static str, &'static str, &'static str);

static TEXTS: [Text; 23] = [
    (
        "ENVELOPE_FORMAT",
        400,
        "VA-WIRE-4",
        "The body, the message, its envelope or a card has not the form that it must have; the refusal names the place. On JSON-RPC the code tells the part: −32700 no JSON, −32600 the frame, −32601 the method, −32005 a part that is no text, −32602 the envelope.",
        "Compare the body with `docs/spec/vacant.md`, sections 5 to 7. `chancery vacant verify FILE` tells the same without a server.",
    ),
    (
        "ENVELOPE_SIGNATURE",
        401,
        "VA-ENV-8",
        "The signature does not verify for `from_vacant_id`, in the base profile or with a self-evaluation; or a card does not verify.",
        "Sign the canonical form of the envelope (VA-ENV-4) with the key whose public half is the sender's id. Whoever changed a byte on the way made it another envelope.",
    ),
    (
        "UNSUPPORTED_HALO_VERSION",
        400,
        "VA-CARD-6",
        "A card has a `halo_version` that this build does not know.",
        "Write version 1.",
    ),
    (
        "REPLAY_DETECTED",
        409,
        "VA-REP-3",
        "`sequence_no` is not the one after the last accepted of this sender and this vacant. `metadata` has `last_sequence_no` and `chain_tip` of the sender's own chain.",
        "The caller's record of the chain is an old one: take the newest (`KEYFILE.chains` of `chancery vacant call`), or go on after the number and from the tip in the `metadata` of the answer. Where that tip is the hash of what was sent, the call is accepted already, and the answer brings its response when there is one.",
    ),
    (
        "CHAIN_FORK",
        409,
        "VA-REP-3",
        "The number is right and `prev_envelope_hash` is not the hash of the envelope before.",
        "Two programs that call with one key do this to each other: let one of them call. A program of your own chains to the tip in the `metadata` of the answer.",
    ),
    (
        "TARGET_GONE",
        410,
        "VA-SRV-5",
        "The vacant is ARCHIVED or SUNK: it takes no calls and will take none.",
        "Look for another one: `chancery vacant search`.",
    ),
    (
        "TARGET_LOCKED",
        423,
        "VA-SRV-5, CH-ID-5",
        "The vacant is HIBERNATING or STALE, or its participant is suspended.",
        "Try again when it is awake: `GET /health` tells its state.",
    ),
    (
        "TARGET_NOT_FOUND",
        404,
        "VA-DSP-3",
        "A call names nobody that can be called: no card in the registry, no endpoint on the card, or a node that calls nobody elsewhere.",
        "Name a card's address instead of an id, or publish the card on this node.",
    ),
    (
        "MISDIRECTED",
        421,
        "VA-SRV-4",
        "`to_vacant_id` is not the vacant at this address.",
        "Use the endpoint of the card of that very vacant.",
    ),
    (
        "TRANSPORT",
        502,
        "VA-DSP-9",
        "A call did not get through, its answer cannot be used, the call has ended without an answer, or its address leads to this machine or its network and `vacant.call_private` is off.",
        "Look at the address that the card names. The same `Idempotency-Key` asks for the same call.",
    ),
    (
        "TOO_LARGE",
        413,
        "VA-SRV-14",
        "The body is larger than `vacant.max_bytes` (1,048,576 unless configured).",
        "Send less, or raise `vacant.max_bytes` on the node.",
    ),
    (
        "UNSUPPORTED_MEDIA",
        415,
        "VA-SRV-2",
        "The media type is not `application/json`.",
        "Send `Content-Type: application/json`, or none.",
    ),
    (
        "NOT_FOUND",
        404,
        "CH-ID-4",
        "There is nothing at this path, or no vacant of that name.",
        "`GET /v1/search_capability` tells who is here.",
    ),
    (
        "BEHAVIOUR_FAILED",
        500,
        "VA-SRV-9",
        "What answers for the vacant failed. The call stays accepted: the same bytes are a replay.",
        "Call again with the next number.",
    ),
    (
        "BEHAVIOUR_TIMEOUT",
        504,
        "VA-SRV-9",
        "What answers for the vacant took longer than `vacant.behaviour_timeout_s`. The call stays accepted.",
        "Call again with the next number, or raise the limit on the node.",
    ),
    (
        "OVERLOADED",
        503,
        "VA-SRV-14",
        "A limit is reached, the node is stopping, or the call has no answer yet.",
        "Wait as long as `Retry-After` says, then send the same bytes.",
    ),
    (
        "ANSWERED",
        409,
        "CH-JRN-16",
        "The call that is answered has an outcome already, or waits for another vacant.",
        "Nothing is left to do: the first answer counts.",
    ),
    (
        "UNSUPPORTED_OPERATION",
        400,
        "VA-A2A-5",
        "A message without an envelope came to a vacant that answers from its inbox.",
        "Sign the call.",
    ),
    (
        "REGISTRY_NOT_ALLOWED",
        409,
        "VA-REG-4",
        "A card cannot be published or withdrawn: it does not verify, or another entry holds its place.",
        "The refusal says which.",
    ),
    (
        "REVIEW_NOT_ALLOWED",
        400,
        "VA-UCB-2",
        "A review has a signal or a weight outside its range.",
        "A signal is from 0 to 1; the refusal says what is wrong.",
    ),
    (
        "NOT_CONFIGURED",
        503,
        "CH-CFG-4",
        "No vacant is configured on this node.",
        "Add `[[vacant.agent]]` with a name and a seed.",
    ),
    (
        "METHOD_NOT_ALLOWED",
        405,
        "CH-NET-1",
        "The path has other methods; `Allow` names them.",
        "Use one of those.",
    ),
    (
        "FORBIDDEN",
        403,
        "CH-NET-4",
        "In dev a request names this machine as its host and comes from no other page.",
        "Ask from this machine, or serve with tokens.",
    ),
];

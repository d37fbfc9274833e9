//! The bodies of answers (VX-ERR-1, VX-ERR-2). Their media type is [`MEDIA_TYPE`].

use crate::code::{Fault, MAX_MESSAGE_LENGTH};
use crate::message_id::MessageId;
use chancery_core::json::Path;
use serde::Serialize;

/// The media type of every answer.
pub const MEDIA_TYPE: &str = "application/json; charset=utf-8";

#[derive(Serialize)]
struct Success {
    status: &'static str,
    message_id: MessageId,
}

#[derive(Serialize)]
struct Rejection<'a> {
    status: &'static str,
    message_id: Option<MessageId>,
    error: ErrorBody<'a>,
}

#[derive(Serialize)]
struct ErrorBody<'a> {
    code: &'static str,
    message: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    retryable: bool,
}

/// The body for a message that is in the agent's queue.
pub fn accepted(message_id: MessageId) -> Vec<u8> {
    success("accepted", message_id)
}

/// The body for a message that was there before; it is success for the sender.
pub fn duplicate(message_id: MessageId) -> Vec<u8> {
    success("duplicate", message_id)
}

/// The body for a refused message; `message_id` is given if the body parsed and has a well-formed one.
pub fn rejected(message_id: Option<MessageId>, fault: &Fault) -> Vec<u8> {
    json(&Rejection {
        status: "rejected",
        message_id,
        error: ErrorBody {
            code: fault.code.as_str(),
            message: first_characters(&fault.message, MAX_MESSAGE_LENGTH),
            path: fault.path.as_ref().map(Path::to_pointer),
            retryable: fault.code.retryable(),
        },
    })
}

fn success(status: &'static str, message_id: MessageId) -> Vec<u8> {
    json(&Success { status, message_id })
}

fn json(body: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(body).expect("texts and booleans always serialize")
}

fn first_characters(text: &str, count: usize) -> &str {
    match text.char_indices().nth(count) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}

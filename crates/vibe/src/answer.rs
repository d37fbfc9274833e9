//! What a sender is told, and how a door writes it (VC-HTTP-2, VC-HTTP-4).

use bytes::Bytes;
use chancery_core::canonical::write_string;
use chancery_core::line::Seq;
use chancery_core::refusal::Refusal;

/// The answer to an input that was not refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// An envelope is on record, now or since an earlier request under the same key.
    Accepted {
        /// The body: canonical JSON, the same byte for byte at every repeat (VC-IDEM-4).
        body: Bytes,
        /// Whether it is a repeat: the header `Idempotent-Replayed: true`.
        replayed: bool,
    },
    /// A change of the world is on record.
    Changed {
        /// Its line.
        seq: Seq,
    },
}

/// The value of a response header `Idempotency-Key`: the envelope's key, where a header can carry it (VC-HTTP-3).
pub fn key_header(key: Option<&str>) -> Option<&str> {
    key.filter(|key| key.bytes().all(|byte| byte.is_ascii_graphic()))
}

/// The body of a refusal (VC-HTTP-4).
pub fn refusal_body(refusal: &Refusal) -> Vec<u8> {
    let kind = match refusal.status {
        503 => "service_unavailable",
        500.. => "processing_error",
        _ => "invalid_request",
    };
    let mut body = Vec::with_capacity(192);
    body.extend_from_slice(b"{\"code\":");
    write_string(refusal.code, &mut body);
    if let Some(details) = &refusal.details {
        body.extend_from_slice(b",\"details\":");
        body.extend_from_slice(details.as_bytes());
    }
    member("message", &refusal.message, &mut body);
    if let Some(id) = &refusal.message_id {
        member("msg_id", id, &mut body);
    }
    if let Some(path) = &refusal.path {
        member("param", path, &mut body);
    }
    member("type", kind, &mut body);
    body.push(b'}');
    body
}

fn member(name: &str, value: &str, body: &mut Vec<u8>) {
    body.push(b',');
    write_string(name, body);
    body.push(b':');
    write_string(value, body);
}

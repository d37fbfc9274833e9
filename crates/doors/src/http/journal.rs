//! `GET /log` and `GET /log/SEQ`: the journal, line by line, byte for byte.
//!
//! An answer is bounded in lines, in bytes and in lines looked at; the header `Chancery-Next` names the line to go
//! on from.

use std::sync::Arc;

use bytes::Bytes;
use chancery_core::line::{ProtocolName, Seq};
use chancery_journal::line::parse;
use chancery_node::Office;
use chancery_store::StoreError;
use http::{HeaderName, HeaderValue, StatusCode};

use super::door::{Call, HttpDoor, not_found};
use super::query::Query;
use super::reply::{Reply, held, not_stored, problem, reply};

/// Lines of an answer unless asked otherwise, and at most.
pub(crate) const LIMIT: u64 = 100;
pub(crate) const LIMIT_AT_MOST: u64 = 1_000;
/// Bytes of an answer; it always holds one line.
pub(crate) const ANSWER_BYTES: usize = 4 << 20;
/// Lines that one request looks at for those of one protocol.
const LOOKED_AT: u64 = 100_000;
/// Lines read at once.
const PORTION: usize = 64;

const JSON_LINES: HeaderValue = HeaderValue::from_static("application/jsonl; charset=utf-8");
const JSON: HeaderValue = HeaderValue::from_static("application/json; charset=utf-8");
const NEXT: HeaderName = HeaderName::from_static("chancery-next");

/// Lines, and where to go on.
pub(crate) struct Portion {
    pub(crate) lines: Vec<u8>,
    pub(crate) next: Seq,
}

impl Portion {
    /// Names the line to go on from.
    pub(crate) fn with_next(next: Seq, mut reply: Reply) -> Reply {
        reply.headers_mut().insert(NEXT, next.into());
        reply
    }
}

/// Reads lines from one on.
pub(crate) async fn list(door: Arc<HttpDoor>, call: Call) -> Reply {
    let asked = match asked(&call) {
        Ok(asked) => asked,
        Err(reply) => return reply,
    };
    let read = door
        .read_held(move |office| collect(office, asked.0, asked.1, asked.2))
        .await;
    match read {
        Ok((portion, place)) => {
            let next = portion.next;
            Portion::with_next(next, held(JSON_LINES, portion.lines, place))
        }
        Err(reply) => reply,
    }
}

fn asked(call: &Call) -> Result<(Seq, u64, Option<ProtocolName>), Reply> {
    let query = Query::of(&call.parts)?;
    let from = query.number("from")?.unwrap_or(1).max(1);
    let limit = query
        .number("limit")?
        .unwrap_or(LIMIT)
        .clamp(1, LIMIT_AT_MOST);
    let protocol = match query.text("protocol") {
        Some(name) => Some(ProtocolName::parse(name).ok_or_else(|| {
            problem(StatusCode::BAD_REQUEST, "there is no protocol of that name")
        })?),
        None => None,
    };
    Ok((from, limit, protocol))
}

/// Lines from one on, bounded; of one protocol where one is named.
pub(crate) fn collect(
    office: &Office,
    from: Seq,
    limit: u64,
    protocol: Option<ProtocolName>,
) -> Result<Portion, StoreError> {
    let mut portion = Portion {
        lines: Vec::new(),
        next: from,
    };
    let mut taken = 0;
    while portion.next - from < LOOKED_AT {
        let lines = office.gate().store().lines(portion.next, PORTION)?;
        if lines.is_empty() {
            break;
        }
        for line in lines {
            if is_of(&line, protocol)? {
                if !portion.lines.is_empty() && portion.lines.len() + line.len() > ANSWER_BYTES {
                    return Ok(portion);
                }
                portion.lines.extend_from_slice(&line);
                portion.lines.push(b'\n');
                taken += 1;
            }
            portion.next += 1;
            if taken == limit {
                return Ok(portion);
            }
        }
    }
    Ok(portion)
}

pub(crate) fn is_of(line: &Bytes, protocol: Option<ProtocolName>) -> Result<bool, StoreError> {
    let Some(protocol) = protocol else {
        return Ok(true);
    };
    let line = parse(line).map_err(|fault| StoreError(fault.to_string()))?;
    Ok(line.protocol == protocol)
}

/// Reads one line.
pub(crate) async fn show(door: Arc<HttpDoor>, call: Call) -> Reply {
    let text = call.param("seq");
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let Some(seq) = text.parse::<Seq>().ok().filter(|seq| is_number && *seq > 0) else {
        return not_found();
    };
    match door
        .read(move |office| office.gate().store().lines(seq, 1))
        .await
    {
        Ok(mut lines) => match lines.pop() {
            Some(line) => not_stored(reply(StatusCode::OK, JSON, line)),
            None => not_found(),
        },
        Err(reply) => reply,
    }
}

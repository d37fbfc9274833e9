//! `GET /vcp/…`: health, sessions, approvals, the world, the audit log (VC-HTTP-5).

use std::sync::Arc;

use chancery_core::line::ProtocolName;
use chancery_node::{Office, vibe_approver, vibe_reader};
use chancery_store::StoreError;
use chancery_vibe::code::Code;
use chancery_vibe::world::read::Reader;
use http::HeaderValue;
use serde_json::json;

use super::super::door::{Call, HttpDoor};
use super::super::journal::{LIMIT, LIMIT_AT_MOST, Portion, collect};
use super::super::query::Query;
use super::super::reply::{Reply, held, json as json_reply};
use super::answers::{at_the_door, failed, found, not_found, refused};
use super::token_of;

const JSON_LINES: HeaderValue = HeaderValue::from_static("application/jsonl; charset=utf-8");

/// Tells that the protocol is served here.
pub(crate) async fn health(door: Arc<HttpDoor>, _: Call) -> Reply {
    let settings = door.office.gate().settings();
    let body = json!({
        "status": "ok",
        "protocol": "vcp",
        "version": "1.0",
        "configured": settings.vibe.world.is_some(),
    });
    json_reply(http::StatusCode::OK, &body)
}

/// Reads what the office finds for a caller; none is 404 with this code, or the door's own.
async fn answer(
    door: &HttpDoor,
    missing: Option<Code>,
    ask: impl FnOnce(&Office) -> Result<Option<Vec<u8>>, StoreError> + Send + 'static,
) -> Reply {
    if door.office.gate().settings().vibe.world.is_none() {
        return refused(&at_the_door(Code::NotConfigured));
    }
    match (door.read(ask).await, missing) {
        (Ok(Some(body)), _) => found(body),
        (Ok(None), Some(code)) => refused(&code.refuse()),
        (Ok(None), None) => not_found(),
        (Err(reply), _) => failed(&reply),
    }
}

/// A session; also `GET /state/vibe/SESSION`.
pub(crate) async fn session(door: Arc<HttpDoor>, call: Call) -> Reply {
    let reader = vibe_reader(token_of(&call.access));
    let id = call.param("session").to_owned();
    answer(&door, Some(Code::SessionNotFound), move |office| {
        office.vibe_session(&id, &reader)
    })
    .await
}

/// Certificates that wait for the caller's word (VC-GATE-5).
pub(crate) async fn approvals(door: Arc<HttpDoor>, call: Call) -> Reply {
    let reader = vibe_approver(token_of(&call.access));
    answer(&door, None, move |office| {
        office.vibe_approvals(&reader).map(Some)
    })
    .await
}

/// Rows of a table that are answered at once, and at most.
const ROWS: u64 = 1_000;
const ROWS_AT_MOST: u64 = 10_000;

/// A table of the world (VC-WLD-3), page by page.
pub(crate) async fn table(door: Arc<HttpDoor>, call: Call) -> Reply {
    let reader = vibe_reader(token_of(&call.access));
    let name = call.param("table").to_owned();
    let asked = Query::of(&call.parts).and_then(|query| {
        let limit = query.number("limit")?.unwrap_or(ROWS);
        let after = query.text("after").map(str::to_owned);
        Ok((after, limit.clamp(1, ROWS_AT_MOST)))
    });
    let (after, limit) = match asked {
        Ok(asked) => asked,
        Err(reply) => return failed(&reply),
    };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    answer(&door, None, move |office| {
        office.vibe_table_page(&name, &reader, after.as_deref(), limit)
    })
    .await
}

/// The lines of this protocol, byte for byte: for the platform alone, because they hold mandates.
pub(crate) async fn audit(door: Arc<HttpDoor>, call: Call) -> Reply {
    let reader = vibe_reader(token_of(&call.access));
    if !matches!(reader, Reader::Psp | Reader::Platform) {
        return not_found();
    }
    let asked = Query::of(&call.parts).and_then(|query| {
        let from = query.number("from_seq")?.unwrap_or(1).max(1);
        let limit = query.number("limit")?.unwrap_or(LIMIT);
        Ok((from, limit.clamp(1, LIMIT_AT_MOST)))
    });
    let (from, limit) = match asked {
        Ok(asked) => asked,
        Err(reply) => return failed(&reply),
    };
    let read = door.read_held(move |office| collect(office, from, limit, Some(ProtocolName::Vibe)));
    match read.await {
        Ok((portion, place)) => {
            Portion::with_next(portion.next, held(JSON_LINES, portion.lines, place))
        }
        Err(reply) => failed(&reply),
    }
}

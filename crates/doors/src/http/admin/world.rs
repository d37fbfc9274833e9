//! Changes of vibe's world: catalog, stock, accounts, merchants (CH-JRN-1).

use std::sync::Arc;

use chancery_vibe::world::change::Change;
use http::StatusCode;
use serde_json::json;

use super::super::door::{Call, HttpDoor};
use super::super::reply::{Reply, json};
use super::refused;

/// The largest change: a thousand entries with long titles.
const BODY_BYTES: usize = 4 << 20;

/// Puts a change on record and tells its line.
pub(crate) async fn change(door: Arc<HttpDoor>, call: Call) -> Reply {
    let change: Change = match call.value_within(&door, BODY_BYTES).await {
        Ok(change) => change,
        Err(reply) => return reply,
    };
    match door.office.change_world(change).await {
        Ok(seq) => json(StatusCode::OK, &json!({ "seq": seq })),
        Err(refusal) => refused(&refusal),
    }
}

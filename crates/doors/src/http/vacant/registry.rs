//! The registry's HTTP forms (VA-REG-5): three ways to ask, none to write or to call.

use std::sync::Arc;

use chancery_node::vacants::{RegistryQuery, Vacants};
use chancery_vacant::error::ProtocolError;
use chancery_vacant::id::VacantId;
use http::StatusCode;
use serde_json::{Value, json};

use super::super::door::{Call, HttpDoor};
use super::super::query::Query;
use super::super::reply::{Reply, json, problem};
use super::{not_configured, refused};

/// Matches without a number in the request (VA-REG-1).
const LIMIT: u64 = 20;
/// Most matches of one request.
const LIMIT_AT_MOST: u64 = 100;

/// `POST /v1/query_capability`: best first.
pub(crate) async fn query(door: Arc<HttpDoor>, call: Call) -> Reply {
    answer(query_ranked(&door, Query::of(&call.parts)).await)
}

async fn query_ranked(door: &HttpDoor, query: Result<Query, Reply>) -> Result<Reply, Reply> {
    let query = query?;
    let asked = RegistryQuery {
        query: query.text("capability").map(str::to_owned),
        family: query.text("family").map(str::to_owned),
        limit: limit(&query)?,
    };
    let vacants = vacants(door)?;
    let mut matches = door.read(move |_| vacants.search(&asked)).await?;
    matches.sort_by(|a, b| b.score.total_cmp(&a.score));
    let matches: Vec<Value> = matches.iter().map(|found| found.to_json()).collect();
    let body = json!({"matches": matches, "not_implemented_in_p4": []});
    Ok(json(StatusCode::OK, &body))
}

/// `GET /v1/search_capability`: in the order of publication, as another client library reads it.
pub(crate) async fn search(door: Arc<HttpDoor>, call: Call) -> Reply {
    answer(search_in_order(&door, Query::of(&call.parts)).await)
}

async fn search_in_order(door: &HttpDoor, query: Result<Query, Reply>) -> Result<Reply, Reply> {
    let query = query?;
    // VA-REG-6: whoever owns a LOCAL vacant calls it directly.
    if query.text("include_local") == Some("true") {
        let message = "LOCAL vacants are not told over HTTP";
        return Err(problem(StatusCode::FORBIDDEN, message));
    }
    let asked = RegistryQuery {
        query: query.text("q").map(str::to_owned),
        family: query.text("family").map(str::to_owned),
        limit: limit(&query)?,
    };
    let vacants = vacants(door)?;
    let matches = door.read(move |_| vacants.search(&asked)).await?;
    let cards: Vec<Value> = matches
        .iter()
        .map(|found| json!({"capability_card": found.blob_hex()}))
        .collect();
    Ok(json(StatusCode::OK, &cards))
}

/// `GET /v1/capability_card/{vacant_id}`.
pub(crate) async fn card(door: Arc<HttpDoor>, call: Call) -> Reply {
    answer(one_card(&door, call.param("id").to_owned()).await)
}

async fn one_card(door: &HttpDoor, id: String) -> Result<Reply, Reply> {
    let unknown = || {
        refused(ProtocolError::NotFound(
            "no card of that vacant is published",
        ))
    };
    let id = VacantId::from_hex(&id).map_err(|_| unknown())?;
    let vacants = vacants(door)?;
    let found = door.read(move |_| vacants.entry(&id)).await?;
    let found = found.ok_or_else(unknown)?;
    Ok(json(StatusCode::OK, &found.to_json()))
}

fn limit(query: &Query) -> Result<usize, Reply> {
    let limit = query.number("limit")?.unwrap_or(LIMIT);
    if !(1..=LIMIT_AT_MOST).contains(&limit) {
        let message = "limit has to be from 1 to 100";
        return Err(problem(StatusCode::BAD_REQUEST, message));
    }
    Ok(usize::try_from(limit).unwrap_or_default())
}

fn vacants(door: &HttpDoor) -> Result<Arc<Vacants>, Reply> {
    door.vacants.clone().ok_or_else(not_configured)
}

fn answer(result: Result<Reply, Reply>) -> Reply {
    match result {
        Ok(reply) | Err(reply) => reply,
    }
}

//! `GET /state/value-context/AGENT`.

use std::sync::Arc;

use http::StatusCode;

use super::door::{Call, HttpDoor, not_found};
use super::reply::{Reply, json, not_stored};

/// Tells what the node holds about a hosted agent.
pub(crate) async fn read(door: Arc<HttpDoor>, call: Call) -> Reply {
    let agent = call.param("agent").to_owned();
    match door
        .read(move |office| office.value_context_state(&agent))
        .await
    {
        Ok(Some(state)) => not_stored(json(StatusCode::OK, &state)),
        Ok(None) => not_found(),
        Err(reply) => reply,
    }
}

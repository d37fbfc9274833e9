//! `POST /admin/vacant`: states, the registry and reviews.

use std::sync::Arc;

use chancery_vacant::act::Change;
use chancery_vacant::state::State;
use http::StatusCode;
use serde::Deserialize;
use serde_json::json;

use super::super::door::{Call, HttpDoor};
use super::super::reply::{Reply, json};
use super::{not_configured, refusal};

/// What an operator does.
#[derive(Deserialize)]
#[serde(untagged)]
enum Asked {
    /// Sets the state of a hosted vacant (VA-STA-4).
    SetState { set_state: SetState },
    /// Publishes, withdraws or judges.
    Change(Change),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SetState {
    name: String,
    state: State,
}

/// Puts an act on record and tells its line.
pub(crate) async fn act(door: Arc<HttpDoor>, call: Call) -> Reply {
    let Some(vacants) = door.vacants.clone() else {
        return not_configured();
    };
    let asked: Asked = match call.value(&door).await {
        Ok(asked) => asked,
        Err(reply) => return reply,
    };
    let acted = match asked {
        Asked::SetState { set_state } => vacants.set_state(&set_state.name, set_state.state).await,
        Asked::Change(change) => vacants.change(change).await,
    };
    match acted {
        Ok(line) => json(StatusCode::OK, &json!({ "seq": line })),
        Err(refused) => refusal(&refused),
    }
}

//! Administration of a running node: keys, agents, tokens, the world. Each act is on record when it is answered.

pub(crate) mod agents;
pub(crate) mod keys;
pub(crate) mod tokens;
pub(crate) mod world;

use std::sync::Arc;

use chancery_core::admin::Act;
use chancery_core::line::Seq;
use chancery_core::refusal::Refusal;
use http::StatusCode;
use serde_json::json;

use super::door::{Call, HttpDoor, Reloaded, not_found};
use super::reply::{Reply, coded_problem, json, problem};

/// Puts an act on record and tells its line.
async fn record(door: &HttpDoor, act: Act) -> Reply {
    on_record_at(door.office.act(act).await)
}

/// Tells the line that an act is on, or why it is not.
fn on_record_at(result: Result<Seq, Refusal>) -> Reply {
    match result {
        Ok(seq) => json(StatusCode::OK, &json!({ "seq": seq })),
        Err(refusal) => refused(&refusal),
    }
}

fn refused(refusal: &Refusal) -> Reply {
    let status = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    coded_problem(status, Some(refusal.code), &refusal.message)
}

fn bad(detail: &str) -> Reply {
    problem(StatusCode::BAD_REQUEST, detail)
}

/// Reads the files again; a node that was started without any has nothing to read.
pub(crate) async fn reload(door: Arc<HttpDoor>, _: Call) -> Reply {
    let Some(reload) = &door.reload else {
        return not_found();
    };
    match reload().await {
        Reloaded::Read {
            changed,
            needs_restart,
        } => {
            let changed: Vec<_> = changed
                .iter()
                .map(|(what, lines)| json!({"what": what, "lines": lines}))
                .collect();
            let told = json!({"changed": changed, "needs_restart": needs_restart});
            json(StatusCode::OK, &told)
        }
        Reloaded::Refused(reason) => problem(StatusCode::CONFLICT, &reason),
    }
}

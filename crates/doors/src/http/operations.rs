//! Operations: health, readiness, figures, and the clock of `dev`.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use chancery_core::time::parse_value_context;
use chancery_value_context as value_context;
use http::{HeaderValue, StatusCode};
use serde::Deserialize;

use super::door::{Call, HttpDoor, not_found};
use super::figures::write_head;
use super::recorder;
use super::reply::{Reply, empty, json, problem, reply};

const SCHEMA_TYPE: HeaderValue = HeaderValue::from_static("application/schema+json");
const PROMETHEUS: HeaderValue =
    HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

/// Tells that the process answers, and nothing else (VX-HTTP-7).
pub(crate) async fn health(_: Arc<HttpDoor>, _: Call) -> Reply {
    json(StatusCode::OK, &serde_json::json!({ "status": "ok" }))
}

/// The JSON Schema of a value-context message (VX-SCH-1).
pub(crate) async fn schema(_: Arc<HttpDoor>, _: Call) -> Reply {
    static SCHEMA: LazyLock<Bytes> =
        LazyLock::new(|| value_context::schema::schema().to_string().into());
    reply(StatusCode::OK, SCHEMA_TYPE, SCHEMA.clone())
}

/// Tells whether envelopes are taken.
pub(crate) async fn ready(door: Arc<HttpDoor>, _: Call) -> Reply {
    if door.office.gate().has_failed() {
        return problem(
            StatusCode::SERVICE_UNAVAILABLE,
            "the log or the rows failed; the node stops",
        );
    }
    if door.office.gate().store().lag() >= door.office.gate().limits().index_lag_entries {
        return problem(
            StatusCode::SERVICE_UNAVAILABLE,
            "the index is too far behind the log",
        );
    }
    json(StatusCode::OK, &serde_json::json!({ "status": "ready" }))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SetClock {
    now: String,
}

/// Sets a fixed clock; where the clock runs by itself the path does not exist.
pub(crate) async fn set_clock(door: Arc<HttpDoor>, call: Call) -> Reply {
    if !door.office.gate().clock().is_fixed() {
        return not_found();
    }
    let asked: SetClock = match call.value(&door).await {
        Ok(asked) => asked,
        Err(reply) => return reply,
    };
    match parse_value_context(&asked.now) {
        Ok(now) if door.office.gate().clock().set(now) => empty(StatusCode::NO_CONTENT),
        Ok(_) => not_found(),
        Err(_) => problem(
            StatusCode::BAD_REQUEST,
            "now has to be a UTC timestamp ending in Z",
        ),
    }
}

/// Figures for Prometheus, and how near each bound is (CH-LIM-1).
pub(crate) async fn metrics(door: Arc<HttpDoor>, _: Call) -> Reply {
    let mut text = recorder::render();
    let (bounds, store) = (bounds(&door), door.office.gate().store());
    write_head("chancery_bound_used", &mut text);
    for (bound, used, _) in &bounds {
        let of_bound = format!("bound=\"{bound}\"");
        text += &recorder::line("chancery_bound_used", &of_bound, *used);
    }
    write_head("chancery_bound_limit", &mut text);
    for (bound, _, limit) in &bounds {
        let of_bound = format!("bound=\"{bound}\"");
        text += &recorder::line("chancery_bound_limit", &of_bound, *limit);
    }
    for (name, value) in [
        ("chancery_log_lines", store.head().seq),
        ("chancery_row_cache_bytes", store.cache_bytes() as u64),
        ("chancery_outbox", door.office.outbox_len() as u64),
        ("chancery_timers", door.office.timers_len() as u64),
    ] {
        write_head(name, &mut text);
        text += &recorder::line(name, "", value);
    }
    reply(StatusCode::OK, PROMETHEUS, text)
}

fn bounds(door: &HttpDoor) -> Vec<(&'static str, u64, u64)> {
    let gate = door.office.gate();
    let limits = gate.limits();
    let taken = |limit: usize, free: usize| (limit.saturating_sub(free) as u64, limit as u64);
    let requests = taken(limits.requests, gate.free_permits());
    let reads = taken(door.limits.reads, door.reads.available_permits());
    let sockets = taken(door.ws_limits.connections, door.sockets.available_permits());
    let watchers = taken(door.limits.watchers, door.watchers.available_permits());
    let (body_bytes, all_body_bytes) = door.bodies.used();
    vec![
        ("requests", requests.0, requests.1),
        (
            "index_lag_entries",
            gate.store().lag(),
            limits.index_lag_entries,
        ),
        (
            "window_records",
            gate.store().window_len() as u64,
            door.office.soft_limits().window_records as u64,
        ),
        (
            "connections",
            door.connections.len() as u64,
            door.limits.connections as u64,
        ),
        ("websockets", sockets.0, sockets.1),
        ("reads", reads.0, reads.1),
        ("watchers", watchers.0, watchers.1),
        ("body_bytes", body_bytes as u64, all_body_bytes as u64),
        (
            "failure_addresses",
            door.failures.len() as u64,
            door.limits.failure_addresses as u64,
        ),
    ]
}

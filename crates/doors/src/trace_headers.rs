//! W3C trace context in HTTP headers and in MCP's `_meta`.

use chancery_node::trace::{TraceContext, here};
use http::HeaderMap;
use http::request::Builder;
use serde_json::Value;

const TRACEPARENT: &str = "traceparent";
const TRACESTATE: &str = "tracestate";

/// The place in a trace that a request names; none where it names none, or more than one.
pub(crate) fn of_headers(headers: &HeaderMap) -> Option<TraceContext> {
    let mut parents = headers.get_all(TRACEPARENT).iter();
    let parent = match (parents.next(), parents.next()) {
        (Some(parent), None) => parent.to_str().ok()?,
        _ => return None,
    };
    let states: Vec<&str> = headers
        .get_all(TRACESTATE)
        .iter()
        .filter_map(|state| state.to_str().ok())
        .collect();
    TraceContext::parse(parent, Some(states.join(",").as_str()))
}

/// The same of what a request says about itself.
pub(crate) fn of_meta(meta: &Value) -> Option<TraceContext> {
    let parent = meta.get(TRACEPARENT)?.as_str()?;
    TraceContext::parse(parent, meta.get(TRACESTATE).and_then(Value::as_str))
}

/// Names this task's place in a trace, where it is at one.
pub(crate) fn name_place(request: Builder) -> Builder {
    let Some(place) = here() else {
        return request;
    };
    let request = request.header(TRACEPARENT, place.traceparent());
    match place.tracestate() {
        Some(state) => request.header(TRACESTATE, state),
        None => request,
    }
}

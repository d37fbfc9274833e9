//! The description of this door as OpenAPI 3.1: paths, methods, rules and words come from the table of paths, what goes in
//! and out from the table of operations beside this file.
//!
//! A path without an operation is described by its path alone, and a test fails: nothing is left out in silence.

mod operations;
mod page;
mod refusals;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use http::{HeaderValue, StatusCode};
use serde_json::{Map, Value, json};

use super::access::{Need, Rule};
use super::door::{Call, HttpDoor};
use super::reply::{Reply, reply};
use super::router::{Shape, shape};
use super::table::{Route, routes};
use operations::Operation;
pub use page::page;

const JSON: HeaderValue = HeaderValue::from_static("application/json; charset=utf-8");
/// The parts that are the same for several operations.
const COMPONENTS: &str = include_str!("components.json");

/// `GET /openapi.json`.
pub(crate) async fn call(_: Arc<HttpDoor>, _: Call) -> Reply {
    static TEXT: LazyLock<Bytes> = LazyLock::new(|| document().to_string().into());
    reply(StatusCode::OK, JSON, TEXT.clone())
}

/// The whole description.
pub fn document() -> Value {
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for route in routes() {
        let method = route.method.as_str().to_lowercase();
        let described = paths.entry(route.path).or_default();
        described.insert(method, operation(route));
    }
    let mut components: Value = serde_json::from_str(COMPONENTS).unwrap_or_default();
    add_message_schema(&mut components["schemas"]);
    components["responses"] = shared_responses().into();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Chancery",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Seals, records and dispatches the messages of AI agents. \
                The scope that a path needs is in the description of its security.",
            "license": {"name": "Apache-2.0 OR MIT", "identifier": "Apache-2.0 OR MIT"},
        },
        "paths": paths,
        "components": components,
    })
}

/// Whether every path and method of the table is described by an operation.
pub fn undescribed() -> Vec<String> {
    let missing = routes()
        .iter()
        .filter(|route| Operation::of(route).is_none());
    missing
        .map(|route| format!("{} {}", route.method, route.path))
        .collect()
}

fn operation(route: &Route) -> Value {
    let mut told = json!({
        "operationId": operation_id(route),
        "tags": [tag(route.path)],
        "summary": route.what,
        "security": security(route.rule),
        "parameters": [],
        "responses": {},
    });
    if let Some(need) = scope(route.rule) {
        told["description"] = json!(format!("Needs a token with {need}."));
    }
    let Some(operation) = Operation::of(route) else {
        return told;
    };
    let in_path = parameters_in(route.path).map(|name| parameter(name, "path"));
    let in_query = operation.query.iter().map(|name| parameter(name, "query"));
    let in_headers = operation
        .headers
        .iter()
        .map(|name| parameter(name, "header"));
    told["parameters"] = in_path.chain(in_query).chain(in_headers).collect();
    if let Some(schema) = operation.body {
        let (media_type, schema) = content(schema);
        told["requestBody"] =
            json!({"required": true, "content": {media_type: {"schema": schema}}});
    }
    told["responses"] = responses(route, &operation);
    told
}

/// The schemas that an answer with a status may have; none for one without a body.
type Answers = BTreeMap<u16, BTreeSet<&'static str>>;

/// What a path answers. Refusals are the same for many paths, so they are told once, among the components.
fn responses(route: &Route, operation: &Operation) -> Value {
    let mut answers = Answers::new();
    for (status, schema) in operation.answers {
        answers.entry(*status).or_default().extend(schema);
    }
    let mut told = Map::new();
    for (status, schemas) in &answers {
        told.insert(status.to_string(), response(*status, schemas));
    }
    for (status, schemas) in refusals_of(route, operation) {
        let name = format!("#/components/responses/{}", shared_name(status, &schemas));
        told.insert(status.to_string(), json!({ "$ref": name }));
    }
    told.into()
}

fn refusals_of(route: &Route, operation: &Operation) -> Answers {
    let mut refused = Answers::new();
    for (status, schema) in refusals::of(route, operation.refusals) {
        refused.entry(status).or_default().insert(schema);
    }
    refused
}

/// The refusals of all paths, each once.
fn shared_responses() -> Map<String, Value> {
    let mut shared = Map::new();
    for route in routes() {
        let operation = Operation::of(route);
        for (status, schemas) in operation.iter().flat_map(|it| refusals_of(route, it)) {
            let name = shared_name(status, &schemas);
            shared.insert(name, response(status, &schemas));
        }
    }
    shared
}

/// `404.Problem.VibeRefusal`.
fn shared_name(status: u16, schemas: &BTreeSet<&str>) -> String {
    let schemas: Vec<&str> = schemas.iter().copied().collect();
    format!("{status}.{}", schemas.join("."))
}

fn response(status: u16, schemas: &BTreeSet<&'static str>) -> Value {
    let words = StatusCode::from_u16(status).ok();
    let words = words.and_then(|status| status.canonical_reason());
    let mut told = json!({"description": words.unwrap_or("Refused")});
    let mut by_media_type: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for schema in schemas {
        let (media_type, schema) = content(schema);
        by_media_type.entry(media_type).or_default().push(schema);
    }
    for (media_type, mut schemas) in by_media_type {
        let schema = match schemas.len() {
            1 => schemas.remove(0),
            _ => json!({ "anyOf": schemas }),
        };
        told["content"][media_type] = json!({ "schema": schema });
    }
    if matches!(status, 429 | 503) {
        told["headers"]["Retry-After"] = json!({"schema": {"type": "integer", "minimum": 0}});
    }
    told
}

/// The media type and the schema that a name stands for.
fn content(schema: &'static str) -> (&'static str, Value) {
    let media_type = match schema {
        "Lines" => "application/jsonl",
        "Figures" => "text/plain",
        "Stream" => "text/event-stream",
        "JsonSchema" => "application/schema+json",
        "Problem" => "application/problem+json",
        "A2aMessage" => "application/json",
        name if name.starts_with("A2a") => "application/a2a+json",
        _ => "application/json",
    };
    let schema = format!("#/components/schemas/{schema}");
    (media_type, json!({"$ref": schema}))
}

fn parameter(name: &str, place: &str) -> Value {
    json!({"$ref": format!("#/components/parameters/{place}.{name}")})
}

fn parameters_in(path: &'static str) -> impl Iterator<Item = &'static str> {
    let segments = path.split('/');
    segments.filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'))
}

fn security(rule: Rule) -> Value {
    match rule {
        Rule::Public | Rule::Signed(_) | Rule::DevOnly => json!([]),
        Rule::Token(_) | Rule::Principal(_) => json!([{"token": []}]),
    }
}

/// What a token has to allow, in words.
const fn scope(rule: Rule) -> Option<&'static str> {
    let Rule::Token(need) = rule else {
        return None;
    };
    Some(match need {
        Need::ReadLog | Need::ReadMetrics => "`read:log` or `admin`",
        Need::ReadInbox => "`read:inbox:AGENT` or `admin`",
        Need::ReadState => "`read:state:AGENT` or `admin`",
        Need::Send => "`send:AGENT`",
        Need::Admin => "`admin`",
        Need::Tools => "any scope; each tool asks for its own",
    })
}

fn tag(path: &str) -> &'static str {
    let is_of = |protocol: &str| path.contains(protocol);
    match shape(path) {
        Shape::ValueContext => "value-context",
        Shape::Vibe => "vibe",
        Shape::Vacant => "vacant",
        Shape::Agh => "agh",
        Shape::Problem if is_of("/value-context") => "value-context",
        Shape::Problem if is_of("/vacant/") => "vacant",
        Shape::Problem if is_of("/agh/") => "agh",
        Shape::Problem if is_of("/admin/") => "administration",
        Shape::Problem => "operations",
    }
}

/// `post_send_agh`.
fn operation_id(route: &Route) -> String {
    let words = route.path.split(|c: char| !c.is_ascii_alphanumeric());
    let words = words.filter(|word| !word.is_empty());
    let method = route.method.as_str().to_lowercase();
    std::iter::once(method.as_str())
        .chain(words)
        .collect::<Vec<_>>()
        .join("_")
}

/// The schema of a value-context message is made from its types; its own definitions become components.
fn add_message_schema(schemas: &mut Value) {
    let mut message = chancery_value_context::schema::schema();
    point_to_components(&mut message);
    if let Some(members) = message.as_object_mut() {
        members.remove("$schema");
        members.remove("$id");
        if let Some(Value::Object(definitions)) = members.remove("$defs") {
            for (name, definition) in definitions {
                schemas[format!("ValueContext.{name}")] = definition;
            }
        }
    }
    schemas["ValueContextMessage"] = message;
}

fn point_to_components(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            for (name, value) in members.iter_mut() {
                match value
                    .as_str()
                    .and_then(|text| text.strip_prefix("#/$defs/"))
                {
                    Some(definition) if name == "$ref" => {
                        *value = json!(format!("#/components/schemas/ValueContext.{definition}"));
                    }
                    _ => point_to_components(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(point_to_components),
        _ => {}
    }
}

//! The HTTP+JSON binding of 1.0: paths, methods and statuses instead of a frame.

use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode};
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};

use super::binding::{Version, with_extension};
use super::fault::{Fault, Kind};
use super::model::Event;
use super::operations::{Agent, Asked, Operation, Outcome, Service};
use crate::http::{Reply, reply};

const MEDIA_TYPE: HeaderValue = HeaderValue::from_static("application/a2a+json");
const PLACE: &[&str] = &["message"];

/// A request as the binding needs it.
pub(crate) struct RestRequest<'r> {
    /// The method.
    pub(crate) method: &'r Method,
    /// The path after the prefix.
    pub(crate) path: &'r str,
    /// The query.
    pub(crate) query: &'r str,
    /// The version that was asked for.
    pub(crate) version: Result<Version, Fault>,
    /// The body, read within its limits.
    pub(crate) body: Result<Bytes, Fault>,
}

/// Answers one request.
pub(crate) async fn answer<A: Agent>(service: &Service<A>, request: RestRequest<'_>) -> Reply {
    let answered = async { service.perform(asked(request)?).await };
    let reply = match answered.await {
        Ok(Outcome::Stream(stream)) => stream.into_reply(Event::to_json),
        Ok(Outcome::Event(event)) => whole(StatusCode::OK, &event.to_json()),
        Ok(Outcome::Task(task)) => whole(StatusCode::OK, &json!(task)),
        Ok(Outcome::Value(value)) => whole(StatusCode::OK, &value),
        Err(fault) => failure(&fault),
    };
    with_extension(reply, &service.agent.features(), Version::New)
}

fn asked(request: RestRequest<'_>) -> Result<Asked, Fault> {
    if request.version? == Version::Old {
        let message = "this binding is of 1.0 alone";
        return Err(Fault::new(Kind::VersionNotSupported, message));
    }
    let body = request.body?;
    let (operation, in_path) = route(request.method, request.path)?;
    let mut params = match operation {
        Operation::Send | Operation::Stream | Operation::PutPush => object(&body)?,
        _ => query(request.query),
    };
    params.extend(
        in_path
            .into_iter()
            .map(|(name, id)| (name.to_owned(), json!(id))),
    );
    Ok(Asked {
        operation,
        params: params.into(),
        body,
        place: PLACE,
    })
}

type InPath = Vec<(&'static str, String)>;

/// Which operation a method and a path are.
fn route(method: &Method, path: &str) -> Result<(Operation, InPath), Fault> {
    use Operation as O;
    let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
    let is = |wanted: &Method| method == wanted;
    let (get, post, delete) = (is(&Method::GET), is(&Method::POST), is(&Method::DELETE));
    let found = match segments.as_slice() {
        ["message:send"] if post => (O::Send, vec![]),
        ["message:stream"] if post => (O::Stream, vec![]),
        ["extendedAgentCard"] if get => (O::ExtendedCard, vec![]),
        ["tasks"] if get => (O::List, vec![]),
        ["tasks", task] => {
            let task = decoded(task);
            let (id, verb) = task.rsplit_once(':').unwrap_or((&task, ""));
            let operation = match verb {
                "cancel" if post => O::Cancel,
                "subscribe" if post || get => O::Subscribe,
                "" if get => O::Get,
                _ => return Err(nothing()),
            };
            (operation, vec![("id", id.to_owned())])
        }
        ["tasks", task, "pushNotificationConfigs"] if post || get => {
            let operation = if post { O::PutPush } else { O::ListPushes };
            (operation, vec![("taskId", decoded(task))])
        }
        ["tasks", task, "pushNotificationConfigs", id] if get || delete => {
            let operation = if get { O::GetPush } else { O::DeletePush };
            (
                operation,
                vec![("taskId", decoded(task)), ("id", decoded(id))],
            )
        }
        _ => return Err(nothing()),
    };
    Ok(found)
}

fn nothing() -> Fault {
    Fault::new(Kind::MethodNotFound, "there is nothing at this path")
}

fn object(body: &Bytes) -> Result<Map<String, Value>, Fault> {
    match serde_json::from_slice(body) {
        Ok(Value::Object(members)) => Ok(members),
        Ok(_) => Err(Fault::new(Kind::InvalidRequest, "the body is no object")),
        Err(_) => Err(Fault::new(Kind::Parse, "the body is not JSON")),
    }
}

/// The parameters of a query: numbers and switches are read as such.
fn query(query: &str) -> Map<String, Value> {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    let value = |text: &str| {
        let text = percent_decode_str(&text.replace('+', " "))
            .decode_utf8_lossy()
            .into_owned();
        match text.as_str() {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            _ => Value::String(text),
        }
    };
    let numbers = ["historyLength", "pageSize"];
    let read = |(name, text): (&str, &str)| {
        let value = match (numbers.contains(&name), text.parse::<i64>()) {
            (true, Ok(number)) => json!(number),
            _ => value(text),
        };
        (name.to_owned(), value)
    };
    pairs.map(read).collect()
}

/// A refusal with its status.
pub(super) fn failure(fault: &Fault) -> Reply {
    let status = StatusCode::from_u16(fault.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut reply = whole(status, &fault.to_rest());
    if let Some(seconds) = fault.retry_after_s() {
        let headers = reply.headers_mut();
        headers.insert(http::header::RETRY_AFTER, seconds.into());
    }
    reply
}

fn whole(status: StatusCode, body: &Value) -> Reply {
    reply(status, MEDIA_TYPE, body.to_string())
}

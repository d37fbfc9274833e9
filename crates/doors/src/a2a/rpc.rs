//! The JSON-RPC binding: one path, two versions, HTTP 200 whatever happens inside (VA-A2A-9).

use bytes::Bytes;
use chancery_vacant::error::{Part, ProtocolError};
use chancery_vacant::native::RpcId;
use chancery_vacant::wire::read_json;
use http::StatusCode;
use serde_json::{Value, json};

use super::binding::{Version, with_extension};
use super::fault::{Fault, Kind};
use super::model::Event;
use super::old;
use super::operations::{Agent, Asked, Operation, Outcome, Service};
use crate::http::{JSON, Reply, reply};

/// Where a message stands in the body of a request.
const PLACE: &[&str] = &["params", "message"];

/// Answers one request. The body has been read within its limits.
pub(crate) async fn answer<A: Agent>(
    service: &Service<A>,
    version: Result<Version, Fault>,
    body: Result<Bytes, Fault>,
    max_bytes: usize,
) -> Reply {
    let (id, framed) = match body {
        Ok(body) => frame(&body, max_bytes),
        Err(fault) => (RpcId::default(), Err(fault)),
    };
    let spoken = version.as_ref().map_or(Version::New, |version| *version);
    let answered = async {
        let (body, method) = framed?;
        let version = version?;
        let operation = operation(version, &method)?;
        let params = params(version, operation, &body)?;
        let asked = Asked {
            operation,
            params,
            body,
            place: PLACE,
        };
        Ok((operation, service.perform(asked).await?))
    };
    let answered: Result<(Operation, Outcome), Fault> = answered.await;
    let features = service.agent.features();
    let reply = match answered {
        Ok((_, Outcome::Stream(stream))) => {
            stream.into_reply(move |event| success(&id, &written(spoken, event)))
        }
        Ok((operation, outcome)) => whole(&success(&id, &result(spoken, operation, outcome))),
        Err(fault) => failure(&id, &fault),
    };
    with_extension(reply, &features, spoken)
}

/// The id of a request, and its method where its frame is right.
fn frame(body: &Bytes, max_bytes: usize) -> (RpcId, Result<(Bytes, String), Fault>) {
    let value = match read_json(body, max_bytes) {
        Ok(value) => value,
        Err(ProtocolError::EnvelopeFormat {
            part: Part::Json, ..
        }) => {
            let fault = Fault::new(Kind::Parse, "the body is not JSON");
            return (RpcId::default(), Err(fault));
        }
        Err(error) => {
            return (
                RpcId::default(),
                Err(Fault::of_refusal(&error.into(), None)),
            );
        }
    };
    use chancery_core::json::Value as Json;
    let wrong = |reason: &'static str| Err(Fault::new(Kind::InvalidRequest, reason));
    let Some(members) = value.as_object() else {
        return (RpcId::default(), wrong("the body is no object"));
    };
    let is_id = |id: &Json<'_>| matches!(id, Json::Null | Json::String(_) | Json::Number(_));
    if members.get("id").is_some_and(|id| !is_id(id)) {
        return (RpcId::default(), wrong("id is a text, a number or null"));
    }
    let id = RpcId::of(&value);
    if members.get("jsonrpc").and_then(Json::as_str) != Some("2.0") {
        return (id, wrong("jsonrpc is not \"2.0\""));
    }
    match members.get("method").and_then(Json::as_str) {
        Some(method) => (id, Ok((body.clone(), method.to_owned()))),
        None => (id, wrong("method is missing")),
    }
}

/// A method of one version is none of the other (VA-A2A-1).
fn operation(version: Version, method: &str) -> Result<Operation, Fault> {
    use Operation as O;
    let found = match (version, method) {
        (Version::New, "SendMessage") | (Version::Old, "message/send") => O::Send,
        (Version::New, "SendStreamingMessage") | (Version::Old, "message/stream") => O::Stream,
        (Version::New, "GetTask") | (Version::Old, "tasks/get") => O::Get,
        (Version::New, "ListTasks") => O::List,
        (Version::New, "CancelTask") | (Version::Old, "tasks/cancel") => O::Cancel,
        (Version::New, "SubscribeToTask") | (Version::Old, "tasks/resubscribe") => O::Subscribe,
        (Version::New, "CreateTaskPushNotificationConfig")
        | (Version::Old, "tasks/pushNotificationConfig/set") => O::PutPush,
        (Version::New, "GetTaskPushNotificationConfig")
        | (Version::Old, "tasks/pushNotificationConfig/get") => O::GetPush,
        (Version::New, "ListTaskPushNotificationConfigs")
        | (Version::Old, "tasks/pushNotificationConfig/list") => O::ListPushes,
        (Version::New, "DeleteTaskPushNotificationConfig")
        | (Version::Old, "tasks/pushNotificationConfig/delete") => O::DeletePush,
        (Version::New, "GetExtendedAgentCard")
        | (Version::Old, "agent/getAuthenticatedExtendedCard") => O::ExtendedCard,
        _ => {
            let message = "this version has no such method";
            return Err(Fault::new(Kind::MethodNotFound, message));
        }
    };
    Ok(found)
}

/// The parameters in the spelling of 1.0.
fn params(version: Version, operation: Operation, body: &Bytes) -> Result<Value, Fault> {
    let mut body: Value = serde_json::from_slice(body)
        .map_err(|_| Fault::new(Kind::Parse, "the body is not JSON"))?;
    let params = body["params"].take();
    if !params.is_object() && !params.is_null() {
        return Err(Fault::new(Kind::InvalidParams, "params is no object"));
    }
    let is_push = matches!(
        operation,
        Operation::PutPush | Operation::GetPush | Operation::ListPushes | Operation::DeletePush
    );
    Ok(match version {
        Version::New => params,
        Version::Old if is_push => old::push_to_new(&params),
        Version::Old => old::params_to_new(params),
    })
}

fn written(version: Version, event: &Event) -> Value {
    match version {
        Version::New => event.to_json(),
        Version::Old => old::event_to_old(event),
    }
}

fn result(version: Version, operation: Operation, outcome: Outcome) -> Value {
    match (outcome, version) {
        (Outcome::Event(event), version) => written(version, &event),
        (Outcome::Task(task), Version::New) => json!(task),
        (Outcome::Task(task), Version::Old) => {
            let mut task = json!(task);
            old::task_to_old(&mut task);
            task
        }
        (Outcome::Value(value), Version::Old) => match operation {
            Operation::ListPushes => {
                let configs = value["configs"].as_array();
                configs
                    .into_iter()
                    .flatten()
                    .map(old::push_to_old)
                    .collect()
            }
            Operation::DeletePush => Value::Null,
            _ => old::push_to_old(&value),
        },
        (Outcome::Value(value), Version::New) => value,
        (Outcome::Stream(_), _) => Value::Null,
    }
}

fn success(id: &RpcId, result: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id_of(id), "result": result})
}

fn id_of(id: &RpcId) -> Value {
    serde_json::from_str(id.as_json()).unwrap_or(Value::Null)
}

/// An error is told in the body; the status is that of the exchange.
pub(super) fn failure(id: &RpcId, fault: &Fault) -> Reply {
    let mut reply = whole(&json!({"jsonrpc": "2.0", "id": id_of(id), "error": fault.to_rpc()}));
    if let Some(seconds) = fault.retry_after_s() {
        let headers = reply.headers_mut();
        headers.insert(http::header::RETRY_AFTER, seconds.into());
    }
    reply
}

fn whole(body: &Value) -> Reply {
    reply(StatusCode::OK, JSON, body.to_string())
}

//! 0.3: the same things under other names.

use serde_json::{Map, Value, json};

use super::model::Event;

/// A request's parameters of 0.3 in the spelling of 1.0.
pub(crate) fn params_to_new(mut params: Value) -> Value {
    if let Some(message) = params.get_mut("message") {
        message_to_new(message);
    }
    if let Some(Value::Object(configuration)) = params.get_mut("configuration") {
        if let Some(Value::Bool(blocking)) = configuration.remove("blocking") {
            configuration.insert("returnImmediately".to_owned(), json!(!blocking));
        }
        if let Some(push) = configuration.remove("pushNotificationConfig") {
            configuration.insert("taskPushNotificationConfig".to_owned(), push);
        }
    }
    params
}

/// The parameters of 0.3's push methods: `id` names the task there.
pub(crate) fn push_to_new(params: &Value) -> Value {
    let text = |name: &str| params.get(name).and_then(Value::as_str);
    let task = text("taskId").or_else(|| text("id"));
    let mut config = match params.get("pushNotificationConfig") {
        Some(Value::Object(config)) => config.clone(),
        _ => Map::new(),
    };
    if let Some(id) = text("pushNotificationConfigId") {
        config.insert("id".to_owned(), json!(id));
    }
    config.insert("taskId".to_owned(), json!(task));
    config.into()
}

/// A push configuration of 1.0 as 0.3 wraps it.
pub(crate) fn push_to_old(config: &Value) -> Value {
    let mut inner = config.clone();
    let task = match &mut inner {
        Value::Object(members) => members.remove("taskId"),
        _ => None,
    };
    json!({"taskId": task, "pushNotificationConfig": inner})
}

fn message_to_new(message: &mut Value) {
    let Value::Object(message) = message else {
        return;
    };
    message.remove("kind");
    let role = match message.get("role").and_then(Value::as_str) {
        Some("user") => Some("ROLE_USER"),
        Some("agent") => Some("ROLE_AGENT"),
        _ => None,
    };
    if let Some(role) = role {
        message.insert("role".to_owned(), json!(role));
    }
    if let Some(Value::Array(parts)) = message.get_mut("parts") {
        parts.iter_mut().for_each(part_to_new);
    }
}

fn part_to_new(part: &mut Value) {
    let Value::Object(members) = part else {
        return;
    };
    members.remove("kind");
    if let Some(Value::Object(mut file)) = members.remove("file") {
        for (old, new) in [
            ("bytes", "raw"),
            ("uri", "url"),
            ("name", "filename"),
            ("mimeType", "mediaType"),
        ] {
            if let Some(value) = file.remove(old) {
                members.insert(new.to_owned(), value);
            }
        }
    }
}

/// An event as 0.3 writes it: told apart by `kind`.
pub(crate) fn event_to_old(event: &Event) -> Value {
    let mut value = event.to_json();
    let (name, kind) = match event {
        Event::Task(_) => ("task", "task"),
        Event::Message(_) => ("message", "message"),
        Event::Status { .. } => ("statusUpdate", "status-update"),
        Event::Artifact { .. } => ("artifactUpdate", "artifact-update"),
    };
    let mut inner = value[name].take();
    match event {
        Event::Task(_) => task_to_old(&mut inner),
        Event::Message(_) => message_to_old(&mut inner),
        Event::Status { status, .. } => {
            inner["final"] = json!(status.state.is_at_rest());
            status_to_old(&mut inner["status"]);
        }
        Event::Artifact { .. } => artifact_to_old(&mut inner["artifact"]),
    }
    inner["kind"] = json!(kind);
    inner
}

/// A task of 1.0 as 0.3 writes it.
pub(crate) fn task_to_old(task: &mut Value) {
    task["kind"] = json!("task");
    status_to_old(&mut task["status"]);
    for artifact in items(task.get_mut("artifacts")) {
        artifact_to_old(artifact);
    }
    for message in items(task.get_mut("history")) {
        message_to_old(message);
    }
}

fn status_to_old(status: &mut Value) {
    let state = status["state"].as_str().unwrap_or_default();
    let state = state.trim_start_matches("TASK_STATE_").to_ascii_lowercase();
    status["state"] = json!(state.replace('_', "-"));
    if let Some(message) = status.get_mut("message") {
        message_to_old(message);
    }
}

fn message_to_old(message: &mut Value) {
    message["kind"] = json!("message");
    let role = match message["role"].as_str() {
        Some("ROLE_USER") => "user",
        _ => "agent",
    };
    message["role"] = json!(role);
    for part in items(message.get_mut("parts")) {
        part_to_old(part);
    }
}

fn artifact_to_old(artifact: &mut Value) {
    for part in items(artifact.get_mut("parts")) {
        part_to_old(part);
    }
}

fn part_to_old(part: &mut Value) {
    let Value::Object(members) = part else {
        return;
    };
    let kind = if members.contains_key("text") {
        "text"
    } else if members.contains_key("data") {
        "data"
    } else {
        let mut file = Map::new();
        for (new, old) in [
            ("raw", "bytes"),
            ("url", "uri"),
            ("filename", "name"),
            ("mediaType", "mimeType"),
        ] {
            if let Some(value) = members.remove(new) {
                file.insert(old.to_owned(), value);
            }
        }
        members.insert("file".to_owned(), file.into());
        "file"
    };
    members.insert("kind".to_owned(), json!(kind));
}

fn items(array: Option<&mut Value>) -> impl Iterator<Item = &mut Value> {
    match array {
        Some(Value::Array(items)) => items.iter_mut(),
        _ => [].iter_mut(),
    }
}

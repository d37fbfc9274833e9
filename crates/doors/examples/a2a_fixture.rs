//! An agent for the A2A test kit, on the same A2A module that a node serves its vacants with. It takes unsigned
//! messages and behaves by the beginning of a message's id, as the kit asks.
//!
//!     cargo run -p chancery-doors --example a2a_fixture -- 127.0.0.1:9999
#![allow(clippy::print_stdout, reason = "the program says where it listens")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::routing::get;
use chancery_core::digest::Sha256Digest;
use chancery_core::ids::v4;
use chancery_core::time::Time;
use chancery_doors::a2a::{
    Agent, Artifact, Fault, Features, Incoming, Kind, Message, Notify, Part, PushConfig, Role,
    Taken, TaskLimits, TaskState, Tasks, Updater, Work, router,
};
use serde_json::{Value, json};

/// How long a task is held open for somebody to follow it.
const HELD: Duration = Duration::from_secs(4);

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let listen = std::env::args().nth(1);
    let listen = listen.unwrap_or_else(|| "127.0.0.1:9999".to_owned());
    let listener = tokio::net::TcpListener::bind(&listen).await?;
    let address = listener.local_addr()?.to_string();
    println!("{}", json!({"event": "listening", "http": address}));
    serve(listener).await
}

/// Serves the agent and its card.
pub async fn serve(listener: tokio::net::TcpListener) -> std::io::Result<()> {
    let address = listener.local_addr()?;
    let fixture = Fixture {
        made: AtomicU64::new(0),
        http: client(),
    };
    let tasks = Arc::new(Tasks::new(TaskLimits::default()));
    let card = card(&format!("http://{address}/a2a")).to_string();
    let card = move || {
        let json = [
            ("content-type", "application/json"),
            ("cache-control", "max-age=300"),
        ];
        std::future::ready((json, card.clone()))
    };
    let app: Router =
        router("/a2a", fixture, tasks).route("/.well-known/agent-card.json", get(card));
    axum::serve(listener, app).await
}

fn card(url: &str) -> Value {
    let interface = |url: String, binding: &str, version: &str| json!({"url": url, "protocolBinding": binding, "protocolVersion": version});
    json!({
        "name": "A2A fixture",
        "description": "behaves by the beginning of a message's id, as the A2A test kit asks",
        "version": env!("CARGO_PKG_VERSION"),
        "supportedInterfaces": [
            interface(url.to_owned(), "JSONRPC", "1.0"),
            interface(format!("{url}/v1"), "HTTP+JSON", "1.0"),
            interface(url.to_owned(), "JSONRPC", "0.3"),
        ],
        "capabilities": {"streaming": true, "pushNotifications": true},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [{
            "id": "tck", "name": "Test kit", "description": "answers the test kit", "tags": ["tck"],
        }],
        "url": url,
        "preferredTransport": "JSONRPC",
        "protocolVersion": "0.3.0",
        "supportsAuthenticatedExtendedCard": false,
    })
}

/// The agent. Its identifiers follow from the time and a count: nobody keeps a secret here.
struct Fixture {
    made: AtomicU64,
    http: reqwest::Client,
}

/// Posts what happened to a task, with the token that its receiver knows it by. The receiver's answer changes nothing.
async fn notify(http: reqwest::Client, config: PushConfig, event: Value) {
    let mut request = http
        .post(&config.url)
        .header("content-type", "application/json")
        .body(event.to_string());
    if let Some(token) = &config.token {
        request = request.header("x-a2a-notification-token", token);
    }
    if let Some(wanted) = &config.authentication {
        let text = |name: &str| wanted.get(name).and_then(Value::as_str);
        if let (Some(scheme), Some(credentials)) = (text("scheme"), text("credentials")) {
            request = request.header("authorization", format!("{scheme} {credentials}"));
        }
    }
    if let Err(error) = request.send().await {
        println!(
            "{}",
            json!({"event": "not_notified", "why": error.to_string()})
        );
    }
}

fn client() -> reqwest::Client {
    // Another part of the program may have chosen a provider already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let client = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .timeout(Duration::from_secs(5));
    client
        .build()
        .expect("a client without settings of its own can be made")
}

impl Agent for Fixture {
    fn owner(&self) -> String {
        "fixture".to_owned()
    }

    fn features(&self) -> Features {
        Features {
            list_tasks: true,
            push: true,
            multi_turn: true,
            ..Features::default()
        }
    }

    fn clock(&self) -> Arc<dyn Fn() -> Time + Send + Sync> {
        Arc::new(now)
    }

    fn fresh_id(&self) -> String {
        let count = self.made.fetch_add(1, Ordering::Relaxed);
        let digest = Sha256Digest::of(format!("{:?} {count}", now()).as_bytes());
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&digest.0[..16]);
        v4(bytes).to_string()
    }

    fn notifier(&self) -> Option<Notify> {
        let http = self.http.clone();
        Some(Arc::new(move |config, event| {
            Box::pin(notify(http.clone(), config, event))
        }))
    }

    async fn take(&self, incoming: Incoming) -> Result<Taken, Fault> {
        let message = incoming.strict_message()?;
        let is_foreign = |part: &Part| {
            let media_type = part.media_type.as_deref().unwrap_or_default();
            media_type.starts_with("application/x-")
        };
        if message.parts.iter().any(is_foreign) {
            let reason = "this agent does not read that media type";
            return Err(Fault::new(Kind::ContentTypeNotSupported, reason));
        }
        let id = message.message_id.clone();
        if id.starts_with("tck-message-response") || id.starts_with("tck-stream-002") {
            let context = message
                .context_id
                .clone()
                .unwrap_or_else(|| self.fresh_id());
            let said = said(self.fresh_id(), &context, None, "Direct message response");
            return Ok(Taken::Message(said));
        }
        let said_id = self.fresh_id();
        let work: Work = Box::new(move |updater| Box::pin(work(updater, id, said_id)));
        Ok(Taken::Task {
            work,
            cancel: None,
            history: Some(message),
            state: TaskState::TaskStateSubmitted,
        })
    }
}

/// What happens to a task, by the beginning of the message's id.
async fn work(updater: Updater, id: String, said_id: String) {
    let begins = |prefix: &str| id.starts_with(prefix);
    let artifact = |part: Part| Artifact {
        artifact_id: "artifact-1".to_owned(),
        name: None,
        parts: vec![part],
    };
    let (_, context) = updater.ids();
    let complete = |text: Option<&str>| {
        let task = updater.ids().0;
        let said = text.map(|text| said(said_id.clone(), &context, Some(task), text));
        updater.status(TaskState::TaskStateCompleted, said);
    };
    if begins("tck-input-required") {
        updater.status(TaskState::TaskStateInputRequired, None);
        return;
    }
    if begins("tck-reject-task") {
        updater.status(TaskState::TaskStateRejected, None);
        return;
    }
    if begins("tck-stream") || begins("test-resubscribe-message-id") {
        updater.status(TaskState::TaskStateWorking, None);
    }
    if begins("test-resubscribe-message-id") {
        tokio::time::sleep(HELD).await;
    } else if begins("tck-stream-artifact-chunked") {
        updater.artifact(artifact(Part::text("chunk-1 ")), true, false);
        updater.artifact(artifact(Part::text("chunk-2")), true, true);
    } else if let Some(part) = produced(&id) {
        updater.artifact(artifact(part), false, true);
    } else if !begins("tck-stream") {
        complete(Some("Hello from the fixture"));
        return;
    }
    complete(None);
}

/// What a task produces, if anything.
fn produced(id: &str) -> Option<Part> {
    let file = |part: Part| Part {
        filename: Some("output.txt".to_owned()),
        media_type: Some("text/plain".to_owned()),
        ..part
    };
    let kind = id
        .strip_prefix("tck-stream-artifact-")
        .or_else(|| id.strip_prefix("tck-artifact-"));
    match kind {
        Some(kind) if kind.starts_with("file-url") => Some(file(Part {
            url: Some("https://example.com/output.txt".to_owned()),
            ..Part::default()
        })),
        Some(kind) if kind.starts_with("file") => Some(file(Part {
            raw: Some("dGNr".to_owned()),
            ..Part::default()
        })),
        Some(kind) if kind.starts_with("data") => Some(Part {
            data: Some(json!({"key": "value", "count": 42})),
            ..Part::default()
        }),
        Some(_) => Some(Part::text("Generated text content")),
        None if id.starts_with("tck-stream-") => Some(Part::text("Streamed text content")),
        None => None,
    }
}

fn said(id: String, context: &str, task: Option<String>, text: &str) -> Message {
    Message {
        message_id: id,
        context_id: Some(context.to_owned()),
        task_id: task,
        role: Role::Agent,
        parts: vec![Part::text(text)],
        ..Message::default()
    }
}

fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let micros = since.map_or(0, |since| since.as_micros());
    Time::from_unix_micros(i64::try_from(micros).unwrap_or(i64::MAX)).unwrap_or(Time::MAX)
}

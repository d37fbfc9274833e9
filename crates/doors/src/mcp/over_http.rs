//! Streamable HTTP: one request, one JSON answer, no session (VA-MCP-9, VA-MCP-10, VA-MCP-11).

use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::request::Parts;
use http::{HeaderValue, Request, StatusCode};
use http_body::Body;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::{Value, json};

use super::Toolbox;
use super::offer::Tools;
use super::server::Server;
use crate::http::{JSON, Reply, ReplyBody, reply};

/// The pages that may call: those of this machine.
pub(super) const ORIGINS: [&str; 6] = [
    "http://localhost:*",
    "http://127.0.0.1:*",
    "http://[::1]:*",
    "https://localhost:*",
    "https://127.0.0.1:*",
    "https://[::1]:*",
];

/// Answers one request. The body has been read within its limits.
pub(crate) async fn answer<T: Toolbox>(tools: T, mut parts: Parts, body: Bytes) -> Reply {
    if let Err(reply) = check_body(&body) {
        return reply;
    }
    if let Err(reply) = accept_both(&mut parts) {
        return reply;
    }
    parts
        .headers
        .entry(CONTENT_TYPE)
        .or_insert(HeaderValue::from_static("application/json"));
    let is_json = parts.headers[CONTENT_TYPE]
        .as_bytes()
        .starts_with(b"application/json");
    // The door has checked the host where it has to.
    let config = StreamableHttpServerConfig::default()
        .with_legacy_session_mode(false)
        .with_json_response(true)
        .disable_allowed_hosts()
        .with_allowed_origins(ORIGINS)
        .with_max_request_body_bytes(body.len());
    let sessions = Arc::new(NeverSessionManager::default());
    let tools = Tools::new(tools);
    let server = move || Ok(Server::new(tools.clone()));
    let service = StreamableHttpService::new(server, sessions, config);
    let request = Request::from_parts(parts, Whole(Some(body)));
    let (head, body) = service.handle(request).await.into_parts();
    let body = collect(body).await;
    if head.status.is_client_error() && !head.headers.contains_key(CONTENT_TYPE) {
        return in_a_frame(head.status, &body, is_json);
    }
    let mut reply = Reply::new(ReplyBody::Whole(body));
    *reply.status_mut() = head.status;
    *reply.headers_mut() = head.headers;
    reply
}

/// What the SDK refuses in plain words, as JSON-RPC. It says of JSON that is no request that its media type is wrong.
fn in_a_frame(status: StatusCode, words: &[u8], is_json: bool) -> Reply {
    let status = match status {
        StatusCode::UNSUPPORTED_MEDIA_TYPE if is_json => StatusCode::BAD_REQUEST,
        status => status,
    };
    let mut reply = refused(-32600, &String::from_utf8_lossy(words));
    *reply.status_mut() = status;
    reply
}

/// A batch is no request, and what is no JSON is none either.
fn check_body(body: &Bytes) -> Result<(), Reply> {
    match serde_json::from_slice::<Value>(body) {
        Ok(Value::Object(_)) => Ok(()),
        Ok(_) => Err(refused(-32600, "a request is one object")),
        Err(_) => Err(refused(-32700, "the body is not JSON")),
    }
}

fn refused(code: i32, message: &str) -> Reply {
    let body = json!({"jsonrpc": "2.0", "id": null, "error": {"code": code, "message": message}});
    reply(StatusCode::BAD_REQUEST, JSON, body.to_string())
}

/// The SDK asks for both media types; either is enough here, since answers are JSON that both sides read.
fn accept_both(parts: &mut Parts) -> Result<(), Reply> {
    let admits = |text: &str| {
        [
            "application/json",
            "text/event-stream",
            "*/*",
            "application/*",
        ]
        .iter()
        .any(|name| text.contains(name))
    };
    let accepted = parts.headers.get(ACCEPT);
    if accepted.is_some_and(|value| !admits(value.to_str().unwrap_or_default())) {
        let body = "a client accepts application/json or text/event-stream";
        return Err(reply(
            StatusCode::NOT_ACCEPTABLE,
            JSON,
            json!({"error": body}).to_string(),
        ));
    }
    let both = HeaderValue::from_static("application/json, text/event-stream");
    parts.headers.insert(ACCEPT, both);
    Ok(())
}

/// A body that is there.
struct Whole(Option<Bytes>);

impl Body for Whole {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
        std::task::Poll::Ready(self.0.take().map(|bytes| Ok(http_body::Frame::data(bytes))))
    }
}

/// An answer is one JSON text: it is whole before it is sent.
pub(crate) async fn collect<B>(mut body: B) -> Bytes
where
    B: Body<Data = Bytes> + Unpin,
{
    let mut whole = Vec::new();
    loop {
        let next = std::future::poll_fn(|cx| std::pin::Pin::new(&mut body).poll_frame(cx)).await;
        match next {
            Some(Ok(frame)) => whole.extend_from_slice(&frame.into_data().unwrap_or_default()),
            Some(Err(_)) | None => return whole.into(),
        }
    }
}

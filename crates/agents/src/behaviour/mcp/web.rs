//! HTTP for the client library, with bounds: no redirects, and no answer larger than it may be.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use http::{HeaderName, HeaderValue};
use reqwest::{RequestBuilder, Response, StatusCode};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ErrorData, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream::{Sse, SseStream};

use super::MAX_ANSWER;

/// What an answer beyond the bound ends with.
pub(super) const TOO_LARGE: &str = "the answer is larger than it may be";

const SESSION: &str = "mcp-session-id";
const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

type Failed = StreamableHttpError<std::io::Error>;

/// A client that follows no redirect.
#[derive(Clone)]
pub(super) struct Web {
    client: reqwest::Client,
    bound: Bound,
}

/// Notes when more was said than may be.
#[derive(Clone)]
struct Bound(Arc<AtomicBool>);

impl Bound {
    /// Whether so much is within it.
    fn holds(&self, bytes: usize) -> bool {
        if bytes > MAX_ANSWER {
            self.0.store(true, Ordering::Relaxed);
        }
        bytes <= MAX_ANSWER
    }
}

impl Web {
    /// The client; `has_flooded` is set when an answer is larger than it may be.
    pub(super) fn new(client: reqwest::Client, has_flooded: Arc<AtomicBool>) -> Self {
        Self {
            client,
            bound: Bound(has_flooded),
        }
    }
}

fn failed(error: impl ToString) -> Failed {
    Failed::Client(std::io::Error::other(error.to_string()))
}

fn with(
    mut request: RequestBuilder,
    session: Option<&str>,
    headers: HashMap<HeaderName, HeaderValue>,
) -> RequestBuilder {
    for (name, value) in headers {
        request = request.header(name, value);
    }
    match session {
        Some(session) => request.header(SESSION, session),
        None => request,
    }
}

impl StreamableHttpClient for Web {
    type Error = std::io::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        let body = serde_json::to_vec(&message)?;
        let request = self
            .client
            .post(&*uri)
            .header("accept", format!("{JSON}, {EVENTS}"))
            .header("content-type", JSON)
            .body(body);
        let request = with(request, session_id.as_deref(), custom_headers);
        let response = request.send().await.map_err(failed)?;
        let status = response.status();
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if status == StatusCode::NOT_FOUND && session_id.is_some() {
            return Err(Failed::SessionExpired);
        }
        if !status.is_success() {
            return refused(&message, response, &self.bound).await;
        }
        let header = |name| {
            let value = response.headers().get(name);
            value
                .and_then(|value| value.to_str().ok())
                .map(str::to_owned)
        };
        let (media_type, session) = (header("content-type"), header(SESSION));
        let media_type = media_type.unwrap_or_default();
        if media_type.starts_with(EVENTS) {
            return Ok(StreamableHttpPostResponse::Sse(
                events(response, self.bound.clone()),
                session,
            ));
        }
        let body = whole(response, &self.bound).await?;
        match serde_json::from_slice(&body) {
            Ok(answer) => Ok(StreamableHttpPostResponse::Json(answer, session)),
            // What asks for no answer has none.
            Err(_) if !matches!(message, ClientJsonRpcMessage::Request(_)) => {
                Ok(StreamableHttpPostResponse::Accepted)
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        _: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Failed> {
        let request = with(self.client.delete(&*uri), Some(&session_id), custom_headers);
        request.send().await.map_err(failed)?;
        Ok(())
    }

    /// A server has nothing to say here that it was not asked.
    async fn get_stream(
        &self,
        _: Arc<str>,
        _: Option<Arc<str>>,
        _: Option<String>,
        _: Option<String>,
        _: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failed> {
        Err(Failed::ServerDoesNotSupportSse)
    }
}

/// A refusal is an error of the protocol where its body says so. A server of an older revision may refuse the first
/// question, which it does not know, in any form: that tells how to greet it.
async fn refused(
    message: &ClientJsonRpcMessage,
    response: Response,
    bound: &Bound,
) -> Result<StreamableHttpPostResponse, Failed> {
    let status = response.status();
    let body = whole(response, bound).await?;
    let said = match serde_json::from_slice(&body) {
        Ok(ServerJsonRpcMessage::Error(said)) => Some(said),
        _ => None,
    };
    let is_first = |request: &ClientRequest| matches!(request, ClientRequest::DiscoverRequest(_));
    let is_closed = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    match (message, said) {
        (ClientJsonRpcMessage::Request(asked), said)
            if is_first(&asked.request) && status.is_client_error() && !is_closed =>
        {
            let error = said.map_or_else(
                || ErrorData::invalid_request(format!("status {status}"), None),
                |said| said.error,
            );
            let error = ServerJsonRpcMessage::error(error, Some(asked.id.clone()));
            Ok(StreamableHttpPostResponse::Json(error, None))
        }
        (_, Some(said)) if !is_closed => {
            let error = ServerJsonRpcMessage::Error(said);
            Ok(StreamableHttpPostResponse::Json(error, None))
        }
        _ => Err(failed(format!("status {status}"))),
    }
}

async fn whole(mut response: Response, bound: &Bound) -> Result<Vec<u8>, Failed> {
    let mut body = Vec::new();
    while let Some(part) = response.chunk().await.map_err(failed)? {
        if !bound.holds(body.len() + part.len()) {
            return Err(failed(TOO_LARGE));
        }
        body.extend_from_slice(&part);
    }
    Ok(body)
}

/// The events of an answer, which all together have the bound.
fn events(response: Response, bound: Bound) -> BoxStream<'static, Result<Sse, SseError>> {
    let parts = stream::unfold(Some((response, bound, 0)), |state| async move {
        let (mut response, bound, so_far) = state?;
        match response.chunk().await {
            Ok(Some(part)) if !bound.holds(so_far + part.len()) => {
                Some((Err(std::io::Error::other(TOO_LARGE)), None))
            }
            Ok(Some(part)) => {
                let so_far = so_far + part.len();
                Some((Ok::<Bytes, _>(part), Some((response, bound, so_far))))
            }
            Ok(None) => None,
            Err(error) => Some((Err(std::io::Error::other(error.to_string())), None)),
        }
    });
    SseStream::from_bytes_stream(parts.boxed()).boxed()
}

//! Answers: one body type for all of them, and the two general shapes, plain JSON and problems (RFC 9457).

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Response, StatusCode};
use http_body::{Body, Frame, SizeHint};
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

/// The body of an answer.
pub(crate) enum ReplyBody {
    /// All of it.
    Whole(Bytes),
    /// All of it, and the place among the reads under way that it takes until it is sent.
    Held {
        /// All of it.
        bytes: Bytes,
        /// The place.
        _place: OwnedSemaphorePermit,
    },
    /// Parts as they come.
    Parts(mpsc::Receiver<Bytes>),
}

/// An answer.
pub(crate) type Reply = Response<ReplyBody>;

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let next = match &mut *self {
            Self::Whole(bytes) | Self::Held { bytes, .. } => {
                let bytes = std::mem::take(bytes);
                (!bytes.is_empty()).then_some(bytes)
            }
            Self::Parts(parts) => std::task::ready!(parts.poll_recv(cx)),
        };
        Poll::Ready(next.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(bytes) | Self::Held { bytes, .. } => bytes.is_empty(),
            Self::Parts(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(bytes) | Self::Held { bytes, .. } => {
                SizeHint::with_exact(bytes.len() as u64)
            }
            Self::Parts(_) => SizeHint::default(),
        }
    }
}

/// The media type of JSON.
pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json; charset=utf-8");
const PROBLEM: HeaderValue = HeaderValue::from_static("application/problem+json");

/// An answer with this status, media type and body.
pub(crate) fn reply(status: StatusCode, media_type: HeaderValue, body: impl Into<Bytes>) -> Reply {
    let mut reply = Response::new(ReplyBody::Whole(body.into()));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, media_type);
    reply
}

/// An answer that holds a value.
pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Reply {
    match serde_json::to_vec(value) {
        Ok(body) => reply(status, JSON, body),
        Err(_) => problem(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the answer could not be written",
        ),
    }
}

/// An answer of some size; it keeps its place among the reads under way until it is sent.
pub(crate) fn held(
    media_type: HeaderValue,
    body: impl Into<Bytes>,
    place: OwnedSemaphorePermit,
) -> Reply {
    let mut reply = Response::new(ReplyBody::Held {
        bytes: body.into(),
        _place: place,
    });
    reply.headers_mut().insert(CONTENT_TYPE, media_type);
    not_stored(reply)
}

/// An answer without a body.
pub(crate) fn empty(status: StatusCode) -> Reply {
    let mut reply = Response::new(ReplyBody::Whole(Bytes::new()));
    *reply.status_mut() = status;
    reply
}

#[derive(Serialize)]
struct Problem<'a> {
    r#type: &'static str,
    title: &'a str,
    status: u16,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<&'a str>,
}

/// A problem, told in one sentence without values of the request.
pub(crate) fn problem(status: StatusCode, detail: &str) -> Reply {
    coded_problem(status, None, detail)
}

/// The same with a code.
pub(crate) fn coded_problem(status: StatusCode, code: Option<&str>, detail: &str) -> Reply {
    let body = Problem {
        r#type: "about:blank",
        title: status.canonical_reason().unwrap_or("Problem"),
        status: status.as_u16(),
        detail,
        code,
    };
    let body = serde_json::to_vec(&body).unwrap_or_default();
    let mut reply = reply(status, PROBLEM, body);
    if matches!(
        status,
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS
    ) {
        reply
            .headers_mut()
            .insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    reply
}

/// The answer to a call without a token that is in force (RFC 6750).
pub(crate) fn unauthorized(challenge: &'static str) -> Reply {
    let mut reply = problem(
        StatusCode::UNAUTHORIZED,
        "this path needs a bearer token that is in force",
    );
    let challenge = HeaderValue::from_static(challenge);
    reply.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    reply
}

/// Names the methods that a path has.
pub(crate) fn with_allow(mut reply: Reply, methods: &str) -> Reply {
    if let Ok(methods) = HeaderValue::from_str(methods) {
        reply.headers_mut().insert(ALLOW, methods);
    }
    reply
}

/// What holds personal data or secrets is not kept by anything on its way.
pub(crate) fn not_stored(mut reply: Reply) -> Reply {
    reply
        .headers_mut()
        .insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply
}

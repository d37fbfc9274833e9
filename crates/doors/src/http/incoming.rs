//! The body of a request on its way in. What nobody read of it is thrown away for a short while: closing at once
//! would make the client's system drop the answer unread.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http::header::EXPECT;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use tokio::runtime::Handle;

/// How much of a refused body is thrown away.
const LINGER_BYTES: usize = 1 << 20;
/// And for how long.
const LINGER: Duration = Duration::from_secs(2);

/// A body that is read to its end, by whoever is asked or after them.
pub(crate) struct Lingering {
    /// None once nothing more comes.
    body: Option<Incoming>,
    /// Whether the client waits for a word before it sends: as long as nobody asks, nothing is on its way.
    waits: bool,
}

impl Lingering {
    /// The same request with such a body.
    pub(crate) fn in_request(request: Request<Incoming>) -> Request<Self> {
        let waits = request.headers().contains_key(EXPECT);
        request.map(|body| Self {
            body: Some(body),
            waits,
        })
    }
}

impl Body for Lingering {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.waits = false;
        let Some(body) = &mut self.body else {
            return Poll::Ready(None);
        };
        let polled = Pin::new(body).poll_frame(cx);
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            self.body = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        match &self.body {
            Some(body) => body.size_hint(),
            None => SizeHint::with_exact(0),
        }
    }
}

impl Drop for Lingering {
    fn drop(&mut self) {
        if self.waits || self.is_end_stream() {
            return;
        }
        if let (Some(body), Ok(runtime)) = (self.body.take(), Handle::try_current()) {
            runtime.spawn(tokio::time::timeout(LINGER, throw_away(body)));
        }
    }
}

async fn throw_away(mut body: Incoming) {
    let mut left = LINGER_BYTES;
    loop {
        let frame = std::future::poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await;
        let Some(Ok(frame)) = frame else {
            return;
        };
        let bytes = frame.data_ref().map_or(0, Bytes::len);
        if bytes > left {
            return;
        }
        left -= bytes;
    }
}

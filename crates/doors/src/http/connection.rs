//! One connection: what it is doing, since when, and when that has been long enough.
//!
//! A client that says nothing, sends its head slowly or leaves an answer unread holds a connection for a bounded
//! time. The request path pays two stores for it; the rest happens when the connection's own timer looks.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;

use super::limits::HttpLimits;
use super::reply::ReplyBody;

/// What a connection is doing. Times are milliseconds since it was opened, plus one; zero is "not".
pub(crate) struct Watch {
    opened: Instant,
    /// Whether reading anything while idle begins a head; on HTTP/2 frames come for other reasons.
    reads_heads: AtomicBool,
    requests: AtomicU32,
    head_since: AtomicU64,
    idle_since: AtomicU64,
    stalled_since: AtomicU64,
    closing: AtomicBool,
    close: Notify,
}

/// A request under way; ends when the answer is written or given up.
pub(crate) struct UnderWay(Arc<Watch>);

impl Watch {
    /// A new connection: its first head is awaited from now on.
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            opened: Instant::now(),
            reads_heads: AtomicBool::new(true),
            requests: AtomicU32::new(0),
            head_since: AtomicU64::new(1),
            idle_since: AtomicU64::new(1),
            stalled_since: AtomicU64::new(0),
            closing: AtomicBool::new(false),
            close: Notify::new(),
        })
    }

    /// The connection speaks HTTP/2.
    pub(crate) fn speaks_http2(&self) {
        self.reads_heads.store(false, Ordering::Relaxed);
        self.head_since.store(0, Ordering::Relaxed);
    }

    /// A request begins.
    pub(crate) fn begin(self: &Arc<Self>) -> UnderWay {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.head_since.store(0, Ordering::Relaxed);
        UnderWay(Arc::clone(self))
    }

    fn end(&self) {
        if self.requests.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.idle_since.store(self.now(), Ordering::Relaxed);
        }
    }

    fn has_read(&self) {
        if self.reads_heads.load(Ordering::Relaxed)
            && self.requests.load(Ordering::Relaxed) == 0
            && self.head_since.load(Ordering::Relaxed) == 0
        {
            self.head_since.store(self.now(), Ordering::Relaxed);
        }
    }

    fn is_stalled(&self, stalled: bool) {
        let since = self.stalled_since.load(Ordering::Relaxed);
        if stalled && since == 0 {
            self.stalled_since.store(self.now(), Ordering::Relaxed);
        } else if !stalled && since != 0 {
            self.stalled_since.store(0, Ordering::Relaxed);
        }
    }

    /// Since when no request is under way.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        let is_idle = self.requests.load(Ordering::Relaxed) == 0 && !self.is_closing();
        is_idle.then(|| self.moment(self.idle_since.load(Ordering::Relaxed)))
    }

    /// Asks the connection to close.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
        self.close.notify_one();
    }

    /// Whether it was asked to.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    /// Returns once it was asked to.
    pub(crate) async fn closed(&self) {
        self.close.notified().await;
    }

    /// When what the connection is doing has been long enough; none while a request is under way and moves.
    pub(crate) fn deadline(&self, limits: &HttpLimits) -> Option<Instant> {
        let stalled = self.stalled_since.load(Ordering::Relaxed);
        if stalled != 0 {
            return Some(self.moment(stalled) + limits.write_timeout);
        }
        if self.requests.load(Ordering::Relaxed) > 0 {
            return None;
        }
        let head = self.head_since.load(Ordering::Relaxed);
        if head != 0 {
            return Some(self.moment(head) + limits.header_timeout);
        }
        Some(self.moment(self.idle_since.load(Ordering::Relaxed)) + limits.idle_timeout)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX - 1) + 1
    }

    fn moment(&self, millis: u64) -> Instant {
        self.opened + Duration::from_millis(millis - 1)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// A stream that tells its watch when something was read and when writing stands still.
pub(crate) struct Watched<T> {
    pub(crate) stream: T,
    pub(crate) watch: Arc<Watch>,
}

impl<T: AsyncRead + Unpin> AsyncRead for Watched<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            self.watch.has_read();
        }
        result
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Watched<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.watch.is_stalled(result.is_pending());
        result
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.watch.is_stalled(result.is_pending());
        result
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_flush(cx);
        self.watch.is_stalled(result.is_pending());
        result
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.watch.is_stalled(result.is_pending());
        result
    }
}

/// The body of an answer on its way out; while it lives the request is under way.
pub(crate) struct Outgoing {
    body: Either,
    _request: UnderWay,
}

enum Either {
    Ours(ReplyBody),
    Routed(axum::body::Body),
}

impl Outgoing {
    pub(crate) fn ours(body: ReplyBody, request: UnderWay) -> Self {
        Self {
            body: Either::Ours(body),
            _request: request,
        }
    }

    pub(crate) fn routed(body: axum::body::Body, request: UnderWay) -> Self {
        Self {
            body: Either::Routed(body),
            _request: request,
        }
    }
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        match &mut self.body {
            Either::Ours(body) => Pin::new(body)
                .poll_frame(cx)
                .map_err(|never| match never {}),
            Either::Routed(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.body {
            Either::Ours(body) => body.is_end_stream(),
            Either::Routed(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.body {
            Either::Ours(body) => body.size_hint(),
            Either::Routed(body) => body.size_hint(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_connection_does_sets_its_deadline() {
        let limits = HttpLimits::default();
        let watch = Watch::new();
        let opened = watch.opened;
        assert_eq!(
            watch.deadline(&limits),
            Some(opened + limits.header_timeout)
        );
        let request = watch.begin();
        assert_eq!(watch.deadline(&limits), None);
        watch.is_stalled(true);
        assert!(watch.deadline(&limits).unwrap() >= opened + limits.write_timeout);
        watch.is_stalled(false);
        drop(request);
        assert!(watch.deadline(&limits).unwrap() >= opened + limits.idle_timeout);
        watch.has_read();
        let head = watch.deadline(&limits).unwrap();
        assert!(head >= opened + limits.header_timeout && head < opened + limits.idle_timeout);
    }

    #[test]
    fn frames_of_an_idle_http2_connection_begin_no_head() {
        let limits = HttpLimits::default();
        let watch = Watch::new();
        watch.speaks_http2();
        watch.has_read();
        assert!(watch.deadline(&limits).unwrap() >= watch.opened + limits.idle_timeout);
    }
}

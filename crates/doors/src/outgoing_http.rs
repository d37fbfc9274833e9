//! HTTP/1.1 to other nodes, over connections that are kept.
//!
//! Guarantees: a connection carries one message at a time and stops in the middle of it when its sender is suspended, and
//! is then of no further use; no redirect is followed; an answer is read up to a bound. A connection is used again only
//! when all of the message before has left it.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use chancery_node::Leave;
use chancery_value_context::answer::MEDIA_TYPE;
use hashbrown::HashMap;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, HeaderValue, Method, Request, Response};
use http_body::{Body as _, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::time::Instant;
use url::Url;

use crate::guarded::{Guarded, Leaves};
use crate::outgoing_tls::{AnyStream, OutgoingTls};
use crate::public_address::{Reach, public_addresses};
use crate::trace_headers::name_place;

/// The most of an answer to a message that is read.
const ANSWER_BYTES: usize = 64 << 10;
/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Idle connections kept to one place.
const IDLE_AT_ONE_PLACE: usize = 16;
/// How long a connection is kept idle: less than servers do, so that it is seldom them who close it.
const IDLE_FOR: Duration = Duration::from_secs(45);
const WE: &str = concat!("chancery/", env!("CARGO_PKG_VERSION"));

/// What the other side said.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Seconds that it wants to be left alone.
    pub(crate) retry_after_s: Option<u64>,
    pub(crate) body: Vec<u8>,
}

/// The connections to other nodes.
pub(crate) struct Connections {
    tls: OutgoingTls,
    reach: Reach,
    answer_bytes: usize,
    idle: Mutex<HashMap<String, Vec<Idle>>>,
}

struct Idle {
    since: Instant,
    connection: Connection,
}

/// A connection with nothing under way.
struct Connection {
    sender: SendRequest<Whole>,
    leaves: Arc<Leaves>,
}

/// What became of a message on a connection.
enum Asked {
    /// It was answered; the connection is there when it can be used again.
    Answered(Answer, Option<Connection>),
    /// The connection was closed before a byte of it was written.
    Unsent(Request<Whole>),
}

impl Connections {
    pub(crate) fn new(tls: OutgoingTls) -> Self {
        Self {
            tls,
            reach: Reach::Anywhere,
            answer_bytes: ANSWER_BYTES,
            idle: Mutex::default(),
        }
    }

    /// For addresses that others name, and answers of another size.
    pub(crate) fn abroad(tls: OutgoingTls, reach: Reach, answer_bytes: usize) -> Self {
        Self {
            reach,
            answer_bytes,
            ..Self::new(tls)
        }
    }

    /// Posts an envelope and waits for the answer.
    pub(crate) async fn post(
        &self,
        url: &Url,
        envelope: Bytes,
        leave: &Leave,
    ) -> io::Result<Answer> {
        self.post_as(url, HeaderValue::from_static(MEDIA_TYPE), envelope, leave)
            .await
    }

    /// Posts anything else.
    pub(crate) async fn post_as(
        &self,
        url: &Url,
        media_type: HeaderValue,
        body: Bytes,
        leave: &Leave,
    ) -> io::Result<Answer> {
        self.ask(url, request(url, media_type, body)?, leave).await
    }

    /// Reads what is at an address.
    pub(crate) async fn get(&self, url: &Url) -> io::Result<Answer> {
        let request = asking(Method::GET, url).body(Whole(Bytes::new()));
        let request = request.map_err(io::Error::other)?;
        self.ask(url, request, &Leave::always()).await
    }

    async fn ask(
        &self,
        url: &Url,
        mut request: Request<Whole>,
        leave: &Leave,
    ) -> io::Result<Answer> {
        let place = place(url);
        let limit = self.answer_bytes;
        while let Some(connection) = self.take(&place) {
            match connection.ask(request, leave, limit).await? {
                Asked::Answered(answer, connection) => {
                    self.keep(place, connection);
                    return Ok(answer);
                }
                Asked::Unsent(again) => request = again,
            }
        }
        let late = |_| io::Error::new(io::ErrorKind::TimedOut, "connecting takes too long");
        let connected = tokio::time::timeout(CONNECT_TIMEOUT, self.connect(url)).await;
        let connection = connected.map_err(late)??;
        match connection.ask(request, leave, limit).await? {
            Asked::Answered(answer, connection) => {
                self.keep(place, connection);
                Ok(answer)
            }
            Asked::Unsent(_) => Err(io::ErrorKind::ConnectionAborted.into()),
        }
    }

    async fn connect(&self, url: &Url) -> io::Result<Connection> {
        let stream = match self.reach {
            Reach::Anywhere => self.tls.reach(url).await?,
            Reach::PublicOnly => {
                self.tls
                    .reach_at(url, &public_addresses(url).await?)
                    .await?
            }
        };
        Connection::over(stream).await
    }

    /// An idle connection to a place that is still open.
    fn take(&self, place: &str) -> Option<Connection> {
        let mut idle = self.lock();
        let kept = idle.get_mut(place)?;
        let found = std::iter::from_fn(|| kept.pop())
            .find(|idle| idle.connection.sender.is_ready() && idle.since.elapsed() < IDLE_FOR);
        if kept.is_empty() {
            idle.remove(place);
        }
        found.map(|idle| idle.connection)
    }

    fn keep(&self, place: String, connection: Option<Connection>) {
        let now = Instant::now();
        let mut idle = self.lock();
        // Places that nobody sends to any more are forgotten with their connections.
        idle.retain(|_, kept| {
            kept.retain(|idle| {
                !idle.connection.sender.is_closed() && now.duration_since(idle.since) < IDLE_FOR
            });
            !kept.is_empty()
        });
        let Some(connection) = connection else { return };
        let kept = idle.entry(place).or_default();
        if kept.len() < IDLE_AT_ONE_PLACE {
            kept.push(Idle {
                since: now,
                connection,
            });
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Vec<Idle>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connection {
    async fn over(stream: AnyStream) -> io::Result<Self> {
        let leaves = Arc::new(Leaves::default());
        let stream = Guarded {
            stream,
            leaves: Arc::clone(&leaves),
        };
        let (sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .map_err(io::Error::other)?;
        // It ends when either side closes it, or when its sender is dropped.
        tokio::spawn(connection);
        Ok(Self { sender, leaves })
    }

    async fn ask(
        mut self,
        request: Request<Whole>,
        leave: &Leave,
        answer_bytes: usize,
    ) -> io::Result<Asked> {
        let length = request.body().0.len();
        self.leaves.begin(leave.clone());
        let response = match self.sender.try_send_request(request).await {
            Ok(response) => response,
            Err(mut error) => {
                return match error.take_message() {
                    Some(unsent) => Ok(Asked::Unsent(unsent)),
                    None => Err(io::Error::other(error.into_error())),
                };
            }
        };
        let answer = read(response, answer_bytes).await?;
        // An answer may come before all was asked: what is left over must not go out under the next one's leave.
        let is_all_out = self.leaves.written() >= length;
        Ok(Asked::Answered(answer, is_all_out.then_some(self)))
    }
}

/// What tells connections apart.
fn place(url: &Url) -> String {
    url[..url::Position::BeforePath].to_owned()
}

fn asking(method: Method, url: &Url) -> http::request::Builder {
    let host = &url[url::Position::BeforeHost..url::Position::AfterPort];
    let request = Request::builder()
        .method(method)
        .uri(&url[url::Position::BeforePath..url::Position::AfterQuery])
        .header(HOST, host)
        .header(USER_AGENT, WE);
    name_place(request)
}

fn request(url: &Url, media_type: HeaderValue, body: Bytes) -> io::Result<Request<Whole>> {
    asking(Method::POST, url)
        .header(CONTENT_TYPE, media_type)
        .header(CONTENT_LENGTH, body.len())
        .body(Whole(body))
        .map_err(io::Error::other)
}

async fn read(response: Response<Incoming>, answer_bytes: usize) -> io::Result<Answer> {
    let (head, mut incoming) = response.into_parts();
    let mut body = Vec::new();
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut incoming).poll_frame(cx)).await {
        let frame = frame.map_err(io::Error::other)?;
        let Ok(part) = frame.into_data() else {
            continue;
        };
        if body.len() + part.len() > answer_bytes {
            return Err(io::Error::other("the answer is too long"));
        }
        body.extend_from_slice(&part);
    }
    Ok(Answer {
        status: head.status.as_u16(),
        retry_after_s: retry_after_s(&head.headers),
        body,
    })
}

fn retry_after_s(headers: &HeaderMap) -> Option<u64> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok()
}

/// A body that is there at once.
struct Whole(Bytes);

impl http_body::Body for Whole {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.0.is_empty() {
            return Poll::Ready(None);
        }
        let bytes = std::mem::take(&mut self.0);
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

    const LENGTH: usize = 60_000;

    fn to_send() -> Request<Whole> {
        let url = Url::parse("http://localhost:1/in").unwrap();
        let envelope = vec![b'x'; LENGTH];
        let media_type = HeaderValue::from_static(MEDIA_TYPE);
        request(&url, media_type, envelope.into()).unwrap()
    }

    /// A connection whose other end has a narrow pipe.
    async fn narrow() -> (Connection, DuplexStream) {
        let (near, far) = duplex(1_000);
        (Connection::over(Box::new(near)).await.unwrap(), far)
    }

    // VX-RUN-1, VX-RUN-3
    #[tokio::test]
    async fn a_message_stops_in_the_middle_when_its_sender_is_suspended() {
        let (connection, mut far) = narrow().await;
        let (leave, suspend) = Leave::with_button();
        let attempt = tokio::spawn(async move {
            connection
                .ask(to_send(), &leave, ANSWER_BYTES)
                .await
                .is_ok()
        });
        let mut first = vec![0; 5_000];
        far.read_exact(&mut first).await.unwrap();
        suspend();
        // What was written before is in the pipe; nothing follows it, and the connection ends.
        let mut rest = Vec::new();
        far.read_to_end(&mut rest).await.unwrap();
        assert!(rest.len() <= 1_000, "{} more bytes", rest.len());
        assert!(!attempt.await.unwrap());
    }

    // VX-RUN-3
    #[tokio::test]
    async fn a_message_that_began_too_late_leaves_no_byte() {
        let (connection, mut far) = narrow().await;
        let (leave, suspend) = Leave::with_button();
        suspend();
        assert!(
            connection
                .ask(to_send(), &leave, ANSWER_BYTES)
                .await
                .is_err()
        );
        let mut all = Vec::new();
        far.read_to_end(&mut all).await.unwrap();
        assert_eq!(all, b"");
    }

    #[tokio::test]
    async fn a_connection_is_used_again_when_all_of_a_message_has_left_it() {
        let answer = b"HTTP/1.1 200 OK\r\nretry-after: 9\r\ncontent-length: 2\r\n\r\nok";
        let (connection, mut far) = narrow().await;
        let leave = Leave::always();
        let attempt =
            tokio::spawn(async move { connection.ask(to_send(), &leave, ANSWER_BYTES).await });
        let mut got = Vec::new();
        while got.len() < LENGTH || !got.ends_with(b"xxxx") {
            far.read_buf(&mut got).await.unwrap();
        }
        far.write_all(answer).await.unwrap();
        let Asked::Answered(said, Some(_)) = attempt.await.unwrap().unwrap() else {
            panic!("it was answered, and can be used again");
        };
        assert_eq!((said.status, said.retry_after_s), (200, Some(9)));
        assert_eq!(said.body, b"ok");

        // An answer that comes before all was asked ends the connection.
        let (connection, mut far) = narrow().await;
        let leave = Leave::always();
        let attempt =
            tokio::spawn(async move { connection.ask(to_send(), &leave, ANSWER_BYTES).await });
        far.read_exact(&mut [0; 100]).await.unwrap();
        far.write_all(answer).await.unwrap();
        let early = attempt.await.unwrap().unwrap();
        assert!(matches!(early, Asked::Answered(_, None)));
    }
}

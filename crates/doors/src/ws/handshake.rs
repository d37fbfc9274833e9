//! The upgrade from HTTP/1.1 to WebSocket, as both sides do it (RFC 6455 section 4).

use std::io;
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    AUTHORIZATION, CONNECTION, HOST, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY,
    SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};
use http_body::Frame;
use hyper::client::conn::http1;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use url::{Position, Url};

use super::STATUS_PROTOCOL;
use crate::outgoing_tls::{AnyStream, OutgoingTls};

/// How long the whole may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// What a request to upgrade says.
pub(crate) struct Asked {
    /// The value that proves that we read the request.
    pub(crate) accept: HeaderValue,
    /// Whether the other side speaks the status subprotocol.
    pub(crate) status: bool,
}

/// Why a request is no upgrade to WebSocket.
pub(crate) enum NotAsked {
    /// It is a plain request.
    Plain,
    /// It asks for something that is not spoken here.
    Wrong,
}

/// Reads a request to upgrade.
pub(crate) fn asked(method: &Method, headers: &HeaderMap) -> Result<Asked, NotAsked> {
    if !names(headers, &UPGRADE, "websocket") || !names(headers, &CONNECTION, "upgrade") {
        return Err(NotAsked::Plain);
    }
    let version = headers.get(SEC_WEBSOCKET_VERSION);
    let key = headers.get(SEC_WEBSOCKET_KEY).filter(|key| key.len() == 24);
    match (method, key, version) {
        (&Method::GET, Some(key), Some(version)) if version == "13" => {
            let accept = HeaderValue::from_str(&derive_accept_key(key.as_bytes()));
            Ok(Asked {
                accept: accept.map_err(|_| NotAsked::Wrong)?,
                status: names(headers, &SEC_WEBSOCKET_PROTOCOL, STATUS_PROTOCOL),
            })
        }
        _ => Err(NotAsked::Wrong),
    }
}

/// Whether a list in a header has this word.
pub(crate) fn names(headers: &HeaderMap, name: &HeaderName, word: &str) -> bool {
    let values = headers.get_all(name).iter();
    let mut words = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    words.any(|one| one.trim().eq_ignore_ascii_case(word))
}

/// What is asked for with an upgrade.
pub(crate) struct Upgrade<'a> {
    /// The subprotocol.
    pub(crate) protocol: &'static str,
    /// What lets us in, where something has to.
    pub(crate) authorization: Option<&'a HeaderValue>,
}

impl Upgrade<'_> {
    /// The value-context subprotocol, for which nobody is asked who he is.
    pub(crate) const VALUE_CONTEXT: Self = Self {
        protocol: STATUS_PROTOCOL,
        authorization: None,
    };
}

/// Connects to an address; says whether the other side speaks the subprotocol too (VX-WS-4).
pub(crate) async fn call(
    url: &Url,
    tls: &OutgoingTls,
    asked: &Upgrade<'_>,
) -> io::Result<(TokioIo<Upgraded>, bool)> {
    let late = || io::Error::new(io::ErrorKind::TimedOut, "the other side takes too long");
    tokio::time::timeout(TIMEOUT, connect(url, tls, asked))
        .await
        .unwrap_or_else(|_| Err(late()))
}

async fn connect(
    url: &Url,
    tls: &OutgoingTls,
    asked: &Upgrade<'_>,
) -> io::Result<(TokioIo<Upgraded>, bool)> {
    let stream = tls.reach(url).await?;
    let authority = &url[Position::BeforeHost..Position::AfterPort];
    let target = &url[Position::BeforePath..Position::AfterQuery];
    upgrade(stream, target, authority, asked).await
}

async fn upgrade(
    stream: AnyStream,
    path: &str,
    authority: &str,
    asked: &Upgrade<'_>,
) -> io::Result<(TokioIo<Upgraded>, bool)> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(io::Error::other)?;
    tokio::spawn(connection.with_upgrades());
    let key = generate_key();
    let mut request = Request::get(path);
    if let Some(authorization) = asked.authorization {
        request = request.header(AUTHORIZATION, authorization);
    }
    let request = request
        .header(HOST, authority)
        .header(CONNECTION, "Upgrade")
        .header(UPGRADE, "websocket")
        .header(SEC_WEBSOCKET_VERSION, "13")
        .header(SEC_WEBSOCKET_KEY, &key)
        .header(SEC_WEBSOCKET_PROTOCOL, asked.protocol)
        .body(NoBody)
        .map_err(io::Error::other)?;
    let response = sender
        .send_request(request)
        .await
        .map_err(io::Error::other)?;
    let accept = derive_accept_key(key.as_bytes());
    let headers = response.headers();
    let is_upgraded = response.status() == StatusCode::SWITCHING_PROTOCOLS
        && names(headers, &UPGRADE, "websocket")
        && headers
            .get(SEC_WEBSOCKET_ACCEPT)
            .is_some_and(|value| value.as_bytes() == accept.as_bytes());
    if !is_upgraded {
        let status = response.status();
        // Somebody has the place that was asked for.
        let kind = match status {
            StatusCode::CONFLICT => io::ErrorKind::AddrInUse,
            _ => io::ErrorKind::Other,
        };
        let told = format!("the other side answered {status}");
        return Err(io::Error::new(kind, told));
    }
    let status = names(headers, &SEC_WEBSOCKET_PROTOCOL, asked.protocol);
    let upgraded = hyper::upgrade::on(response)
        .await
        .map_err(io::Error::other)?;
    Ok((TokioIo::new(upgraded), status))
}

/// The body of a request that has none.
struct NoBody;

impl http_body::Body for NoBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        std::task::Poll::Ready(None)
    }

    fn is_end_stream(&self) -> bool {
        true
    }
}

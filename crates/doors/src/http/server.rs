//! The listener: where it may listen, how connections are served, how it stops.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use chancery_node::Office;
use chancery_node::trace::within;
use chancery_node::vacants::Vacants;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;
use tower_service::Service;

use super::connection::{Outgoing, UnderWay, Watch, Watched};
use super::door::{HttpDoor, Peer, Reload};
use super::incoming::Lingering;
use super::limits::HttpLimits;
use super::node_tools::{LogDesk, NodeTools};
use super::router::{self, Direct};
use super::tls::{TlsError, TlsKeeper, acceptor};
use super::{messages, recorder, vibe};
use crate::trace_headers::of_headers;
use crate::ws::{Switchboard, WsLimits};

/// Connections that the system holds until they are accepted.
const BACKLOG: u32 = 4_096;
/// The pause after a failed accept, mostly for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Bytes that one connection buffers for reading, and for writing.
const BUFFER_BYTES: usize = 16 << 10;

/// How the door is opened.
#[derive(Clone)]
pub struct ServeOptions {
    /// Where to listen; port 0 picks a free one.
    pub listen: SocketAddr,
    /// Who keeps the certificate and key, when TLS is spoken here.
    pub tls: Option<Arc<TlsKeeper>>,
    /// Whether something in front of this node speaks TLS.
    pub tls_terminated_upstream: bool,
    /// Whether anybody on this machine may do anything. Loopback only.
    pub dev: bool,
    /// The bounds.
    pub limits: HttpLimits,
    /// The bounds of WebSocket connections.
    pub ws_limits: WsLimits,
    /// Where open WebSocket connections are known, for whoever carries messages.
    pub switchboard: Arc<Switchboard>,
    /// Reads the files again, for `POST /admin/reload`.
    pub reload: Option<Reload>,
    /// The vacants of the node, where it has any.
    pub vacants: Option<Arc<Vacants>>,
    /// Checks the whole log, for the node's tools.
    pub log_desk: Option<Arc<dyn LogDesk>>,
}

impl ServeOptions {
    /// Plain HTTP with the default bounds.
    pub fn new(listen: SocketAddr) -> Self {
        Self {
            listen,
            tls: None,
            tls_terminated_upstream: false,
            dev: false,
            limits: HttpLimits::default(),
            ws_limits: WsLimits::default(),
            switchboard: Arc::default(),
            reload: None,
            vacants: None,
            log_desk: None,
        }
    }
}

/// Why the door was not opened.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Plain HTTP beyond this machine (CH-NET-2).
    #[error(
        "{0} can be reached from other machines and needs TLS: give a certificate and key, or say \
         tls_terminated_upstream = true when something in front of the node speaks TLS"
    )]
    NeedsTls(SocketAddr),
    /// `dev` beyond this machine.
    #[error(
        "dev = true lets anybody in, so it is for loopback only, and {0} can be reached from other machines"
    )]
    DevBeyondLoopback(SocketAddr),
    /// The address cannot be used.
    #[error("cannot listen on {0}: {1}")]
    Bind(SocketAddr, io::Error),
    /// The TLS identity cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// What the start line tells (CH-NET-1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listening {
    /// The address, with the port that was picked.
    pub address: SocketAddr,
    /// Whether acknowledged lines survive the process.
    pub durable: bool,
}

/// An open door.
pub struct Server {
    listening: Listening,
    door: Arc<HttpDoor>,
    accepting: JoinHandle<JoinSet<()>>,
}

/// Opens the door. When this returns it is served. Needs a tokio runtime.
pub fn serve(office: Arc<Office>, options: ServeOptions) -> Result<Server, ServeError> {
    let ServeOptions {
        listen,
        tls,
        tls_terminated_upstream,
        dev,
        limits,
        ws_limits,
        switchboard,
        reload,
        vacants,
        log_desk,
    } = options;
    let is_loopback = listen.ip().is_loopback();
    if dev && !is_loopback {
        return Err(ServeError::DevBeyondLoopback(listen));
    }
    if !is_loopback && tls.is_none() && !tls_terminated_upstream {
        return Err(ServeError::NeedsTls(listen));
    }
    let tls = tls.as_ref().map(acceptor).transpose()?;
    let failed = |error| ServeError::Bind(listen, error);
    let listener = bind(listen).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let durable = office.gate().store().is_durable();
    recorder::recorder();
    let door = Arc::new(HttpDoor::new(
        office,
        limits,
        (ws_limits, switchboard),
        dev,
        reload,
        vacants,
        log_desk,
    ));
    let hall = Arc::new(Hall {
        router: router::router(&door),
        door: Arc::clone(&door),
        tls,
    });
    let accepting = tokio::spawn(accept(hall, listener));
    Ok(Server {
        listening: Listening { address, durable },
        door,
        accepting,
    })
}

fn bind(listen: SocketAddr) -> io::Result<TcpListener> {
    let socket = match listen {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
    socket.bind(listen)?;
    socket.listen(BACKLOG)
}

impl Server {
    /// What the start line tells.
    pub fn listening(&self) -> Listening {
        self.listening
    }

    /// The node's tools for whoever started it.
    pub fn tools(&self) -> NodeTools {
        NodeTools::of_owner(&self.door)
    }

    /// Connections that are open.
    pub fn connections(&self) -> usize {
        self.door.connections.len()
    }

    /// The same paths, to be mounted in a larger application (VA-SRV-18). Its own listener bounds connections there,
    /// and says who may come without TLS.
    pub fn router(&self) -> Router {
        router::router(&self.door)
    }

    /// Closes the door: accepts nothing more, finishes requests under way, answers the rest "try again", and
    /// drops what is left after the limit. The node itself is stopped afterwards, by whoever started it.
    pub async fn stop(self) {
        let until = tokio::time::Instant::now() + self.door.limits.stop_timeout;
        self.door.stopping.send_replace(true);
        self.door.tasks.close();
        let Ok(mut connections) = self.accepting.await else {
            return;
        };
        let mut talks = self.door.talks.take();
        let finished = async {
            while connections.join_next().await.is_some() {}
            while talks.join_next().await.is_some() {}
        };
        if tokio::time::timeout_at(until, finished).await.is_err() {
            tracing::warn!(
                connections = connections.len(),
                "connections were dropped at the stop"
            );
            connections.shutdown().await;
            talks.shutdown().await;
        }
    }
}

/// What connections share.
struct Hall {
    router: Router,
    door: Arc<HttpDoor>,
    tls: Option<TlsAcceptor>,
}

async fn accept(hall: Arc<Hall>, listener: TcpListener) -> JoinSet<()> {
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = hall.door.stopped() => return connections,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                let _ = stream.set_nodelay(true);
                connections.spawn(attend(Arc::clone(&hall), stream, peer.ip()));
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                hall.door.connections.make_room();
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// Serves one connection to its end.
async fn attend(hall: Arc<Hall>, stream: TcpStream, peer: IpAddr) {
    let watch = Watch::new();
    let Some(_place) = hall.door.connections.enter(&watch) else {
        return;
    };
    match &hall.tls {
        None => serve_http1(&hall, stream, peer, watch).await,
        // Boxed: otherwise each plain connection would take the room of a handshake, five times its own.
        Some(tls) => Box::pin(attend_tls(&hall, tls, stream, peer, watch)).await,
    }
}

async fn attend_tls(
    hall: &Arc<Hall>,
    tls: &TlsAcceptor,
    stream: TcpStream,
    peer: IpAddr,
    watch: Arc<Watch>,
) {
    let handshake = tokio::time::timeout(hall.door.limits.header_timeout, tls.accept(stream));
    let Ok(Ok(stream)) = handshake.await else {
        return;
    };
    if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
        watch.speaks_http2();
        serve_http2(hall, stream, peer, watch).await;
    } else {
        serve_http1(hall, stream, peer, watch).await;
    }
}

async fn serve_http1<T>(hall: &Arc<Hall>, stream: T, peer: IpAddr, watch: Arc<Watch>)
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let limits = &hall.door.limits;
    let mut builder = http1::Builder::new();
    // Heads are timed by the watch, which tells a slow head from an idle connection.
    builder
        .header_read_timeout(None)
        .max_headers(limits.headers)
        .max_header_size(limits.header_bytes)
        .max_buf_size(BUFFER_BYTES);
    let io = TokioIo::new(Watched {
        stream,
        watch: Arc::clone(&watch),
    });
    let connection = builder
        .serve_connection(io, service(Arc::clone(hall), peer, Arc::clone(&watch)))
        .with_upgrades();
    see_through(&hall.door, &watch, connection, |connection| {
        connection.graceful_shutdown();
    })
    .await;
}

async fn serve_http2<T>(hall: &Arc<Hall>, stream: T, peer: IpAddr, watch: Arc<Watch>)
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let limits = &hall.door.limits;
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams)
        .max_header_list_size(u32::try_from(limits.header_bytes).unwrap_or(u32::MAX))
        .max_send_buf_size(BUFFER_BYTES)
        .initial_connection_window_size(256 << 10)
        .keep_alive_interval(limits.write_timeout)
        .keep_alive_timeout(limits.header_timeout);
    let io = TokioIo::new(Watched {
        stream,
        watch: Arc::clone(&watch),
    });
    let connection =
        builder.serve_connection(io, service(Arc::clone(hall), peer, Arc::clone(&watch)));
    see_through(&hall.door, &watch, connection, |connection| {
        connection.graceful_shutdown();
    })
    .await;
}

/// Drives a connection until it ends, has had its time, has to make room, or the door closes.
async fn see_through<C: Future>(
    door: &HttpDoor,
    watch: &Watch,
    connection: C,
    wind_down: impl Fn(Pin<&mut C>),
) {
    let mut connection = pin!(connection);
    let mut is_stopping = false;
    let mut alarm = pin!(tokio::time::sleep(door.limits.header_timeout));
    loop {
        tokio::select! {
            biased;
            _ = connection.as_mut() => return,
            () = watch.closed() => return,
            () = door.stopped(), if !is_stopping => {
                is_stopping = true;
                wind_down(connection.as_mut());
            }
            () = alarm.as_mut() => match next_look(watch, &door.limits) {
                Some(next) => alarm.as_mut().reset(next.into()),
                None => return,
            },
        }
    }
}

/// When to look at a connection again; none when it has had its time.
fn next_look(watch: &Watch, limits: &HttpLimits) -> Option<Instant> {
    let now = Instant::now();
    // A head may begin at any moment, so an idle connection is looked at often enough to time one.
    let soon = now + limits.header_timeout / 2;
    match watch.deadline(limits) {
        Some(deadline) if deadline <= now => None,
        Some(deadline) => Some(deadline.min(soon)),
        None => Some(soon),
    }
}

fn service(
    hall: Arc<Hall>,
    peer: IpAddr,
    watch: Arc<Watch>,
) -> impl hyper::service::Service<
    Request<Incoming>,
    Response = Response<Outgoing>,
    Error = Infallible,
    Future: Send + 'static,
> + Send {
    service_fn(move |request| {
        let under_way = watch.begin();
        let hall = Arc::clone(&hall);
        async move {
            // Where nobody collects spans nobody looks for them.
            let spans = hall.door.office.spans();
            let place = spans.and_then(|_| of_headers(request.headers()));
            let response = respond(&hall, peer, request, under_way);
            // Every connection has room for this future: only what is traced takes more, and elsewhere.
            Ok(match place {
                None => response.await,
                place => Box::pin(within(place, response)).await,
            })
        }
    })
}

async fn respond(
    hall: &Hall,
    peer: IpAddr,
    request: Request<Incoming>,
    under_way: UnderWay,
) -> Response<Outgoing> {
    let mut request = Lingering::in_request(request);
    if let Some(direct) = router::direct(request.method(), request.uri().path()) {
        let (parts, body) = request.into_parts();
        let reply = match direct {
            Direct::ValueContext => messages::receive(&hall.door, peer, &parts, body).await,
            // Boxed: every connection has room for this future, and this one is larger than the other.
            Direct::Vibe => Box::pin(vibe::receive::receive(&hall.door, &parts, body)).await,
        };
        return reply.map(|body| Outgoing::ours(body, under_way));
    }
    request.extensions_mut().insert(Peer(peer));
    let Ok(response) = hall.router.clone().call(request.map(Body::new)).await;
    response.map(|body| Outgoing::routed(body, under_way))
}

//! What every handler of the HTTP door shares.

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::Request;
use bytes::Bytes;
use chancery_node::Office;
use chancery_node::vacants::Vacants;
use chancery_store::StoreError;
use http::StatusCode;
use http::request::Parts;
use serde::de::DeserializeOwned;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;

use super::access::Access;
use super::body::{Bodies, BodyFault};
use super::connections::Connections;
use super::failures::Failures;
use super::limits::HttpLimits;
use super::node_tools::LogDesk;
use super::reply::{Reply, problem};
use crate::a2a::{TaskLimits, Tasks};
use crate::ws::{Switchboard, WsLimits};

/// How long a request waits until its token can be looked up.
const WAIT_FOR_A_PLACE: Duration = Duration::from_secs(1);

/// What a reload of the files came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reloaded {
    /// The files were read.
    Read {
        /// What is on record otherwise than before, and in how many lines.
        changed: Vec<(&'static str, usize)>,
        /// Keys of the configuration that are others now and count from the next start on.
        needs_restart: Vec<String>,
    },
    /// A file cannot be used, and why; the record is as before.
    Refused(String),
}

/// Reads the files again: the program's business.
pub type Reload = Arc<dyn Fn() -> Pin<Box<dyn Future<Output = Reloaded> + Send>> + Send + Sync>;

/// The door: the node behind it and the bounds before it.
pub(crate) struct HttpDoor {
    pub(crate) office: Arc<Office>,
    pub(crate) vacants: Option<Arc<Vacants>>,
    pub(crate) tasks: Arc<Tasks>,
    pub(crate) limits: HttpLimits,
    pub(crate) bodies: Bodies,
    pub(crate) failures: Failures,
    pub(crate) connections: Connections,
    pub(crate) watchers: Arc<Semaphore>,
    pub(crate) sockets: Arc<Semaphore>,
    pub(crate) talks: Talks,
    pub(crate) switchboard: Arc<Switchboard>,
    pub(crate) ws_limits: WsLimits,
    pub(crate) reads: Arc<Semaphore>,
    pub(crate) reload: Option<Reload>,
    pub(crate) log_desk: Option<Arc<dyn LogDesk>>,
    pub(crate) log_checks: Arc<Semaphore>,
    pub(crate) stopping: watch::Sender<bool>,
    dev: bool,
}

impl HttpDoor {
    pub(crate) fn new(
        office: Arc<Office>,
        limits: HttpLimits,
        (ws_limits, switchboard): (WsLimits, Arc<Switchboard>),
        dev: bool,
        reload: Option<Reload>,
        vacants: Option<Arc<Vacants>>,
        log_desk: Option<Arc<dyn LogDesk>>,
    ) -> Self {
        Self {
            office,
            vacants,
            tasks: Arc::new(Tasks::new(TaskLimits::default())),
            bodies: Bodies::new(limits.body_bytes, limits.body_timeout),
            failures: Failures::new(limits.failures_per_s, limits.failure_addresses),
            connections: Connections::new(limits.connections),
            watchers: Arc::new(Semaphore::new(limits.watchers)),
            sockets: Arc::new(Semaphore::new(ws_limits.connections)),
            talks: Talks::default(),
            switchboard,
            ws_limits,
            reads: Arc::new(Semaphore::new(limits.reads)),
            reload,
            log_desk,
            log_checks: Arc::new(Semaphore::new(1)),
            stopping: watch::Sender::new(false),
            limits,
            dev,
        }
    }

    /// Whether anybody on this machine may do anything.
    pub(crate) fn is_dev(&self) -> bool {
        self.dev
    }

    /// Whether the door takes no further requests.
    pub(crate) fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Returns once the door takes no further requests.
    pub(crate) async fn stopped(&self) {
        // The sender lives as long as the door: waiting cannot fail.
        let _ = self
            .stopping
            .subscribe()
            .wait_for(|stopping| *stopping)
            .await;
    }

    /// Asks the store, where it may wait for the disk.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&Office) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, Reply> {
        Ok(self.read_held(ask).await?.0)
    }

    /// The same, with the place among the reads under way: an answer of some size keeps it until it is sent.
    pub(crate) async fn read_held<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&Office) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<(T, OwnedSemaphorePermit), Reply> {
        let Ok(place) = Arc::clone(&self.reads).try_acquire_owned() else {
            return Err(busy());
        };
        self.read_in(place, ask).await
    }

    /// A place among the reads under way, waited for a moment: for what every request needs.
    pub(crate) async fn place_to_read(&self) -> Result<OwnedSemaphorePermit, Reply> {
        let place = Arc::clone(&self.reads).acquire_owned();
        match tokio::time::timeout(WAIT_FOR_A_PLACE, place).await {
            Ok(Ok(place)) => Ok(place),
            _ => Err(busy()),
        }
    }

    /// Reads in a place that was taken before.
    pub(crate) async fn read_in<T: Send + 'static>(
        &self,
        place: OwnedSemaphorePermit,
        ask: impl FnOnce(&Office) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<(T, OwnedSemaphorePermit), Reply> {
        let office = Arc::clone(&self.office);
        let asked = tokio::task::spawn_blocking(move || (ask(&office), place)).await;
        match asked {
            Ok((Ok(answer), place)) => Ok((answer, place)),
            Ok((Err(error), _)) => {
                tracing::error!(%error, "a read failed");
                Err(internal())
            }
            Err(_) => Err(internal()),
        }
    }
}

/// The WebSocket connections that are open here.
#[derive(Default)]
pub(crate) struct Talks(Mutex<JoinSet<()>>);

impl Talks {
    /// Begins one.
    pub(crate) fn spawn(&self, talk: impl Future<Output = ()> + Send + 'static) {
        let mut talks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while talks.try_join_next().is_some() {}
        talks.spawn(talk);
    }

    /// All of them, to wait for.
    pub(crate) fn take(&self) -> JoinSet<()> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// One call of a path.
pub(crate) struct Call {
    pub(crate) parts: Parts,
    pub(crate) body: axum::body::Body,
    pub(crate) params: Vec<(String, String)>,
    pub(crate) access: Access,
    pub(crate) peer: IpAddr,
}

/// The address a request came from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) IpAddr);

impl Call {
    pub(crate) fn new(request: Request, params: Vec<(String, String)>, access: Access) -> Self {
        let (parts, body) = request.into_parts();
        let peer = parts
            .extensions
            .get::<Peer>()
            .map_or(IpAddr::from([0, 0, 0, 0]), |peer| peer.0);
        Self {
            parts,
            body,
            params,
            access,
            peer,
        }
    }

    /// A part of the path, decoded.
    pub(crate) fn param(&self, name: &str) -> &str {
        let found = self.params.iter().find(|(param, _)| param == name);
        found.map_or("", |(_, value)| value.as_str())
    }

    /// The body of an administrative request as a value.
    pub(crate) async fn value<T: DeserializeOwned>(self, door: &HttpDoor) -> Result<T, Reply> {
        let limit = door.limits.admin_body_bytes;
        self.value_within(door, limit).await
    }

    /// The same with a bound of its own.
    pub(crate) async fn value_within<T: DeserializeOwned>(
        self,
        door: &HttpDoor,
        limit: usize,
    ) -> Result<T, Reply> {
        let bytes = read_body(door, &self.parts, self.body, limit).await?;
        serde_json::from_slice(&bytes).map_err(|error| {
            let place = format!("line {}, column {}", error.line(), error.column());
            let detail = match error.classify() {
                serde_json::error::Category::Data => {
                    format!("the body has not the members this path takes ({place})")
                }
                _ => format!("the body is not JSON ({place})"),
            };
            problem(StatusCode::BAD_REQUEST, &detail)
        })
    }
}

async fn read_body(
    door: &HttpDoor,
    parts: &Parts,
    body: axum::body::Body,
    limit: usize,
) -> Result<Bytes, Reply> {
    door.bodies
        .read(&parts.headers, body, limit)
        .await
        .map_err(|fault| match fault {
            BodyFault::TooLarge => problem(StatusCode::PAYLOAD_TOO_LARGE, "the body is too large"),
            BodyFault::Late => {
                problem(StatusCode::REQUEST_TIMEOUT, "the body did not come in time")
            }
            BodyFault::Full => busy(),
            BodyFault::Broken => problem(StatusCode::BAD_REQUEST, "the body broke off"),
        })
}

/// The answer at a bound.
pub(crate) fn busy() -> Reply {
    problem(
        StatusCode::SERVICE_UNAVAILABLE,
        "the node is busy; try again",
    )
}

/// The answer to what nothing here answers.
pub(crate) fn not_found() -> Reply {
    problem(StatusCode::NOT_FOUND, "there is nothing here")
}

/// The answer when the node itself is at fault.
pub(crate) fn internal() -> Reply {
    problem(
        StatusCode::INTERNAL_SERVER_ERROR,
        "the node could not answer",
    )
}

//! Brings value-context messages to agents elsewhere (VX sections 12.2 and 16).
//!
//! Guarantees: a message counts as delivered only when the other side says so about that very message; no redirect is
//! followed; nothing goes to another machine without TLS. Addresses come from configuration or from the agent's own name.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use chancery_core::delivery::{Delivery, Whisper};
use chancery_core::line::ProtocolName;
use chancery_node::{Attempt, Carried, Carrier, Leave};
use chancery_value_context::answer::MEDIA_TYPE;
use http_body::{Frame, SizeHint};
use reqwest::header::{CONTENT_TYPE, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Client, Response, StatusCode, Url};
use serde::Deserialize;

use crate::outgoing_tls::OutgoingTls;
use crate::routes::Routes;
use crate::ws::Switchboard;

/// The most of an answer that is read.
const ANSWER_BYTES: usize = 64 << 10;
/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest pause another node can ask for (VX-RTY-5).
const RETRY_AFTER_AT_MOST: Duration = Duration::from_secs(30);
/// Idle connections kept to one host.
const IDLE_PER_HOST: usize = 16;

/// Why there is no carrier.
#[derive(Debug, thiserror::Error)]
#[error("the HTTP client cannot be set up: {0}")]
pub struct CarrierError(String);

/// Carries over an open WebSocket connection where there is one, else over HTTP (VX-WS-10, VX-WS-11).
pub struct HttpCarrier {
    client: Client,
    routes: Arc<Routes>,
    switchboard: Arc<Switchboard>,
}

impl HttpCarrier {
    /// A carrier that knows these addresses, by agent, and trusts what the system trusts.
    pub fn new(addresses: BTreeMap<String, String>) -> Result<Self, CarrierError> {
        let tls = OutgoingTls::new(None).map_err(|error| CarrierError(error.to_string()))?;
        Self::with_tls(addresses, &tls)
    }

    /// The same with other trust.
    pub fn with_tls(
        addresses: BTreeMap<String, String>,
        tls: &OutgoingTls,
    ) -> Result<Self, CarrierError> {
        let client = Client::builder()
            .tls_backend_preconfigured(tls.config())
            .redirect(Policy::none())
            .no_proxy()
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_max_idle_per_host(IDLE_PER_HOST)
            .tcp_nodelay(true)
            .user_agent(concat!("chancery/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| CarrierError(error.to_string()))?;
        Ok(Self {
            client,
            routes: Arc::new(Routes::new(addresses)),
            switchboard: Arc::default(),
        })
    }

    /// Goes by these addresses from here on.
    pub fn set_addresses(&self, addresses: BTreeMap<String, String>) {
        self.routes.set(addresses);
    }

    /// The open connections that it carries over.
    pub fn switchboard(&self) -> &Arc<Switchboard> {
        &self.switchboard
    }
}

impl Carrier for HttpCarrier {
    fn carry(&self, delivery: Delivery, envelope: Bytes, leave: Leave) -> Attempt {
        if delivery.protocol == ProtocolName::Agh {
            return without_broker(&delivery);
        }
        let failed = Carried::Failed { at_least: None };
        if delivery.protocol != ProtocolName::ValueContext {
            return Box::pin(std::future::ready(failed));
        }
        let Some(id) = message_id(&envelope) else {
            return Box::pin(std::future::ready(Carried::Refused));
        };
        if let Some(line) = self.switchboard.find(&delivery.to) {
            return Box::pin(async move { line.carry(envelope, id, leave).await });
        }
        let Some(address) = self.routes.address_of(&delivery.to) else {
            return Box::pin(std::future::ready(failed));
        };
        if matches!(address.scheme(), "ws" | "wss") {
            let switchboard = Arc::clone(&self.switchboard);
            return Box::pin(async move {
                let line = switchboard.wait_for(&delivery.to).await;
                line.carry(envelope, id, leave).await
            });
        }
        let client = self.client.clone();
        Box::pin(async move { post(&client, address, envelope, &id, leave).await })
    }

    fn place(&self, delivery: &Delivery) -> Option<String> {
        match self.switchboard.find(&delivery.to) {
            Some(line) => Some(format!("connection {}", line.number)),
            None => self.routes.address_of(&delivery.to).map(String::from),
        }
    }

    /// Value-context has no soft messages.
    fn whisper(&self, _: Whisper) {}
}

/// Without a broker a channel has nobody else in it: what goes to everybody is there, what goes to one never will be.
fn without_broker(delivery: &Delivery) -> Attempt {
    let subject = delivery.to.split(' ').next().unwrap_or_default();
    let carried = if subject.ends_with(".broadcast") {
        Carried::Delivered
    } else {
        Carried::Refused
    };
    Box::pin(std::future::ready(carried))
}

/// A body that is handed out while its sender may send.
struct GuardedBody {
    bytes: Bytes,
    leave: Leave,
}

impl http_body::Body for GuardedBody {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if self.bytes.is_empty() {
            return Poll::Ready(None);
        }
        if !self.leave.is_given() {
            let withdrawn = std::io::Error::other("the sender is suspended");
            return Poll::Ready(Some(Err(withdrawn)));
        }
        let bytes = std::mem::take(&mut self.bytes);
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.len() as u64)
    }
}

async fn post(client: &Client, address: Url, envelope: Bytes, id: &str, leave: Leave) -> Carried {
    let body = GuardedBody {
        bytes: envelope,
        leave,
    };
    let request = client
        .post(address)
        .header(CONTENT_TYPE, MEDIA_TYPE)
        .body(reqwest::Body::wrap(body));
    match request.send().await {
        Ok(response) => read(response, id).await,
        Err(_) => Carried::Failed { at_least: None },
    }
}

#[derive(Deserialize)]
struct Identified {
    message_id: String,
}

fn message_id(envelope: &[u8]) -> Option<String> {
    serde_json::from_slice::<Identified>(envelope)
        .ok()
        .map(|envelope| envelope.message_id)
}

#[derive(Deserialize)]
struct Answered {
    status: String,
    message_id: Option<String>,
    error: Option<AnsweredError>,
}

#[derive(Deserialize)]
struct AnsweredError {
    #[serde(rename = "code")]
    _code: String,
    retryable: bool,
}

async fn read(response: Response, id: &str) -> Carried {
    let status = response.status();
    let at_least = retry_after(&response);
    let answered = body(response)
        .await
        .and_then(|body| serde_json::from_slice::<Answered>(&body).ok());
    judge(status, answered.as_ref(), id, at_least)
}

/// What an answer means for the message `id` (VX-RTY-3, VX-RTY-4).
fn judge(
    status: StatusCode,
    answered: Option<&Answered>,
    id: &str,
    at_least: Option<Duration>,
) -> Carried {
    let Some(answered) = answered else {
        return Carried::Failed { at_least };
    };
    let has_it = matches!(answered.status.as_str(), "accepted" | "duplicate");
    if status == StatusCode::OK && has_it && answered.message_id.as_deref() == Some(id) {
        return Carried::Delivered;
    }
    let is_error = status.is_client_error() || status.is_server_error();
    let is_final = answered
        .error
        .as_ref()
        .is_some_and(|error| !error.retryable);
    if is_error && answered.status == "rejected" && is_final {
        return Carried::Refused;
    }
    Carried::Failed { at_least }
}

fn retry_after(response: &Response) -> Option<Duration> {
    let seconds: u64 = response
        .headers()
        .get(RETRY_AFTER)?
        .to_str()
        .ok()?
        .parse()
        .ok()?;
    Some(Duration::from_secs(seconds).min(RETRY_AFTER_AT_MOST))
}

async fn body(mut response: Response) -> Option<Vec<u8>> {
    let mut whole = Vec::new();
    while let Some(part) = response.chunk().await.ok()? {
        if whole.len() + part.len() > ANSWER_BYTES {
            return None;
        }
        whole.extend_from_slice(&part);
    }
    Some(whole)
}

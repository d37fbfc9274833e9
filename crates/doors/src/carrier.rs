//! Brings value-context messages to agents elsewhere, over HTTP (VX section 12.2, VX-HTTP-5).
//!
//! Guarantees: a message counts as delivered only when the other side says so about that very message; no redirect is
//! followed; plain HTTP goes to this machine alone. Addresses come from configuration or from the agent's own name.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use chancery_core::delivery::{Delivery, Whisper};
use chancery_core::line::ProtocolName;
use chancery_node::{Attempt, Carried, Carrier};
use chancery_value_context::agent_id::AgentUri;
use chancery_value_context::answer::MEDIA_TYPE;
use reqwest::header::{CONTENT_TYPE, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Client, Response, StatusCode, Url};
use serde::Deserialize;

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

/// Carries over HTTP.
pub struct HttpCarrier {
    client: Client,
    addresses: Arc<RwLock<BTreeMap<String, String>>>,
}

impl HttpCarrier {
    /// A carrier that knows these addresses, by agent.
    pub fn new(addresses: BTreeMap<String, String>) -> Result<Self, CarrierError> {
        // Another part of the program may have chosen a provider already.
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let client = Client::builder()
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
            addresses: Arc::new(RwLock::new(addresses)),
        })
    }

    /// Goes by these addresses from here on.
    pub fn set_addresses(&self, addresses: BTreeMap<String, String>) {
        *self
            .addresses
            .write()
            .unwrap_or_else(PoisonError::into_inner) = addresses;
    }

    /// Where an agent is reached; none when there is no address, or none that may be used.
    fn address_of(&self, agent: &str) -> Option<Url> {
        let addresses = self
            .addresses
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let address = match addresses.get(agent) {
            Some(address) => address.clone(),
            None => AgentUri::parse(agent).ok()?.default_address(),
        };
        Url::parse(&address).ok().filter(may_be_used)
    }
}

/// HTTPS to anywhere; plain HTTP to this machine (VX-HTTP-5).
fn may_be_used(url: &Url) -> bool {
    let Some(host) = url.host_str() else {
        return false;
    };
    let bare = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host);
    let is_loopback = || {
        host == "localhost"
            || bare
                .parse::<IpAddr>()
                .is_ok_and(|address| address.is_loopback())
    };
    url.scheme() == "https" || url.scheme() == "http" && is_loopback()
}

impl Carrier for HttpCarrier {
    fn carry(&self, delivery: Delivery, envelope: Bytes) -> Attempt {
        let address = match delivery.protocol {
            ProtocolName::ValueContext => self.address_of(&delivery.to),
            ProtocolName::Agh => return without_broker(&delivery),
            _ => None,
        };
        let client = self.client.clone();
        Box::pin(async move {
            match address {
                Some(address) => post(&client, address, envelope).await,
                None => Carried::Failed { at_least: None },
            }
        })
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

async fn post(client: &Client, address: Url, envelope: Bytes) -> Carried {
    let Some(id) = message_id(&envelope) else {
        return Carried::Refused;
    };
    let request = client
        .post(address)
        .header(CONTENT_TYPE, MEDIA_TYPE)
        .body(envelope);
    match request.send().await {
        Ok(response) => read(response, &id).await,
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

#[cfg(test)]
mod tests {
    use super::*;

    // VX-HTTP-5
    #[test]
    fn plain_http_goes_to_this_machine_alone() {
        let used = |url: &str| Url::parse(url).is_ok_and(|url| may_be_used(&url));
        for url in [
            "https://a.example/x",
            "http://127.0.0.1:1/x",
            "http://[::1]:1/x",
            "http://localhost/x",
        ] {
            assert!(used(url), "{url}");
        }
        for url in [
            "http://a.example/x",
            "http://10.0.0.1/x",
            "ws://127.0.0.1/x",
            "http://localhost.evil/x",
        ] {
            assert!(!used(url), "{url}");
        }
    }

    // VX-AGT-5
    #[test]
    fn an_agent_without_an_address_is_reached_by_its_name() {
        let known = BTreeMap::from([("opaque".to_owned(), "https://a.example/in".to_owned())]);
        let carrier = HttpCarrier::new(known).unwrap();
        let address = |agent| carrier.address_of(agent).map(String::from);
        assert_eq!(address("opaque").as_deref(), Some("https://a.example/in"));
        let named = "https://home.example:8443/.well-known/vcp/messages";
        assert_eq!(
            address("agent://home.example:8443/kitchen").as_deref(),
            Some(named)
        );
        assert_eq!(address("another"), None);
    }
}

//! Brings value-context messages to agents elsewhere (VX sections 12.2 and 16), AGH envelopes to the broker, and calls to
//! vacants elsewhere.
//!
//! Guarantees: a message counts as delivered only when the other side says so about that very message; no redirect is
//! followed; nothing goes to another machine without TLS. Addresses come from configuration or from the agent's own name.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chancery_core::delivery::{Delivery, Whisper};
use chancery_core::line::ProtocolName;
use chancery_node::{Attempt, Carried, Carrier, Leave};
use chancery_value_context::attempts::{Answered, RETRY_AFTER_AT_MOST_MS, judge};
use serde::Deserialize;
use url::Url;

use crate::agh_ws::claim;
use crate::nats::Broker;
use crate::outgoing_http::Connections;
use crate::outgoing_tls::OutgoingTls;
use crate::routes::Routes;
use crate::vacants_abroad::VacantsAbroad;
use crate::ws::Switchboard;

/// Why there is no carrier.
#[derive(Debug, thiserror::Error)]
#[error("the HTTP client cannot be set up: {0}")]
pub struct CarrierError(String);

/// Carries over an open WebSocket connection where there is one, else over HTTP (VX-WS-10, VX-WS-11).
pub struct HttpCarrier {
    connections: Arc<Connections>,
    routes: Arc<Routes>,
    switchboard: Arc<Switchboard>,
    broker: Option<Arc<Broker>>,
    vacants: Option<Arc<VacantsAbroad>>,
}

impl HttpCarrier {
    /// A carrier that knows these addresses, by agent, and trusts what the system trusts.
    pub fn new(addresses: BTreeMap<String, String>) -> Result<Self, CarrierError> {
        let tls = OutgoingTls::new(None).map_err(|error| CarrierError(error.to_string()))?;
        Ok(Self::with_tls(addresses, &tls))
    }

    /// The same with other trust.
    pub fn with_tls(addresses: BTreeMap<String, String>, tls: &OutgoingTls) -> Self {
        Self {
            connections: Arc::new(Connections::new(tls.clone())),
            routes: Arc::new(Routes::new(addresses)),
            switchboard: Arc::default(),
            broker: None,
            vacants: None,
        }
    }

    /// The same, with a broker for AGH.
    pub fn with_broker(mut self, broker: Option<Arc<Broker>>) -> Self {
        self.broker = broker;
        self
    }

    /// The same, with a way to vacants elsewhere.
    pub fn with_vacants(mut self, vacants: Arc<VacantsAbroad>) -> Self {
        self.vacants = Some(vacants);
        self
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
            return match &self.broker {
                Some(broker) => broker.carry(&delivery, envelope, leave),
                None => without_broker(&delivery),
            };
        }
        let failed = Carried::Failed { at_least: None };
        if let (ProtocolName::Vacant, Some(vacants)) = (delivery.protocol, &self.vacants) {
            return vacants.carry(delivery, envelope, leave);
        }
        if delivery.protocol != ProtocolName::ValueContext {
            return Box::pin(std::future::ready(failed));
        }
        let Some(id) = message_id(&envelope) else {
            return Box::pin(std::future::ready(Carried::Refused));
        };
        if let Some(line) = self.switchboard.find(&delivery.to) {
            return Box::pin(async move { line.carry(envelope, id, leave).await });
        }
        if let Some(there) = self.switchboard.elsewhere.find(&delivery.to) {
            let elsewhere = Arc::clone(&self.switchboard.elsewhere);
            return Box::pin(async move { elsewhere.carry(there, delivery, envelope, id).await });
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
        let connections = Arc::clone(&self.connections);
        Box::pin(async move { post(&connections, &address, envelope, &id, &leave).await })
    }

    fn place(&self, delivery: &Delivery) -> Option<String> {
        if delivery.protocol == ProtocolName::Vacant {
            return None;
        }
        if let Some(line) = self.switchboard.find(&delivery.to) {
            return Some(format!("connection {}", line.number));
        }
        match self.switchboard.elsewhere.find(&delivery.to) {
            Some(there) => Some(format!("connection {} of {}", there.number, there.node)),
            None => self.routes.address_of(&delivery.to).map(String::from),
        }
    }

    /// Only AGH has soft messages.
    fn whisper(&self, whisper: Whisper) {
        let Whisper { to, bytes, .. } = &whisper;
        if self.switchboard.connected.tell(to, bytes.clone())
            || self.switchboard.elsewhere.whisper(&claim(to), to, bytes)
        {
            return;
        }
        if let Some(broker) = &self.broker {
            broker.whisper(whisper.to, whisper.bytes);
        }
    }
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

async fn post(
    connections: &Connections,
    address: &Url,
    envelope: Bytes,
    id: &str,
    leave: &Leave,
) -> Carried {
    let Ok(answer) = connections.post(address, envelope, leave).await else {
        return Carried::Failed { at_least: None };
    };
    match judge(answer.status, &answer.body, id) {
        Answered::Delivered => Carried::Delivered,
        Answered::Final => Carried::Refused,
        Answered::Again => Carried::Failed {
            at_least: answer.retry_after_s.map(asked_pause),
        },
    }
}

/// The pause that another node asks for, as far as it is listened to (VX-RTY-5).
pub(crate) fn asked_pause(seconds: u64) -> Duration {
    let longest = Duration::from_millis(u64::from(RETRY_AFTER_AT_MOST_MS));
    Duration::from_secs(seconds).min(longest)
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

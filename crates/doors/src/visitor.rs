//! The other side of AGH: a peer that no node hosts, through a broker or through a node's WebSocket door.
//!
//! Guarantees: it is heard and reachable from the moment it has joined; what it publishes counts as sent when the broker,
//! or the node, has taken it; over a broker it answers questions about itself, which a node does over its door.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use chancery_agh::peer::PeerRecord;
use chancery_agh::subject;
use futures_util::stream::{SelectAll, select_all};
use futures_util::{SinkExt as _, StreamExt as _};
use http::HeaderValue;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::time::Instant;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;
use url::Url;

use crate::agh_ws::{PATH, STATUS_PROTOCOL};
use crate::nats::{BrokerOptions, connect};
use crate::outgoing_tls::OutgoingTls;
use crate::ws::handshake::{Upgrade, call};

/// How long the broker or the node may take for one envelope (AG-NAT-7).
const TAKEN_WITHIN: Duration = Duration::from_secs(5);
/// How long the connection before, which has just ended, may take to leave: a node puts that on record first.
const LEFT_WITHIN: Duration = Duration::from_secs(2);
/// Between two attempts to have its place.
const PAUSE: Duration = Duration::from_millis(50);
/// Envelopes that are kept while an answer is waited for; beyond it the oldest goes (AG-DLV-1).
const HEARD: usize = 1_024;

/// A peer that is visiting.
pub struct Visitor {
    record: PeerRecord,
    way: Way,
    heard: VecDeque<Value>,
}

enum Way {
    Broker {
        client: async_nats::Client,
        subscribed: SelectAll<async_nats::Subscriber>,
    },
    Node(Box<WebSocketStream<TokioIo<Upgraded>>>),
}

/// What became of an envelope.
#[derive(Clone, Debug, PartialEq)]
pub enum Taken {
    /// The broker has it, and nobody says more.
    ByBroker,
    /// What the node says.
    Verdict(Value),
}

impl Visitor {
    /// Joins through a broker. It is not known to anybody until it greets.
    pub async fn through_broker(
        record: PeerRecord,
        options: &BrokerOptions,
        tls: &OutgoingTls,
    ) -> io::Result<Self> {
        let connection = connect(options, tls).await.map_err(io::Error::other)?;
        let client = connection.client;
        let workspace = record.workspace_id.as_deref();
        let mut subscribed = Vec::with_capacity(2);
        for subject in [
            subject::broadcast(workspace, &record.channel),
            subject::direct(workspace, &record.channel, &record.card.peer_id),
        ] {
            let subscription = client.subscribe(subject).await;
            subscribed.push(subscription.map_err(io::Error::other)?);
        }
        client.flush().await.map_err(io::Error::other)?;
        Ok(Self {
            record,
            way: Way::Broker {
                client,
                subscribed: select_all(subscribed),
            },
            heard: VecDeque::new(),
        })
    }

    /// Joins through a node's WebSocket door: the node greets for it and answers questions about it.
    pub async fn through_node(
        record: PeerRecord,
        base: &Url,
        authorization: Option<&HeaderValue>,
        tls: &OutgoingTls,
    ) -> io::Result<Self> {
        let mut url = base.join(PATH).map_err(io::Error::other)?;
        {
            let mut query = url.query_pairs_mut();
            query.append_pair("channel", &record.channel);
            query.append_pair("peer", &record.card.peer_id);
            if let Some(workspace) = &record.workspace_id {
                query.append_pair("workspace", workspace);
            }
        }
        let upgrade = Upgrade {
            protocol: STATUS_PROTOCOL,
            authorization,
        };
        let left_by = Instant::now() + LEFT_WITHIN;
        let (stream, status) = loop {
            match call(&url, tls, &upgrade).await {
                Err(error)
                    if error.kind() == io::ErrorKind::AddrInUse && Instant::now() < left_by =>
                {
                    tokio::time::sleep(PAUSE).await;
                }
                joined => break joined?,
            }
        };
        if !status {
            return Err(io::Error::other("the node does not answer frames"));
        }
        let socket = WebSocketStream::from_raw_socket(stream, Role::Client, None).await;
        Ok(Self {
            record,
            way: Way::Node(Box::new(socket)),
            heard: VecDeque::new(),
        })
    }

    /// Whether it goes through a node, which then speaks for it.
    pub fn is_spoken_for(&self) -> bool {
        matches!(self.way, Way::Node(_))
    }

    /// Publishes an envelope where it belongs, and waits until it is taken.
    pub async fn publish(&mut self, envelope: &Value) -> io::Result<Taken> {
        let published = tokio::time::timeout(TAKEN_WITHIN, self.hand_over(envelope)).await;
        published.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }

    async fn hand_over(&mut self, envelope: &Value) -> io::Result<Taken> {
        let bytes = Bytes::from(envelope.to_string());
        match &mut self.way {
            Way::Broker { client, .. } => {
                let workspace = self.record.workspace_id.as_deref();
                let to = envelope["to"].as_str();
                let subject = subject::of(workspace, &self.record.channel, to);
                let published = client.publish(subject, bytes).await;
                published.map_err(io::Error::other)?;
                client.flush().await.map_err(io::Error::other)?;
                Ok(Taken::ByBroker)
            }
            Way::Node(socket) => {
                let frame = Message::text(envelope.to_string());
                socket.send(frame).await.map_err(io::Error::other)?;
                loop {
                    let told = next_of(socket).await?;
                    if told.get("verdict").is_some() && told["id"] == envelope["id"] {
                        return Ok(Taken::Verdict(told));
                    }
                    keep(&mut self.heard, told);
                }
            }
        }
    }

    /// The next envelope that is heard until then; none when the time is over. Its own are not.
    pub async fn next(&mut self, until: Instant) -> io::Result<Option<Value>> {
        loop {
            if let Some(envelope) = self.heard.pop_front() {
                return Ok(Some(envelope));
            }
            let heard = match &mut self.way {
                Way::Broker { subscribed, .. } => {
                    match tokio::time::timeout_at(until, subscribed.next()).await {
                        Err(_) => return Ok(None),
                        Ok(None) => return Err(io::ErrorKind::ConnectionAborted.into()),
                        Ok(Some(message)) => serde_json::from_slice(&message.payload).ok(),
                    }
                }
                Way::Node(socket) => match tokio::time::timeout_at(until, next_of(socket)).await {
                    Err(_) => return Ok(None),
                    Ok(told) => Some(told?).filter(|told| told.get("verdict").is_none()),
                },
            };
            let Some(envelope) = heard else { continue };
            if envelope["from"] == *self.record.card.peer_id {
                continue;
            }
            return Ok(Some(envelope));
        }
    }

    /// Answers a question about itself, where nobody else does: gives the body of the answer.
    pub fn answer_to(&self, envelope: &Value) -> Option<Value> {
        let asks = envelope["kind"] == "whois" && envelope["body"]["type"] == "request";
        let is_asked = envelope["to"] == *self.record.card.peer_id
            || (envelope["to"].is_null()
                && self.record.card.matches(envelope["body"]["query"].as_str()));
        if !asks || !is_asked || self.is_spoken_for() {
            return None;
        }
        Some(json!({"type": "response", "peer_card": self.record.card}))
    }
}

/// The next text frame; Pings are answered meanwhile.
async fn next_of(socket: &mut WebSocketStream<TokioIo<Upgraded>>) -> io::Result<Value> {
    loop {
        match socket.next().await {
            Some(Ok(Message::Text(text))) => {
                return serde_json::from_str(text.as_str()).map_err(io::Error::other);
            }
            Some(Ok(Message::Close(reason))) => {
                let code = reason.map_or(1005, |reason| reason.code.into());
                return Err(io::Error::other(format!("the node closed with {code}")));
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(io::Error::other(error)),
            None => return Err(io::ErrorKind::ConnectionAborted.into()),
        }
    }
}

fn keep(heard: &mut VecDeque<Value>, envelope: Value) {
    if envelope.get("verdict").is_some() {
        return;
    }
    if heard.len() == HEARD {
        heard.pop_front();
    }
    heard.push_back(envelope);
}

//! One connection to the broker. It is never mended: when it is gone everything that waited in it goes with it, and
//! another one is made.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_nats::{Client, ConnectOptions, Event, ServerAddr, ServerError};
use bytes::Bytes;
use serde_json::Value;
use tokio::sync::watch;

use super::permissions::Permissions;
use crate::outgoing_tls::OutgoingTls;

/// How long making a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How often a silent broker is asked whether it is there; the second question without an answer ends the connection.
const PING_EVERY: Duration = Duration::from_secs(5);
/// Messages of one subscription that wait for their reader, which never waits itself.
const SUBSCRIPTION_CAPACITY: usize = 4_096;
/// How long the client library waits before it mends a connection by itself: long enough to be let go before.
const NOT_MENDED_WITHIN: Duration = Duration::from_millis(500);

/// Where a broker tells what an account may keep in streams.
const ACCOUNT: &str = "$JS.API.INFO";

/// What a broker is told to let this node in.
#[derive(Clone)]
pub enum Secret {
    /// A token.
    Token(String),
    /// A user and its password.
    User(String, String),
    /// The text of a credentials file.
    Credentials(String),
}

/// Never shown.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// Where the broker is, and how it is spoken with (AG-NAT-9).
#[derive(Clone, Debug)]
pub struct BrokerOptions {
    /// Its servers, as `nats://host:port` or `tls://host:port`.
    pub servers: Vec<String>,
    /// What lets this node in.
    pub secret: Option<Secret>,
    /// Whether a broker on another machine may be spoken with without TLS.
    pub plaintext: bool,
    /// Whether publications are kept in a stream, and hosted peers read from it (AG-NAT-10).
    pub jetstream: bool,
}

/// A connection and the sign that it is gone.
pub(crate) struct Connection {
    pub(crate) client: Client,
    pub(super) gone: watch::Receiver<bool>,
    pub(super) permissions: Arc<Permissions>,
}

/// Makes a connection.
pub(crate) async fn connect(
    options: &BrokerOptions,
    tls: &OutgoingTls,
) -> Result<Connection, String> {
    let mut servers = Vec::with_capacity(options.servers.len());
    for server in &options.servers {
        let address: ServerAddr = server.parse().map_err(|error| format!("{error}"))?;
        servers.push(address);
    }
    let elsewhere = servers.iter().any(|server| !is_this_machine(server.host()));
    let (tell, gone) = watch::channel(false);
    let permissions = Arc::new(Permissions::default());
    let of_events = Arc::clone(&permissions);
    let was_connected = Arc::new(AtomicBool::new(false));
    let of_delay = Arc::clone(&was_connected);
    let mut connecting = ConnectOptions::new()
        .name("chancery")
        .connection_timeout(CONNECT_TIMEOUT)
        .ping_interval(PING_EVERY)
        .subscription_capacity(SUBSCRIPTION_CAPACITY)
        .max_reconnects(servers.len())
        .ignore_discovered_servers()
        .require_tls(elsewhere && !options.plaintext)
        .tls_client_config(tls.config())
        .reconnect_delay_callback(move |_| {
            if of_delay.load(Ordering::Relaxed) {
                NOT_MENDED_WITHIN
            } else {
                Duration::ZERO
            }
        })
        .event_callback(move |event| {
            told(&event, &tell, &of_events);
            std::future::ready(())
        });
    connecting = match &options.secret {
        None => connecting,
        Some(Secret::Token(token)) => connecting.token(token.clone()),
        Some(Secret::User(user, password)) => {
            connecting.user_and_password(user.clone(), password.clone())
        }
        Some(Secret::Credentials(text)) => connecting
            .credentials(text)
            .map_err(|_| "the credentials file cannot be read".to_owned())?,
    };
    let client = connecting
        .connect(servers)
        .await
        .map_err(|error| error.to_string())?;
    was_connected.store(true, Ordering::Relaxed);
    Ok(Connection {
        client,
        gone,
        permissions,
    })
}

/// Whether a broker lets us in. The connection that shows it is closed again.
///
/// # Errors
/// Why not.
pub async fn reach(options: &BrokerOptions, tls: &OutgoingTls) -> Result<(), String> {
    let connection = connect(options, tls).await?;
    let flushed = connection.client.flush().await;
    flushed.map_err(|error| error.to_string())
}

/// The same, and whether it keeps streams: the bus and `agh.jetstream` need them.
///
/// # Errors
/// Why not.
pub async fn reach_streams(options: &BrokerOptions, tls: &OutgoingTls) -> Result<(), String> {
    let connection = connect(options, tls).await?;
    // Read by hand: what older brokers tell of an account is less than the client library wants to read.
    let asked = connection.client.request(ACCOUNT, Bytes::new()).await;
    let none = |why: &dyn fmt::Display| format!("it has no JetStream for this account: {why}");
    let told = asked.map_err(|error| none(&error))?;
    let told: Value = serde_json::from_slice(&told.payload).unwrap_or_default();
    match told["error"]["description"].as_str() {
        Some(why) => Err(none(&why)),
        None if told["limits"].is_null() && told["type"].is_null() => {
            Err(none(&"it does not say so"))
        }
        None => Ok(()),
    }
}

fn told(event: &Event, gone: &watch::Sender<bool>, permissions: &Permissions) {
    match event {
        Event::Disconnected | Event::Closed => {
            gone.send_replace(true);
        }
        Event::SlowConsumer(_) => {
            metrics::counter!("chancery_agh_nats_dropped_total", "why" => "slow").increment(1);
        }
        Event::ServerError(error) => {
            metrics::counter!("chancery_agh_nats_errors_total").increment(1);
            if let ServerError::Other(text) = error {
                permissions.told(text);
            }
            tracing::warn!(%error, "the broker says that something is wrong");
        }
        Event::LameDuckMode => tracing::info!("the broker is about to stop"),
        _ => {}
    }
}

fn is_this_machine(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost"
        || bare
            .parse::<IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_never_shown() {
        let options = BrokerOptions {
            servers: vec!["nats://127.0.0.1:4222".to_owned()],
            secret: Some(Secret::Token("s3cr3t".to_owned())),
            plaintext: false,
            jetstream: false,
        };
        assert!(!format!("{options:?}").contains("s3cr3t"));
    }

    #[test]
    fn this_machine_is_known_by_its_addresses() {
        for host in ["localhost", "127.0.0.1", "127.3.2.1", "[::1]", "::1"] {
            assert!(is_this_machine(host), "{host}");
        }
        for host in ["localhost.evil", "10.0.0.1", "broker.example"] {
            assert!(!is_this_machine(host), "{host}");
        }
    }
}

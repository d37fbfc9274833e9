//! The load generator: a process of its own, a fixed number of envelopes under way, every answer checked.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

use super::{PATH, PROTOCOL, UNDER_WAY};
use crate::helper::tell;
use crate::http::{Ask, Request, Told, read_requests, told};
use crate::measure::Latencies;

type Socket = WebSocketStream<TcpStream>;

/// One server under load.
struct Side {
    connections: Vec<Socket>,
    /// The next envelope: none is sent twice.
    next: Arc<AtomicUsize>,
    latencies: Latencies,
}

/// The helper: answers questions from its input until that ends.
pub(crate) fn help(requests: &Path) -> Result<()> {
    let requests = Arc::new(read_requests(requests)?);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut sides: Vec<Side> = Vec::new();
    for line in std::io::stdin().lines() {
        let told = match serde_json::from_str(&line?)? {
            Ask::Connect {
                to, connections, ..
            } => {
                sides.push(runtime.block_on(Side::connect(to, connections))?);
                Told::default()
            }
            Ask::Load { side, millis } => {
                let side = sides.get_mut(side).context("no such server")?;
                runtime.block_on(side.load(&requests, Duration::from_millis(millis)))?
            }
            Ask::Percentiles { side, .. } => {
                let times = &mut sides.get_mut(side).context("no such server")?.latencies;
                Told {
                    p50_ms: times.percentile_ms(0.5),
                    p99_ms: times.percentile_ms(0.99),
                    p999_ms: times.percentile_ms(0.999),
                    ..Told::default()
                }
            }
            Ask::Idle { .. } | Ask::Join { .. } => bail!("there is no such measurement here"),
        };
        tell(&told)?;
    }
    Ok(())
}

impl Side {
    async fn connect(to: SocketAddr, connections: usize) -> Result<Self> {
        let mut open = Vec::with_capacity(connections);
        for _ in 0..connections {
            let stream = TcpStream::connect(to).await?;
            stream.set_nodelay(true)?;
            let mut request = format!("ws://{to}{PATH}").into_client_request()?;
            let protocol = PROTOCOL.parse()?;
            request
                .headers_mut()
                .insert("sec-websocket-protocol", protocol);
            open.push(tokio_tungstenite::client_async(request, stream).await?.0);
        }
        Ok(Self {
            connections: open,
            next: Arc::default(),
            latencies: Latencies::default(),
        })
    }

    async fn load(&mut self, requests: &Arc<Vec<Request>>, span: Duration) -> Result<Told> {
        let start = Instant::now();
        let until = start + span;
        let tasks: Vec<_> = self
            .connections
            .drain(..)
            .map(|socket| {
                let (requests, next) = (requests.clone(), self.next.clone());
                tokio::spawn(async move { drive(socket, &requests, &next, until).await })
            })
            .collect();
        let mut answers = 0;
        for task in tasks {
            let (socket, times) = task.await??;
            answers += times.len() as u64;
            times.into_iter().for_each(|took| self.latencies.add(took));
            self.connections.push(socket);
        }
        told(answers, start)
    }
}

/// One connection at full speed until the time is over or no envelope is left, then until all are answered.
async fn drive(
    mut socket: Socket,
    requests: &[Request],
    next: &AtomicUsize,
    until: Instant,
) -> Result<(Socket, Vec<Duration>)> {
    let mut times = Vec::new();
    let mut under_way: HashMap<&[u8], Instant> = HashMap::with_capacity(UNDER_WAY);
    let mut goes_on = true;
    loop {
        goes_on &= Instant::now() < until;
        while goes_on && under_way.len() < UNDER_WAY {
            let Some(request) = requests.get(next.fetch_add(1, Ordering::Relaxed)) else {
                goes_on = false;
                break;
            };
            let text = std::str::from_utf8(&request.bytes)?;
            socket.feed(Message::text(text)).await?;
            under_way.insert(&request.answer, Instant::now());
        }
        socket.flush().await?;
        if under_way.is_empty() {
            return Ok((socket, times));
        }
        let mut answer = socket.next().await;
        loop {
            let Some(Ok(message)) = answer else {
                bail!("the server hung up");
            };
            if let Message::Text(text) = message {
                let sent = under_way.remove(text.as_bytes());
                ensure!(sent.is_some(), "an answer is wrong: {text}");
                times.extend(sent.map(|sent| sent.elapsed()));
            }
            // What has come already is taken before anything is sent.
            match socket.next().now_or_never() {
                Some(more) => answer = more,
                None => break,
            }
        }
    }
}

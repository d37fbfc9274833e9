//! The children: a process of its own that sends emergencies at a fixed pace and hears the acknowledgements.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use hashbrown::HashMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};

use crate::helper::tell;
use crate::http::{Request, local, read_requests};
use crate::measure::Latencies;

/// Connections that are open before they are needed.
const CONNECTIONS: usize = 64;
/// Whoever hears nothing for so long has failed.
const PATIENCE: Duration = Duration::from_secs(30);
/// The load begins a moment before the first emergency.
const BEFORE: Duration = Duration::from_millis(100);

/// Where acknowledgements are heard.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Listening {
    pub(crate) address: SocketAddr,
}

/// Send all emergencies within this time.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Probe {
    pub(crate) to: SocketAddr,
    /// Another node that the share goes to. It is held from the emergency's answer on, and no acknowledgement is waited for.
    pub(crate) then: Option<SocketAddr>,
    pub(crate) millis: u64,
}

/// What came of them.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Probed {
    pub(crate) samples: usize,
    pub(crate) elapsed_ns: u64,
    /// Until the acknowledgement was there.
    pub(crate) acknowledged: Option<Times>,
    /// Until the next share was refused.
    pub(crate) held: Times,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Times {
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
    pub(crate) p999_ms: f64,
    pub(crate) most_ms: f64,
}

impl Times {
    fn of(mut times: Latencies) -> Result<Self> {
        let mut part = |part| times.percentile_ms(part).context("no sample");
        Ok(Self {
            p50_ms: part(0.5)?,
            p99_ms: part(0.99)?,
            p999_ms: part(0.999)?,
            most_ms: part(1.0)?,
        })
    }
}

/// The helper: says where it listens, then answers one question.
pub(crate) fn help(probes: &Path) -> Result<()> {
    let probes = read_requests(probes)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(local()).await?;
        tell(&Listening {
            address: listener.local_addr()?,
        })?;
        let heard = Heard::default();
        tokio::spawn(hear_all(listener, heard.clone()));
        let mut line = String::new();
        std::io::stdin().read_line(&mut line)?;
        tell(&probe_all(probes, serde_json::from_str(&line)?, &heard).await?)
    })
}

/// Where the emergency goes, and where the share does.
struct Ways {
    emergency: TcpStream,
    share: Option<TcpStream>,
}

async fn probe_all(probes: Vec<Request>, asked: Probe, heard: &Heard) -> Result<Probed> {
    let (free, mut taken) = mpsc::channel(CONNECTIONS);
    for _ in 0..CONNECTIONS {
        let share = match asked.then {
            Some(then) => Some(connect(then).await?),
            None => None,
        };
        free.try_send(Ways {
            emergency: connect(asked.to).await?,
            share,
        })?;
    }
    let samples = probes.len();
    let pace = Duration::from_millis(asked.millis) / u32::try_from(samples.max(1))?;
    let begun = Instant::now() + BEFORE;
    let mut under_way = Vec::with_capacity(samples);
    for (number, probe) in probes.into_iter().enumerate() {
        let due = begun + pace * u32::try_from(number)?;
        tokio::time::sleep_until(due.into()).await;
        let mut ways = taken.recv().await.context("no connection")?;
        let (heard, free) = (heard.clone(), free.clone());
        under_way.push(tokio::spawn(async move {
            let sent = one(&mut ways, &probe, &heard).await?;
            // Nobody wants it any more after the last one.
            let _ = free.send(ways).await;
            anyhow::Ok(sent)
        }));
    }
    let (mut acknowledged, mut held) = (Latencies::default(), Latencies::default());
    for probe in under_way {
        let (to_acknowledged, to_held) = probe.await??;
        to_acknowledged
            .into_iter()
            .for_each(|time| acknowledged.add(time));
        held.add(to_held);
    }
    let elapsed_ns = u64::try_from(begun.elapsed().as_nanos())?;
    let acknowledged = match asked.then {
        Some(_) => None,
        None => Some(Times::of(acknowledged)?),
    };
    Ok(Probed {
        samples,
        elapsed_ns,
        acknowledged,
        held: Times::of(held)?,
    })
}

async fn connect(to: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect(to).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// One emergency and the next share of the same child: until it is acknowledged, and until the share is refused.
async fn one(
    ways: &mut Ways,
    probe: &Request,
    heard: &Heard,
) -> Result<(Option<Duration>, Duration)> {
    let (_, emergency) = body_of(&probe.bytes).context("an emergency is no request")?;
    let emergency: Value = serde_json::from_slice(emergency)?;
    let id = emergency["message_id"].as_str().context("no identifier")?;
    let begun = Instant::now();
    let answer = exchange(&mut ways.emergency, &probe.bytes).await?;
    ensure!(
        answer.starts_with("HTTP/1.1 200 "),
        "an emergency: {answer}"
    );
    let answered = Instant::now();
    let way = ways.share.as_mut().unwrap_or(&mut ways.emergency);
    let answer = exchange(way, &probe.answer).await?;
    ensure!(
        answer.starts_with("HTTP/1.1 423 "),
        "a share after it: {answer}"
    );
    if ways.share.is_some() {
        return Ok((None, answered.elapsed()));
    }
    let held = begun.elapsed();
    let at = tokio::time::timeout(PATIENCE, heard.at(id)).await;
    let at = at.context("an emergency was not acknowledged")?;
    Ok((Some(at.saturating_duration_since(begun)), held))
}

/// Sends a request and reads the whole answer.
async fn exchange(stream: &mut TcpStream, request: &[u8]) -> Result<String> {
    stream.write_all(request).await?;
    let mut answer = Vec::new();
    loop {
        ensure!(stream.read_buf(&mut answer).await? > 0, "the node hung up");
        if body_of(&answer).is_some() {
            return Ok(String::from_utf8_lossy(&answer).into_owned());
        }
    }
}

/// The length of a request or answer and its body, once it is whole.
fn body_of(message: &[u8]) -> Option<(usize, &[u8])> {
    let head = message.windows(4).position(|four| four == b"\r\n\r\n")?;
    let lines = std::str::from_utf8(&message[..head]).ok()?.split("\r\n");
    let length = lines.filter_map(|line| line.split_once(':'));
    let length = length
        .filter(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .find_map(|(_, value)| value.trim().parse::<usize>().ok())?;
    let end = head + 4 + length;
    Some((end, message.get(head + 4..end)?))
}

/// When each escalation was acknowledged.
#[derive(Clone, Default)]
struct Heard {
    at: Arc<Mutex<HashMap<String, Instant>>>,
    changed: watch::Sender<()>,
}

impl Heard {
    fn note(&self, id: &str) {
        let now = Instant::now();
        let mut at = self.at.lock().unwrap_or_else(PoisonError::into_inner);
        at.entry(id.to_owned()).or_insert(now);
        drop(at);
        self.changed.send_replace(());
    }

    async fn at(&self, id: &str) -> Instant {
        let mut changed = self.changed.subscribe();
        loop {
            if let Some(at) = self.known(id) {
                return at;
            }
            if changed.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    fn known(&self, id: &str) -> Option<Instant> {
        let at = self.at.lock().unwrap_or_else(PoisonError::into_inner);
        at.get(id).copied()
    }
}

async fn hear_all(listener: TcpListener, heard: Heard) {
    while let Ok((stream, _)) = listener.accept().await {
        let heard = heard.clone();
        // A connection that fails is missed by whoever waits for its acknowledgement.
        tokio::spawn(async move { hear(stream, &heard).await });
    }
}

async fn hear(mut stream: TcpStream, heard: &Heard) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut bytes = Vec::new();
    loop {
        if stream.read_buf(&mut bytes).await? == 0 {
            return Ok(());
        }
        while let Some((length, body)) = body_of(&bytes) {
            let envelope: Value = serde_json::from_slice(body)?;
            let reason = envelope["payload"]["reason"].as_str().unwrap_or_default();
            let Some(id) = reason.strip_prefix("ACK:").and_then(|rest| rest.get(..36)) else {
                bail!("this is no acknowledgement");
            };
            heard.note(id);
            let id = envelope["message_id"].as_str().unwrap_or_default();
            let body = format!(r#"{{"status":"accepted","message_id":"{id}"}}"#);
            let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length:";
            let answer = format!("{head} {}\r\n\r\n{body}", body.len());
            stream.write_all(answer.as_bytes()).await?;
            bytes.drain(..length);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_whole_when_its_length_is_there() {
        let whole = b"HTTP/1.1 423 Locked\r\nContent-Length: 3\r\nx: y\r\n\r\nabcHTTP";
        assert_eq!(body_of(whole), Some((whole.len() - 4, &b"abc"[..])));
        assert_eq!(body_of(&whole[..whole.len() - 5]), None);
        assert_eq!(body_of(b"HTTP/1.1 200 OK\r\n\r\n"), None);
    }
}

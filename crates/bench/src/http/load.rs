//! The load generator: a process of its own, plain sockets, prebuilt requests, every answer checked.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::helper::tell;
use crate::measure::Latencies;

/// The most bytes that an answer has.
const ANSWER_BYTES: usize = 16_384;
/// How an answer ends that only says that its request is on record.
const ACCEPTED: &[u8] = b"\"status\":\"accepted\"}";

/// What the load generator is asked.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Ask {
    /// Connect so many times to a server; its number is the order of these questions. So many requests belong together:
    /// one connection sends them in their order.
    Connect {
        to: SocketAddr,
        connections: usize,
        together: usize,
    },
    /// So many connections more for a side that has some, to another server that knows the same.
    Join {
        side: usize,
        to: SocketAddr,
        connections: usize,
    },
    /// All connections of a server at full speed.
    Load { side: usize, millis: u64 },
    /// So many requests over one connection, one at a time.
    Idle { side: usize, requests: usize },
    /// The percentiles of everything under load, or of the idle requests.
    Percentiles { side: usize, idle: bool },
}

/// What it answers.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Told {
    pub(crate) answers: u64,
    pub(crate) elapsed_ns: u64,
    pub(crate) p50_ms: Option<f64>,
    pub(crate) p99_ms: Option<f64>,
    pub(crate) p999_ms: Option<f64>,
    pub(crate) max_ms: Option<f64>,
}

/// One request and the answer it must get; none where any is right that says it is on record.
pub(crate) struct Request {
    pub(crate) bytes: Box<[u8]>,
    pub(crate) answer: Box<[u8]>,
}

/// Requests as a file: of each the lengths, then the bytes of request and answer.
pub(crate) fn write_request(out: &mut Vec<u8>, request: &[u8], answer: &[u8]) {
    for part in [request, answer] {
        out.extend_from_slice(&(part.len() as u64).to_be_bytes());
        out.extend_from_slice(part);
    }
}

pub(crate) fn read_requests(file: &Path) -> Result<Vec<Request>> {
    let bytes = std::fs::read(file)?;
    let mut rest = bytes.as_slice();
    let mut requests = Vec::new();
    while !rest.is_empty() {
        let mut part = || -> Result<Box<[u8]>> {
            let (len, after) = rest.split_first_chunk::<8>().context("a request is cut")?;
            let len = usize::try_from(u64::from_be_bytes(*len))?;
            ensure!(len <= after.len(), "a request is cut");
            let (part, after) = after.split_at(len);
            rest = after;
            Ok(part.into())
        };
        requests.push(Request {
            bytes: part()?,
            answer: part()?,
        });
    }
    Ok(requests)
}

/// One server under load.
struct Side {
    connections: Vec<TcpStream>,
    /// The next requests that belong together: none is sent twice.
    next: Arc<AtomicUsize>,
    together: usize,
    under_load: Latencies,
    idle: Latencies,
}

/// The helper: answers questions from its input until that ends.
pub(crate) fn help(requests: &Path) -> Result<()> {
    let requests = Arc::new(read_requests(requests)?);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut sides = Vec::new();
    for line in std::io::stdin().lines() {
        let ask: Ask = serde_json::from_str(&line?)?;
        tell(&runtime.block_on(answer(ask, &mut sides, &requests))?)?;
    }
    Ok(())
}

async fn answer(ask: Ask, sides: &mut Vec<Side>, requests: &Arc<Vec<Request>>) -> Result<Told> {
    match ask {
        Ask::Connect {
            to,
            connections,
            together,
        } => {
            sides.push(Side::connect(to, connections, together).await?);
            Ok(Told::default())
        }
        Ask::Join {
            side: n,
            to,
            connections,
        } => {
            side(sides, n)?
                .connections
                .extend(open(to, connections).await?);
            Ok(Told::default())
        }
        Ask::Load { side: n, millis } => {
            side(sides, n)?
                .load(requests, Duration::from_millis(millis))
                .await
        }
        Ask::Idle {
            side: n,
            requests: count,
        } => side(sides, n)?.idle(requests, count).await,
        Ask::Percentiles { side: n, idle } => {
            let side = side(sides, n)?;
            let times = if idle {
                &mut side.idle
            } else {
                &mut side.under_load
            };
            Ok(Told {
                p50_ms: times.percentile_ms(0.5),
                p99_ms: times.percentile_ms(0.99),
                p999_ms: times.percentile_ms(0.999),
                max_ms: times.percentile_ms(1.0),
                ..Told::default()
            })
        }
    }
}

fn side(sides: &mut [Side], number: usize) -> Result<&mut Side> {
    sides.get_mut(number).context("no such server")
}

async fn open(to: SocketAddr, connections: usize) -> Result<Vec<TcpStream>> {
    let mut open = Vec::with_capacity(connections);
    for _ in 0..connections {
        let stream = TcpStream::connect(to).await?;
        stream.set_nodelay(true)?;
        open.push(stream);
    }
    Ok(open)
}

impl Side {
    async fn connect(to: SocketAddr, connections: usize, together: usize) -> Result<Self> {
        Ok(Self {
            connections: open(to, connections).await?,
            next: Arc::default(),
            together,
            under_load: Latencies::default(),
            idle: Latencies::default(),
        })
    }

    async fn load(&mut self, requests: &Arc<Vec<Request>>, span: Duration) -> Result<Told> {
        let start = Instant::now();
        let until = start + span;
        let tasks: Vec<_> = self
            .connections
            .drain(..)
            .map(|stream| {
                let (requests, next) = (requests.clone(), self.next.clone());
                let together = self.together;
                tokio::spawn(async move { drive(stream, &requests, &next, together, until).await })
            })
            .collect();
        let mut answers = 0;
        for task in tasks {
            let (stream, times) = task.await??;
            answers += times.len() as u64;
            times.into_iter().for_each(|took| self.under_load.add(took));
            self.connections.push(stream);
        }
        told(answers, start)
    }

    async fn idle(&mut self, requests: &Arc<Vec<Request>>, count: usize) -> Result<Told> {
        let start = Instant::now();
        let stream = self.connections.first_mut().context("no connection")?;
        let mut buffer = Vec::with_capacity(ANSWER_BYTES);
        for _ in 0..count {
            let n = self.next.fetch_add(1, Ordering::Relaxed);
            let request = requests.get(n).context("there are not enough requests")?;
            let sent = Instant::now();
            exchange(stream, request, &mut buffer).await?;
            self.idle.add(sent.elapsed());
        }
        told(count as u64, start)
    }
}

pub(crate) fn told(answers: u64, start: Instant) -> Result<Told> {
    Ok(Told {
        answers,
        elapsed_ns: u64::try_from(start.elapsed().as_nanos())?,
        ..Told::default()
    })
}

/// One connection at full speed until the time is over or no request is left.
async fn drive(
    mut stream: TcpStream,
    requests: &[Request],
    next: &AtomicUsize,
    together: usize,
    until: Instant,
) -> Result<(TcpStream, Vec<Duration>)> {
    let mut times = Vec::new();
    let mut buffer = Vec::with_capacity(ANSWER_BYTES);
    let mut sent = Instant::now();
    while sent < until {
        let first = next.fetch_add(1, Ordering::Relaxed) * together;
        let Some(requests) = requests.get(first..first + together) else {
            break;
        };
        for request in requests {
            exchange(&mut stream, request, &mut buffer).await?;
            let now = Instant::now();
            times.push(now - sent);
            sent = now;
        }
    }
    Ok((stream, times))
}

async fn exchange(stream: &mut TcpStream, request: &Request, buffer: &mut Vec<u8>) -> Result<()> {
    stream.write_all(&request.bytes).await?;
    buffer.clear();
    loop {
        let read = stream.read_buf(buffer).await?;
        ensure!(read > 0, "the server hung up");
        ensure!(buffer.len() <= ANSWER_BYTES, "an answer is too long");
        if let Some(body) = body(buffer)? {
            let is_right = match request.answer.is_empty() {
                true => body.ends_with(ACCEPTED),
                false => body == &*request.answer,
            };
            if is_right {
                return Ok(());
            }
            bail!("an answer is wrong: {}", String::from_utf8_lossy(body));
        }
    }
}

/// The body of an answer with status 200, once it is whole.
pub(super) fn body(answer: &[u8]) -> Result<Option<&[u8]>> {
    let Some((status, body)) = whole(answer)? else {
        return Ok(None);
    };
    ensure!(
        status == b"200",
        "an answer is not 200: {}",
        String::from_utf8_lossy(answer)
    );
    Ok(Some(body))
}

/// The status and the body of an answer that has come whole.
pub(super) fn whole(answer: &[u8]) -> Result<Option<(&[u8], &[u8])>> {
    let Some(end) = answer.windows(4).position(|four| four == b"\r\n\r\n") else {
        return Ok(None);
    };
    let (head, body) = (&answer[..end], &answer[end + 4..]);
    let status = head.strip_prefix(b"HTTP/1.1 ");
    let status = status.and_then(|rest| rest.get(..3));
    let status = status.context("an answer is no HTTP")?;
    let length = std::str::from_utf8(head)?.split("\r\n").find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim())
    });
    let length: usize = length.context("an answer without a length")?.parse()?;
    ensure!(body.len() <= length, "an answer is longer than it says");
    Ok((body.len() == length).then_some((status, body)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_whole_when_its_length_is_there_and_must_be_200() {
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nx: y\r\n\r\nabc";
        assert_eq!(body(answer).unwrap(), Some(&b"abc"[..]));
        assert_eq!(body(&answer[..answer.len() - 1]).unwrap(), None);
        assert_eq!(body(b"HTTP/1.1 200 OK\r\nContent-").unwrap(), None);
        assert!(body(b"HTTP/1.1 200 OK\r\n\r\nabc").is_err());
        assert!(body(b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n").is_err());
    }

    #[test]
    fn requests_come_back_from_their_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut bytes = Vec::new();
        write_request(&mut bytes, b"question", b"answer");
        write_request(&mut bytes, b"", b"x");
        std::fs::write(file.path(), &bytes).unwrap();
        let requests = read_requests(file.path()).unwrap();
        assert_eq!(requests.len(), 2);
        assert_eq!(
            (&*requests[0].bytes, &*requests[0].answer),
            (&b"question"[..], &b"answer"[..])
        );
        std::fs::write(file.path(), &bytes[..bytes.len() - 1]).unwrap();
        assert!(read_requests(file.path()).is_err());
    }
}

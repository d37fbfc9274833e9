//! The callers: a process of its own, each with a key, a connection and a chain; every answer is verified.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use chancery_core::canonical::{Dialect, to_bytes};
use chancery_core::digest::hex;
use chancery_core::keys::ed25519::SigningKey;
use chancery_vacant::envelope::Draft;
use chancery_vacant::id::VacantId;
use chancery_vacant::payload::{Payload, Profile, Role};
use chancery_vacant::rules::chain::ReplayState;
use chancery_vacant::wire::{from_message, read_json, to_jsonrpc};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::super::load::{Ask, Told, body, told, whole};
use super::{NODE, PATH, SIGNATURE_HEADER, SIGNER_HEADER, key, shapes, target};
use crate::helper::tell;
use crate::measure::Latencies;
use crate::now;

/// The most bytes that an answer has.
const ANSWER_BYTES: usize = 16_384;

/// One server under load.
struct Side {
    callers: Vec<Caller>,
    latencies: Latencies,
}

/// Who calls, on a connection of its own.
struct Caller {
    stream: TcpStream,
    key: SigningKey,
    id: VacantId,
    target: VacantId,
    /// Whether the server is a node; else it is the bare one.
    is_node: bool,
    request: ReplayState,
    response: ReplayState,
    made: u64,
    buffer: Vec<u8>,
}

/// The helper: answers questions from its input until that ends.
pub(crate) fn help() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut sides: Vec<Side> = Vec::new();
    for line in std::io::stdin().lines() {
        let ask: Ask = serde_json::from_str(&line?)?;
        tell(&runtime.block_on(answer(ask, &mut sides))?)?;
    }
    Ok(())
}

async fn answer(ask: Ask, sides: &mut Vec<Side>) -> Result<Told> {
    match ask {
        Ask::Connect {
            to, connections, ..
        } => {
            let is_node = sides.len() == NODE;
            let mut callers = Vec::new();
            for number in 0..connections {
                callers.push(Caller::connect(to, number, is_node).await?);
            }
            sides.push(Side {
                callers,
                latencies: Latencies::default(),
            });
            Ok(Told::default())
        }
        Ask::Load { side, millis } => {
            let side = sides.get_mut(side).context("no such server")?;
            side.load(Duration::from_millis(millis)).await
        }
        Ask::Percentiles { side, .. } => {
            let side = sides.get_mut(side).context("no such server")?;
            Ok(Told {
                p50_ms: side.latencies.percentile_ms(0.5),
                p99_ms: side.latencies.percentile_ms(0.99),
                p999_ms: side.latencies.percentile_ms(0.999),
                ..Told::default()
            })
        }
        Ask::Join { .. } => anyhow::bail!("there is no such measurement here"),
        Ask::Idle { side, requests } => {
            let side = sides.get_mut(side).context("no such server")?;
            side.beside_large(requests).await
        }
    }
}

impl Side {
    async fn load(&mut self, span: Duration) -> Result<Told> {
        let start = Instant::now();
        let until = start + span;
        let tasks: Vec<_> = self
            .callers
            .drain(..)
            .map(|mut caller| {
                tokio::spawn(async move {
                    let mut times = Vec::new();
                    let mut sent = Instant::now();
                    while sent < until {
                        caller.call().await?;
                        let now = Instant::now();
                        times.push(now - sent);
                        sent = now;
                    }
                    anyhow::Ok((caller, times))
                })
            })
            .collect();
        let mut answers = 0;
        for task in tasks {
            let (caller, times) = task.await??;
            answers += times.len() as u64;
            times.into_iter().for_each(|took| self.latencies.add(took));
            self.callers.push(caller);
        }
        told(answers, start)
    }
}

impl Side {
    /// The calls of one pair, one at a time, while another connection sends large bodies that are refused.
    async fn beside_large(&mut self, calls: usize) -> Result<Told> {
        let [caller, other, ..] = self.callers.as_mut_slice() else {
            anyhow::bail!("there are two callers at least");
        };
        let mut times = Latencies::default();
        let calls = async {
            for _ in 0..calls {
                let sent = Instant::now();
                caller.call().await?;
                times.add(sent.elapsed());
            }
            anyhow::Ok(())
        };
        let bodies = shapes::bodies();
        let disturb = async {
            for body in bodies.iter().cycle() {
                other.post(body, "").await?;
                other.refused().await?;
            }
            anyhow::Ok(())
        };
        tokio::select! {
            called = calls => called?,
            ended = disturb => ended?,
        }
        Ok(Told {
            p50_ms: times.percentile_ms(0.5),
            p99_ms: times.percentile_ms(0.99),
            ..Told::default()
        })
    }
}

impl Caller {
    async fn connect(to: SocketAddr, number: usize, is_node: bool) -> Result<Self> {
        let stream = TcpStream::connect(to).await?;
        stream.set_nodelay(true)?;
        let key = key(&format!("caller {number}"));
        Ok(Self {
            stream,
            id: VacantId::of(&key),
            key,
            target: VacantId::of(&target()),
            is_node,
            request: ReplayState::default(),
            response: ReplayState::default(),
            made: 0,
            buffer: Vec::with_capacity(ANSWER_BYTES),
        })
    }

    /// One call: signed, answered, and the answer verified.
    async fn call(&mut self) -> Result<()> {
        self.made += 1;
        let body = self.body()?;
        let signed = match self.is_node {
            true => String::new(),
            false => format!(
                "{SIGNER_HEADER}: {}\r\n{SIGNATURE_HEADER}: {}\r\n",
                self.id.hex(),
                hex::encode(&self.key.sign(&body))
            ),
        };
        self.post(&body, &signed).await?;
        let answer = self.answer().await?;
        match self.is_node {
            true => self.check(&answer),
            false => self.check_bare(&answer, &body),
        }
    }

    /// Sends a body, with what else its head has to say.
    async fn post(&mut self, body: &[u8], headers: &str) -> Result<()> {
        let head = format!(
            "POST {PATH} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n{headers}\r\n",
            body.len()
        );
        Ok(self
            .stream
            .write_all(&[head.as_bytes(), body].concat())
            .await?)
    }

    /// A call: for the bare server in the same form without the signature, which stands in a header.
    fn body(&mut self) -> Result<Vec<u8>> {
        let draft = Draft {
            from: self.id,
            to: self.target,
            payload: Payload::text(Role::User, "what is the weather like?"),
            sequence_no: self.request.last_sequence_no + 1,
            prev: self.request.chain_tip,
            timestamp: now(),
            idempotency_key: format!("{:036}", self.made),
            profile: Profile::Base,
        };
        let envelope = match self.is_node {
            true => draft.sign(&self.key)?,
            false => draft.unsigned(),
        };
        self.request
            .check_and_advance(&envelope, envelope.hash(Profile::Base))?;
        let body = to_jsonrpc(&envelope, Profile::Base);
        Ok(to_bytes(&body.into(), Dialect::Python))
    }

    async fn answer(&mut self) -> Result<Vec<u8>> {
        self.buffer.clear();
        loop {
            let read = self.stream.read_buf(&mut self.buffer).await?;
            ensure!(read > 0, "the server hung up");
            ensure!(self.buffer.len() <= ANSWER_BYTES, "an answer is too long");
            if let Some(body) = body(&self.buffer)? {
                return Ok(body.to_vec());
            }
        }
    }

    /// Reads an answer that is a refusal.
    async fn refused(&mut self) -> Result<()> {
        self.buffer.clear();
        loop {
            let read = self.stream.read_buf(&mut self.buffer).await?;
            ensure!(read > 0, "the server hung up");
            if let Some((status, _)) = whole(&self.buffer)? {
                ensure!(status.starts_with(b"4"), "a body was not refused");
                return Ok(());
            }
        }
    }

    fn check(&mut self, answer: &[u8]) -> Result<()> {
        let value = read_json(answer, ANSWER_BYTES)?;
        let message = value.get("result").and_then(|result| result.get("message"));
        let envelope = from_message(message.context("an answer has no message")?)?;
        let verified = envelope.verify_under(&self.target)?;
        ensure!(envelope.to == self.id, "an answer is for another caller");
        Ok(self.response.check_and_advance(&envelope, verified.hash)?)
    }

    fn check_bare(&self, answer: &[u8], sent: &[u8]) -> Result<()> {
        let (signature, echo) = answer.split_at_checked(128).context("an answer is short")?;
        let signature = hex::decode(std::str::from_utf8(signature)?)?;
        ensure!(echo == sent, "an answer is no echo");
        let is_signed = self.target.verifies(echo, &signature);
        ensure!(is_signed, "an answer does not verify");
        Ok(())
    }
}

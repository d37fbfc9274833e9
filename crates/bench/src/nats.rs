//! `bench nats`: AGH envelopes through a real NATS server into inboxes on a durable log, against bare publishing and
//! receiving of the same bytes on the same server.
//!
//! An envelope counts when its line is durable. At the end every inbox is asked whether it has got all of them.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use async_nats::Client;
use bytes::Bytes;
use chancery_agh::peer::{PeerRecord, inbox};
use chancery_agh::subject;
use chancery_agh::whois::Catalog;
use chancery_doors::nats::{Broker, BrokerOptions, NatsDoor};
use chancery_doors::{HttpCarrier, OutgoingTls};
use chancery_node::suite::AllSettings;
use chancery_node::{Office, Vault};
use chancery_store::{Embedded, Store as _};
use futures_util::StreamExt as _;
use serde_json::json;

use crate::measure::{Latencies, Race, micros_each, peak_rss_bytes, process_cpu};
use crate::node::start_node_with;
use crate::now;
use crate::report::Report;
use crate::store::open;

/// Channels, each with one hosted peer.
const CHANNELS: usize = 16;
/// Senders, so that none is over its rate.
const SENDERS: usize = 64;
/// Envelopes of one slice.
const SLICE: usize = 10_000;
/// Envelopes that are on their way at once: less than a broker or a node would drop.
const UNDER_WAY: u64 = 4_096;

/// Measures for about `duration`, half of it each side.
pub(crate) fn run(dir: &Path, duration: Duration) -> Result<Report> {
    let dir = tempfile::tempdir_in(dir)?;
    let server = Server::start()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let report = runtime.block_on(measure(dir.path(), &server.url, duration));
    runtime.shutdown_timeout(Duration::from_secs(1));
    report
}

async fn measure(dir: &Path, url: &str, duration: Duration) -> Result<Report> {
    let (store, house) = House::open(dir, url).await?;
    let publisher = async_nats::connect(url).await?;
    let bare = Bare::listen(url).await?;
    let mut race = Race::default();
    let mut latencies = Latencies::default();
    let mut cpu = Duration::ZERO;
    let mut number = 0;
    let started = Instant::now();
    while number == 0 || started.elapsed() < duration {
        let envelopes: Vec<Bytes> = (number..number + SLICE).map(envelope).collect();
        let from = bare.received.load(Ordering::Relaxed);
        let arrived = || bare.received.load(Ordering::Relaxed) - from;
        let limit = publish(&publisher, "bench", &envelopes, &arrived, None).await?;
        let first = store.head().seq;
        let durable = || store.head().seq - first;
        let cpu_before = process_cpu()?;
        let build = publish(
            &publisher,
            subject::PREFIX,
            &envelopes,
            &durable,
            Some(&mut latencies),
        );
        let build = build.await?;
        cpu += process_cpu()?.saturating_sub(cpu_before);
        race.round(SLICE as u64, build, limit);
        number += SLICE;
    }
    house.check(number)?;
    house.close().await?;
    let mut report = Report {
        bench: "nats".to_owned(),
        protocol: Some("agh".to_owned()),
        store: Some("embedded".to_owned()),
        limit: "bare publishing and receiving of the same bytes on the same server".to_owned(),
        cpu_us_per_envelope: micros_each(cpu, race.build_count()),
        peak_rss_bytes: Some(peak_rss_bytes()?),
        ..Report::default()
    };
    latencies.tell(&mut report);
    race.tell(&mut report);
    report.note(format!(
        "{} bytes an envelope; times are from publishing to durable, {UNDER_WAY} under way",
        envelope(0).len()
    ));
    report.note("processor time holds the publisher's");
    Ok(report)
}

/// Publishes, with a bounded number under way, until `arrived` tells that all are there.
async fn publish(
    client: &Client,
    prefix: &str,
    envelopes: &[Bytes],
    arrived: &(dyn Fn() -> u64 + Sync),
    mut latencies: Option<&mut Latencies>,
) -> Result<Duration> {
    let subjects: Vec<String> = (0..CHANNELS)
        .map(|channel| {
            let subject = subject::broadcast(None, &channel_name(channel));
            subject.replacen(subject::PREFIX, prefix, 1)
        })
        .collect();
    let started = Instant::now();
    let mut sent_at = Vec::with_capacity(envelopes.len());
    let mut there = 0;
    while there < envelopes.len() {
        while sent_at.len() < envelopes.len() && (sent_at.len() - there) < UNDER_WAY as usize {
            let next = sent_at.len();
            let subject = subjects[next % CHANNELS].clone();
            sent_at.push(Instant::now());
            client.publish(subject, envelopes[next].clone()).await?;
        }
        ensure!(
            started.elapsed() < Duration::from_secs(60),
            "after a minute {there} of {} envelopes have arrived",
            envelopes.len()
        );
        let now_there = usize::try_from(arrived())?.min(envelopes.len());
        if now_there == there {
            tokio::time::sleep(Duration::from_micros(100)).await;
        }
        let now = Instant::now();
        if let Some(latencies) = &mut latencies {
            sent_at[there..now_there]
                .iter()
                .for_each(|at| latencies.add(now - *at));
        }
        there = now_there;
    }
    Ok(started.elapsed())
}

/// A node with its peers on the broker.
struct House {
    office: Arc<Office>,
    door: NatsDoor,
}

impl House {
    async fn open(dir: &Path, url: &str) -> Result<(Arc<Embedded>, Self)> {
        let store = open(&dir.join("data"), None)?;
        let store = Arc::new(store);
        let broker: Arc<Broker> = Arc::default();
        let tls = OutgoingTls::new(None)?;
        let carrier = HttpCarrier::with_tls(Default::default(), &tls);
        let carrier = Arc::new(carrier.with_broker(Some(Arc::clone(&broker))));
        let vault = Arc::new(Vault::new());
        let office = Arc::new(start_node_with(store.clone(), vault, carrier)?);
        office.reconcile_settings(&AllSettings::default()).await?;
        let peers: Vec<PeerRecord> = (0..CHANNELS).map(hosted).collect();
        office.reconcile_peers(&peers).await?;
        let options = BrokerOptions {
            servers: vec![url.to_owned()],
            secret: None,
            plaintext: false,
            jetstream: false,
        };
        // It has joined when it greets.
        let heard = async_nats::connect(url).await?;
        let mut heard = heard
            .subscribe(subject::broadcast(None, &channel_name(0)))
            .await?;
        let door = NatsDoor::open(Arc::clone(&office), broker, options, tls);
        let greeted = tokio::time::timeout(Duration::from_secs(20), heard.next()).await;
        greeted.context("the node did not greet")?;
        Ok((store, Self { office, door }))
    }

    /// Whether the inboxes have got all envelopes.
    fn check(&self, count: usize) -> Result<()> {
        let mut there = 0;
        for channel in 0..CHANNELS {
            let name = inbox(None, &channel_name(channel), PEER);
            there += self.office.inboxes().depth(&name)?;
        }
        ensure!(
            there == count as u64,
            "of {count} envelopes {there} are in an inbox"
        );
        Ok(())
    }

    async fn close(self) -> Result<()> {
        self.door.stop().await;
        self.office.stop().await?;
        Ok(())
    }
}

/// Receives and counts.
struct Bare {
    received: Arc<AtomicU64>,
}

impl Bare {
    async fn listen(url: &str) -> Result<Self> {
        let client = async_nats::connect(url).await?;
        let received: Arc<AtomicU64> = Arc::default();
        for channel in 0..CHANNELS {
            let subject = subject::broadcast(None, &channel_name(channel));
            let subject = subject.replacen(subject::PREFIX, "bench", 1);
            let mut heard = client.subscribe(subject).await?;
            let received = Arc::clone(&received);
            tokio::spawn(async move {
                while heard.next().await.is_some() {
                    received.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        client.flush().await?;
        Ok(Self { received })
    }
}

const PEER: &str = "patch-worker.session-19";

fn channel_name(number: usize) -> String {
    format!("builders-{number}")
}

fn hosted(channel: usize) -> PeerRecord {
    PeerRecord::new(
        PEER,
        &channel_name(channel),
        None,
        None,
        Vec::new(),
        Catalog::default(),
    )
}

/// Something said in a channel.
fn envelope(number: usize) -> Bytes {
    let envelope = json!({
        "protocol": "agh-network/v0",
        "id": format!("msg_01jz8f6m6x4f4s8e9b2c{number:08}"),
        "kind": "say",
        "channel": channel_name(number % CHANNELS),
        "from": format!("ops-coordinator.session-{}", number % SENDERS),
        "to": null,
        "trace_id": "trace_release_20260416",
        "ts": now().unix_seconds(),
        "body": {
            "text": "The migration smoke test against the staging branch has passed; two warnings are left.",
            "intent": "inform",
            "artifacts": [{"type": "git-ref", "repo": "github.com/acme/app", "ref": "refs/heads/staging"}],
        },
        "proof": null,
        "ext": {"acme.priority": "high"},
    });
    envelope.to_string().into()
}

/// A NATS server of this benchmark's own.
struct Server {
    url: String,
    child: Child,
}

impl Server {
    fn start() -> Result<Self> {
        let program = program().context("there is no nats-server in PATH")?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut child = Command::new(program)
            .args(["-a", "127.0.0.1", "-p", &port.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        let told = child.stderr.take().context("its messages are piped")?;
        let mut server = Self {
            url: format!("nats://127.0.0.1:{port}"),
            child,
        };
        let mut told = BufReader::new(told);
        let mut said = String::new();
        while !said.contains("Server is ready") {
            ensure!(
                told.read_line(&mut said)? > 0,
                "nats-server has ended: {said}"
            );
        }
        std::thread::spawn(move || std::io::copy(&mut told, &mut std::io::sink()));
        ensure!(server.child.try_wait()?.is_none(), "nats-server has ended");
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into()]);
    let mut programs = folders.map(|folder| folder.join("nats-server"));
    programs.find(|program| program.is_file())
}

//! `bench http`: durable answers over 256 connections, and one at a time, against a bare server.

mod bare;
mod load;
mod search;
mod vacant;
mod vibe;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use chancery_doors::http::Server;
use chancery_node::Office;
use chancery_store::{Embedded, Store};
use chancery_value_context::answer::accepted;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

pub(crate) use self::bare::{Expected, Line, grouped_writer};
pub(crate) use self::load::{Ask, Request, Told, read_requests, told, write_request};
use crate::helper::Helper;
use crate::host::Host;
use crate::measure::{Latencies, Race, micros_each, peak_rss_bytes, process_cpu, timed};
use crate::node::{serve_node, start_node};
use crate::now;
use crate::pipeline::Check;
use crate::report::Report;
use crate::store::{AGENTS, BareLog, Maker, SENDERS, open};
use crate::traffic::{Envelope, FEW_AGENTS_EACH, World};

pub(crate) use load::help;
pub(crate) use search::run as run_search;
pub(crate) use vacant::{help as help_vacant, run as run_vacant};
pub(crate) use vibe::run as run_vibe;

const PATH: &str = "/.well-known/vcp/messages";
/// Tells the bare server which signature to check; the node does not look at it.
const CHECK_HEADER: &str = "x-check";
pub(crate) const CONNECTIONS: usize = 256;
/// Turns of each side.
const SLICES: u32 = 10;
/// More requests than one side answers in a second.
pub(crate) const REQUESTS_A_SECOND: f64 = 40_000.0;
/// Requests one at a time, in all.
const IDLE_REQUESTS: usize = 500;
/// What an idle answer may take beyond two syncs.
const IDLE_ALLOWANCE_MS: f64 = 0.2;
const NODE: usize = 0;
const BARE: usize = 1;

/// Both servers and the load generator.
struct Bench {
    runtime: Runtime,
    store: Arc<Embedded>,
    office: Arc<Office>,
    door: Server,
    load: Helper,
    idle_log: BareLog,
    line: Vec<u8>,
}

/// Measures for about `duration`, half of it each side.
pub(crate) fn run(dir: &Path, lead: &[String], duration: Duration) -> Result<Vec<Report>> {
    let dir = tempfile::tempdir_in(dir)?;
    let mut bench = Bench::start(dir.path(), lead, duration)?;
    let under_load = bench.under_load(duration / 2 / SLICES)?;
    let idle = bench.idle()?;
    bench.stop()?;
    Ok(vec![under_load, idle])
}

impl Bench {
    fn start(dir: &Path, lead: &[String], duration: Duration) -> Result<Self> {
        let world = World::new(SENDERS, AGENTS, FEW_AGENTS_EACH)?;
        let (host, _) = Host::new(&world)?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()?;
        let store = Arc::new(open(&dir.join("data"), None)?);
        store.commit(Maker::new(FEW_AGENTS_EACH)?.1)?;
        let count = (duration.as_secs_f64() / 2.0 * REQUESTS_A_SECOND) as usize + 2 * IDLE_REQUESTS;
        let envelopes = world.signed_many(0, count, now());
        let requests = dir.join("requests");
        std::fs::write(&requests, requests_of(&envelopes))?;
        let expected = envelopes.iter().map(|envelope| {
            Ok(Expected {
                check: Some(Check::of(envelope, &world, &host)?),
                answer: accepted(envelope.message_id).into(),
                lines: None,
            })
        });
        let expected = expected.collect::<Result<Vec<_>>>()?;
        let line = envelopes[0].bytes.to_vec();
        drop(envelopes);
        let _inside = runtime.enter();
        let office = Arc::new(start_node(store.clone())?);
        let listener = runtime.block_on(TcpListener::bind(local()))?;
        let bare_address = listener.local_addr()?;
        bare::serve(listener, PATH, expected, dir)?;
        let door = serve_node(office.clone())?;
        let node_address = door.listening().address;
        let requests = requests
            .to_str()
            .context("the directory's name is no text")?;
        let mut load = Helper::start(lead, &["load", requests])?;
        for to in [node_address, bare_address] {
            let connections = CONNECTIONS;
            load.ask::<_, Told>(&Ask::Connect {
                to,
                connections,
                together: 1,
            })?;
        }
        let idle_dir = dir.join("idle");
        std::fs::create_dir(&idle_dir)?;
        drop(_inside);
        Ok(Self {
            runtime,
            store,
            office,
            door,
            load,
            idle_log: BareLog::create(&idle_dir)?,
            line,
        })
    }

    fn under_load(&mut self, slice: Duration) -> Result<Report> {
        let mut race = Race::default();
        let (mut cpu, mut bare_cpu) = (Duration::ZERO, Duration::ZERO);
        let mut bare_answers = 0;
        let millis = u64::try_from(slice.as_millis())?.max(1);
        for _ in 0..SLICES {
            let bare_before = process_cpu()?;
            let limit: Told = self.load.ask(&Ask::Load { side: BARE, millis })?;
            let cpu_before = process_cpu()?;
            let build: Told = self.load.ask(&Ask::Load { side: NODE, millis })?;
            cpu += process_cpu()?.saturating_sub(cpu_before);
            bare_cpu += cpu_before.saturating_sub(bare_before);
            bare_answers += limit.answers;
            let of = |told: Told| (told.answers, Duration::from_nanos(told.elapsed_ns));
            race.round_of(of(build), of(limit));
            // What is written behind must not disturb the other side's turn.
            self.store.flush_index()?;
        }
        let mut report = Report {
            bench: "http".to_owned(),
            protocol: Some("value-context".to_owned()),
            store: Some("embedded".to_owned()),
            limit: "bare axum echo with one signature check and grouped append and fdatasync"
                .to_owned(),
            cpu_us_per_envelope: micros_each(cpu, race.build_count()),
            peak_rss_bytes: Some(peak_rss_bytes()?),
            ..Report::default()
        };
        race.tell(&mut report);
        self.percentiles(&mut report, false)?;
        let bare = self.load.ask::<_, Told>(&Ask::Percentiles {
            side: BARE,
            idle: false,
        })?;
        report.note(format!(
            "{CONNECTIONS} connections; the bare server's p50 {:.3} ms, p99 {:.3} ms, processor time {:.1} µs",
            bare.p50_ms.unwrap_or_default(),
            bare.p99_ms.unwrap_or_default(),
            micros_each(bare_cpu, bare_answers).unwrap_or_default()
        ));
        Ok(report)
    }

    fn idle(&mut self) -> Result<Report> {
        let mut syncs = Latencies::default();
        // One of each in turn: a thread that syncs without a pause is scheduled otherwise than one that waits.
        for _ in 0..IDLE_REQUESTS {
            let (done, took) = timed(|| self.idle_log.append(&self.line));
            done?;
            syncs.add(took);
            for side in [NODE, BARE] {
                let requests = 1;
                self.load.ask::<_, Told>(&Ask::Idle { side, requests })?;
            }
        }
        let sync_ms = syncs.percentile_ms(0.5).unwrap_or_default();
        let allowed_ms = 2.0 * sync_ms + IDLE_ALLOWANCE_MS;
        let mut report = Report {
            bench: "http idle".to_owned(),
            protocol: Some("value-context".to_owned()),
            store: Some("embedded".to_owned()),
            limit: format!("two fdatasyncs and {IDLE_ALLOWANCE_MS} ms: {allowed_ms:.3} ms"),
            ..Report::default()
        };
        self.percentiles(&mut report, true)?;
        let bare = self.load.ask::<_, Told>(&Ask::Percentiles {
            side: BARE,
            idle: true,
        })?;
        report.rate_per_s = report.p50_ms.map(|p50| 1e3 / p50);
        report.limit_per_s = Some(1e3 / allowed_ms);
        report.ratio = report.p50_ms.map(|p50| allowed_ms / p50);
        report.note(format!(
            "append and fdatasync of one line: p50 {sync_ms:.3} ms; the bare server idle: p50 {:.3} ms",
            bare.p50_ms.unwrap_or_default()
        ));
        Ok(report)
    }

    fn percentiles(&mut self, report: &mut Report, idle: bool) -> Result<()> {
        let told: Told = self.load.ask(&Ask::Percentiles { side: NODE, idle })?;
        (report.p50_ms, report.p99_ms, report.p999_ms) = (told.p50_ms, told.p99_ms, told.p999_ms);
        Ok(())
    }

    fn stop(self) -> Result<()> {
        self.load.end()?;
        self.runtime.block_on(self.door.stop());
        self.runtime.block_on(self.office.stop())?;
        self.runtime.shutdown_timeout(Duration::from_secs(1));
        Ok(())
    }
}

pub(crate) fn local() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

pub(crate) fn requests_of(envelopes: &[Envelope]) -> Vec<u8> {
    let mut file = Vec::new();
    for (number, envelope) in envelopes.iter().enumerate() {
        let request = request(&envelope.bytes, &format!("{CHECK_HEADER}: {number}\r\n"));
        write_request(&mut file, &request, &accepted(envelope.message_id));
    }
    file
}

/// A request that posts an envelope.
pub(crate) fn post(envelope: &[u8]) -> Vec<u8> {
    request(envelope, "")
}

fn request(envelope: &[u8], more: &str) -> Vec<u8> {
    let head = format!(
        "POST {PATH} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n{more}\r\n",
        envelope.len()
    );
    [head.as_bytes(), envelope].concat()
}

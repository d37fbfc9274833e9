//! `bench ws`: durable answers over 16 WebSocket connections with 64 envelopes under way each, against a bare server.

mod bare;
mod load;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use chancery_store::Store as _;
use chancery_value_context::answer::accepted;
use tokio::net::TcpListener;

use crate::helper::Helper;
use crate::host::Host;
use crate::http::{Ask, Expected, Told, local, write_request};
use crate::measure::{Race, micros_each, peak_rss_bytes, process_cpu};
use crate::node::{serve_node, start_node};
use crate::now;
use crate::pipeline::Check;
use crate::report::Report;
use crate::store::{AGENTS, Maker, SENDERS, open};
use crate::traffic::{FEW_AGENTS_EACH, World};

pub(crate) use load::help;

const PATH: &str = "/vcp/ws";
const PROTOCOL: &str = "vcp.status.v1";
const CONNECTIONS: usize = 16;
const UNDER_WAY: usize = 64;
/// Turns of each side.
const SLICES: u32 = 10;
/// More envelopes than one side answers in a second.
const ENVELOPES_A_SECOND: f64 = 50_000.0;
const NODE: usize = 0;
const BARE: usize = 1;

/// Measures for about `duration`, half of it each side.
pub(crate) fn run(dir: &Path, lead: &[String], duration: Duration) -> Result<Report> {
    let dir = tempfile::tempdir_in(dir)?;
    let dir = dir.path();
    let world = World::new(SENDERS, AGENTS, FEW_AGENTS_EACH)?;
    let (host, _) = Host::new(&world)?;
    let count = (duration.as_secs_f64() / 2.0 * ENVELOPES_A_SECOND) as usize + 1_000;
    let envelopes = world.signed_many(0, count, now());
    let (mut file, mut expected) = (Vec::new(), Vec::with_capacity(count));
    for envelope in &envelopes {
        let answer = accepted(envelope.message_id);
        write_request(&mut file, &envelope.bytes, &answer);
        let check = Some(Check::of(envelope, &world, &host)?);
        let told = Expected {
            check,
            answer: answer.into(),
            lines: None,
        };
        expected.push((envelope.message_id, told));
    }
    let requests = dir.join("requests");
    std::fs::write(&requests, file)?;
    drop(envelopes);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let store = Arc::new(open(&dir.join("data"), None)?);
    store.commit(Maker::new(FEW_AGENTS_EACH)?.1)?;
    let inside = runtime.enter();
    let office = Arc::new(start_node(store.clone())?);
    let listener = runtime.block_on(TcpListener::bind(local()))?;
    let bare_address = listener.local_addr()?;
    bare::serve(listener, expected, dir)?;
    let door = serve_node(office.clone())?;
    drop(inside);
    let requests = requests
        .to_str()
        .context("the directory's name is no text")?;
    let mut load = Helper::start(lead, &["ws-load", requests])?;
    for to in [door.listening().address, bare_address] {
        let connections = CONNECTIONS;
        load.ask::<_, Told>(&Ask::Connect {
            to,
            connections,
            together: 1,
        })?;
    }
    let mut report = measure(&mut load, &store, duration / 2 / SLICES)?;
    report.peak_rss_bytes = Some(peak_rss_bytes()?);
    load.end()?;
    runtime.block_on(door.stop());
    runtime.block_on(office.stop())?;
    runtime.shutdown_timeout(Duration::from_secs(1));
    Ok(report)
}

fn measure(load: &mut Helper, store: &chancery_store::Embedded, slice: Duration) -> Result<Report> {
    let mut race = Race::default();
    let mut cpu = Duration::ZERO;
    let millis = u64::try_from(slice.as_millis())?.max(1);
    for _ in 0..SLICES {
        let limit: Told = load.ask(&Ask::Load { side: BARE, millis })?;
        let cpu_before = process_cpu()?;
        let build: Told = load.ask(&Ask::Load { side: NODE, millis })?;
        cpu += process_cpu()?.saturating_sub(cpu_before);
        let of = |told: Told| (told.answers, Duration::from_nanos(told.elapsed_ns));
        race.round_of(of(build), of(limit));
        // What is written behind must not disturb the other side's turn.
        store.flush_index()?;
    }
    let mut report = Report {
        bench: "ws".to_owned(),
        protocol: Some("value-context".to_owned()),
        store: Some("embedded".to_owned()),
        limit: "bare WebSocket echo with one signature check and grouped append and fdatasync"
            .to_owned(),
        cpu_us_per_envelope: micros_each(cpu, race.build_count()),
        ..Report::default()
    };
    race.tell(&mut report);
    let told: Told = load.ask(&Ask::Percentiles {
        side: NODE,
        idle: false,
    })?;
    (report.p50_ms, report.p99_ms, report.p999_ms) = (told.p50_ms, told.p99_ms, told.p999_ms);
    report.note(format!(
        "{CONNECTIONS} connections, {UNDER_WAY} envelopes under way on each"
    ));
    Ok(report)
}

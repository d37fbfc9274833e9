//! `bench postgres`: nodes as processes of their own, on files and on PostgreSQL, one, two and three on one journal.
//!
//! All take turns under the same load of 256 connections, which are shared out among the nodes of a journal.

mod server;
mod stop;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use chancery_core::protocol::Suite as _;
use chancery_node::Office;
use chancery_node::suite::Chancery;
use chancery_store::{Postgres, PostgresOptions, ROWS_VERSION, Store};
use serde::{Deserialize, Serialize};

pub(crate) use self::stop::help as help_family;

use self::server::Server;
use crate::helper::{Helper, tell};
use crate::http::{Ask, CONNECTIONS, REQUESTS_A_SECOND, Told, requests_of};
use crate::measure::{Race, micros_each, process_cpu};
use crate::node::{serve_node, start_node};
use crate::now;
use crate::report::Report;
use crate::store::{AGENTS, Maker, SENDERS, open};
use crate::traffic::{FEW_AGENTS_EACH, World};

/// Turns of each side.
const SLICES: u32 = 10;
/// How many nodes each side has; the first is on files.
const NODES: [usize; 4] = [1, 1, 2, 3];
const FILES: usize = 0;
const ONE: usize = 1;
/// As much as the program gives by default.
const ROW_CACHE_BYTES: usize = 256 << 20;

/// What a node is asked.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct HowMuch;

/// What it has used so far.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Used {
    cpu_ns: u64,
}

/// Nodes that share a journal, and what they did.
#[derive(Default)]
struct Side {
    nodes: Vec<Helper>,
    answers: u64,
    cpu: Duration,
    database_cpu: Option<Duration>,
}

impl Side {
    fn cpu(&mut self) -> Result<Duration> {
        let mut cpu = Duration::ZERO;
        for node in &mut self.nodes {
            let used: Used = node.ask(&HowMuch)?;
            cpu += Duration::from_nanos(used.cpu_ns);
        }
        Ok(cpu)
    }
}

/// Measures for about `duration`, a quarter of it each side; then the stop button for as long as one of them.
pub(crate) fn run(
    dir: &Path,
    lead: &[String],
    duration: Duration,
    database: Option<&str>,
) -> Result<Vec<Report>> {
    let dir = tempfile::tempdir_in(dir)?;
    let server = match database {
        Some(url) => Server::given(url),
        None => Server::start(dir.path())?,
    };
    let world = World::new(SENDERS, AGENTS, FEW_AGENTS_EACH)?;
    let slice = duration / u32::try_from(NODES.len())? / SLICES;
    let count = (duration.as_secs_f64() / NODES.len() as f64 * REQUESTS_A_SECOND) as usize;
    let requests = dir.path().join("requests");
    std::fs::write(&requests, requests_of(&world.signed_many(0, count, now())))?;
    let requests = requests.to_str().context("the directory is no text")?;
    let mut load = Helper::start(lead, &["load", requests])?;
    let mut sides = Vec::new();
    for (number, nodes) in NODES.into_iter().enumerate() {
        sides.push(start(dir.path(), lead, &server, number, nodes, &mut load)?);
    }
    let races = take_turns(&mut sides, &mut load, &server, slice)?;
    let mut reports = told(&sides, races, &mut load)?;
    for node in sides.into_iter().flat_map(|side| side.nodes) {
        node.end()?;
    }
    load.end()?;
    let a_quarter = duration / u32::try_from(NODES.len())?;
    reports.push(stop::run(dir.path(), lead, &server, a_quarter)?);
    Ok(reports)
}

/// Begins a journal and starts its nodes.
fn start(
    dir: &Path,
    lead: &[String],
    server: &Server,
    number: usize,
    nodes: usize,
    load: &mut Helper,
) -> Result<Side> {
    let files = dir.join("data").display().to_string();
    let place = if number == FILES { &files } else { &server.url };
    let journal = format!("bench-{}-{number}", std::process::id());
    let store = store(place, &journal)?;
    if let Err(error) = store.commit(Maker::new(FEW_AGENTS_EACH)?.1) {
        bail!("{error}");
    }
    store.close()?;
    // It lets go of its files with the last handle.
    drop(store);
    let mut side = Side::default();
    for node in 0..nodes {
        let mut helper = Helper::start(lead, &["node", place, &journal])?;
        let to: SocketAddr = helper.answer()?;
        side.nodes.push(helper);
        connect(load, number, node, to, CONNECTIONS / nodes)?;
    }
    Ok(side)
}

/// Connects the load to a node of a side: the first one begins the side.
fn connect(
    load: &mut Helper,
    side: usize,
    node: usize,
    to: SocketAddr,
    connections: usize,
) -> Result<()> {
    let ask = match node {
        0 => Ask::Connect {
            to,
            connections,
            together: 1,
        },
        _ => Ask::Join {
            side,
            to,
            connections,
        },
    };
    load.ask::<_, Told>(&ask)?;
    Ok(())
}

/// Opens the journal of a side, on files where the place is no address.
fn store(place: &str, journal: &str) -> Result<Arc<dyn Store>> {
    if !place.starts_with("postgres") {
        return Ok(Arc::new(open(Path::new(place), None)?));
    }
    let options = PostgresOptions {
        url: place.to_owned(),
        password: None,
        journal: journal.to_owned(),
        may_begin: true,
        row_cache_bytes: ROW_CACHE_BYTES,
        windows: Chancery::default().windows(),
        rows_version: ROWS_VERSION,
    };
    Ok(Arc::new(Postgres::open(&options)?))
}

/// One slice of each side after the other, again and again. Gives one node on PostgreSQL against files, then two and three
/// nodes against one.
fn take_turns(
    sides: &mut [Side],
    load: &mut Helper,
    server: &Server,
    slice: Duration,
) -> Result<[Race; 3]> {
    let mut races = [Race::default(), Race::default(), Race::default()];
    let millis = u64::try_from(slice.as_millis())?.max(1);
    for _ in 0..SLICES {
        let mut turn = Vec::new();
        for (number, side) in sides.iter_mut().enumerate() {
            let (cpu, database_cpu) = (side.cpu()?, server.cpu());
            let told: Told = load.ask(&Ask::Load {
                side: number,
                millis,
            })?;
            let elapsed = Duration::from_nanos(told.elapsed_ns);
            let used = side.cpu()?.saturating_sub(cpu);
            side.cpu += used;
            if let (Some(before), Some(after)) = (database_cpu, server.cpu()) {
                *side.database_cpu.get_or_insert_default() += after.saturating_sub(before);
            }
            side.answers += told.answers;
            turn.push((told.answers, elapsed));
        }
        races[0].round_of(turn[ONE], turn[FILES]);
        for (race, more) in races[1..].iter_mut().zip(&turn[ONE + 1..]) {
            race.round_of(*more, turn[ONE]);
        }
    }
    Ok(races)
}

fn told(sides: &[Side], races: [Race; 3], load: &mut Helper) -> Result<Vec<Report>> {
    let mut reports = Vec::new();
    for (number, race) in (ONE..).zip(races) {
        let (side, nodes) = (&sides[number], NODES[number]);
        let limit = match number {
            ONE => "one node on files",
            _ => "one node on PostgreSQL",
        };
        let mut report = Report {
            bench: format!(
                "postgres, {nodes} node{}",
                if nodes == 1 { "" } else { "s" }
            ),
            protocol: Some("value-context".to_owned()),
            store: Some("postgres".to_owned()),
            limit: limit.to_owned(),
            cpu_us_per_envelope: micros_each(side.cpu, side.answers),
            ..Report::default()
        };
        let times: Told = load.ask(&Ask::Percentiles {
            side: number,
            idle: false,
        })?;
        (report.p50_ms, report.p99_ms, report.p999_ms) =
            (times.p50_ms, times.p99_ms, times.p999_ms);
        race.tell(&mut report);
        let each = |cpu: Option<Duration>, answers| cpu.and_then(|cpu| micros_each(cpu, answers));
        if let Some(database) = each(side.database_cpu, side.answers) {
            report.note(format!(
                "PostgreSQL's own processor time: {database:.1} µs an envelope"
            ));
        }
        let files = &sides[FILES];
        report.note(format!(
            "{CONNECTIONS} connections in all; a node on files: {:.1} µs an envelope",
            micros_each(files.cpu, files.answers).unwrap_or_default()
        ));
        reports.push(report);
    }
    Ok(reports)
}

/// The helper: a node that says where it is, and how much processor time it has used whenever it is asked.
pub(crate) fn help(place: &str, journal: &str) -> Result<()> {
    answer_until_asked_no_more(|| start_node(store(place, journal)?))
}

fn answer_until_asked_no_more(node: impl FnOnce() -> Result<Office>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let inside = runtime.enter();
    let office = Arc::new(node()?);
    let door = serve_node(office.clone())?;
    drop(inside);
    tell(&door.listening().address)?;
    for line in std::io::stdin().lines() {
        let HowMuch = serde_json::from_str(&line?)?;
        let cpu_ns = u64::try_from(process_cpu()?.as_nanos())?;
        tell(&Used { cpu_ns })?;
    }
    runtime.block_on(door.stop());
    runtime.block_on(office.stop())?;
    runtime.shutdown_timeout(Duration::from_secs(1));
    Ok(())
}

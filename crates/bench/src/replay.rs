//! `bench replay`: a log replayed with signatures on every core, against nothing but the signature checks.

use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bytes::Bytes;
use chancery_core::keys::Keyring;
use chancery_journal::{Lines, Prepared, Replayer, prepare};
use chancery_node::suite::Chancery;
use chancery_store::Scratch;

use crate::host::{Host, new_chain, stored};
use crate::measure::{Race, micros_each, peak_rss_bytes, process_cpu, timed};
use crate::now;
use crate::pipeline::Check;
use crate::report::Report;
use crate::store::{AGENTS, SENDERS};
use crate::traffic::{FEW_AGENTS_EACH, World};

/// Slices of one pass over the log.
const SLICES: usize = 10;
/// Lines that one thread prepares before it hands them on.
const CHUNK: usize = 64;
/// Chunks that a thread may be ahead of the rules.
const AHEAD: usize = 16;

/// A generated log and its bare checks.
struct Log {
    /// The lines of administration: the keys are in force after them.
    head: Vec<Bytes>,
    lines: Vec<Bytes>,
    checks: Vec<Check>,
}

/// Processor time of both sides.
#[derive(Default)]
struct Cpu {
    build: Duration,
    bare: Duration,
}

/// Measures passes over a log of `lines` lines for about `duration`, at least one.
pub(crate) fn run(lines: usize, duration: Duration) -> Result<Report> {
    let log = generate(lines)?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut race = Race::default();
    let mut cpu = Cpu::default();
    let start = Instant::now();
    let mut passes = 0;
    while passes == 0 || start.elapsed() < duration {
        passes += 1;
        pass(&log, threads, &mut race, &mut cpu)?;
    }
    let mut report = Report {
        bench: "replay".to_owned(),
        protocol: Some("value-context".to_owned()),
        limit: format!("bare Ed25519 verification of the same bytes on {threads} threads"),
        cpu_us_per_envelope: micros_each(cpu.build, race.build_count()),
        peak_rss_bytes: Some(peak_rss_bytes()?),
        ..Report::default()
    };
    race.tell(&mut report);
    report.note(format!(
        "ratio by processor time, whatever else runs: {:.3}",
        cpu.bare.as_secs_f64() / cpu.build.as_secs_f64()
    ));
    report.note(format!("{passes} passes over {lines} lines"));
    Ok(report)
}

fn generate(count: usize) -> Result<Log> {
    let world = World::new(SENDERS, AGENTS, FEW_AGENTS_EACH)?;
    let (mut host, units) = Host::new(&world)?;
    let mut chain = new_chain();
    let mut lines = Lines::default();
    for unit in units {
        stored(unit, &mut chain, &mut lines);
    }
    let head = std::mem::take(&mut lines).into_bytes();
    let at = now();
    let mut log = Log {
        head,
        lines: Vec::new(),
        checks: Vec::with_capacity(count),
    };
    for envelope in world.signed_many(0, count, at) {
        log.checks.push(Check::of(&envelope, &world, &host)?);
        let unit = host.believe(&envelope, at)?;
        stored(unit, &mut chain, &mut lines);
    }
    log.lines = lines.into_bytes();
    Ok(log)
}

fn pass(log: &Log, threads: usize, race: &mut Race, cpu: &mut Cpu) -> Result<()> {
    let mut replayer = Replayer::on(Chancery::default(), Scratch::default())?;
    for line in &log.head {
        let prepared = prepare(replayer.suite(), line.clone(), replayer.keyring());
        replayer.take(prepared);
    }
    let slice = log.lines.len().div_ceil(SLICES).max(1);
    for (lines, checks) in log.lines.chunks(slice).zip(log.checks.chunks(slice)) {
        let before = process_cpu()?;
        let (held, limit) = timed(|| verify_all(checks, threads));
        ensure!(held, "a signature does not hold");
        let between = process_cpu()?;
        let ((), build) = timed(|| replay(&mut replayer, lines, threads));
        cpu.bare += between.saturating_sub(before);
        cpu.build += process_cpu()?.saturating_sub(between);
        race.round(lines.len() as u64, build, limit);
    }
    let (report, _) = replayer.end();
    ensure!(
        report.divergence.is_none(),
        "the log diverges: {:?}",
        report.divergence
    );
    ensure!(
        report.signatures == log.lines.len() as u64,
        "{} of {} signatures hold",
        report.signatures,
        log.lines.len()
    );
    Ok(())
}

fn verify_all(checks: &[Check], threads: usize) -> bool {
    std::thread::scope(|scope| {
        let parts = checks.chunks(checks.len().div_ceil(threads).max(1));
        let parts: Vec<_> = parts
            .map(|part| scope.spawn(|| part.iter().all(Check::holds)))
            .collect();
        parts.into_iter().all(|part| part.join().unwrap_or(false))
    })
}

/// Each thread prepares every n-th chunk; this thread takes them in the order of the log.
fn replay(replayer: &mut Replayer<Chancery, Scratch>, lines: &[Bytes], threads: usize) {
    let keys = replayer.keyring().clone();
    std::thread::scope(|scope| {
        let parts: Vec<Receiver<Vec<Prepared>>> = (0..threads)
            .map(|part| {
                let (prepared, to_take) = sync_channel(AHEAD);
                let keys = &keys;
                scope.spawn(move || {
                    for chunk in lines.chunks(CHUNK).skip(part).step_by(threads) {
                        if prepared.send(prepare_chunk(chunk, keys)).is_err() {
                            return;
                        }
                    }
                });
                to_take
            })
            .collect();
        for part in (0..lines.chunks(CHUNK).len()).map(|chunk| &parts[chunk % threads]) {
            let Ok(chunk) = part.recv() else { return };
            chunk.into_iter().for_each(|line| replayer.take(line));
        }
    });
}

fn prepare_chunk(chunk: &[Bytes], keys: &Keyring) -> Vec<Prepared> {
    let suite = Chancery::default();
    chunk
        .iter()
        .map(|line| prepare(&suite, line.clone(), keys))
        .collect()
}

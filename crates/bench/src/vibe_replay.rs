//! `bench replay --protocol vibe`: unsigned deals replayed on one core, against parsing, the canonical form and the hash.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bytes::Bytes;
use chancery_core::canonical::{Dialect, to_bytes};
use chancery_core::digest::Sha256Digest;
use chancery_core::json::{self, DuplicateNames, Integers, MAX_DEPTH, Overflow, ReadRules};
use chancery_core::rows::MapRows;
use chancery_journal::{Replayer, prepare};

use crate::deals::Market;
use crate::measure::{Race, micros_each, peak_rss_bytes, thread_cpu, timed};
use crate::now;
use crate::report::Report;

const RULES: ReadRules = ReadRules {
    max_bytes: usize::MAX,
    max_depth: MAX_DEPTH,
    duplicate_names: DuplicateNames::Refuse,
    integers: Integers::Safe,
    overflow: Overflow::Refuse,
};

/// Lines of one slice: some hundredths of a second.
const SLICE: usize = 4_096;

/// Measures passes over a log of about `lines` lines for about `duration`, at least one.
pub(crate) fn run(lines: usize, duration: Duration) -> Result<Report> {
    let mut market = Market::open(now())?;
    let mut deals = 0;
    while market.lines.len() < lines {
        market.deal()?;
        deals += 1;
    }
    let mut race = Race::default();
    let mut cpu = Duration::ZERO;
    let start = Instant::now();
    let mut passes = 0;
    while passes == 0 || start.elapsed() < duration {
        passes += 1;
        pass(&market, &mut race, &mut cpu)?;
    }
    let mut report = Report {
        bench: "replay".to_owned(),
        protocol: Some("vibe".to_owned()),
        limit: "parse, canonical form and SHA-256 of the same lines on one core".to_owned(),
        cpu_us_per_envelope: micros_each(cpu, race.build_count()),
        peak_rss_bytes: Some(peak_rss_bytes()?),
        ..Report::default()
    };
    race.tell(&mut report);
    let bytes: usize = market.lines.iter().map(Bytes::len).sum();
    report.note(format!(
        "{passes} passes over {} lines of {} bytes, {deals} deals",
        market.lines.len(),
        bytes / market.lines.len()
    ));
    Ok(report)
}

fn pass(market: &Market, race: &mut Race, cpu: &mut Duration) -> Result<()> {
    let mut replayer = Replayer::new(market.suite.clone(), MapRows::default())?;
    for lines in market.lines.chunks(SLICE) {
        let (read, limit) = timed(|| lines.iter().all(|line| bare(line)));
        ensure!(read, "a line is no JSON");
        let before = thread_cpu()?;
        let ((), build) = timed(|| {
            for line in lines {
                let prepared = prepare(replayer.suite(), line.clone(), replayer.keyring());
                replayer.take(prepared);
            }
        });
        *cpu += thread_cpu()?.saturating_sub(before);
        race.round(lines.len() as u64, build, limit);
    }
    let (report, _) = replayer.finish();
    ensure!(
        report.divergence.is_none(),
        "the log diverges: {:?}",
        report.divergence
    );
    Ok(())
}

fn bare(line: &[u8]) -> bool {
    let Ok(value) = json::read(line, &RULES) else {
        return false;
    };
    let canonical = to_bytes(&value, Dialect::Vibe);
    black_box(Sha256Digest::of(&canonical));
    true
}

//! `bench memory`: what a million duplicate records take, and a node on a log of a million lines.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use chancery_core::time::Time;
use chancery_core::window::{Remember, Windows};
use chancery_node::suite::Chancery;
use chancery_store::{Embedded, Store, recover};
use serde::{Deserialize, Serialize};

use crate::helper::{Helper, tell};
use crate::measure::{peak_rss_bytes, rss_bytes, timed};
use crate::node::start_node;
use crate::now;
use crate::report::{Report, megabytes};
use crate::store::{AGENTS, Maker, options};

const RECORDS_LIMIT_BYTES: f64 = 100e6;
const NODE_LIMIT_BYTES: f64 = 300e6;
/// How long an identifier is remembered.
const WINDOW: Duration = Duration::from_secs(330);
/// Bytes of a record in its table: identifier, value, end, and one of the table's own.
const RECORD_BYTES: u64 = 16 + 8 + 4 + 1;
/// Lines that the generated log makes durable together.
const BATCH: usize = 1_024;

#[derive(Serialize, Deserialize)]
struct RecordsTaken {
    rss_bytes: u64,
    peak_rss_bytes: u64,
}

#[derive(Serialize, Deserialize)]
struct Started {
    open_ms: f64,
    recovered_lines: u64,
    recover_ms: f64,
    start_ms: f64,
    rss_bytes: u64,
    peak_rss_bytes: u64,
    window_records: usize,
}

/// Measures both, with `count` records and lines.
pub(crate) fn run(dir: &Path, lead: &[String], count: usize) -> Result<Vec<Report>> {
    Ok(vec![records(lead, count)?, node(dir, lead, count)?])
}

fn records(lead: &[String], count: usize) -> Result<Report> {
    let mut helper = Helper::start(lead, &["records", &count.to_string()])?;
    let taken: RecordsTaken = helper.answer()?;
    helper.end()?;
    let mut report = Report {
        bench: "memory records".to_owned(),
        limit: "100 MB".to_owned(),
        ratio: Some(RECORDS_LIMIT_BYTES / taken.rss_bytes as f64),
        peak_rss_bytes: Some(taken.peak_rss_bytes),
        ..Report::default()
    };
    let slices = WINDOW.as_secs() / 60 + 1;
    let formula = table_bytes((count as u64).div_ceil(slices)) * slices;
    report.note(format!(
        "{count} records take {:.1} MB; by formula {:.1} MB, and {:.1} MB if all end in one minute",
        megabytes(taken.rss_bytes),
        megabytes(formula),
        megabytes(table_bytes(count as u64))
    ));
    Ok(report)
}

/// A hash table has a power of two of places, at most seven eighths of them taken.
fn table_bytes(records: u64) -> u64 {
    (records * 8).div_ceil(7).next_power_of_two() * RECORD_BYTES
}

fn node(dir: &Path, lead: &[String], lines: usize) -> Result<Report> {
    let dir = tempfile::tempdir_in(dir)?;
    let data = dir.path().join("data");
    generate(&data, lines)?;
    let with_index = started(lead, &data)?;
    for name in ["index.db", "index.db-wal", "index.db-shm"] {
        match std::fs::remove_file(data.join(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    let without = started(lead, &data)?;
    let peak = with_index.peak_rss_bytes.max(without.peak_rss_bytes);
    let mut report = Report {
        bench: "memory node".to_owned(),
        protocol: Some("value-context".to_owned()),
        store: Some("embedded".to_owned()),
        limit: "300 MB".to_owned(),
        ratio: Some(NODE_LIMIT_BYTES / peak as f64),
        peak_rss_bytes: Some(peak),
        ..Report::default()
    };
    for (name, run) in [("with index.db", with_index), ("without index.db", without)] {
        report.note(format!(
            "{name}: started in {:.2} s (open {:.2}, {} lines decided again {:.2}, node {:.2}), \
             {:.0} MB then, {:.0} MB at most, {} window records",
            (run.open_ms + run.recover_ms + run.start_ms) / 1e3,
            run.open_ms / 1e3,
            run.recovered_lines,
            run.recover_ms / 1e3,
            run.start_ms / 1e3,
            megabytes(run.rss_bytes),
            megabytes(run.peak_rss_bytes),
            run.window_records
        ));
    }
    Ok(report)
}

fn generate(data: &Path, lines: usize) -> Result<()> {
    let (store, _) = Embedded::open(&options(data))?;
    let (mut maker, first) = Maker::new(AGENTS)?;
    let mut left = lines.saturating_sub(first.lines.len());
    store.commit(first)?;
    while left > 0 {
        let count = left.min(BATCH);
        store.commit(maker.batch(count, now())?)?;
        left -= count;
    }
    Ok(store.close()?)
}

fn started(lead: &[String], data: &Path) -> Result<Started> {
    let data = data.to_str().context("the directory's name is no text")?;
    let mut helper = Helper::start(lead, &["start", data])?;
    let started = helper.answer()?;
    helper.end()?;
    Ok(started)
}

/// The helper that remembers `count` identifiers, spread over their window.
pub(crate) fn help_records(count: u64) -> Result<()> {
    let before = rss_bytes()?;
    let mut windows = Windows::default();
    let window_ms = WINDOW.as_millis() as u64;
    for n in 0..count {
        let spread = |salt: u64| (n ^ salt).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        let mut id = [0; 16];
        id[..8].copy_from_slice(&spread(0));
        id[8..].copy_from_slice(&spread(u64::MAX / 3));
        let until_ms = i64::try_from(n * window_ms / count.max(1))?;
        let until = Time::from_unix_millis(until_ms).context("no such time")?;
        windows.remember(&Remember {
            window: "value-context/seen",
            id,
            value: n,
            until,
        });
    }
    anyhow::ensure!(windows.len() as u64 == count, "identifiers repeat");
    tell(&RecordsTaken {
        rss_bytes: rss_bytes()?.saturating_sub(before),
        peak_rss_bytes: peak_rss_bytes()?,
    })
}

/// The helper that starts a node on a directory.
pub(crate) fn help_start(data: &Path) -> Result<()> {
    let (opened, open) = timed(|| Embedded::open(&options(data)));
    let (store, tail) = opened?;
    let (recovered, recovery) = timed(|| recover(&Chancery::default(), &store, &tail));
    let recovered = recovered?;
    let store = Arc::new(store);
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        let (node, start) = timed(|| start_node(store.clone()));
        let node = node?;
        let millis = |took: Duration| took.as_secs_f64() * 1e3;
        tell(&Started {
            open_ms: millis(open),
            recovered_lines: recovered.lines,
            recover_ms: millis(recovery),
            start_ms: millis(start),
            rss_bytes: rss_bytes()?,
            peak_rss_bytes: peak_rss_bytes()?,
            window_records: store.window_len(),
        })?;
        Ok(node.stop().await?)
    })
}

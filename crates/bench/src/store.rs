//! `bench store append` and `bench store sustained`: the embedded store against a bare file.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use chancery_core::protocol::Suite;
use chancery_core::time::Time;
use chancery_journal::{Chain, Lines};
use chancery_node::suite::Chancery;
use chancery_store::{Batch, Embedded, Options, Store};

use crate::host::{Host, new_chain, stored};
use crate::measure::{
    Latencies, Race, micros_each, peak_rss_bytes, process_cpu, rss_bytes, thread_cpu, timed,
};
use crate::now;
use crate::report::{Report, megabytes};
use crate::traffic::{FEW_AGENTS_EACH, World};

pub(crate) const SENDERS: usize = 1_000;
pub(crate) const AGENTS: usize = 64;
/// Lines that become durable together.
pub(crate) const BATCH: usize = 256;
/// Batches of one slice.
const SLICE: usize = 16;
/// In the sustained run the rules' clock goes faster than the machine's, so that windows reach the size at which
/// as much ends as begins within the run.
const CLOCK_FACTOR: u32 = 30;
/// And the cache is small, so that it is full early.
const SMALL_CACHE_BYTES: usize = 32 << 20;
const BARE: &str = "bare append and fdatasync of the same lines in batches of 256";

/// How the program opens its store.
pub(crate) fn options(dir: &Path) -> Options {
    let mut options = Options::new(dir);
    options.windows = Chancery::default().windows();
    options
}

/// Opens a new embedded store.
pub(crate) fn open(dir: &Path, row_cache_bytes: Option<usize>) -> Result<Embedded> {
    let mut options = options(dir);
    options.row_cache_bytes = row_cache_bytes.unwrap_or(options.row_cache_bytes);
    let (store, tail) = Embedded::open(&options)?;
    ensure!(tail.is_empty(), "the directory is not new");
    Ok(store)
}

/// Makes batches as a node would, one after the other.
pub(crate) struct Maker {
    world: World,
    host: Host,
    chain: Chain,
    made: u64,
}

impl Maker {
    /// With the batch that brings keys and agents. Each sender writes to so many agents.
    pub(crate) fn new(agents_each: usize) -> Result<(Self, Batch)> {
        let world = World::new(SENDERS, AGENTS, agents_each)?;
        let (host, units) = Host::new(&world)?;
        let mut maker = Self {
            world,
            host,
            chain: new_chain(),
            made: 0,
        };
        let base = maker.chain.head();
        let mut lines = Lines::default();
        let units = units
            .into_iter()
            .map(|unit| stored(unit, &mut maker.chain, &mut lines))
            .collect();
        let batch = Batch {
            base,
            head: maker.chain.head(),
            lines,
            units,
            spent: Vec::new(),
        };
        Ok((maker, batch))
    }

    /// The next batch of `count` lines, decided at `at`.
    pub(crate) fn batch(&mut self, count: usize, at: Time) -> Result<Batch> {
        let base = self.chain.head();
        let mut units = Vec::with_capacity(count);
        let mut lines = Lines::default();
        for _ in 0..count {
            let envelope = self.world.shaped(self.made, at);
            self.made += 1;
            let unit = self.host.believe(&envelope, at)?;
            units.push(stored(unit, &mut self.chain, &mut lines));
        }
        Ok(Batch {
            base,
            head: self.chain.head(),
            lines,
            units,
            spent: Vec::new(),
        })
    }
}

/// A file that is appended to and synced, and nothing else.
pub(crate) struct BareLog(File);

impl BareLog {
    pub(crate) fn create(dir: &Path) -> Result<Self> {
        let path = dir.join("bare.log");
        let file = OpenOptions::new().append(true).create_new(true).open(&path);
        Ok(Self(file.with_context(|| path.display().to_string())?))
    }

    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.0.write_all(bytes)?;
        Ok(self.0.sync_data()?)
    }
}

fn commit(store: &Embedded, batch: Batch) -> Result<()> {
    match store.commit(batch) {
        Ok(_) => Ok(()),
        Err(error) => bail!("{error}"),
    }
}

/// `bench store append`, in `dir`.
pub(crate) fn append(dir: &Path, duration: Duration) -> Result<Report> {
    let dir = tempfile::tempdir_in(dir)?;
    let store = open(&dir.path().join("data"), None)?;
    let mut bare = BareLog::create(dir.path())?;
    let (mut maker, first) = Maker::new(FEW_AGENTS_EACH)?;
    commit(&store, first)?;
    let mut race = Race::default();
    let mut latencies = Latencies::default();
    let mut cpu = Duration::ZERO;
    let mut line_bytes = 0;
    let start = Instant::now();
    while start.elapsed() < duration {
        let at = now();
        let batches = (0..SLICE).map(|_| maker.batch(BATCH, at));
        let batches = batches.collect::<Result<Vec<_>>>()?;
        let texts: Vec<_> = batches
            .iter()
            .map(|batch| batch.lines.text().to_vec())
            .collect();
        line_bytes = texts[0].len() / BATCH;
        let (done, limit) = timed(|| texts.iter().try_for_each(|text| bare.append(text)));
        done?;
        let cpu_before = thread_cpu()?;
        let mut build = Duration::ZERO;
        for batch in batches {
            let (done, took) = timed(|| commit(&store, batch));
            done?;
            latencies.add(took);
            build += took;
        }
        cpu += thread_cpu()?.saturating_sub(cpu_before);
        race.round((SLICE * BATCH) as u64, build, limit);
        // What is written behind must not disturb the other side's turn.
        store.flush_index()?;
    }
    store.close()?;
    let mut report = report("store append", BARE);
    report.cpu_us_per_envelope = micros_each(cpu, race.build_count());
    latencies.tell(&mut report);
    race.tell(&mut report);
    report.note(format!(
        "lines of {line_bytes} bytes; times are those of one commit of {BATCH}"
    ));
    report.peak_rss_bytes = Some(peak_rss_bytes()?);
    Ok(report)
}

/// `bench store sustained`, in `dir`.
pub(crate) fn sustained(dir: &Path, duration: Duration) -> Result<Report> {
    let dir = tempfile::tempdir_in(dir)?;
    let store = open(&dir.path().join("data"), Some(SMALL_CACHE_BYTES))?;
    let bound = Options::new("").index_lag_entries;
    let mut race = Race::default();
    let limit = bare_rate(dir.path(), duration.min(Duration::from_secs(3)) / 3)?;
    // Everybody writes to everybody: the rows outgrow the small cache.
    let (mut maker, first) = Maker::new(AGENTS)?;
    commit(&store, first)?;
    let (batches, to_commit) = sync_channel::<Result<Batch>>(4);
    let begin = now();
    let start = Instant::now();
    let making = std::thread::spawn(move || {
        while start.elapsed() < duration {
            let at = begin.saturating_add(start.elapsed() * CLOCK_FACTOR);
            if batches.send(maker.batch(BATCH, at)).is_err() {
                return;
            }
        }
    });
    let mut watch = Watch::new(duration);
    let mut latencies = Latencies::default();
    let cpu_before = process_cpu()?;
    for batch in to_commit {
        let batch = batch?;
        let lines = batch.lines.len() as u64;
        // A node refuses requests at the bound; here they wait.
        let waiting = Instant::now();
        while store.lag() >= bound {
            std::thread::sleep(Duration::from_millis(1));
        }
        watch.held_back += waiting.elapsed();
        let (done, took) = timed(|| commit(&store, batch));
        done?;
        latencies.add(took);
        watch.look(&store, start.elapsed(), lines)?;
    }
    let elapsed = start.elapsed();
    race.round_of((watch.lines, elapsed), limit);
    making
        .join()
        .map_err(|_| anyhow::anyhow!("the maker panicked"))?;
    let cpu = process_cpu()?.saturating_sub(cpu_before);
    let mut report = report("store sustained", BARE);
    report.cpu_us_per_envelope = micros_each(cpu, watch.lines);
    latencies.tell(&mut report);
    race.tell(&mut report);
    report.notes.clear();
    watch.tell(&mut report, bound, &store);
    store.close()?;
    report.peak_rss_bytes = Some(peak_rss_bytes()?);
    Ok(report)
}

/// What a sustained run looks at besides its rate.
struct Watch {
    duration: Duration,
    lines: u64,
    max_lag: u64,
    held_back: Duration,
    rss: Vec<u64>,
}

impl Watch {
    fn new(duration: Duration) -> Self {
        Self {
            duration,
            lines: 0,
            max_lag: 0,
            held_back: Duration::ZERO,
            rss: Vec::new(),
        }
    }

    fn look(&mut self, store: &Embedded, elapsed: Duration, lines: u64) -> Result<()> {
        self.lines += lines;
        self.max_lag = self.max_lag.max(store.lag());
        // At the start, then at each quarter.
        if elapsed >= self.duration / 4 * self.rss.len() as u32 {
            self.rss.push(rss_bytes()?);
        }
        Ok(())
    }

    fn tell(&self, report: &mut Report, bound: u64, store: &Embedded) {
        report.note(format!(
            "index at most {} lines behind (bound {bound}), held back at the bound for {:.1} s",
            self.max_lag,
            self.held_back.as_secs_f64()
        ));
        let rss: Vec<String> = self
            .rss
            .iter()
            .map(|rss| format!("{:.0}", megabytes(*rss)))
            .collect();
        report.note(format!(
            "memory in MB at start and each quarter: {}",
            rss.join(", ")
        ));
        report.note(format!(
            "{} lines, {} window records and {:.1} MB of cached rows at the end; the rules' clock ran {CLOCK_FACTOR} \
             times as fast",
            self.lines,
            store.window_len(),
            megabytes(store.cache_bytes() as u64)
        ));
        report.note("processor time includes making and deciding the lines");
    }
}

/// What a bare file takes of such lines, and in what time.
fn bare_rate(dir: &Path, duration: Duration) -> Result<(u64, Duration)> {
    let (mut maker, _) = Maker::new(AGENTS)?;
    let mut bare = BareLog::create(dir)?;
    let mut total = (0, Duration::ZERO);
    while total.1 < duration {
        let batch = maker.batch(BATCH, now())?;
        let (done, took) = timed(|| bare.append(batch.lines.text()));
        done?;
        total = (total.0 + BATCH as u64, total.1 + took);
    }
    Ok(total)
}

fn report(bench: &str, limit: &str) -> Report {
    Report {
        bench: bench.to_owned(),
        protocol: Some("value-context".to_owned()),
        store: Some("embedded".to_owned()),
        limit: limit.to_owned(),
        ..Report::default()
    }
}

//! `bench replay --protocol vibe`: unsigned deals replayed on one core, against parsing, the canonical form and the hash.
//! And the same log in a file, for whoever wants to see what a long one takes.

use std::fs::File;
use std::hint::black_box;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use bytes::Bytes;
use chancery_core::admin::{Act, Config};
use chancery_core::canonical::{Dialect, to_bytes};
use chancery_core::decision::{Before, Open, Unit};
use chancery_core::digest::Sha256Digest;
use chancery_core::json::{self, DuplicateNames, Integers, MAX_DEPTH, Overflow, ReadRules};
use chancery_core::keys::Keyring;
use chancery_core::protocol::{Caller, Door, Input, Protocol as _, Suite as _};
use chancery_core::rows::MapRows;
use chancery_core::time::Time;
use chancery_core::window::Windows;
use chancery_journal::{Chain, Lines, Outcome, Replayer, decide_input, prepare_under};
use chancery_node::suite::{AllSettings, AnyInput, Chancery, WORLD_DIGEST};
use chancery_store::Scratch;
use chancery_vibe::settings::Settings;

use crate::deals::{deal, seed, world};
use crate::host::{new_chain, stored};
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
    while market.lines.len() < lines {
        market.deal()?;
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
        "{passes} passes over {} lines of {} bytes, {} deals",
        market.lines.len(),
        bytes / market.lines.len(),
        market.deals
    ));
    Ok(report)
}

/// A log that was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deals {
    /// Its lines.
    pub lines: u64,
    /// The whole deals that they are.
    pub deals: usize,
}

/// Writes a log of deals with at least so many lines to a directory, as `audit.jsonl`, and beside it the seed of their
/// world, as `world.json`. Every call writes the same.
///
/// # Errors
/// A file cannot be written.
pub fn write_deals(dir: &Path, lines: u64) -> Result<Deals> {
    std::fs::write(dir.join("world.json"), world())?;
    let mut file = BufWriter::new(File::create(dir.join("audit.jsonl"))?);
    let mut market = Market::open(Time::UNIX_EPOCH)?;
    loop {
        for line in market.lines.drain(..) {
            file.write_all(&line)?;
            file.write_all(b"\n")?;
        }
        if market.seq >= lines {
            break;
        }
        market.deal()?;
    }
    file.flush()?;
    Ok(Deals {
        lines: market.seq,
        deals: market.deals,
    })
}

fn pass(market: &Market, race: &mut Race, cpu: &mut Duration) -> Result<()> {
    let mut replayer = Replayer::on(market.suite.clone(), Scratch::default())?;
    for lines in market.lines.chunks(SLICE) {
        let (read, limit) = timed(|| lines.iter().all(|line| bare(line)));
        ensure!(read, "a line is no JSON");
        let before = thread_cpu()?;
        let ((), build) = timed(|| {
            for line in lines {
                let terms = replayer.terms();
                replayer.take(prepare_under(&market.suite, line.clone(), &terms));
            }
        });
        *cpu += thread_cpu()?.saturating_sub(before);
        race.round(lines.len() as u64, build, limit);
    }
    let (report, _) = replayer.end();
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

/// A market without a node: decisions one after the other, and the lines they leave.
struct Market {
    suite: Chancery,
    /// The last line's number.
    seq: u64,
    /// The lines that nobody has taken yet.
    lines: Vec<Bytes>,
    settings: AllSettings,
    rows: MapRows,
    windows: Windows,
    chain: Chain,
    time: Time,
    now: Time,
    deals: usize,
}

impl Market {
    /// A market that opens at `now`.
    fn open(now: Time) -> Result<Self> {
        let seed = seed()?;
        let vibe = seed.in_settings(Settings::default());
        let config = Config {
            protocols: [("vibe".to_owned(), serde_json::to_value(&vibe)?)].into(),
            digests: [(WORLD_DIGEST.to_owned(), seed.digest.hex())].into(),
        };
        let mut market = Self {
            suite: Chancery::with_seed(Arc::new(seed)),
            seq: 0,
            lines: Vec::new(),
            settings: AllSettings::default(),
            rows: MapRows::default(),
            windows: Windows::default(),
            chain: new_chain(),
            time: Time::UNIX_EPOCH,
            now,
            deals: 0,
        };
        market.decide(&AnyInput::Act(Act::Config(config)))?;
        market.settings = market.suite.settings(&market.rows)?;
        Ok(market)
    }

    /// Takes in the envelopes of the next deal, as a door does.
    fn deal(&mut self) -> Result<()> {
        for envelope in deal(self.deals) {
            let protocol = self.suite.vibe();
            let settings = &self.settings.vibe;
            let refused = |refusal| anyhow!("{envelope}: {refusal}");
            let raw = Bytes::from(envelope.clone());
            let message = protocol
                .decode(raw, Door::Http, settings)
                .map_err(refused)?;
            let (caller, keys) = (Caller::default(), Keyring::new());
            let authentic = protocol
                .authenticate(message, Door::Http, &caller, &keys, settings, self.now)
                .map_err(refused)?;
            let input = AnyInput::Vibe(Input::Envelope(authentic));
            self.decide(&input).context(envelope)?;
        }
        self.deals += 1;
        Ok(())
    }

    fn decide(&mut self, input: &AnyInput) -> Result<()> {
        let before = Before {
            now: self.now,
            seq: self.seq + 1,
            rows: &self.rows,
            windows: &self.windows,
            guards: &mut Open,
            nonce: [0; 16],
            keeps_agenda: true,
        };
        let unit: Unit = match decide_input(&self.suite, input, &self.settings, self.time, before) {
            Outcome::Recorded { unit, .. } => unit,
            Outcome::Refused { refusal, .. } => bail!("refused: {refusal}"),
            Outcome::Passed { .. } => bail!("an envelope came twice"),
            Outcome::Missing(_) => bail!("a row in memory is missing"),
            Outcome::Damaged(damage) => bail!(damage),
        };
        if unit.drafts.iter().any(|draft| draft.eval_ts.is_some()) {
            self.time = self.time.max(self.now);
        }
        unit.remembered
            .iter()
            .for_each(|record| self.windows.remember(record));
        let mut lines = Lines::default();
        let stored = stored(unit, &mut self.chain, &mut lines);
        self.rows.apply(stored.rows);
        let lines = lines.into_bytes();
        self.seq += lines.len() as u64;
        self.lines.extend(lines);
        Ok(())
    }
}

//! Benchmarks of this build against the raw limits of the machine, in the same run (CH-BEN-1).
//!
//! Guarantees: both sides do the same work on the same bytes and take turns, so that what disturbs the machine
//! disturbs both; every answer is checked; the functions measured are those the program runs.
//!
//! Refuses to: judge. A figure is printed, never asserted.

mod agh;
mod deals;
mod emergency;
mod helper;
mod host;
mod http;
mod measure;
mod memory;
mod nats;
mod node;
mod pipeline;
mod postgres;
mod replay;
mod report;
mod store;
mod traffic;
mod turns;
mod vibe_replay;
mod ws;

use std::path::PathBuf;
use std::time::Duration;

use chancery_core::time::Time;
use chancery_node::Clock;

pub use report::Report;
pub use vibe_replay::{Deals, write_deals};

/// The machine's time.
fn now() -> Time {
    Clock::System.now()
}

/// What to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bench {
    /// From bytes to a decision on one core, no disk.
    Pipeline,
    /// Turns of a rule-based agent on one core, no log.
    Turns,
    /// The checks of an AGH envelope that need no state.
    AghValidation,
    /// Batches of lines made durable.
    StoreAppend,
    /// The same for long, with the index written behind.
    StoreSustained,
    /// A log replayed with signatures on every core.
    Replay,
    /// A log of unsigned deals replayed on one core.
    VibeReplay,
    /// Durable answers over HTTP, many connections and one at a time.
    Http,
    /// Whole deals of vibe over HTTP, durable.
    HttpVibe,
    /// Signed calls of vacants over HTTP, chained, verified, durable.
    HttpVacant,
    /// Searches over a large catalog, one at a time.
    Search,
    /// Durable answers over WebSocket, many envelopes under way on few connections.
    Ws,
    /// AGH envelopes through a NATS server into inboxes, durable.
    Nats,
    /// Nodes as processes on PostgreSQL, one to three on a journal, beside one on files; and the stop button over two.
    Postgres,
    /// How soon an emergency is acknowledged and its sender held, under full load.
    Emergency,
    /// What a million duplicate records and a node on a million lines take.
    Memory,
    /// All of them as short as they can be: that they run, not how fast.
    Quick,
}

/// How to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// For about how long.
    pub duration: Duration,
    /// Where files are put: the file system that is measured.
    pub dir: PathBuf,
    /// How long the log is that `replay` and `memory` go over, and the catalog that is searched; none for their own sizes.
    pub lines: Option<usize>,
    /// The database of [`Bench::Postgres`]; none for one that it starts.
    pub database: Option<String>,
    /// The arguments that lead this program to [`helper`].
    pub lead: Vec<String>,
}

/// Measures.
pub fn run(bench: Bench, options: &Options) -> anyhow::Result<Vec<Report>> {
    let Options {
        duration,
        dir,
        lines,
        database,
        lead,
    } = options;
    match bench {
        Bench::Pipeline => Ok(vec![pipeline::run(*duration)?]),
        Bench::Turns => Ok(vec![turns::run(dir, *duration)?]),
        Bench::AghValidation => Ok(vec![agh::run(*duration)?]),
        Bench::StoreAppend => Ok(vec![store::append(dir, *duration)?]),
        Bench::StoreSustained => Ok(vec![store::sustained(dir, *duration)?]),
        Bench::Replay => Ok(vec![replay::run(lines.unwrap_or(50_000), *duration)?]),
        Bench::VibeReplay => Ok(vec![vibe_replay::run(lines.unwrap_or(100_000), *duration)?]),
        Bench::Http => http::run(dir, lead, *duration),
        Bench::HttpVibe => http::run_vibe(dir, lead, *duration),
        Bench::HttpVacant => http::run_vacant(dir, lead, *duration),
        Bench::Search => http::run_search(dir, lead, lines.unwrap_or(100_000)),
        Bench::Ws => Ok(vec![ws::run(dir, lead, *duration)?]),
        Bench::Nats => Ok(vec![nats::run(dir, *duration)?]),
        Bench::Postgres => postgres::run(dir, lead, *duration, database.as_deref()),
        Bench::Emergency => emergency::run(dir, lead, *duration),
        Bench::Memory => memory::run(dir, lead, lines.unwrap_or(1_000_000)),
        Bench::Quick => quick(options),
    }
}

fn quick(options: &Options) -> anyhow::Result<Vec<Report>> {
    let options = Options {
        duration: Duration::from_millis(200),
        lines: Some(2_000),
        ..options.clone()
    };
    let mut reports = Vec::new();
    for bench in [
        Bench::Pipeline,
        Bench::Turns,
        Bench::AghValidation,
        Bench::StoreAppend,
        Bench::StoreSustained,
        Bench::Replay,
        Bench::VibeReplay,
        Bench::Http,
        Bench::HttpVibe,
        Bench::HttpVacant,
        Bench::Search,
        Bench::Ws,
        Bench::Nats,
        Bench::Postgres,
        Bench::Emergency,
        Bench::Memory,
    ] {
        reports.extend(run(bench, &options)?);
    }
    Ok(reports)
}

/// What this program does when a benchmark has started it once more: `args` are those behind [`Options::lead`].
pub fn helper(args: &[String]) -> anyhow::Result<()> {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["vacant-load"] => http::help_vacant(),
        ["load", requests] => http::help(requests.as_ref()),
        ["emergency", probes] => emergency::help(probes.as_ref()),
        ["node", place, journal] => postgres::help(place, journal),
        ["family-node", place, journal, children] => {
            postgres::help_family(place, journal, children.parse()?)
        }
        ["ws-load", requests] => ws::help(requests.as_ref()),
        ["records", count] => memory::help_records(count.parse()?),
        ["start", data] => memory::help_start(data.as_ref()),
        _ => anyhow::bail!("this is for benchmarks to call"),
    }
}

//! `chancery bench`: this build against the raw limits of the machine, in the same run (CH-BEN-1).

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use chancery_bench::{Bench, Options};
use clap::Subcommand;

use crate::exit::{Exit, Failure, Outcome};
use crate::terminal::Terminal;

/// The commands of `bench`.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// From bytes to a decision on one core, against bare signature checks
    #[command(
        after_help = "Example:\n  chancery bench pipeline --protocol value-context --seconds 5"
    )]
    Pipeline(BenchArgs),
    /// Durable answers over HTTP, against a bare server that does the same work
    #[command(after_help = "Example:\n  chancery bench http --seconds 10 --dir /var/tmp --json")]
    Http(BenchArgs),
    /// Searches over a large catalog of vibe, one at a time over HTTP
    #[command(after_help = "Example:\n  chancery bench search --lines 100000")]
    Search(BenchArgs),
    /// Durable answers over WebSocket, against a bare server that does the same work
    #[command(after_help = "Example:\n  chancery bench ws --seconds 10 --dir /var/tmp --json")]
    Ws(BenchArgs),
    /// AGH envelopes through a NATS server into inboxes, durable, against bare publishing and receiving
    #[command(after_help = "Example:\n  chancery bench nats --protocol agh --seconds 10 --json")]
    Nats(BenchArgs),
    /// Nodes on PostgreSQL, one to three on one journal, against a node on files
    #[command(
        after_help = "Example:\n  chancery bench postgres --seconds 20 --dir /var/tmp --json"
    )]
    Postgres {
        #[command(flatten)]
        args: BenchArgs,
        /// A database for journals of the benchmark's own [default: a server that it starts]
        #[arg(long, value_name = "URL")]
        database: Option<String>,
    },
    /// How soon an emergency is acknowledged and its sender held, under full load
    #[command(
        after_help = "Example:\n  chancery bench emergency --seconds 10 --dir /var/tmp --json"
    )]
    Emergency(BenchArgs),
    /// Lines made durable, at once and for long, against a bare append
    #[command(after_help = "Example:\n  chancery bench store --store embedded --dir /var/tmp")]
    Store(BenchArgs),
    /// A log replayed with signatures on every core
    #[command(after_help = "Example:\n  chancery bench replay --lines 100000")]
    Replay(BenchArgs),
    /// What duplicate records and a node on a long log take
    #[command(after_help = "Example:\n  chancery bench memory --lines 1000000")]
    Memory(BenchArgs),
    /// The second process of a benchmark
    #[command(
        hide = true,
        after_help = "Example:\n  chancery bench http starts chancery bench helper by itself"
    )]
    Helper {
        /// What to help with
        #[arg(trailing_var_arg = true)]
        args: Vec<String>,
    },
}

/// How to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct BenchArgs {
    /// Whose envelopes
    #[arg(long, default_value = "value-context", value_parser = ["value-context", "vibe", "vacant", "agh"])]
    protocol: String,
    /// For about how long
    #[arg(long, value_name = "S", default_value = "5", value_parser = seconds)]
    seconds: Duration,
    /// Where lines are kept
    #[arg(long, default_value = "embedded", value_parser = ["embedded"])]
    store: String,
    /// Where files are put, on the file system to measure [default: the directory for temporary files]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// How long the log is that replay and memory go over, and the catalog that is searched
    #[arg(long, value_name = "N")]
    lines: Option<usize>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "a number of seconds".to_owned())?;
    let duration = Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())?;
    if duration.is_zero() {
        return Err("more than nothing".to_owned());
    }
    Ok(duration)
}

/// Measures.
pub(crate) fn run(command: BenchCommand, terminal: &mut Terminal) -> Outcome {
    let mut given = None;
    let (benches, args): (&[Bench], BenchArgs) = match command {
        BenchCommand::Pipeline(args) => (&[Bench::Pipeline], args),
        BenchCommand::Http(args) => (&[Bench::Http], args),
        BenchCommand::Search(args) => (&[Bench::Search], args),
        BenchCommand::Ws(args) => (&[Bench::Ws], args),
        BenchCommand::Nats(args) => (&[Bench::Nats], args),
        BenchCommand::Postgres { args, database } => {
            given = database;
            (&[Bench::Postgres], args)
        }
        BenchCommand::Emergency(args) => (&[Bench::Emergency], args),
        BenchCommand::Store(args) => (&[Bench::StoreAppend, Bench::StoreSustained], args),
        BenchCommand::Replay(args) => (&[Bench::Replay], args),
        BenchCommand::Memory(args) => (&[Bench::Memory], args),
        BenchCommand::Helper { args } => {
            return match chancery_bench::helper(&args) {
                Ok(()) => Ok(Exit::Done),
                Err(error) => Err(Failure::usage(format!("{error:#}")).into()),
            };
        }
    };
    let benches = of_protocol(benches, &args.protocol)?;
    if cfg!(debug_assertions) {
        tell_debug_build();
    }
    let options = Options {
        duration: args.seconds,
        dir: args.dir.unwrap_or_else(std::env::temp_dir),
        lines: args.lines,
        database: given,
        lead: vec!["bench".to_owned(), "helper".to_owned()],
    };
    for bench in benches {
        let reports = chancery_bench::run(*bench, &options)
            .map_err(|error| Failure::no(format!("the benchmark failed: {error:#}")))?;
        for report in reports {
            if terminal.json {
                terminal.json_line(&report)?;
            } else {
                write!(terminal.out, "{report}")?;
            }
        }
        terminal.out.flush()?;
    }
    Ok(Exit::Done)
}

/// The same measurements for another protocol, where there are any.
fn of_protocol(benches: &'static [Bench], protocol: &str) -> Result<&'static [Bench], Failure> {
    match (protocol, benches) {
        // What crosses a broker is AGH's, whether it is said or not.
        ("agh" | "value-context", [Bench::Nats]) => Ok(&[Bench::Nats]),
        ("vibe" | "value-context", [Bench::Search]) => Ok(&[Bench::Search]),
        ("value-context", benches) => Ok(benches),
        ("agh", [Bench::Pipeline]) => Ok(&[Bench::AghValidation]),
        ("vibe", [Bench::Pipeline]) => Ok(&[Bench::Turns]),
        ("vibe", [Bench::Replay]) => Ok(&[Bench::VibeReplay]),
        ("vibe", [Bench::Http]) => Ok(&[Bench::HttpVibe]),
        ("vacant", [Bench::Http]) => Ok(&[Bench::HttpVacant]),
        _ => Err(
            Failure::usage(format!("there is no such benchmark of {protocol}")).next(
                "of agh there is pipeline and nats, of vibe pipeline (an agent's turns), http and replay, of vacant http",
            ),
        ),
    }
}

fn tell_debug_build() {
    let note = "this build carries debug checks: its figures say little (cargo build --release)";
    // Nothing can be done when nobody can be told.
    let _ = writeln!(std::io::stderr(), "chancery: {note}");
}

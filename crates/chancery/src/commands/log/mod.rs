//! `chancery log`: the journal as files or in a database, no node needed.

mod changes;
mod deal;
mod explain;
mod export;
mod render;
mod replay;
mod show;
mod tail;
mod timeline;
mod verify;
mod what_if;

use std::path::PathBuf;

use chancery_core::line::ProtocolName;
use chancery_node::suite::Chancery;
use clap::Subcommand;

use crate::config::{Config, Database, Flags, Sources, Store};
use crate::exit::{Failure, Outcome};
use crate::host::{database_to_read, read_kept_seed, read_seed, seed_kept_in};
use crate::log::{Checked, LogFile, Rules, StoreLog, Where, find};
use crate::terminal::Terminal;

pub(crate) use explain::explained;
pub(crate) use verify::{CUT_OFF, findings, verified};

/// The commands of `log`.
#[derive(Debug, Subcommand)]
pub(crate) enum LogCommand {
    /// The last lines, and with -f those to come
    #[command(after_help = "Example:\n  chancery log tail -n 20 -f")]
    Tail(tail::TailArgs),
    /// Lines in a few words each; with --json the lines themselves
    #[command(after_help = "Example:\n  chancery log show --protocol node --limit 10")]
    Show(show::ShowArgs),
    /// The lines byte for byte
    #[command(after_help = "Example:\n  chancery log export --from 1000 > export.jsonl")]
    Export(export::ExportArgs),
    /// Check form, sequence, hash chain and signatures
    #[command(after_help = "Example:\n  chancery log verify chancery-data")]
    Verify(verify::VerifyArgs),
    /// Run the rules again and compare every line
    #[command(after_help = "Example:\n  chancery log replay export.jsonl --json")]
    Replay(replay::ReplayArgs),
    /// Which checks an envelope passed or failed, and what it changed
    #[command(after_help = "Example:\n  chancery log explain 019502a4-7e5c-7000-8000-000000000001")]
    Explain(explain::ExplainArgs),
    /// What was said in an AGH channel, in its order
    #[command(after_help = "Example:\n  chancery log timeline builders chancery-data")]
    Timeline(timeline::TimelineArgs),
}

/// Which log.
#[derive(Debug, clap::Args)]
pub(crate) struct Which {
    /// Log files or a data directory; - for standard input [default: the configured store]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// Gives the configuration's sources.
type SourcesOf<'s> = &'s dyn Fn(Flags) -> Sources;

impl Which {
    fn find(&self, sources: SourcesOf<'_>) -> Result<Vec<LogFile>, Failure> {
        if !self.files.is_empty() {
            return find(&self.files);
        }
        let config = Config::load(&sources(Flags::default()))?;
        let data = config.data;
        if let Store::Postgres(database) = &config.store {
            return Ok(vec![log_in(database, data)?]);
        }
        if !data.is_dir() {
            return Err(
                Failure::usage(format!("there is no data directory {}", data.display()))
                    .next("name a log file or a data directory, or the configuration: --config"),
            );
        }
        find(&[data])
    }
}

/// The log of a journal in PostgreSQL, as far as it is committed now.
pub(crate) fn log_in(database: &Database, folder: PathBuf) -> Result<LogFile, Failure> {
    let store = database_to_read(database)?;
    let seed = read_kept_seed(&store)?.map(|(seed, _)| seed);
    let log = StoreLog::of(store, u64::MAX);
    Ok(LogFile::Store(log.beside(seed, folder)))
}

/// The world seed that a log with vibe lines began with.
#[derive(Debug, clap::Args)]
pub(crate) struct World {
    /// The world seed [default: the one kept beside the log]
    #[arg(long, value_name = "SEED")]
    world: Option<PathBuf>,
}

impl World {
    /// The rules of this build over the seed, where there is one.
    pub(crate) fn suite(&self, files: &[LogFile]) -> Result<Chancery, Failure> {
        let beside = || {
            files.iter().find_map(|file| match file {
                LogFile::Path(path) => seed_kept_in(path.parent()?),
                LogFile::Stdin | LogFile::Store(_) | LogFile::Live(_) => None,
            })
        };
        let kept = files.iter().find_map(|file| match file {
            LogFile::Store(log) => log.seed().cloned(),
            LogFile::Path(_) | LogFile::Stdin | LogFile::Live(_) => None,
        });
        match (self.world.clone().or_else(beside), kept) {
            (Some(path), _) => Ok(Chancery::with_seed(read_seed(&path)?.0)),
            (None, Some(seed)) => Ok(Chancery::with_seed(seed)),
            (None, None) => Ok(Chancery::default()),
        }
    }
}

/// The rules to check with, and the protocols they are of.
pub(crate) fn rules(suite: &Chancery) -> Rules<'_, Chancery> {
    Rules {
        suite,
        serves: |protocol| protocol != ProtocolName::Test,
    }
}

/// Further findings: what neither verification nor replay of lines can see.
fn beyond_lines<R>(checked: &Checked<R>, files: &[LogFile]) -> Vec<(String, String)> {
    let mut findings = Vec::new();
    if let Some((at, protocol)) = checked.unserved {
        let what = format!("this build cannot check lines of {}", protocol.as_str());
        findings.push((place(Some(at), files), what));
    }
    if let Some(at) = checked.unended {
        let what = "the last line has no newline: it was not written whole";
        findings.push((place(Some(at), files), what.to_owned()));
    }
    findings
}

/// Whether the files that were given have no line at all: they pass every check there is, and show nothing.
fn are_empty(lines: u64, files: &[LogFile]) -> bool {
    let is_given = |file: &LogFile| matches!(file, LogFile::Path(_) | LogFile::Stdin);
    lines == 0 && files.iter().all(is_given)
}

/// Files in which no line is one.
fn no_log(files: &[LogFile], failure: fn(String) -> Failure) -> Failure {
    let names: Vec<String> = files.iter().map(LogFile::name).collect();
    failure(format!(
        "{}: no line of it is a line of a log",
        names.join(", ")
    ))
    .next("a log is audit.jsonl in a data directory, or what chancery log export writes")
}

/// `FILE:LINE`.
fn place(at: Option<Where>, files: &[LogFile]) -> String {
    match at.and_then(|at| Some((files.get(at.file)?, at.line))) {
        Some((file, line)) => format!("{}:{line}", file.name()),
        None => "log".to_owned(),
    }
}

/// Runs a command of `log`.
pub(crate) fn run(command: LogCommand, sources: SourcesOf<'_>, terminal: &mut Terminal) -> Outcome {
    match command {
        LogCommand::Tail(args) => tail::run(&args, sources, terminal),
        LogCommand::Timeline(args) => timeline::run(&args, sources, terminal),
        LogCommand::Show(args) => show::run(&args, sources, terminal),
        LogCommand::Export(args) => export::run(&args, sources, terminal),
        LogCommand::Verify(args) => verify::run(&args, sources, terminal),
        LogCommand::Replay(args) => replay::run(&args, sources, terminal),
        LogCommand::Explain(args) => explain::run(&args, sources, terminal),
    }
}

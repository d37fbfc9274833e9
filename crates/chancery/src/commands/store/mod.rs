//! `chancery store`: a journal moved, kept safe and checked, wherever it is.

mod backup;
mod check;
mod place;

use std::io::Write as _;
use std::path::PathBuf;

use chancery_journal::Head;
use chancery_store::{Beside, CopyError, copy_log};
use clap::Subcommand;
use serde_json::json;

use crate::config::{Config, Flags, Sources};
use crate::exit::{Exit, Failure, Outcome};
use crate::terminal::Terminal;
use place::{Source, StorePlace, Target};

/// The commands of `store`.
#[derive(Debug, Subcommand)]
pub(crate) enum StoreCommand {
    /// Bring a journal to another store; run again, it goes on where it was cut off
    #[command(
        after_help = "Example:\n  chancery store migrate --from chancery-data --to postgres://chancery@db.example/chancery"
    )]
    Migrate(MigrateArgs),
    /// Write all that is on record now into a new directory, also while nodes run
    #[command(after_help = "Example:\n  chancery store backup backup-2026-11-16")]
    Backup(BackupArgs),
    /// Put a backup into the configured store, which has to be empty
    #[command(after_help = "Example:\n  chancery store restore backup-2026-11-16")]
    Restore(RestoreArgs),
    /// Check the log, and that the rows are those the rules give, also while nodes run
    #[command(after_help = "Example:\n  chancery store check --json")]
    Check,
}

/// What `store migrate` is asked.
#[derive(Debug, clap::Args)]
pub(crate) struct MigrateArgs {
    /// Where it is: a data directory that no node has open, or postgres://USER@HOST/DATABASE with no node on the journal
    #[arg(long, value_name = "PLACE")]
    from: String,
    /// Where it goes: the same
    #[arg(long, value_name = "PLACE")]
    to: String,
    /// The journal's name in PostgreSQL
    #[arg(long, default_value = "main")]
    journal: String,
    /// File of the password for PostgreSQL, mode 0600
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
}

/// What `store backup` is asked.
#[derive(Debug, clap::Args)]
pub(crate) struct BackupArgs {
    /// The new directory
    #[arg(value_name = "DIR")]
    into: PathBuf,
}

/// What `store restore` is asked.
#[derive(Debug, clap::Args)]
pub(crate) struct RestoreArgs {
    /// The directory of the backup
    #[arg(value_name = "DIR")]
    from: PathBuf,
}

/// Runs a command of `store`.
pub(crate) fn run(
    command: StoreCommand,
    sources: &dyn Fn(Flags) -> Sources,
    terminal: &mut Terminal,
) -> Outcome {
    let config = || Config::load(&sources(Flags::default()));
    match command {
        StoreCommand::Migrate(args) => migrate(&args, terminal),
        StoreCommand::Backup(args) => backup::backup(&config()?, &args.into, terminal),
        StoreCommand::Restore(args) => backup::restore(&config()?, &args.from, terminal),
        StoreCommand::Check => check::run(&config()?, terminal),
    }
}

fn migrate(args: &MigrateArgs, terminal: &mut Terminal) -> Outcome {
    let place = |text: &str| StorePlace::named(text, &args.journal, args.password_file.as_deref());
    let (from, to) = (place(&args.from)?, place(&args.to)?);
    let source = Source::at_rest(&from)?;
    let head = bring(source, &to, terminal)?;
    tell(head, "moved", terminal)
}

/// Brings a log and what is beside it to a store. Gives its head there.
fn bring(mut source: Source, to: &StorePlace, terminal: &Terminal) -> Result<Head, Failure> {
    let size = source.size;
    let mut progress = size.progress(terminal);
    let target = Target::open(to, source.seed.as_ref())?;
    let told = |line: &bytes::Bytes| progress.advance(size.of(line));
    let copied = copy_log(&source.suite(), &mut source.lines, &*target.store, told);
    let head = copied.map_err(|error| source.failed(not_copied(error)))?;
    progress.finish();
    put_beside(&source.beside, &target)?;
    target.close()?;
    Ok(head)
}

fn put_beside(beside: &Beside, target: &Target) -> Result<(), Failure> {
    let put = beside.put(&*target.store);
    put.map_err(|error| Failure::damaged(error.to_string()))
}

fn not_copied(error: CopyError) -> Failure {
    match error {
        CopyError::OtherLog(_) | CopyError::Ahead(_) => Failure::usage(error.to_string())
            .next("choose a store that is empty, or that an earlier run began to fill"),
        _ => Failure::damaged(error.to_string()),
    }
}

fn tell(head: Head, what: &str, terminal: &mut Terminal) -> Outcome {
    if terminal.json {
        terminal.json_line(&json!({"lines": head.seq, "sha256": head.hash.hex()}))?;
    } else {
        writeln!(
            terminal.out,
            "{} lines {what}; the last: {}",
            head.seq, head.hash
        )?;
    }
    Ok(Exit::Done)
}

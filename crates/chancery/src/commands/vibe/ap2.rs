//! `chancery vibe ap2`: mandates as AP2 writes them, and back (VC-AP2-1).

use std::io::Write as _;
use std::path::{Path, PathBuf};

use chancery_core::json::{self, ReadRules, Value};
use chancery_vibe::ap2::{self, Ap2Fault};
use clap::Subcommand;

use crate::exit::{Exit, Failed, Failure, Outcome};
use crate::input;
use crate::terminal::Terminal;

/// The commands of `vibe ap2`.
#[derive(Debug, Subcommand)]
pub(crate) enum Ap2Command {
    /// A mandate, or the envelope that carries it, as AP2 writes it; private values stay in its member vcp
    #[command(after_help = "Example:\n  chancery vibe ap2 export mandate.json > ap2.json")]
    Export(FileArgs),
    /// A mandate from what AP2 writes
    #[command(after_help = "Example:\n  chancery vibe ap2 import ap2.json > mandate.json")]
    Import(FileArgs),
}

/// What both are asked.
#[derive(Debug, clap::Args)]
pub(crate) struct FileArgs {
    /// The file; - for standard input
    file: PathBuf,
    /// It is the payment mandate of an authorization
    #[arg(long)]
    payment: bool,
}

type Project = fn(&Value<'_>) -> Result<Vec<u8>, Ap2Fault>;

/// Runs a command of `vibe ap2`.
pub(crate) fn run(command: Ap2Command, terminal: &mut Terminal) -> Outcome {
    let (args, project): (FileArgs, Project) = match command {
        Ap2Command::Export(args) if args.payment => (args, ap2::export_payment),
        Ap2Command::Export(args) => (args, ap2::export),
        Ap2Command::Import(args) if args.payment => (args, ap2::import_payment),
        Ap2Command::Import(args) => (args, ap2::import),
    };
    let text = input::read(&args.file)?;
    let projected = projected(&text, &args.file, args.payment, project)?;
    terminal.out.write_all(&projected)?;
    writeln!(terminal.out)?;
    Ok(Exit::Done)
}

fn projected(text: &[u8], file: &Path, payment: bool, project: Project) -> Result<Vec<u8>, Failed> {
    let name = input::name(file);
    let value = json::read(text, &ReadRules::OWN)
        .map_err(|fault| Failure::no(format!("{name}: {fault}")))?;
    let inner = inner(&value, payment);
    Ok(project(inner).map_err(|fault| {
        let failure = Failure::no(format!("{name}: {fault}"));
        match fault.path == "$.vcp" {
            true => failure.next(
                "AP2 says nothing of budget and authority: put them into a member vcp, as export writes it",
            ),
            false => failure,
        }
    })?)
}

/// What an envelope carries, where the file is one.
fn inner<'v, 'a>(value: &'v Value<'a>, payment: bool) -> &'v Value<'a> {
    let payload = value.get("action").and_then(|action| action.get("payload"));
    let payload = payload.unwrap_or(value);
    match payload.get("payment_mandate") {
        Some(mandate) if payment => mandate,
        _ => payload,
    }
}

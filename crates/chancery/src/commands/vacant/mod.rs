//! `chancery vacant`: a vacant by itself. Makes its key and card, serves it, calls others, and checks what they said.

mod abroad;
mod call;
mod chains;
mod search;
pub(crate) mod send;
mod serve;
mod verify;

use std::io::Write as _;
use std::path::PathBuf;

use chancery_core::digest::hex;
use chancery_store::prune_accepted;
use chancery_vacant::card::CapabilityCard;
use chancery_vacant::error::ProtocolError;
use chancery_vacant::id::VacantId;
use clap::Subcommand;
use serde_json::json;

use super::explain;
use crate::config::{Flags, Sources};
use crate::exit::{Exit, Failure, Outcome};
use crate::secret_file;
use crate::terminal::Terminal;

/// The commands of `vacant`.
#[derive(Debug, Subcommand)]
pub(crate) enum VacantCommand {
    /// Make a vacant: its secret key into a new file, its id on standard output
    #[command(after_help = "Example:\n  chancery vacant init ada.key")]
    Init(InitArgs),
    /// Sign a capability card
    #[command(
        after_help = "Example:\n  chancery vacant card --key ada.key --capability 'proves theorems' --endpoint https://ada.example/a2a/message/send"
    )]
    Card(CardArgs),
    /// Serve one vacant from a folder of its own, which is made if it is not there
    #[command(after_help = "Example:\n  chancery vacant serve --name ada --port 8443")]
    Serve(serve::ServeArgs),
    /// Call a vacant, and verify its answer
    #[command(
        after_help = "Example:\n  chancery vacant call http://127.0.0.1:8700 --key ada.key --text 'hello'"
    )]
    Call(call::CallArgs),
    /// Check a signed message, body or card: its profile, its hash, and whether it holds
    #[command(after_help = "Example:\n  chancery vacant verify answer.json")]
    Verify(verify::VerifyArgs),
    /// Look for a capability in a registry; cards that do not verify are left out
    #[command(after_help = "Example:\n  chancery vacant search http://127.0.0.1:8700 echo")]
    Search(search::SearchArgs),
    /// Drop the index's rows of accepted envelopes but the newest of each pair; the log keeps all
    #[command(after_help = "Example:\n  chancery vacant prune chancery-data")]
    Prune(PruneArgs),
}

/// What `init` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct InitArgs {
    /// The file of the secret: 64 hex characters, mode 0600
    file: PathBuf,
}

/// What `prune` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct PruneArgs {
    /// The data directory of a node that does not run
    data: PathBuf,
}

/// What `card` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct CardArgs {
    /// The vacant's key file
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// What it can do, in words
    #[arg(long, value_name = "TEXT")]
    capability: String,
    /// Where it is called
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
}

/// Runs a command of `vacant`.
pub(crate) fn run(
    command: VacantCommand,
    sources: &dyn Fn(Flags) -> Sources,
    terminal: &mut Terminal,
) -> Outcome {
    match command {
        VacantCommand::Init(args) => init(&args, terminal),
        VacantCommand::Card(args) => card(&args, terminal),
        VacantCommand::Serve(args) => serve::run(&args, sources, terminal),
        VacantCommand::Call(args) => call::run(&args, terminal),
        VacantCommand::Verify(args) => verify::run(&args, terminal),
        VacantCommand::Search(args) => search::run(&args, terminal),
        VacantCommand::Prune(args) => prune(&args, terminal),
    }
}

fn init(args: &InitArgs, terminal: &mut Terminal) -> Outcome {
    let key = secret_file::new_key(&args.file)?;
    let id = VacantId::of(&key);
    if terminal.json {
        terminal.json_line(&json!({"vacant_id": id.hex(), "did_key": id.did_key()}))?;
    } else {
        writeln!(terminal.out, "{}", id.hex())?;
    }
    Ok(Exit::Done)
}

fn card(args: &CardArgs, terminal: &mut Terminal) -> Outcome {
    let key = secret_file::read_key(&args.key)?;
    let id = VacantId::of(&key);
    let card = CapabilityCard::new(id, args.capability.as_str(), args.endpoint.clone());
    let card = card.signed(&key);
    card.check_publishable().map_err(told)?;
    let blob = card.serialize();
    if terminal.json {
        terminal.json_line(&json!({
            "vacant_id": id.hex(), "capability_card_blob_hex": hex::encode(&blob),
        }))?;
    } else {
        writeln!(terminal.out, "{}", String::from_utf8_lossy(&blob))?;
    }
    Ok(Exit::Done)
}

fn prune(args: &PruneArgs, terminal: &mut Terminal) -> Outcome {
    if !args.data.join("index.db").is_file() {
        let what = format!("there is no index in {}", args.data.display());
        return Err(Failure::usage(what)
            .next("name the data directory of a node")
            .into());
    }
    let dropped = prune_accepted(&args.data);
    let dropped = dropped.map_err(|error| Failure::usage(error.to_string()))?;
    if terminal.json {
        terminal.json_line(&json!({ "dropped": dropped }))?;
    } else {
        writeln!(terminal.out, "{dropped} rows dropped")?;
    }
    Ok(Exit::Done)
}

/// A protocol error as the program tells it: exit 1, with its code (VA-CLI-2).
fn told(error: ProtocolError) -> Failure {
    let failure = Failure::no(format!("{}: {error}", error.code()));
    failure.explained(explain::guide_of("vacant", error.code()).as_ref())
}

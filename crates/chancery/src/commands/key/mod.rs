//! `chancery key`: key files, which need no node, and the keyring of a running one.

mod keyring;

use std::io::Write as _;
use std::path::PathBuf;

use chancery_core::keys::ed25519::{VerifyingKey, encode_public_key};
use chancery_core::time::{Time, format_audit, parse_value_context};
use clap::Subcommand;
use serde_json::json;

use crate::config::{Flags, Sources};
use crate::exit::{Exit, Failure, Outcome};
use crate::secret_file;
use crate::terminal::Terminal;

/// The commands of `key`.
#[derive(Debug, Subcommand)]
pub(crate) enum KeyCommand {
    /// Make an Ed25519 key: the secret into a new file, the public half in the form of a trust file
    #[command(
        after_help = "Example:\n  chancery key new parent.key --agent agent://home.local/parent > trust.json"
    )]
    New(KeyArgs),
    /// The public half of a key file
    #[command(after_help = "Example:\n  chancery key show parent.key --json")]
    Show(KeyArgs),
    /// The keys on record
    #[command(after_help = "Example:\n  chancery key list --owner agent://home.local/parent")]
    List(keyring::ListArgs),
    /// Put a key on record
    #[command(
        after_help = "Example:\n  chancery key show parent.key | chancery key add agent://home.local/parent -\n  chancery key new child.key --valid-until 2026-11-15T20:00:00Z | chancery key add agent://home.local/child - --short-lived"
    )]
    Add(keyring::AddArgs),
    /// Make a successor the active key; the one before still verifies until it is retired
    #[command(
        after_help = "Example:\n  chancery key new parent-2.key --id k-02 > k-02.json\n  chancery key rotate agent://home.local/parent k-02.json"
    )]
    Rotate(keyring::EntryArgs),
    /// Withdraw a key for good: what it signs is refused from now on
    #[command(after_help = "Example:\n  chancery key revoke agent://home.local/parent k-01")]
    Revoke(keyring::RevokeArgs),
}

/// A key file, and what a trust file says about its key.
#[derive(Debug, clap::Args)]
pub(crate) struct KeyArgs {
    /// The file of the secret: 64 hex characters, mode 0600
    file: PathBuf,
    /// Whose key it is: writes a whole trust file, instead of one entry of it
    #[arg(long, value_name = "AGENT_ID")]
    agent: Option<String>,
    /// The name of the key among those of its agent
    #[arg(long, default_value = "k-01")]
    id: String,
    /// First instant at which it counts
    #[arg(long, value_name = "TS", default_value = "1970-01-01T00:00:00Z", value_parser = time)]
    valid_from: Time,
    /// Last instant at which it counts
    #[arg(long, value_name = "TS", default_value = "9999-12-31T23:59:59Z", value_parser = time)]
    valid_until: Time,
}

fn time(text: &str) -> Result<Time, String> {
    parse_value_context(text).map_err(|error| error.to_string())
}

/// Runs a command of `key`.
pub(crate) fn run(
    command: KeyCommand,
    sources: &dyn Fn(Flags) -> Sources,
    terminal: &mut Terminal,
) -> Outcome {
    match command {
        KeyCommand::List(args) => keyring::list(&args, sources, terminal),
        KeyCommand::Add(args) => keyring::add(&args, sources, terminal),
        KeyCommand::Rotate(args) => keyring::rotate(&args, sources, terminal),
        KeyCommand::Revoke(args) => keyring::revoke(&args, sources, terminal),
        KeyCommand::New(args) => {
            args.check()?;
            let key = secret_file::new_key(&args.file)?;
            show(&args, &key.verifying_key(), terminal)
        }
        KeyCommand::Show(args) => {
            args.check()?;
            let key = secret_file::read_key(&args.file)?;
            show(&args, &key.verifying_key(), terminal)
        }
    }
}

impl KeyArgs {
    fn check(&self) -> Result<(), Failure> {
        if self.valid_until < self.valid_from {
            return Err(Failure::usage("--valid-until is before --valid-from"));
        }
        if self.id.is_empty() {
            return Err(Failure::usage("--id is empty"));
        }
        Ok(())
    }
}

/// Writes the public half as a trust file has it (VX-KEY-1).
fn show(args: &KeyArgs, public: &VerifyingKey, terminal: &mut Terminal) -> Outcome {
    let entry = json!({
        "id": args.id,
        "algorithm": "ed25519",
        "public_key": encode_public_key(public),
        "state": "active",
        "valid_from": format_audit(args.valid_from).as_str(),
        "valid_until": format_audit(args.valid_until).as_str(),
    });
    let told = match &args.agent {
        Some(agent) => json!({"trust_anchors": {agent: {"type": "agent", "keys": [entry]}}}),
        None => entry,
    };
    if terminal.json {
        terminal.json_line(&told)?;
    } else {
        writeln!(terminal.out, "{told:#}")?;
    }
    Ok(Exit::Done)
}

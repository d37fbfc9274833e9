//! `chancery config`: what is in force and where it was set.

use std::io::Write as _;

use clap::Subcommand;
use serde_json::json;

use super::serve::runtime;
use crate::config::{Config, Flags, Sources, reference_page};
use crate::exit::{Exit, Outcome};
use crate::host::{apply_settings, wrong_files};
use crate::terminal::Terminal;

/// The commands of `config`.
#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Every key with its value and where it was set
    #[command(after_help = "Example:\n  CHANCERY_LISTEN=127.0.0.1:0 chancery config show")]
    Show(ShowArgs),
    /// Whether a node would start with it: each key, and each file that it names
    #[command(after_help = "Example:\n  chancery config check --config node/chancery.toml")]
    Check(CheckArgs),
    /// Let all nodes of a journal in PostgreSQL go by these rule settings
    #[command(after_help = "Example:\n  chancery config apply --config node/chancery.toml")]
    Apply(ApplyArgs),
    /// The reference of all keys, as Markdown
    #[command(after_help = "Example:\n  chancery config reference > configuration.md")]
    Reference,
}

/// What `config show` is asked.
#[derive(Debug, clap::Args)]
pub(crate) struct ShowArgs {
    #[command(flatten)]
    flags: Flags,
}

/// What `config check` is asked.
#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    flags: Flags,
}

/// What `config apply` is asked.
#[derive(Debug, clap::Args)]
pub(crate) struct ApplyArgs {
    #[command(flatten)]
    flags: Flags,
}

/// Runs a command of `config`.
pub(crate) fn run(
    command: ConfigCommand,
    sources: &dyn Fn(Flags) -> Sources,
    terminal: &mut Terminal,
) -> Outcome {
    match command {
        ConfigCommand::Show(args) => show(&sources(args.flags), terminal),
        ConfigCommand::Check(args) => check(&sources(args.flags), terminal),
        ConfigCommand::Apply(args) => apply(&sources(args.flags), terminal),
        ConfigCommand::Reference => {
            terminal.out.write_all(reference_page().as_bytes())?;
            Ok(Exit::Done)
        }
    }
}

fn show(sources: &Sources, terminal: &mut Terminal) -> Outcome {
    let settings = sources.settings()?;
    if terminal.json {
        let keys: serde_json::Map<String, serde_json::Value> = settings
            .iter()
            .map(|setting| {
                let entry = json!({"value": setting.json(), "from": setting.place()});
                (setting.key.name.to_owned(), entry)
            })
            .collect();
        terminal.json_line(&keys)?;
        return Ok(Exit::Done);
    }
    for setting in settings.iter() {
        let place = terminal.dim(&format!("# {}", setting.place()));
        writeln!(terminal.out, "{:<58} {place}", setting.to_string())?;
    }
    Ok(Exit::Done)
}

fn check(sources: &Sources, terminal: &mut Terminal) -> Outcome {
    let config = Config::load(sources)?;
    if let Some(wrong) = wrong_files(&config).into_iter().next() {
        return Err(wrong.failure.into());
    }
    if terminal.json {
        terminal.json_line(&json!({"ok": true}))?;
    } else {
        writeln!(terminal.out, "the configuration is sound")?;
    }
    Ok(Exit::Done)
}

fn apply(sources: &Sources, terminal: &mut Terminal) -> Outcome {
    let config = Config::load(sources)?;
    let runtime = runtime()?;
    let changed = runtime.block_on(apply_settings(&config))?;
    if terminal.json {
        terminal.json_line(&json!({"changed": changed}))?;
    } else if changed.is_empty() {
        writeln!(terminal.out, "the journal goes by these settings")?;
    } else {
        writeln!(
            terminal.out,
            "changed for all nodes: {}",
            changed.join(", ")
        )?;
    }
    Ok(Exit::Done)
}

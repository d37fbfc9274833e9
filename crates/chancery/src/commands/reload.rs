//! `chancery reload`: a running node reads its files again, as SIGHUP lets it.

use std::io::Write as _;

use serde::Deserialize;

use crate::client::{self, NodeArgs};
use crate::config::{Flags, Sources};
use crate::exit::{Exit, Outcome};
use crate::terminal::Terminal;

/// What `reload` is asked.
#[derive(Debug, clap::Args)]
pub(crate) struct ReloadArgs {
    #[command(flatten)]
    node: NodeArgs,
}

#[derive(Deserialize)]
struct Told {
    changed: Vec<Changed>,
    needs_restart: Vec<String>,
}

#[derive(Deserialize)]
struct Changed {
    what: String,
    lines: usize,
}

/// Lets the node read its files again, and tells what came of it.
pub(crate) fn run(
    args: &ReloadArgs,
    sources: &dyn Fn(Flags) -> Sources,
    terminal: &mut Terminal,
) -> Outcome {
    let node = args.node.client(sources)?;
    let answered = client::block_on(node.post(&["admin", "reload"], String::new()))?;
    let answered = answered.done("nothing changed")?;
    if terminal.json {
        writeln!(terminal.out, "{}", answered.text())?;
        return Ok(Exit::Done);
    }
    let told: Told = answered.value()?;
    if told.changed.is_empty() {
        writeln!(terminal.out, "the files say what is on record already")?;
    }
    for changed in &told.changed {
        writeln!(
            terminal.out,
            "changed        {} ({})",
            changed.what, changed.lines
        )?;
    }
    for key in &told.needs_restart {
        writeln!(terminal.out, "needs restart  {key}")?;
    }
    Ok(Exit::Done)
}

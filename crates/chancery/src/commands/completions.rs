//! `chancery completions`.

use clap_complete::Shell;

use crate::exit::{Exit, Outcome};
use crate::terminal::Terminal;

/// What `completions` is asked.
#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Writes the script for a shell.
pub(crate) fn run(args: &CompletionsArgs, terminal: &mut Terminal) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(
        args.shell,
        &mut crate::cli::command(),
        "chancery",
        &mut script,
    );
    terminal.out.write_all(&script)?;
    Ok(Exit::Done)
}

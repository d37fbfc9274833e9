//! `chancery man`.

mod page;

use std::path::{Path, PathBuf};

use clap_mangen::Man;

use crate::exit::{Exit, Failed, Failure, Outcome};
use crate::terminal::Terminal;

/// What `man` is asked.
#[derive(Debug, clap::Args)]
pub(crate) struct ManArgs {
    /// Write one page for each command into this directory, instead of the first to standard output
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write all commands as a page of Markdown
    #[arg(long, conflicts_with = "out")]
    markdown: bool,
}

/// Writes the manual.
pub(crate) fn run(args: &ManArgs, terminal: &mut Terminal) -> Outcome {
    let mut command = crate::cli::command();
    command.build();
    if args.markdown {
        terminal.out.write_all(page::page(&command).as_bytes())?;
        return Ok(Exit::Done);
    }
    match &args.out {
        None => terminal.out.write_all(&first(command)?)?,
        Some(folder) => {
            std::fs::create_dir_all(folder).map_err(|error| cannot_write(folder, &error))?;
            clap_mangen::generate_to(command, folder)
                .map_err(|error| cannot_write(folder, &error))?;
        }
    }
    Ok(Exit::Done)
}

fn first(command: clap::Command) -> Result<Vec<u8>, Failed> {
    let mut page = Vec::new();
    Man::new(command).render(&mut page)?;
    Ok(page)
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    Failure::usage(format!("cannot write {}: {error}", path.display()))
}

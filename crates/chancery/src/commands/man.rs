//! `chancery man`.

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
}

/// Writes the manual.
pub(crate) fn run(args: &ManArgs, terminal: &mut Terminal) -> Outcome {
    let mut command = crate::cli::command();
    command.build();
    match &args.out {
        None => terminal.out.write_all(&page(command)?)?,
        Some(folder) => {
            std::fs::create_dir_all(folder).map_err(|error| cannot_write(folder, &error))?;
            clap_mangen::generate_to(command, folder)
                .map_err(|error| cannot_write(folder, &error))?;
        }
    }
    Ok(Exit::Done)
}

fn page(command: clap::Command) -> Result<Vec<u8>, Failed> {
    let mut page = Vec::new();
    Man::new(command).render(&mut page)?;
    Ok(page)
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Failure {
    Failure::usage(format!("cannot write {}: {error}", path.display()))
}

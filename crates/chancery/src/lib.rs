//! The `chancery` program as a library: its command line, its configuration and its commands.
//!
//! Guarantees: four exit codes and no other (CH-CLI-1); a message for people names what is wrong, where, and what to do
//! next (CH-CLI-3); results go to standard output, everything else to standard error.
//!
//! Refuses to: hold rules of a protocol. Commands call the functions that a node calls.

mod cli;
mod client;
mod commands;
pub mod config;
mod exit;
mod host;
mod input;
mod kit;
pub mod log;
mod secret_file;
mod terminal;

use std::io::Write as _;

pub use cli::{Cli, command};
pub use exit::{Exit, Failed, Failure, Outcome};
pub use terminal::{Progress, Terminal};

/// Reads the command line of this process and runs what it asks for.
pub fn run() -> Exit {
    let cli = match cli::parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            let asked_for = !error.use_stderr();
            return if asked_for { Exit::Done } else { Exit::Usage };
        }
    };
    let mut terminal = Terminal::of_process(cli.json);
    let outcome = commands::run(cli, &mut terminal)
        .and_then(|exit| Ok(terminal.out.flush().map(|()| exit)?));
    match outcome {
        Ok(exit) => exit,
        Err(Failed::NobodyReads) => Exit::Done,
        Err(Failed::Told(failure)) => {
            terminal.tell(&failure);
            failure.exit
        }
    }
}

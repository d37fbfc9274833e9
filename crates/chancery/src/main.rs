//! The `chancery` program: reads the command line, runs the command, ends with its exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    chancery::run().into()
}

//! The `chancery` program: reads the command line, runs the command, ends with its exit code.

use std::process::ExitCode;

/// An envelope is allocated on one thread and freed on another, many times a second: the system's allocator spends a
/// fifth of a busy node's time on that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    chancery::run().into()
}

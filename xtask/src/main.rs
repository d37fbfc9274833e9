//! The project's chores, as one program instead of a folder of scripts.
//!
//! It guarantees that what the README calls "the checks" is this code and nothing beside it, and that every rule it
//! enforces has a test that shows the rule biting. It refuses to change the tree: it reads, runs and reports. Only
//! `bench-report` writes, between two marks of the README.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a chore talks to the person who started it"
)]

mod bench_report;
mod ci;
mod clients;
mod conformance;
mod dist;
mod first_hour;
mod fuzz;
mod pages;
mod project;
mod purity;
mod python;
mod python_package;
mod run;
mod setup;
mod soak;
mod speed;
mod tidy;

use conformance::{Draw, Form};
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  ci                         every check, with a table of its steps
  setup                      install the programs that tests need
  tidy                       the rules about the tree itself
  purity                     no forbidden dependency below a pure crate
  conformance [--json]       every requirement: done, built differently, not done
  conformance --check        whether docs/conformance.md says the same
  conformance --draw N [--seed N]
                             N of those that are done, with their tests, to be looked at
  python                     the Python package: its wheel, its types, its tests
  first-hour [--ci] [--target DIR]
                             the README typed by a stranger in a fresh clone
  bench-report [--seconds N] measures, and writes the figures into the README
  package                    every package builds from what is in it alone
  dist [--quick]             the static program, its manual and completions, a Debian package
  soak [--list | STEP]       the long runs, all or one
  sim --seed N               one seed of the loss test again
  fuzz TARGET [--minutes N]  fuzz one target (10 minutes unless told)
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments.as_slice() {
        ["ci"] => ci::ci(),
        ["setup"] => setup::setup(),
        ["tidy"] => tidy::tidy(),
        ["purity"] => purity::purity(),
        ["conformance"] => conformance::conformance(&Form::Page),
        ["conformance", "--check"] => conformance::conformance(&Form::Check),
        ["conformance", "--json"] => conformance::conformance(&Form::Json),
        ["conformance", "--draw", words @ ..] => match Draw::of(words) {
            Some(wanted) => conformance::conformance(&Form::Draw(wanted)),
            None => return usage(),
        },
        ["python"] => python_package::python(),
        ["first-hour", words @ ..] if first_hour::Wanted::of(words).is_some() => {
            first_hour::first_hour(&first_hour::Wanted::of(words).unwrap_or_default())
        }
        ["bench-report"] => bench_report::bench_report("10"),
        ["bench-report", "--seconds", seconds] => bench_report::bench_report(seconds),
        ["package"] => dist::package(),
        ["dist"] => dist::dist(dist::Build::Release),
        ["dist", "--quick"] => dist::dist(dist::Build::Quick),
        ["soak"] => soak::soak(None),
        ["soak", "--list"] => soak::list(),
        ["soak", step] => soak::soak(Some(step)),
        ["sim", "--seed", seed] => soak::sim(seed),
        ["fuzz", target] => fuzz::fuzz(target, "10"),
        ["fuzz", target, "--minutes", minutes] => fuzz::fuzz(target, minutes),
        ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => return usage(),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// What was typed is no command.
fn usage() -> ExitCode {
    eprint!("{USAGE}");
    ExitCode::from(2)
}

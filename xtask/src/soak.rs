//! Long runs, on demand.
//!
//! A long run is an ordinary test whose number of rounds comes from an environment variable: what `ci` runs briefly,
//! this runs for as long as the figures ask.

use crate::{project, run};
use anyhow::Result;
use std::process::{Command, ExitCode};
use std::time::Instant;

struct Step {
    name: &'static str,
    shows: &'static str,
    package: &'static str,
    test: &'static str,
    rounds: (&'static str, &'static str),
}

/// The one list of long runs.
const STEPS: &[Step] = &[
    Step {
        name: "power-cut",
        shows: "100,000 power cuts under the store: nothing acknowledged is missing",
        package: "chancery-store",
        test: "power_cut",
        rounds: ("CHANCERY_POWER_CUT_SEEDS", "100000"),
    },
    Step {
        name: "kill",
        shows: "1,000 rounds of kill -9 under load: every acknowledged envelope once in the log",
        package: "chancery",
        test: "kill",
        rounds: ("CHANCERY_KILL_ROUNDS", "1000"),
    },
];

/// `cargo xtask soak --list`.
pub fn list() -> Result<ExitCode> {
    for step in STEPS {
        println!("{:<12} {}", step.name, step.shows);
    }
    Ok(ExitCode::SUCCESS)
}

/// `cargo xtask soak [STEP]`.
pub fn soak(only: Option<&str>) -> Result<ExitCode> {
    let steps: Vec<&Step> = STEPS
        .iter()
        .filter(|step| only.is_none_or(|name| name == step.name))
        .collect();
    if steps.is_empty() {
        eprintln!("soak: no such step; these are known:");
        list()?;
        return Ok(ExitCode::from(2));
    }
    let mut all_passed = true;
    let mut report = Vec::new();
    for step in steps {
        let started = Instant::now();
        let (passed, results) =
            run::passes_keeping(&mut command(step), |line| line.starts_with("test result:"))?;
        // a filter that matches no test would otherwise pass without having run anything
        let passed = passed && !ran_nothing(&results);
        all_passed &= passed;
        let verdict = if passed { "passed" } else { "FAILED" };
        report.push(format!(
            "{:<12} {:>8.1} s  {verdict}",
            step.name,
            started.elapsed().as_secs_f64()
        ));
    }
    println!("\n{}", report.join("\n"));
    Ok(if all_passed {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn command(step: &Step) -> Command {
    let arguments = [
        "test",
        "--release",
        "--package",
        step.package,
        "--test",
        "it",
        step.test,
    ];
    let mut command = run::cargo(&project::root(), &arguments);
    command
        .args(["--", "--nocapture"])
        .env(step.rounds.0, step.rounds.1);
    command
}

fn ran_nothing(results: &[String]) -> bool {
    results.iter().all(|line| line.contains(" 0 passed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_an_ordinary_test_with_more_rounds() {
        assert_eq!(
            run::shown(&command(&STEPS[0])),
            "CHANCERY_POWER_CUT_SEEDS=100000 cargo test --release --package chancery-store --test it power_cut \
             -- --nocapture"
        );
    }

    #[test]
    fn a_run_without_tests_is_no_pass() {
        let ok = |count: &str| vec![format!("test result: ok. {count} passed; 0 failed")];
        assert!(ran_nothing(&[]));
        assert!(ran_nothing(&ok("0")));
        assert!(!ran_nothing(&ok("10")));
    }
}

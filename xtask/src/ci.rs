//! Every check, in the order in which a fault is cheapest to find.
//!
//! A failed step does not hide the next: one run shows all faults. Only a workspace that does not compile ends it early,
//! because every later step would say the same. The verdicts of the test binaries and the names of the tests that failed
//! are repeated at the end, above the table of steps.

use crate::conformance::{self, Form};
use crate::{project, purity, python_package, run, setup, tidy};
use anyhow::Result;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

/// How many tests of a binary run at once.
const TEST_THREADS: &str = "RUST_TEST_THREADS";

struct Step {
    name: String,
    time: Duration,
    passed: bool,
}

struct Run {
    root: PathBuf,
    steps: Vec<Step>,
    test_results: Vec<String>,
}

/// `cargo xtask ci`.
pub fn ci() -> Result<ExitCode> {
    let root = project::root();
    let mut run = Run {
        root,
        steps: Vec::new(),
        test_results: Vec::new(),
    };
    let succeeds = |chore: Result<ExitCode>| chore.map(|code| code == ExitCode::SUCCESS);
    run.step("setup", |_| succeeds(setup::setup()));
    run.step("format", Run::format);
    run.step("tidy", |_| succeeds(tidy::tidy()));
    run.step("purity", |_| succeeds(purity::purity()));
    run.step("conformance", |_| {
        succeeds(conformance::conformance(&Form::Check))
    });
    if run.step("build", Run::build) {
        run.step("clippy", Run::clippy);
        run.step("test", Run::test);
        run.step("test preserve_order", Run::test_preserve_order);
        run.step("python", |_| succeeds(python_package::in_place()));
        run.step("test seeded faults", Run::test_seeded_faults);
    }
    print!("\n{}", run.summary());
    Ok(if run.passed() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

impl Run {
    /// Does one step, notes its time and whether it passed. An error is a failed step, not the end of the run.
    fn step(&mut self, name: &str, work: impl FnOnce(&mut Self) -> Result<bool>) -> bool {
        println!("\n== {name}");
        let started = Instant::now();
        let passed = work(self).unwrap_or_else(|error| {
            eprintln!("{name}: {error:#}");
            false
        });
        self.steps.push(Step {
            name: name.to_owned(),
            time: started.elapsed(),
            passed,
        });
        passed
    }

    /// The workspace, and the fuzz targets, which are one of their own.
    fn format(&mut self) -> Result<bool> {
        let mut all_passed = true;
        for manifest in ["Cargo.toml", "fuzz/Cargo.toml"] {
            let arguments = ["fmt", "--all", "--check", "--manifest-path", manifest];
            all_passed &= run::passes(&mut run::cargo(&self.root, &arguments))?;
        }
        Ok(all_passed)
    }

    fn build(&mut self) -> Result<bool> {
        run::passes(&mut run::cargo(&self.root, project::BUILD_ALL))
    }

    /// All features: no line escapes the lints because nothing turned it on.
    fn clippy(&mut self) -> Result<bool> {
        let mut command = self.over_workspace(&["clippy", "--all-targets", "--all-features"]);
        run::passes(command.args(["--", "-D", "warnings"]))
    }

    /// All tests, also those in documentation; a failed binary does not keep the others from running. Many wait for servers
    /// and deadlines most of their time, so there are more of them at once than cores.
    fn test(&mut self) -> Result<bool> {
        let mut command = self.over_workspace(&["test", "--no-fail-fast"]);
        if std::env::var_os(TEST_THREADS).is_none() {
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            command.env(
                TEST_THREADS,
                cores.div_ceil(2).saturating_add(cores).to_string(),
            );
        }
        self.keep_results(command)
    }

    /// The canonical forms once more with serde_json's `preserve_order` on: feature unification may turn it on for a whole
    /// build, and no byte may change. In a cargo run of its own, because the others must not see the feature.
    fn test_preserve_order(&mut self) -> Result<bool> {
        let arguments = [
            "test",
            "--package",
            "chancery-core",
            "--features",
            "serde_json/preserve_order",
            "--test",
            "it",
            "canonical",
        ];
        let command = run::cargo(&self.root, &arguments);
        self.keep_results(command)
    }

    /// The test kit against nodes that are wrong on purpose, in a build that no other step uses. Over the workspace, so that
    /// other people's crates are those of the steps before.
    fn test_seeded_faults(&mut self) -> Result<bool> {
        let seeded = ["--features", "chancery/seeded-faults", "--test", "seeded"];
        let mut command = self.over_workspace(&["test"]);
        command.args(seeded);
        self.keep_results(command)
    }

    fn keep_results(&mut self, mut command: Command) -> Result<bool> {
        let (passed, results) = run::passes_keeping(&mut command, is_kept)?;
        self.test_results.extend(results);
        Ok(passed)
    }

    fn over_workspace(&self, arguments: &[&str]) -> Command {
        let mut command = run::cargo(&self.root, arguments);
        command.arg("--workspace");
        command
    }

    fn passed(&self) -> bool {
        self.steps.iter().all(|step| step.passed)
    }

    /// What cargo said about each test binary that holds tests and each test that failed, then the table.
    fn summary(&self) -> String {
        let results = self
            .test_results
            .iter()
            .filter(|line| !line.contains("ok. 0 passed; 0 failed"));
        let mut out: String = results.map(|line| format!("{line}\n")).collect();
        out += &format!("\n{:<28} {:>8}\n", "step", "seconds");
        for step in &self.steps {
            let verdict = if step.passed { "pass" } else { "FAIL" };
            out += &format!(
                "{:<28} {:>8.1}  {verdict}\n",
                step.name,
                step.time.as_secs_f64()
            );
        }
        let total: f64 = self.steps.iter().map(|step| step.time.as_secs_f64()).sum();
        let verdict = if self.passed() { "pass" } else { "FAIL" };
        out + &format!("{:<28} {total:>8.1}  {verdict}\n", "all")
    }
}

/// The verdict of a test binary, or of a test that failed: whoever reads only the end still learns its name.
fn is_kept(line: &str) -> bool {
    line.starts_with("test result:") || (line.starts_with("test ") && line.ends_with("... FAILED"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty_run() -> Run {
        Run {
            root: PathBuf::from("."),
            steps: Vec::new(),
            test_results: Vec::new(),
        }
    }

    #[test]
    fn a_failed_step_and_an_error_both_fail_the_run_and_neither_ends_it() {
        let mut run = empty_run();
        assert!(run.step("one", |_| Ok(true)));
        assert!(run.passed());
        assert!(!run.step("two", |_| Ok(false)));
        assert!(!run.step("three", |_| anyhow::bail!("broken")));
        run.step("four", |_| Ok(true));
        assert!(!run.passed());
        let verdicts: Vec<bool> = run.steps.iter().map(|step| step.passed).collect();
        assert_eq!(verdicts, [true, false, false, true]);
    }

    #[test]
    fn the_summary_shows_the_results_of_tests_and_ends_with_the_table() {
        let mut run = empty_run();
        run.test_results = vec![
            "ok. 0 passed; 0 failed".to_owned(),
            "ok. 3 passed; 0 failed".to_owned(),
        ];
        run.steps.push(Step {
            name: "test".into(),
            time: Duration::from_millis(1500),
            passed: false,
        });
        let lines: Vec<String> = run.summary().lines().map(str::to_owned).collect();
        assert_eq!(lines[0], "ok. 3 passed; 0 failed");
        let columns = |line: &str| {
            line.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(columns(&lines[3]), ["test", "1.5", "FAIL"]);
        assert_eq!(columns(&lines[4]), ["all", "1.5", "FAIL"]);
    }
    #[test]
    fn the_names_of_failed_tests_are_kept_beside_the_verdicts() {
        let said = [
            "running 3 tests",
            "test kill::one_that_is_well ... ok",
            "test kill::one_that_is_not ... FAILED",
            "test src/lib.rs - seal (line 12) ... FAILED",
            "    kill::one_that_is_not",
            "test result: FAILED. 1 passed; 2 failed",
        ];
        let kept: Vec<&str> = said.into_iter().filter(|line| is_kept(line)).collect();
        assert_eq!(kept, [said[2], said[3], said[5]]);
    }
}

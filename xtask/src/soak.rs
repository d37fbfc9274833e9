//! Long runs, on demand.
//!
//! A long run is an ordinary test whose number of rounds comes from an environment variable: what `ci` runs briefly,
//! this runs for as long as the figures ask.

use crate::{dist, first_hour, project, python_package, run, setup, speed};
use anyhow::Result;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
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
    Step {
        name: "postgres-kill",
        shows: "400 kills of a node and of PostgreSQL under load: every acknowledged envelope once in the log",
        package: "chancery",
        test: "on_postgres::kills",
        rounds: ("CHANCERY_PG_KILLS", "400"),
    },
    Step {
        name: "three-nodes",
        shows: "30 minutes of three nodes on one journal, killed and paused, PostgreSQL and NATS restarted: one order, linearizable",
        package: "chancery",
        test: "three_nodes::three_nodes",
        rounds: ("CHANCERY_CHAOS_S", "1800"),
    },
    Step {
        name: "loss",
        shows: "20,000 seeds of a lossy network: every escalation is acknowledged or reported, nothing is processed twice",
        package: "chancery-node",
        test: "loss::every",
        rounds: ("CHANCERY_SIM_SEEDS", "20000"),
    },
    Step {
        name: "agh-flood",
        shows: "a million greetings, identifiers, questions and reflections at the default limits: bounded",
        package: "chancery-agh",
        test: "floods",
        rounds: ("CHANCERY_FLOOD", "1000000"),
    },
    Step {
        name: "agh-instructions",
        shows: "one more AGH envelope at 100,000 entries costs at most 1.5 times the instructions at 1,000",
        package: "chancery-agh",
        test: "instructions",
        rounds: ("CHANCERY_COUNTED", "100000"),
    },
    Step {
        name: "vibe-model",
        shows: "a million steps of vibe beside a model of it: no difference, replay byte for byte",
        package: "chancery-vibe",
        test: "model",
        rounds: ("CHANCERY_MODEL_STEPS", "1000000"),
    },
    Step {
        name: "vibe-race",
        shows: "10,000 rounds of 64 buyers on the last units: winners are the stock, never oversold",
        package: "chancery-doors",
        test: "the_last_units_are_sold_once_in_process",
        rounds: ("CHANCERY_RACE_ROUNDS_IN_PROCESS", "10000"),
    },
    Step {
        name: "vibe-race-postgres",
        shows: "200 rounds of the same over HTTP with the journal in PostgreSQL",
        package: "chancery-doors",
        test: "the_last_units_are_sold_once_also_in_postgresql",
        rounds: ("CHANCERY_RACE_ROUNDS_POSTGRES", "200"),
    },
    Step {
        name: "vibe-storm",
        shows: "20 minutes of whole deals while the node is killed: the ledger is the replayed one",
        package: "chancery",
        test: "vibe_storm",
        rounds: ("CHANCERY_STORM_S", "1200"),
    },
    Step {
        name: "vibe-cuts",
        shows: "a log of deals cut at every byte of every unit, each time started on the durable store",
        package: "chancery-doors",
        test: "vibe_cuts",
        rounds: ("CHANCERY_CUT_STRIDE", "1"),
    },
    Step {
        name: "paths",
        shows: "30 minutes of requests made from the description of the paths: no server error, no answer that is not described",
        package: "chancery",
        test: "described_paths",
        rounds: ("CHANCERY_PATHS_S", "1800"),
    },
    Step {
        name: "vibe-apply",
        shows: "100,000 SKUs put on record by `chancery world apply`; prints the seconds",
        package: "chancery",
        test: "world_apply",
        rounds: ("CHANCERY_APPLY_SKUS", "100000"),
    },
    Step {
        name: "vibe-what-if",
        shows: "a million lines of deals replayed, and judged under other policies within a minute each; prints seconds and memory",
        package: "chancery",
        test: "what_if::",
        rounds: ("CHANCERY_WHAT_IF_LINES", "1000000"),
    },
];

/// Steps that make what nobody has thought of: a long run draws another seed each time. A failure is seen again with the
/// variable set to it.
const SEEDS: [(&str, &str); 1] = [("paths", "CHANCERY_PATHS_SEED")];

/// The variable of a step's seed and the seed: the one that is set, else one that is drawn.
fn seed_of(step: &Step) -> Option<(&'static str, String)> {
    let (_, name) = SEEDS.iter().find(|(of, _)| *of == step.name)?;
    let drawn = || u32::try_from(any_seed() >> 32).unwrap_or(0);
    let seed = std::env::var(name).unwrap_or_else(|_| drawn().to_string());
    Some((name, seed))
}

/// A seed that nobody chose.
pub fn any_seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// A chore that takes too long for every run.
struct Chore {
    name: &'static str,
    shows: &'static str,
    work: fn() -> Result<ExitCode>,
}

const CHORES: &[Chore] = &[
    Chore {
        name: "package",
        shows: "`cargo package --workspace`: every package builds from what is in it alone",
        work: dist::package,
    },
    Chore {
        name: "install",
        shows: "`cargo install --path crates/chancery`: the installed program plays its demo",
        work: dist::install,
    },
    Chore {
        name: "first-hour",
        shows: "the README typed by a stranger in a fresh clone; when each protocol has the first envelope of one's own",
        work: || first_hour::first_hour(&first_hour::Wanted::default()),
    },
    Chore {
        name: "python",
        shows: "the wheel of the Python package, installed, with its types and tests",
        work: python_package::python,
    },
    Chore {
        name: "speed",
        shows: "`chancery bench postgres` on a quiet machine: ratios of at least 0.5, 0.8 and 0.8, a stop on another node within 50 ms",
        work: speed::speed,
    },
    Chore {
        name: "dist",
        shows: "the static program runs its demo in an empty root; completions, manual, Debian package",
        work: || dist::dist(dist::Build::Release),
    },
];

/// One of either.
enum Work {
    Test(&'static Step),
    Chore(&'static Chore),
}

impl Work {
    fn all() -> impl Iterator<Item = Self> {
        let tests = STEPS.iter().map(Self::Test);
        tests.chain(CHORES.iter().map(Self::Chore))
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Test(step) => step.name,
            Self::Chore(chore) => chore.name,
        }
    }

    fn shows(&self) -> &'static str {
        match self {
            Self::Test(step) => step.shows,
            Self::Chore(chore) => chore.shows,
        }
    }

    /// Does it. Did it pass?
    fn run(&self) -> Result<bool> {
        let step = match self {
            Self::Chore(chore) => return Ok((chore.work)()? == ExitCode::SUCCESS),
            Self::Test(step) => step,
        };
        let mut command = command(step);
        if let Some((name, seed)) = seed_of(step) {
            println!("{}: {name}={seed}", step.name);
            command.env(name, seed);
        }
        let (passed, results) =
            run::passes_keeping(&mut command, |line| line.starts_with("test result:"))?;
        // a filter that matches no test would otherwise pass without having run anything
        Ok(passed && !ran_nothing(&results))
    }
}

/// `cargo xtask soak --list`.
pub fn list() -> Result<ExitCode> {
    for work in Work::all() {
        println!("{:<12} {}", work.name(), work.shows());
    }
    Ok(ExitCode::SUCCESS)
}

/// `cargo xtask soak [STEP]`.
pub fn soak(only: Option<&str>) -> Result<ExitCode> {
    let works: Vec<Work> = Work::all()
        .filter(|work| only.is_none_or(|name| name == work.name()))
        .collect();
    if works.is_empty() {
        eprintln!("soak: no such step; these are known:");
        list()?;
        return Ok(ExitCode::from(2));
    }
    // What is missing would be found out after the build, hours into a night of runs.
    let code = setup::setup()?;
    if code != ExitCode::SUCCESS {
        return Ok(code);
    }
    let mut all_passed = true;
    let mut report = Vec::new();
    for work in works {
        let started = Instant::now();
        // an error is a failed step, not the end of the run
        let passed = work.run().unwrap_or_else(|error| {
            eprintln!("{}: {error:#}", work.name());
            false
        });
        all_passed &= passed;
        let verdict = if passed { "passed" } else { "FAILED" };
        report.push(format!(
            "{:<12} {:>8.1} s  {verdict}",
            work.name(),
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

/// `cargo xtask sim --seed N`: one seed of the loss test, as a failure names it.
pub fn sim(seed: &str) -> Result<ExitCode> {
    if seed.parse::<u64>().is_err() {
        eprintln!("sim: {seed} is no seed: a whole number from 0 on");
        return Ok(ExitCode::from(2));
    }
    let (passed, results) =
        run::passes_keeping(&mut one_seed(seed), |line| line.starts_with("test result:"))?;
    Ok(if passed && !ran_nothing(&results) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn one_seed(seed: &str) -> Command {
    let arguments = [
        "test",
        "--package",
        "chancery-node",
        "--test",
        "it",
        "loss::every",
    ];
    let mut command = run::cargo(&project::root(), &arguments);
    command
        .args(["--", "--nocapture"])
        .env("CHANCERY_SIM_SEEDS", "1")
        .env("CHANCERY_SIM_FIRST", seed);
    command
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
    fn a_long_run_of_paths_draws_a_seed() {
        let step = |name: &str| STEPS.iter().find(|step| step.name == name).unwrap();
        let seeds: Vec<_> = (0..4).filter_map(|_| seed_of(step("paths"))).collect();
        assert_eq!(seeds.len(), 4);
        assert!(seeds.iter().any(|other| *other != seeds[0]), "{seeds:?}");
        assert!(seeds.iter().all(|(_, seed)| seed.parse::<u32>().is_ok()));
        assert_eq!(seed_of(step("kill")), None);
    }

    #[test]
    fn a_seed_of_the_loss_test_runs_alone() {
        assert_eq!(
            run::shown(&one_seed("17")),
            "CHANCERY_SIM_FIRST=17 CHANCERY_SIM_SEEDS=1 cargo test --package chancery-node --test it loss::every \
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

//! How fast several nodes of one journal have to be: `chancery bench postgres`, held against its promises.
//!
//! For a quiet machine: what others do on it at the same time is measured with it.

use crate::{bench_report, project, run};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::process::ExitCode;

/// Seconds of all measurements together.
const SECONDS: &str = "120";
/// The least ratio of each: one node to a node on files, several to one.
const RATIOS: [(&str, f64); 3] = [
    ("postgres, 1 node", 0.5),
    ("postgres, 2 nodes", 0.8),
    ("postgres, 3 nodes", 0.8),
];
/// A sender is stopped on another node within less than this, in ms, 99 times of 100.
const STOPPED: (&str, f64) = ("stopped on another node", 50.0);

/// Measures, and tells what is missed.
pub fn speed() -> Result<ExitCode> {
    let root = project::root();
    let mut build = run::cargo(&root, &["build", "--release", "--package", "chancery"]);
    ensure!(run::passes(&mut build)?, "the program was not built");
    let program = project::build_folder()?.join("release/chancery");
    let reports = bench_report::measured(&program, &["postgres"], SECONDS)?;
    let missed = missed(&reports)?;
    for promise in &missed {
        eprintln!("speed: {promise}");
    }
    Ok(match missed.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// What the reports do not hold.
fn missed(reports: &[Value]) -> Result<Vec<String>> {
    let figure = |bench: &str, name: &str| {
        let report = reports.iter().find(|report| report["bench"] == bench);
        let figure = report.and_then(|report| report[name].as_f64());
        figure.with_context(|| format!("no {name} of {bench}"))
    };
    let mut missed = Vec::new();
    for (bench, least) in RATIOS {
        let ratio = figure(bench, "ratio")?;
        if ratio < least {
            missed.push(format!("{bench}: a ratio of {ratio:.3}, not {least}"));
        }
    }
    let (bench, below) = STOPPED;
    let p99_ms = figure(bench, "p99_ms")?;
    if p99_ms >= below {
        missed.push(format!("{bench}: {p99_ms:.1} ms, not less than {below}"));
    }
    Ok(missed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn reports(ratios: [f64; 3], p99_ms: f64) -> Vec<Value> {
        let report =
            |(bench, ratio): (&str, f64)| json!({"bench": bench, "ratio": ratio, "p99_ms": 400.0});
        let names = RATIOS.map(|(bench, _)| bench);
        let mut reports: Vec<Value> = names.into_iter().zip(ratios).map(report).collect();
        reports.push(json!({"bench": STOPPED.0, "ratio": 1.0, "p99_ms": p99_ms}));
        reports
    }

    #[test]
    fn what_is_slower_than_promised_is_told() {
        let held = missed(&reports([0.5, 0.8, 0.8], 49.9)).unwrap();
        assert_eq!(held, Vec::<String>::new());
        let told = missed(&reports([0.49, 0.79, 0.7], 50.0)).unwrap();
        assert_eq!(
            told,
            [
                "postgres, 1 node: a ratio of 0.490, not 0.5",
                "postgres, 2 nodes: a ratio of 0.790, not 0.8",
                "postgres, 3 nodes: a ratio of 0.700, not 0.8",
                "stopped on another node: 50.0 ms, not less than 50",
            ]
        );
    }

    #[test]
    fn a_figure_that_is_not_there_is_no_pass() {
        let mut reports = reports([1.0; 3], 1.0);
        reports.pop();
        assert!(missed(&reports).is_err());
    }
}

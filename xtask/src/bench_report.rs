//! The figures of the README: this build beside the bare limits of the same machine, with the machine and the day.

use crate::{project, run};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

/// Between these the figures stand.
const MARKS: [&str; 2] = ["<!-- figures -->\n", "<!-- end of figures -->\n"];
/// What is measured. Each compares with a bare limit in the same run.
const BENCHES: &[&[&str]] = &[
    &["pipeline", "--protocol", "value-context"],
    &["pipeline", "--protocol", "agh"],
    &["http", "--protocol", "value-context"],
    &["http", "--protocol", "vibe"],
    &["http", "--protocol", "vacant"],
    &["store"],
    &["replay"],
    &["replay", "--protocol", "vibe"],
];

/// Where and when.
struct Machine {
    processor: String,
    cores: usize,
    memory_gib: u64,
    day: String,
}

/// `cargo xtask bench-report`: measures for so many seconds each and writes the README.
pub fn bench_report(seconds: &str) -> Result<ExitCode> {
    let root = project::root();
    let mut build = run::cargo(&root, &["build", "--release", "--package", "chancery"]);
    ensure!(run::passes(&mut build)?, "the program was not built");
    let program = project::build_folder()?.join("release/chancery");
    let machine = Machine::this()?;
    let mut reports = Vec::new();
    for bench in BENCHES {
        reports.extend(measured(&program, bench, seconds)?);
    }
    let readme = root.join("README.md");
    let text = fs::read_to_string(&readme)?;
    let figures = figures(&machine, &reports)?;
    fs::write(&readme, between(&text, &figures)?)?;
    print!("{figures}");
    Ok(ExitCode::SUCCESS)
}

/// Runs one bench and reads its reports, one a line.
pub fn measured(program: &Path, bench: &[&str], seconds: &str) -> Result<Vec<Value>> {
    let mut command = Command::new(program);
    command
        .arg("bench")
        .args(bench)
        .args(["--seconds", seconds, "--json"]);
    let (passed, lines) = run::passes_keeping(&mut command, |line| line.starts_with('{'))?;
    ensure!(passed, "failed: {}", run::shown(&command));
    let read = |line: &String| serde_json::from_str(line).context("a report is JSON");
    lines.iter().map(read).collect()
}

impl Machine {
    fn this() -> Result<Self> {
        let of = |file: &str, name: &str| -> Result<String> {
            let text = fs::read_to_string(file)?;
            let line = text.lines().find(|line| line.starts_with(name));
            let value = line.and_then(|line| Some(line.split_once(':')?.1.trim().to_owned()));
            value.with_context(|| format!("{file} has no {name}"))
        };
        let memory = of("/proc/meminfo", "MemTotal")?;
        let kib: u64 = memory.trim_end_matches(" kB").parse()?;
        let day = Command::new("date").args(["-u", "+%F"]).output()?;
        Ok(Self {
            processor: of("/proc/cpuinfo", "model name").unwrap_or_else(|_| "unnamed".to_owned()),
            cores: std::thread::available_parallelism()?.get(),
            memory_gib: (kib + (1 << 19)) >> 20,
            day: String::from_utf8(day.stdout)?.trim().to_owned(),
        })
    }
}

/// The sentence and the table.
fn figures(machine: &Machine, reports: &[Value]) -> Result<String> {
    let Machine {
        processor,
        cores,
        memory_gib,
        day,
    } = machine;
    let mut text = format!(
        "Measured on {day}, on {cores} cores of {processor} with {memory_gib} GiB, by `cargo xtask bench-report`: each rate beside the bare \
         limit of the\nsame machine in the same run.\n\n\
         | bench | a second | bare limit | the bare limit is | of it | p50 | p99 | processor each |\n|---|---|---|---|---|---|---|---|\n"
    );
    for report in reports {
        text.push_str(&row(report).with_context(|| format!("a report lacks a member: {report}"))?);
    }
    Ok(text)
}

fn row(report: &Value) -> Option<String> {
    let number = |name: &str| report[name].as_f64();
    let time = |name: &str| number(name).map_or_else(String::new, |ms| format!("{ms:.2} ms"));
    let processor = number("cpu_us_per_envelope");
    let deals = number("deals_per_s").map(|deals| format!(" ({} whole deals)", grouped(deals)));
    Some(format!(
        "| {} | {}{} | {} | {} | {} | {} | {} | {} |\n",
        name(report)?,
        grouped(number("rate_per_s")?),
        deals.unwrap_or_default(),
        number("limit_per_s").map_or_else(String::new, grouped),
        report["limit"].as_str().unwrap_or_default(),
        number("ratio").map_or_else(String::new, |ratio| format!("{:.0} %", ratio * 100.0)),
        time("p50_ms"),
        time("p99_ms"),
        processor.map_or_else(String::new, |us| format!("{us:.0} µs")),
    ))
}

/// What was measured, of which protocol, and how: `http vibe, one scripted agent`.
fn name(report: &Value) -> Option<String> {
    let bench = report["bench"].as_str()?;
    let (what, how) = bench.split_once([',', ' ']).unwrap_or((bench, ""));
    let mut name = what.to_owned();
    for (part, between) in [
        (report["protocol"].as_str().unwrap_or_default(), " "),
        (how.trim(), ", "),
    ] {
        if !part.is_empty() {
            name.extend([between, part]);
        }
    }
    Some(name)
}

/// `12,345`.
fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The text with what stands between the marks replaced.
fn between(text: &str, figures: &str) -> Result<String> {
    let [begin, end] = MARKS;
    let (before, rest) = text.split_once(begin).context("no mark of the figures")?;
    let (_, after) = rest.split_once(end).context("no end of the figures")?;
    Ok(format!("{before}{begin}{figures}{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn report() -> Value {
        json!({"bench": "http", "protocol": "agh", "store": "embedded", "rate_per_s": 12_345.6, "limit": "a bare server",
            "limit_per_s": 24_691.2, "ratio": 0.5, "p50_ms": 1.25, "p99_ms": 3.0, "p999_ms": 4.0,
            "cpu_us_per_envelope": 80.4, "peak_rss_bytes": 1})
    }

    #[test]
    fn a_report_becomes_a_row_beside_its_bare_limit() {
        let row = row(&report()).unwrap();
        let expected =
            "| http agh | 12,346 | 24,691 | a bare server | 50 % | 1.25 ms | 3.00 ms | 80 µs |\n";
        assert_eq!(row, expected);
        let mut of_deals = report();
        of_deals["deals_per_s"] = json!(2_469.1);
        let row = super::row(&of_deals).unwrap();
        assert!(row.contains("| 12,346 (2,469 whole deals) |"), "{row}");
        assert_eq!(super::row(&json!({"bench": "http"})), None);
        assert_eq!(
            [0.4, 999.0, 1_000.0, 1e6].map(grouped),
            ["0", "999", "1,000", "1,000,000"]
        );
    }

    #[test]
    fn a_row_is_named_for_what_was_measured_of_which_protocol_and_how() {
        let named = |bench: &str, protocol: Value| {
            name(&json!({"bench": bench, "protocol": protocol})).unwrap()
        };
        assert_eq!(named("replay", json!("vibe")), "replay vibe");
        assert_eq!(named("http idle", json!("vibe")), "http vibe, idle");
        let agent = named("http, one scripted agent", json!("vibe"));
        assert_eq!(agent, "http vibe, one scripted agent");
        assert_eq!(named("search", Value::Null), "search");
    }

    /// What an entry of the list measures, as its rows are named: value-context where it says no other.
    fn named_by(bench: &[&str]) -> String {
        let protocol = bench.iter().position(|word| *word == "--protocol");
        let protocol = protocol.map_or("value-context", |at| bench[at + 1]);
        format!("{} {protocol}", bench[0])
    }

    #[test]
    fn the_figures_of_the_readme_have_a_day_and_a_row_for_each_bench() {
        let readme = fs::read_to_string(project::root().join("README.md")).unwrap();
        let (_, rest) = readme.split_once(MARKS[0]).unwrap();
        let (figures, _) = rest.split_once(MARKS[1]).unwrap();
        let day = figures.strip_prefix("Measured on ").unwrap();
        let day: Vec<&str> = day[..10].split('-').collect();
        assert_eq!(
            day.iter().map(|part| part.len()).collect::<Vec<_>>(),
            [4, 2, 2]
        );
        assert!(
            day.iter().all(|part| part.parse::<u32>().is_ok()),
            "{day:?}"
        );
        let cells = |line: &str| -> Vec<String> {
            let cells = line.trim_matches('|').split(" | ");
            cells.map(|cell| cell.trim().to_owned()).collect()
        };
        let lines = figures.lines().filter(|line| line.starts_with("| "));
        let rows: Vec<Vec<String>> = lines.map(cells).collect();
        assert!(rows[0].iter().all(|head| !head.is_empty()), "{:?}", rows[0]);
        let names: Vec<&str> = rows[1..].iter().map(|row| row[0].as_str()).collect();
        let is_of = |name: &str, bench: &&[&str]| {
            let begin = named_by(bench);
            name == begin || name.starts_with(&format!("{begin}, "))
        };
        for bench in BENCHES {
            let own = names.iter().any(|name| is_of(name, bench));
            assert!(own, "no row of {bench:?} in {names:?}");
        }
        for (at, name) in names.iter().enumerate() {
            assert!(BENCHES.iter().any(|bench| is_of(name, bench)), "{name}");
            assert!(!names[..at].contains(name), "{name} stands twice");
        }
        // What every report has, every row has: a rate, its limit and what that is.
        for row in &rows[1..] {
            assert!(row[1..5].iter().all(|cell| !cell.is_empty()), "{row:?}");
        }
    }

    #[test]
    fn only_what_is_between_the_marks_changes() {
        let text = format!("before\n{}old\n{}after\n", MARKS[0], MARKS[1]);
        let once = between(&text, "new\n").unwrap();
        assert_eq!(once, text.replace("old", "new"));
        assert_eq!(between(&once, "old\n").unwrap(), text);
        assert!(between("no marks", "new").is_err());
        let readme = fs::read_to_string(project::root().join("README.md")).unwrap();
        assert!(between(&readme, "new").is_ok());
    }

    #[test]
    fn machine_and_day_stand_above_the_table() {
        let machine = Machine::this().unwrap();
        let told = figures(&machine, &[report()]).unwrap();
        assert!(told.contains(&machine.day) && told.contains(&machine.processor));
        assert_eq!(machine.day.len(), "2026-11-16".len());
        assert_eq!(told.lines().count(), 6);
    }
}

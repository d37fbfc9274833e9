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
    &["pipeline", "--protocol", "vacant"],
    &["pipeline", "--protocol", "agh"],
    &["http", "--protocol", "value-context"],
    &["http", "--protocol", "vibe"],
    &["http", "--protocol", "vacant"],
    &["http", "--protocol", "agh"],
    &["store"],
    &["replay"],
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
fn measured(program: &Path, bench: &[&str], seconds: &str) -> Result<Vec<Value>> {
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
         | bench | a second | bare limit | | of it | p50 | p99 | processor each |\n|---|---|---|---|---|---|---|---|\n"
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
    Some(format!(
        "| {} {} | {} | {} | {} | {} | {} | {} | {} |\n",
        report["bench"].as_str()?,
        report["protocol"].as_str().unwrap_or_default(),
        grouped(number("rate_per_s")?),
        number("limit_per_s").map_or_else(String::new, grouped),
        report["limit"].as_str().unwrap_or_default(),
        number("ratio").map_or_else(String::new, |ratio| format!("{:.0} %", ratio * 100.0)),
        time("p50_ms"),
        time("p99_ms"),
        processor.map_or_else(String::new, |us| format!("{us:.0} µs")),
    ))
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
        assert_eq!(super::row(&json!({"bench": "http"})), None);
        assert_eq!(
            [0.4, 999.0, 1_000.0, 1e6].map(grouped),
            ["0", "999", "1,000", "1,000,000"]
        );
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

//! Every benchmark runs and says all it has to say. No figure is judged here: tests run beside others.
#![allow(clippy::unwrap_used, reason = "helpers of tests may fail like tests")]

use std::collections::BTreeSet;
use std::process::Command;

const MEMBERS: [&str; 12] = [
    "bench",
    "protocol",
    "store",
    "rate_per_s",
    "limit",
    "limit_per_s",
    "ratio",
    "p50_ms",
    "p99_ms",
    "p999_ms",
    "cpu_us_per_envelope",
    "peak_rss_bytes",
];

/// Members that a report has beside those of all.
fn more_of(name: &str) -> &'static [&'static str] {
    match name {
        "http of vibe" | "http, one scripted agent of vibe" => &["deals_per_s"],
        "search of vibe" => &["max_ms"],
        _ => &[],
    }
}

/// Checks a report's own members: a deal is five envelopes, and none took longer than the slowest.
fn check_own(name: &str, report: &serde_json::Map<String, serde_json::Value>) {
    let number = |member: &str| report.get(member).and_then(serde_json::Value::as_f64);
    if let Some(deals) = number("deals_per_s") {
        let envelopes = number("rate_per_s").unwrap();
        assert!((deals * 5.0 - envelopes).abs() < 1e-6 * envelopes, "{name}");
    }
    if let Some(slowest) = number("max_ms") {
        assert!(slowest >= number("p999_ms").unwrap(), "{name}");
    }
}

#[test]
fn every_benchmark_runs_and_its_report_has_all_members() {
    // CH-BEN-1
    let dir = tempfile::tempdir().unwrap();
    let out = Command::new(env!("CARGO_BIN_EXE_chancery-bench"))
        .args(["quick", "--json", "--dir"])
        .arg(dir.path())
        .output()
        .unwrap();
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    let mut names = Vec::new();
    for line in String::from_utf8(out.stdout).unwrap().lines() {
        let report: serde_json::Value = serde_json::from_str(line).unwrap();
        let report = report.as_object().unwrap();
        assert!(report["ratio"].as_f64().unwrap() > 0.0, "{line}");
        let protocol = report["protocol"]
            .as_str()
            .filter(|name| *name != "value-context");
        let words = [report["bench"].as_str(), protocol];
        let name = words.into_iter().flatten().collect::<Vec<_>>().join(" of ");
        let members: BTreeSet<&str> = report.keys().map(String::as_str).collect();
        let expected = MEMBERS.iter().chain(more_of(&name)).copied().collect();
        assert_eq!(members, expected, "{line}");
        check_own(&name, report);
        names.push(name);
    }
    let expected = [
        "pipeline",
        "turns of vibe",
        "pipeline of agh",
        "store append",
        "store sustained",
        "replay",
        "replay of vibe",
        "http",
        "http idle",
        "http of vibe",
        "http, one scripted agent of vibe",
        "http of vacant",
        "search of vibe",
        "ws",
        "nats of agh",
        "postgres, 1 node",
        "postgres, 2 nodes",
        "postgres, 3 nodes",
        "stopped on another node",
        "emergency acknowledged",
        "emergency held",
        "memory records",
        "memory node",
    ];
    assert_eq!(names, expected);
    let left = std::fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(left, 0, "a benchmark left files behind");
}

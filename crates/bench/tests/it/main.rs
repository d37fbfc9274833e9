//! Every benchmark runs and says all it has to say. No figure is judged here: tests run beside others.

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
        let members: BTreeSet<&str> = report.keys().map(String::as_str).collect();
        assert_eq!(members, BTreeSet::from(MEMBERS), "{line}");
        assert!(report["ratio"].as_f64().unwrap() > 0.0, "{line}");
        let protocol = report["protocol"]
            .as_str()
            .filter(|name| *name != "value-context");
        let words = [report["bench"].as_str(), protocol];
        names.push(words.into_iter().flatten().collect::<Vec<_>>().join(" of "));
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

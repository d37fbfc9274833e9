//! `chancery bench`: that each runs and says all that it should, never how fast.

use serde_json::Value;

use crate::support::Place;

/// CH-BEN-1
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

fn reports(arguments: &[&str]) -> Vec<Value> {
    let place = Place::new();
    let mut all = vec!["bench"];
    all.extend(arguments);
    all.extend(["--json", "--dir", "."]);
    let text = place.run(&all).exits(0).text();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn every_benchmark_reports_build_limit_and_ratio() {
    // CH-BEN-1
    let short = [
        "--protocol",
        "value-context",
        "--seconds",
        "0.2",
        "--store",
        "embedded",
    ];
    let with = |name: &'static str| [&[name][..], &short[..], &["--lines", "500"][..]].concat();
    for (name, count) in [
        ("pipeline", 1),
        ("store", 2),
        ("replay", 1),
        ("http", 2),
        ("postgres", 3),
        ("emergency", 2),
    ] {
        let reports = reports(&with(name));
        assert!(reports.len() >= count, "{name}: {reports:?}");
        for report in &reports {
            let members = report.as_object().unwrap();
            let has = |member: &&str| members.contains_key(*member);
            assert!(MEMBERS.iter().all(has), "{name}: {report}");
            assert!(
                report["rate_per_s"].as_f64().unwrap() > 0.0,
                "{name}: {report}"
            );
        }
    }
}

#[test]
fn memory_is_measured_in_a_second_process() {
    // CH-BEN-1
    let reports = reports(&["memory", "--lines", "1000"]);
    assert!(
        reports
            .iter()
            .all(|report| report["peak_rss_bytes"].as_u64() > Some(0))
    );
}

#[test]
fn what_is_no_time_is_refused() {
    for seconds in ["0", "-1", "soon", "inf"] {
        let given = format!("--seconds={seconds}");
        Place::new().run(&["bench", "pipeline", &given]).exits(2);
    }
}

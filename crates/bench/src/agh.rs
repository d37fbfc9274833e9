//! `bench pipeline --protocol agh`: steps 1 to 4 of an envelope, against serde_json's bare parse of the same bytes.

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use chancery_agh::settings::Settings;
use chancery_agh::validate::validate;
use serde_json::{Value, json};

use crate::measure::{Race, micros_each, peak_rss_bytes, thread_cpu, timed};
use crate::report::Report;

const NOW: i64 = 1_776_366_000;
/// Envelopes of one slice: some hundredths of a second.
const SLICE: usize = 4_096;

/// Measures for about `duration`.
pub(crate) fn run(duration: Duration) -> Result<Report> {
    let settings = Settings::default();
    let envelopes: Vec<Vec<u8>> = (0..SLICE).map(|number| envelope(number).into()).collect();
    let bytes: usize = envelopes.iter().map(Vec::len).sum();
    let mut race = Race::default();
    let mut cpu = Duration::ZERO;
    let start = Instant::now();
    while start.elapsed() < duration {
        let (parsed, bare) = timed(|| {
            let parse = |text: &Vec<u8>| serde_json::from_slice::<Value>(text).map(black_box);
            envelopes.iter().all(|text| parse(text).is_ok())
        });
        ensure!(parsed, "an envelope is no JSON");
        let cpu_before = thread_cpu()?;
        let (accepted, build) = timed(|| {
            let check = |text: &Vec<u8>| validate(black_box(text), NOW, &settings);
            envelopes.iter().all(|text| check(text).is_ok())
        });
        ensure!(accepted, "an envelope is not accepted");
        cpu += thread_cpu()?.saturating_sub(cpu_before);
        race.round(SLICE as u64, build, bare);
    }
    let mut report = Report {
        bench: "pipeline".to_owned(),
        protocol: Some("agh".to_owned()),
        limit: "serde_json's bare parse of the same bytes into its own value".to_owned(),
        cpu_us_per_envelope: micros_each(cpu, race.build_count()),
        peak_rss_bytes: Some(peak_rss_bytes()?),
        ..Report::default()
    };
    race.tell(&mut report);
    report.note(format!("{} bytes an envelope", bytes / SLICE));
    Ok(report)
}

/// Envelopes of every kind that carries work, some of revision B.
fn envelope(number: usize) -> String {
    let mut envelope = json!({
        "protocol": "agh-network/v0",
        "id": format!("msg_01jz8f6m6x4f4s8e9b2c3d{number:06}"),
        "channel": "builders",
        "from": "ops-coordinator.session-42",
        "to": "patch-worker.session-19",
        "trace_id": "trace_release_20260416",
        "causation_id": "msg_01jz8f5p4q0n3a2b1c9d8e7f6a",
        "ts": NOW,
        "expires_at": NOW + 300,
        "proof": null,
        "ext": {"acme.priority": "high"},
    });
    let (kind, body) = match number % 4 {
        0 => (
            "trace",
            json!({"state": "working", "message": "Tests are running."}),
        ),
        1 => (
            "receipt",
            json!({"for_id": "msg_1", "status": "accepted", "detail": "On it."}),
        ),
        _ => ("direct", work()),
    };
    envelope["kind"] = kind.into();
    envelope["body"] = body;
    if number % 8 == 4 {
        envelope["workspace_id"] = "ws_alpha".into();
        envelope["surface"] = "thread".into();
        envelope["thread_id"] = "thread_release_check".into();
        envelope["work_id"] = "work_migration_check".into();
    } else {
        envelope["interaction_id"] = "int_migration_check_20260416".into();
    }
    envelope.to_string()
}

fn work() -> Value {
    json!({
        "text": "Run the migration smoke test against the staging branch and report blockers.",
        "intent": "request",
        "artifacts": [
            {"type": "git-ref", "repo": "github.com/acme/app", "ref": "refs/heads/staging"},
            {"type": "note", "lines": [12, 40, 41], "weight": 0.75, "final": false},
        ],
    })
}

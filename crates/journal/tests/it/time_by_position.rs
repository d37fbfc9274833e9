//! Lines without a decision time are decided at the journal's time, live and in replay (CH-JRN-12, CH-JRN-14).

use std::time::Duration;

use chancery_core::rows::RowKey;
use chancery_core::time::Time;
use chancery_journal::{Head, line};
use chancery_testkit::{TestSuite, inputs};

use crate::scenario::{Story, replay, without_agenda};

#[test]
fn an_act_is_decided_at_the_time_that_the_log_holds_whatever_the_clock_says() {
    let mut story = Story::begin();
    story.receive("1", "ann", "bob", "note", None);
    let recorded = story.now;
    story.now = story.now.saturating_add(Duration::from_secs(3_600));
    story.act(&inputs::host_act("eve", None));
    let since = |rows: &chancery_core::rows::MapRows, agent: &str| -> Time {
        serde_json::from_slice(
            rows.find(&RowKey::text("test-hosted-since", &[agent]))
                .unwrap(),
        )
        .unwrap()
    };
    assert_eq!(since(story.host.rows(), "eve"), recorded);
    // cat was hosted before any line had a time.
    assert_eq!(since(story.host.rows(), "cat"), Time::UNIX_EPOCH);
    let (report, rows) = replay(TestSuite::default(), story.host.lines());
    assert_eq!(report.divergence, None);
    assert_eq!(rows, without_agenda(story.host.rows()));
}

#[test]
fn the_decision_time_never_runs_backwards() {
    // CH-JRN-14
    let mut story = Story::begin();
    story.receive("1", "ann", "bob", "note", None);
    let latest = story.now;
    story.now = chancery_core::time::parse_audit("2026-01-01T00:00:00Z").unwrap();
    story.receive("2", "ann", "bob", "note", None);
    let last = line::parse(story.host.lines().last().unwrap()).unwrap();
    assert_eq!(last.eval_ts, Some(latest));
    assert_eq!(story.host.head().time, Some(latest));
}

#[test]
fn time_is_cut_to_microseconds() {
    // CH-JRN-14
    let nanos = Time::from_unix(1, 123_456_789).unwrap();
    assert_eq!(
        Head::EMPTY.decision_time(nanos),
        Time::from_unix(1, 123_456_000).unwrap()
    );
}

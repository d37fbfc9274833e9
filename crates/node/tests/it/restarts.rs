//! Starting again: on what was left, on a log without its index, with a clock that went back.

use std::path::Path;
use std::time::Duration;

use chancery_core::admin::RunState;
use chancery_core::keys::KeyState;
use chancery_core::time::Time;
use chancery_journal::line::parse;
use chancery_node::{Clock, StartError};
use chancery_testkit::inputs::{host_act, key_act, key_of, outgoing, run_state_act};
use chancery_testkit::{TestAnswer, TestSuite};

use crate::support::{Rig, Setup, assert_log_gives, rows_of};

pub fn delete_index(dir: &Path) {
    std::fs::remove_file(dir.join("index.db")).unwrap();
    for beside in ["index.db-wal", "index.db-shm"] {
        let _ = std::fs::remove_file(dir.join(beside));
    }
}

/// Something of everything.
async fn story(rig: &Rig, name: &str) {
    rig.act(key_act(name, "k-1", &key_of(name), KeyState::Active))
        .await;
    rig.act(host_act(name, Some("k-1"))).await;
    for n in 1..=40 {
        let value = n.to_string();
        rig.said(&format!("{name}-c-{n}"), "ann", name, "chain", Some(&value))
            .await;
        rig.said(&format!("{name}-b-{n}"), "ann", name, "batch", None)
            .await;
        rig.said(
            &format!("{name}-l-{n}"),
            "ann",
            name,
            "lookup",
            Some("thing"),
        )
        .await;
        rig.act(outgoing(name, "ann", "follow", Some(&value))).await;
    }
    rig.said(&format!("{name}-s"), "ann", name, "send", None)
        .await;
    rig.said(&format!("{name}-t"), "ann", name, "later", Some("86400000"))
        .await;
    rig.act(run_state_act(name, Some("k-1"), RunState::Suspended))
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_index_built_from_nothing_has_the_same_rows() {
    // CH-JRN-2, CH-JRN-7
    let dir = tempfile::tempdir().unwrap();
    let setup = Setup::default();
    for name in ["bob", "cyd"] {
        setup.vault.hold(name, key_of(name));
    }
    let rig = setup.on_disk(dir.path());
    story(&rig, "bob").await;
    rig.crash().await;
    // After a crash the tail is decided again.
    let rig = setup.on_disk(dir.path());
    story(&rig, "cyd").await;
    assert_log_gives(&TestSuite::default(), &**rig.store());
    let before = (rig.store().head(), rows_of(&**rig.store()));
    rig.stop().await;
    delete_index(dir.path());
    let rig = setup.on_disk(dir.path());
    assert_eq!((rig.store().head(), rows_of(&**rig.store())), before);
    // And it goes on from there.
    rig.said("bob-c-41", "ann", "bob", "chain", Some("41"))
        .await;
    assert_log_gives(&TestSuite::default(), &**rig.store());
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_duplicate_over_a_restart_is_a_duplicate() {
    let dir = tempfile::tempdir().unwrap();
    let setup = Setup::default();
    let rig = setup.on_disk(dir.path());
    rig.said("n-1", "ann", "bob", "note", None).await;
    rig.stop().await;
    for index in ["kept", "deleted"] {
        if index == "deleted" {
            delete_index(dir.path());
        }
        let rig = setup.on_disk(dir.path());
        let again = rig.say("n-1", "ann", "bob", "note", None).await.unwrap();
        assert_eq!(
            again.result.unwrap(),
            TestAnswer::Duplicate { seq: 1 },
            "index {index}"
        );
        rig.stop().await;
    }
}

/// A node whose last decision is so far ahead of the machine's clock.
async fn ahead_by(dir: &Path, ahead: Duration) -> Time {
    let there = Clock::System
        .now()
        .saturating_add(ahead)
        .truncate_to_micros();
    let setup = Setup {
        clock: Clock::fixed(there),
        ..Setup::default()
    };
    let rig = setup.on_disk(dir);
    rig.said("n-1", "ann", "bob", "note", None).await;
    rig.stop().await;
    there
}

fn by_the_machine() -> Setup {
    Setup {
        clock: Clock::System,
        ..Setup::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_went_back_a_little_starts_and_lets_no_duplicate_in() {
    // CH-JRN-14
    let dir = tempfile::tempdir().unwrap();
    let there = ahead_by(dir.path(), Duration::from_secs(59)).await;
    let rig = by_the_machine().on_disk(dir.path());
    let again = rig.say("n-1", "ann", "bob", "note", None).await.unwrap();
    assert_eq!(again.result.unwrap(), TestAnswer::Duplicate { seq: 1 });
    // The decision time stands until the clock has caught up.
    let seq = rig.said("n-2", "ann", "bob", "note", None).await;
    let line = parse(&rig.store().lines(seq, 1).unwrap()[0]).unwrap();
    assert_eq!(line.eval_ts, Some(there));
    rig.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_an_hour_behind_does_not_start() {
    // CH-JRN-14
    let dir = tempfile::tempdir().unwrap();
    let there = ahead_by(dir.path(), Duration::from_secs(3_600)).await;
    match by_the_machine().try_on_disk(dir.path()).err() {
        Some(StartError::ClockBehind { now, journal }) => {
            assert_eq!(journal, there);
            assert!(now < there);
        }
        other => panic!("{other:?}"),
    }
    // A fixed clock has no floor, at start or later.
    crate::support::free(dir.path()).await;
    let rig = Setup::default().on_disk(dir.path());
    let seq = rig.said("n-2", "ann", "bob", "note", None).await;
    let line = parse(&rig.store().lines(seq, 1).unwrap()[0]).unwrap();
    assert_eq!(line.eval_ts, Some(crate::support::start_of_tests()));
    assert_log_gives(&TestSuite::default(), &**rig.store());
}

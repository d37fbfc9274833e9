//! Timers: rows that become inputs when they are due.

use std::sync::Arc;
use std::time::Duration;

use chancery_core::rows::RowKey;
use chancery_core::timer::TIMERS;
use chancery_node::Clock;
use chancery_store::{Memory, Store};
use chancery_testkit::TestSuite;

use crate::support::{Awaited, Setup, assert_log_gives, start_of_tests, started, until, verbs};

fn timer_rows(store: &dyn Store) -> usize {
    let rows = store.scan(&RowKey::text(TIMERS, &[]), None, usize::MAX);
    rows.unwrap().len()
}

fn later() -> Setup {
    Setup {
        clock: Clock::fixed(start_of_tests().saturating_add(Duration::from_secs(60))),
        ..Setup::default()
    }
}

#[tokio::test(start_paused = true)]
async fn a_timer_fires_once_and_not_early() {
    let rig = Setup::default().in_memory();
    let begun = tokio::time::Instant::now();
    let seq = rig.said("l-1", "ann", "bob", "later", Some("90000")).await;
    let due = rig.arrived("bob", seq).await;
    assert!(begun.elapsed() >= Duration::from_secs(90));
    assert_eq!(due, seq + 2);
    // Long after, nothing more has come of it.
    tokio::time::sleep(Duration::from_secs(3_600)).await;
    assert_eq!(verbs(&**rig.store()), ["later", "timer", "due"]);
    assert_eq!((rig.node.timers_len(), timer_rows(&**rig.store())), (0, 0));
    assert_log_gives(&TestSuite::default(), &**rig.store());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_survives_a_restart() {
    for delete_index in [false, true] {
        for crash in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let rig = Setup::default().on_disk(dir.path());
            rig.said("l-1", "ann", "bob", "later", Some("60000")).await;
            assert_eq!(rig.node.timers_len(), 1);
            if crash {
                rig.crash().await;
            } else {
                rig.stop().await;
            }
            if delete_index {
                crate::restarts::delete_index(dir.path());
            }
            let rig = later().on_disk(dir.path());
            assert_eq!(rig.arrived("bob", 1).await, 3);
            assert_eq!(verbs(&**rig.store()), ["later", "timer", "due"]);
            rig.stop().await;
            // It fired: another start, and an index built anew, do not fire it again.
            crate::restarts::delete_index(dir.path());
            let rig = later().on_disk(dir.path());
            assert_eq!(rig.node.timers_len(), 0);
            rig.said("n-1", "ann", "bob", "note", None).await;
            assert_eq!(verbs(&**rig.store()), ["later", "timer", "due", "note"]);
            assert_log_gives(&TestSuite::default(), &**rig.store());
            rig.stop().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_that_is_not_wanted_any_more_is_passed_and_dropped() {
    let (rig, held) = Setup::default().held(Arc::new(Memory::new()));
    held.hold(0);
    let mut later = rig.say("l-1", "ann", "bob", "later", Some("0"));
    started(&mut later).await;
    held.begun(1).await;
    let mut cancel = rig.say("c-1", "ann", "bob", "cancel", Some("l-1"));
    started(&mut cancel).await;
    held.looked_up(2).await;
    // The first commit sets the timer, which is due at once; it is taken back already, but not durably.
    held.hold(1);
    later.await.unwrap().result.unwrap();
    until(|| rig.node.timers_len() == 0).await;
    held.open();
    cancel.await.unwrap().result.unwrap();
    rig.said("n-1", "ann", "bob", "note", None).await;
    until(|| timer_rows(&**rig.store()) == 0).await;
    assert_eq!(verbs(&**rig.store()), ["later", "cancel", "note"]);
    assert_log_gives(&TestSuite::default(), &**rig.store());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_timer_does_not_fire() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Setup::default().on_disk(dir.path());
    rig.said("l-1", "ann", "bob", "later", Some("60000")).await;
    rig.said("c-1", "ann", "bob", "cancel", Some("l-1")).await;
    assert_eq!(rig.node.timers_len(), 0);
    rig.stop().await;
    let rig = later().on_disk(dir.path());
    assert_eq!(rig.node.timers_len(), 0);
    assert_eq!(verbs(&**rig.store()), ["later", "cancel"]);
}

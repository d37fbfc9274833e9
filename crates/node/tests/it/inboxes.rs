//! Durable inboxes: order, pages, waiting, cursors.

use std::sync::Arc;

use chancery_core::inbox::PAGE_ENTRIES;
use chancery_testkit::TestSuite;

use crate::support::{Rig, Setup, assert_log_gives, inbox_of, started};

/// The whole inbox of bob, read `limit` entries at a time.
fn read_in_pages(rig: &Rig, limit: usize) -> Vec<u64> {
    let inboxes = rig.node.inboxes();
    let mut after = 0;
    let mut paged = Vec::new();
    loop {
        let entries = inboxes.read(&inbox_of("bob"), after, limit).unwrap();
        assert!(entries.len() <= limit);
        let Some(last) = entries.last() else {
            return paged;
        };
        after = last.seq;
        paged.extend(entries.iter().map(|entry| entry.seq));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_come_in_journal_order_over_many_pages() {
    const ENTRIES: usize = 4 * PAGE_ENTRIES + 17;
    let dir = tempfile::tempdir().unwrap();
    let rig = Arc::new(Setup::default().on_disk(dir.path()));
    let mut tasks = Vec::new();
    for n in 0..ENTRIES {
        tasks.push(tokio::spawn(rig.say(
            &format!("b-{n}"),
            "ann",
            "bob",
            "note",
            None,
        )));
        tasks.push(tokio::spawn(rig.say(
            &format!("c-{n}"),
            "ann",
            "cyd",
            "note",
            None,
        )));
    }
    let mut of_bob = Vec::new();
    for (n, task) in tasks.into_iter().enumerate() {
        let seq = task.await.unwrap().unwrap().seq.unwrap();
        if n % 2 == 0 {
            of_bob.push(seq);
        }
    }
    of_bob.sort_unstable();
    assert_eq!(rig.inbox("bob", 0), of_bob);
    for limit in [1, 100, PAGE_ENTRIES, 1_000] {
        assert_eq!(read_in_pages(&rig, limit), of_bob, "limit {limit}");
    }
    for at in [
        1,
        PAGE_ENTRIES - 1,
        PAGE_ENTRIES,
        3 * PAGE_ENTRIES,
        ENTRIES - 1,
    ] {
        assert_eq!(
            rig.inbox("bob", of_bob[at]),
            of_bob[at + 1..],
            "after entry {at}"
        );
        let inboxes = rig.node.inboxes();
        assert_eq!(
            inboxes.acknowledge(&inbox_of("bob"), of_bob[at]).unwrap(),
            of_bob[at]
        );
        assert_eq!(
            inboxes.depth(&inbox_of("bob")).unwrap(),
            (ENTRIES - at - 1) as u64
        );
    }
    let entry = rig
        .node
        .inboxes()
        .read(&inbox_of("bob"), 0, 1)
        .unwrap()
        .remove(0);
    assert_eq!(rig.store().lines(entry.seq, 1).unwrap()[0], entry.line);
    assert_log_gives(&TestSuite::default(), &**rig.store());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_wait_wakes_when_an_entry_is_committed() {
    let rig = Setup::default().in_memory();
    let (node, name) = (Arc::clone(&rig.node), inbox_of("bob"));
    let mut waiting: std::pin::Pin<Box<dyn Future<Output = _> + Send>> =
        Box::pin(async move { node.inboxes().wait(&name, 1).await });
    started(&mut waiting).await;
    // Neither another inbox nor an entry that was read already ends it.
    rig.said("n-1", "ann", "bob", "note", None).await;
    rig.said("n-2", "ann", "cyd", "note", None).await;
    started(&mut waiting).await;
    rig.said("n-3", "ann", "bob", "note", None).await;
    waiting.await.unwrap();
    assert_eq!(rig.arrived("bob", 0).await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_survives_a_restart_and_never_goes_back() {
    // CH-JRN-15
    let dir = tempfile::tempdir().unwrap();
    let rig = Setup::default().on_disk(dir.path());
    for n in 1..=9 {
        rig.said(&format!("n-{n}"), "ann", "bob", "note", None)
            .await;
    }
    let bob = inbox_of("bob");
    assert_eq!(rig.node.inboxes().cursor(&bob).unwrap(), 0);
    assert_eq!(rig.node.inboxes().acknowledge(&bob, 5).unwrap(), 5);
    assert_eq!(rig.node.inboxes().acknowledge(&bob, 3).unwrap(), 5);
    rig.crash().await;
    let rig = Setup::default().on_disk(dir.path());
    assert_eq!(rig.node.inboxes().cursor(&bob).unwrap(), 5);
    assert_eq!(rig.node.inboxes().depth(&bob).unwrap(), 4);
    // Reading consumes nothing; what is not there cannot be acknowledged.
    assert_eq!(rig.inbox("bob", 5), [6, 7, 8, 9]);
    assert_eq!(rig.inbox("bob", 5), [6, 7, 8, 9]);
    assert_eq!(rig.node.inboxes().acknowledge(&bob, 1_000).unwrap(), 9);
    assert_eq!(
        rig.node
            .inboxes()
            .acknowledge(&inbox_of("nobody"), 7)
            .unwrap(),
        0
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn of_concurrent_acknowledgements_the_latest_stays() {
    let dir = tempfile::tempdir().unwrap();
    let rig = Setup::default().on_disk(dir.path());
    for n in 1..=64 {
        rig.said(&format!("n-{n}"), "ann", "bob", "note", None)
            .await;
    }
    let tasks: Vec<_> = (1..=64)
        .rev()
        .map(|through| {
            let node = Arc::clone(&rig.node);
            tokio::task::spawn_blocking(move || {
                node.inboxes()
                    .acknowledge(&inbox_of("bob"), through)
                    .unwrap()
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(rig.node.inboxes().cursor(&inbox_of("bob")).unwrap(), 64);
    assert_eq!(rig.node.inboxes().depth(&inbox_of("bob")).unwrap(), 0);
}

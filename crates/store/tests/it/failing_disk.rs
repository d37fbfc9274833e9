//! A write or sync that fails, a disk that is full: the commit fails, and every later one (CH-JRN-2).

use std::sync::Arc;

use chancery_core::rows::Lookup;
use chancery_store::testing::{Fault, SimDisk};
use chancery_store::{CommitError, Embedded, Store};

use crate::support::*;

fn fails_for_good(fault: Fault, segment_bytes: u64) {
    let disk = SimDisk::new(7);
    let dir = tempfile::tempdir().unwrap();
    let options = chancery_store::Options {
        segment_bytes,
        ..options(dir.path())
    };
    let (store, _) = Embedded::open_on(Arc::new(disk.clone()), &options).unwrap();
    let head = commit_rows(&store, vec![put("a", "before")]);
    disk.inject(fault);
    let doomed = || {
        batch(head, |chain| {
            vec![unit(chain, 3, vec![put("a", "never"), put("b", "never")])]
        })
    };
    let first = store.commit(doomed());
    assert!(
        matches!(first, Err(CommitError::Failed(_))),
        "{fault:?}: {first:?}"
    );
    // The disk works again, the store does not: what is on it now nobody knows.
    let second = store.commit(doomed());
    assert!(
        matches!(second, Err(CommitError::Failed(_))),
        "{fault:?}: {second:?}"
    );
    assert_eq!(store.head(), head);
    assert_eq!(store.peek(&key("a")), Lookup::Found("before".into()));
    assert_eq!(store.load(&[key("b")]).unwrap(), [None]);
    assert_eq!(store.lines(1, 9).unwrap().len(), 1);
    store.close().unwrap();
    drop(store);

    let (store, tail) = Embedded::open_on(Arc::new(disk), &options).unwrap();
    assert!(
        [1, 4].contains(&tail.to),
        "{tail:?}: the unit is there whole or not at all"
    );
    take_in_blindly(&store, &tail);
    assert_eq!(commit_lines(&store, 1).seq, tail.to + 1);
}

#[test]
fn a_failed_write_is_final() {
    fails_for_good(Fault::Append(0), u64::MAX);
}

#[test]
fn a_failed_sync_is_final() {
    fails_for_good(Fault::Sync(0), u64::MAX);
}

#[test]
fn a_full_disk_is_final() {
    fails_for_good(Fault::Full(0), u64::MAX);
}

#[test]
fn a_failed_change_of_segments_is_final() {
    fails_for_good(Fault::SyncDir(0), 1);
    fails_for_good(Fault::SyncDir(1), 1);
}

#[test]
fn a_batch_is_one_sync() {
    let disk = SimDisk::new(7);
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = Embedded::open_on(Arc::new(disk.clone()), &options(dir.path())).unwrap();
    let before = disk.syncs();
    commit_lines(&store, 256);
    assert_eq!(disk.syncs(), before + 1);
}

//! The logs beside the log: grouped, rotated, lossy and counted (CH-JRN-6).

use std::fs;
use std::os::unix::fs::PermissionsExt;

use chancery_store::{SideLog, SideLogLimits};

#[test]
fn lines_are_appended_in_order_over_restarts() {
    let dir = tempfile::tempdir().unwrap();
    for life in 0..2 {
        let log = SideLog::open(dir.path(), "events.jsonl", SideLogLimits::default()).unwrap();
        assert!(log.write(format!("{{\"n\":{life}}}").as_bytes()));
        log.flush();
        assert!(log.write(b"{}"));
        log.close();
        assert_eq!((log.written(), log.lost()), (2, 0));
        assert!(!log.write(b"late"));
        assert_eq!(log.lost(), 1);
    }
    let path = dir.path().join("events.jsonl");
    assert_eq!(
        fs::read_to_string(&path).unwrap(),
        "{\"n\":0}\n{}\n{\"n\":1}\n{}\n"
    );
    assert_eq!(
        fs::metadata(path).unwrap().permissions().mode() & 0o777,
        0o600
    );
}

#[test]
fn full_files_are_set_aside_and_two_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let limits = SideLogLimits {
        rotate_bytes: 8,
        ..SideLogLimits::default()
    };
    let log = SideLog::open(dir.path(), "rejections.jsonl", limits).unwrap();
    for n in 0..5 {
        log.write(format!("line {n} of five").as_bytes());
        log.flush();
    }
    let read = |name: &str| fs::read_to_string(dir.path().join(name)).ok();
    assert_eq!(
        read("rejections.jsonl").as_deref(),
        Some("line 4 of five\n")
    );
    assert_eq!(
        read("rejections.jsonl.1").as_deref(),
        Some("line 3 of five\n")
    );
    assert_eq!(
        read("rejections.jsonl.2").as_deref(),
        Some("line 2 of five\n")
    );
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3);
}

#[test]
fn what_does_not_fit_is_lost_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    let limits = SideLogLimits {
        waiting_bytes: 100,
        group_ms: 600_000,
        ..SideLogLimits::default()
    };
    let log = SideLog::open(dir.path(), "events.jsonl", limits).unwrap();
    assert!(!log.write(&[b'x'; 100]));
    assert!(log.write(&[b'x'; 90]));
    log.close();
    assert_eq!((log.written(), log.lost()), (1, 1));
}

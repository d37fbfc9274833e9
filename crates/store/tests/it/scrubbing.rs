//! The scrub finds in closed segments what opening does not look for (CH-JRN-4).

use std::fs;
use std::sync::atomic::AtomicBool;

use chancery_store::log::ScrubError;
use chancery_store::{Embedded, Options, Store};

use crate::support::*;

fn stopped() -> (tempfile::TempDir, Options) {
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        segment_bytes: 1,
        ..options(dir.path())
    };
    let store = open(&options);
    for _ in 0..3 {
        commit_lines(&store, 10);
    }
    store.close().unwrap();
    (dir, options)
}

#[test]
fn whole_segments_pass() {
    let (_dir, options) = stopped();
    let store = open(&options);
    let seen = store.scrub(&AtomicBool::new(false)).unwrap();
    assert_eq!((seen.segments, seen.lines), (2, 20));
    // The second segment was closed before this process began; a third one is closed by it.
    commit_lines(&store, 1);
    assert_eq!(store.scrub(&AtomicBool::new(false)).unwrap().lines, 30);
    let stopped = store.scrub(&AtomicBool::new(true)).unwrap();
    assert_eq!(stopped.segments, 0);
}

#[test]
fn a_changed_byte_inside_a_closed_segment_is_found() {
    let (dir, options) = stopped();
    let name = "audit-00000000000000000011.jsonl";
    let path = dir.path().join(name);
    let mut bytes = fs::read(&path).unwrap();
    let line = bytes
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'\n')
        .nth(4)
        .unwrap()
        .0;
    let digit = line
        + bytes[line..]
            .iter()
            .position(|byte| *byte == b'9')
            .expect("a digit of a hash");
    bytes[digit] = b'8';
    fs::write(&path, bytes).unwrap();
    let store = open(&options);
    let Err(ScrubError::Damaged(damage)) = store.scrub(&AtomicBool::new(false)) else {
        panic!("it is damaged")
    };
    assert_eq!(damage.file, name);
    assert!([Some(6), Some(7)].contains(&damage.line), "{damage}");
}

#[test]
fn a_segment_cut_while_the_store_is_open_is_found() {
    let (dir, options) = stopped();
    let (store, _) = Embedded::open(&options).unwrap();
    let path = dir.path().join("audit-00000000000000000001.jsonl");
    let bytes = fs::read(&path).unwrap();
    let second_last = bytes[..bytes.len() - 1]
        .iter()
        .rposition(|byte| *byte == b'\n')
        .unwrap();
    fs::write(&path, &bytes[..=second_last]).unwrap();
    assert!(matches!(
        store.scrub(&AtomicBool::new(false)),
        Err(ScrubError::Damaged(_))
    ));
}

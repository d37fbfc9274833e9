//! What lies in the data directory, and who may open it.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use chancery_store::{Embedded, LockError, OpenError, Options, Store};

use crate::support::*;

#[test]
fn files_are_for_their_owner_alone() {
    // CH-JRN-9
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let store = open(&Options {
        segment_bytes: 1,
        ..options(&data)
    });
    commit_rows(&store, vec![put("a", "1")]);
    commit_rows(&store, vec![put("a", "2")]);
    store.ops_put(&[put("b", "1")], true).unwrap();
    store.flush_index().unwrap();
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&data), 0o700);
    let mut names = Vec::new();
    for entry in fs::read_dir(&data).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
        names.push(path.file_name().unwrap().to_str().unwrap().to_owned());
    }
    for wanted in [
        "audit.jsonl",
        "audit-00000000000000000001.jsonl",
        "index.db",
        "ops.db",
        "lock",
    ] {
        assert!(
            names.iter().any(|name| name == wanted),
            "{wanted} in {names:?}"
        );
    }
}

#[test]
fn a_second_opening_is_kept_out_and_told_by_whom() {
    // CH-NET-5
    let dir = tempfile::tempdir().unwrap();
    let first = open(&options(dir.path()));
    first.tell_address("127.0.0.1:8700").unwrap();
    let error = Embedded::open(&options(dir.path())).err().unwrap();
    assert!(!error.is_damage());
    let OpenError::Locked(LockError::Held { holder, .. }) = error else {
        panic!("{error}")
    };
    assert_eq!(
        holder,
        format!("process {} at 127.0.0.1:8700", std::process::id())
    );
    drop(first);
    open(&options(dir.path()));
}

#[test]
fn a_log_is_read_back_byte_for_byte() {
    // CH-JRN-8
    let dir = tempfile::tempdir().unwrap();
    let store = open(&Options {
        segment_bytes: 2_000,
        ..options(dir.path())
    });
    for _ in 0..20 {
        commit_lines(&store, 3);
    }
    let lines = store.lines(1, usize::MAX).unwrap();
    let mut names: Vec<_> = fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    names.retain(|path| {
        path.extension()
            .is_some_and(|extension| extension == "jsonl")
    });
    names.sort();
    assert!(names.len() > 3);
    let files: Vec<u8> = names
        .iter()
        .flat_map(|path| fs::read(path).unwrap())
        .collect();
    let mut text = lines.join(&b'\n');
    text.push(b'\n');
    assert_eq!(files, text);
}

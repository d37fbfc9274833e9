//! Every damage of CH-JRN-4: what is cut off with a warning, and what stops the start.

use std::fs;
use std::path::{Path, PathBuf};

use chancery_store::log::LogError;
use chancery_store::{Embedded, OpenError, Options, Store};

use crate::support::*;

/// A stopped store of 12 lines in units of 1, 3, 1, 3, …; the index holds nothing of it.
fn stopped_store() -> (tempfile::TempDir, Options) {
    stopped_store_of(u64::MAX)
}

fn stopped_store_of(segment_bytes: u64) -> (tempfile::TempDir, Options) {
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        segment_bytes,
        ..options(dir.path())
    };
    let store = open(&options);
    for _ in 0..3 {
        let batch = batch(store.head(), |chain| {
            vec![unit(chain, 1, vec![]), unit(chain, 3, vec![])]
        });
        store.commit(batch).unwrap();
    }
    store.close().unwrap();
    drop(store);
    delete_index(dir.path());
    (dir, options)
}

fn delete_index(dir: &Path) {
    for name in ["index.db", "index.db-wal", "index.db-shm"] {
        let _ = fs::remove_file(dir.join(name));
    }
}

fn log_file(dir: &tempfile::TempDir) -> PathBuf {
    dir.path().join("audit.jsonl")
}

fn change(path: &Path, change: impl FnOnce(&mut Vec<Vec<u8>>)) {
    let bytes = fs::read(path).unwrap();
    let mut lines: Vec<Vec<u8>> = bytes
        .split_inclusive(|byte| *byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect();
    change(&mut lines);
    fs::write(path, lines.concat()).unwrap();
}

/// Opens what is left after a cut, and goes on.
fn opens_with(options: &Options, last: u64) {
    let (store, tail) = Embedded::open(options).unwrap();
    assert_eq!((tail.from, tail.to), (1, last));
    let repair = tail.repair.clone().expect("something was cut off");
    assert_eq!(repair.end, last);
    let head = take_in_blindly(&store, &tail);
    assert_eq!(head.seq, last);
    assert_eq!(commit_lines(&store, 1).seq, last + 1);
    store.close().unwrap();
    drop(store);
    let (store, tail) = Embedded::open(options).unwrap();
    assert_eq!((tail.repair, store.head().seq), (None, last + 1));
}

fn damage(options: &Options) -> chancery_store::log::Damage {
    let error = Embedded::open(options).err().expect("the start stops");
    assert!(error.is_damage());
    match error {
        OpenError::Log(LogError::Damaged(damage)) => damage,
        other => panic!("{other}"),
    }
}

#[test]
fn a_last_line_without_its_newline_is_cut_off_with_its_unit() {
    // CH-JRN-4, VC-AUD-5
    let (dir, options) = stopped_store();
    let path = log_file(&dir);
    for cut in [1, 20, 60] {
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() - cut]).unwrap();
    }
    opens_with(&options, 9);
}

#[test]
fn a_torn_single_line_is_cut_off_alone() {
    let (dir, options) = stopped_store();
    change(&log_file(&dir), |lines| {
        lines.truncate(9);
        lines[8].pop();
    });
    opens_with(&options, 8);
}

#[test]
fn a_last_line_that_is_no_line_is_cut_off_with_its_unit() {
    let (dir, options) = stopped_store();
    change(&log_file(&dir), |lines| {
        lines[11] = b"{\"envelope\":{}}\n".to_vec()
    });
    opens_with(&options, 9);
}

#[test]
fn a_last_line_whose_chain_holds_but_not_its_form_is_cut_off() {
    let (dir, options) = stopped_store();
    change(&log_file(&dir), |lines| lines[11].insert(12, b' '));
    opens_with(&options, 9);
}

#[test]
fn a_unit_that_is_not_whole_is_cut_back_to_its_first_line() {
    // CH-JRN-4, VC-SET-3
    for left in [10, 11] {
        let (dir, options) = stopped_store();
        change(&log_file(&dir), |lines| lines.truncate(left));
        opens_with(&options, 9);
    }
}

#[test]
fn a_long_unit_that_is_not_whole_is_cut_back_over_many_lines() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(dir.path());
    let store = open(&options);
    store
        .commit(batch(store.head(), |chain| {
            vec![unit(chain, 5, vec![]), unit(chain, 600, vec![])]
        }))
        .unwrap();
    drop(store);
    delete_index(dir.path());
    change(&log_file(&dir), |lines| lines.truncate(604));
    opens_with(&options, 5);
}

#[test]
fn a_log_of_one_torn_unit_is_empty() {
    let (dir, options) = stopped_store();
    change(&log_file(&dir), |lines| {
        lines.truncate(1);
        lines[0].truncate(30);
    });
    opens_with(&options, 0);
}

#[test]
fn lines_that_the_last_append_left_with_holes_are_cut_off() {
    let (dir, options) = stopped_store();
    change(&log_file(&dir), |lines| lines[9][40..80].fill(0));
    opens_with(&options, 9);
}

#[test]
fn a_flipped_byte_stops_the_start() {
    let (dir, options) = stopped_store();
    change(&log_file(&dir), |lines| {
        let at = lines[6]
            .windows(3)
            .position(|bytes| bytes == b"xxx")
            .unwrap();
        lines[6][at] = b'y';
    });
    // The line itself still reads well; the one after it names another hash.
    let damage = damage(&options);
    assert_eq!(
        (damage.file.as_str(), damage.line),
        ("audit.jsonl", Some(8))
    );
    assert!(damage.reason.contains("line 7"), "{damage}");
}

#[test]
fn a_line_that_is_no_line_stops_the_start() {
    let (dir, options) = stopped_store();
    change(&log_file(&dir), |lines| lines[4][0] = b'[');
    let damage = damage(&options);
    assert_eq!(
        (damage.file.as_str(), damage.line),
        ("audit.jsonl", Some(6))
    );
    let (dir, options) = stopped_store();
    change(&log_file(&dir), |lines| lines[4] = b"nothing\n".to_vec());
    let damage = self::damage(&options);
    assert_eq!(
        (damage.file.as_str(), damage.line),
        ("audit.jsonl", Some(5))
    );
}

#[test]
fn a_deleted_line_stops_the_start() {
    for deleted in [0, 5, 10] {
        let (dir, options) = stopped_store();
        change(&log_file(&dir), |lines| drop(lines.remove(deleted)));
        assert_eq!(damage(&options).line, Some(deleted as u64 + 1));
    }
}

#[test]
fn a_swapped_pair_stops_the_start() {
    let (dir, options) = stopped_store();
    change(&log_file(&dir), |lines| lines.swap(6, 7));
    assert_eq!(damage(&options).line, Some(7));
    let (dir, options) = stopped_store();
    change(&log_file(&dir), |lines| lines.swap(10, 11));
    assert_eq!(damage(&options).line, Some(11));
}

#[test]
fn a_line_of_another_log_stops_the_start() {
    let (dir, options) = stopped_store();
    change(&log_file(&dir), |lines| {
        let copy = lines[3].clone();
        lines.push(copy);
    });
    assert_eq!(damage(&options).line, Some(13));
}

fn segments(dir: &tempfile::TempDir) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("audit-"))
        .collect();
    names.sort();
    names
}

#[test]
fn a_missing_segment_stops_the_start() {
    for missing in [0, 1] {
        let (dir, options) = stopped_store_of(1);
        let names = segments(&dir);
        assert_eq!(
            names,
            [
                "audit-00000000000000000001.jsonl",
                "audit-00000000000000000005.jsonl"
            ]
        );
        fs::remove_file(dir.path().join(&names[missing])).unwrap();
        let damage = damage(&options);
        assert_eq!(
            damage.file,
            if missing == 0 {
                names[0].as_str()
            } else {
                "audit.jsonl"
            },
            "{damage}"
        );
    }
}

#[test]
fn a_segment_of_another_size_stops_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options {
        segment_bytes: 1,
        ..options(dir.path())
    };
    let store = open(&options);
    for _ in 0..3 {
        commit_lines(&store, 4);
    }
    store.close().unwrap();
    drop(store);
    let name = &segments(&dir)[0];
    change(&dir.path().join(name), |lines| {
        let copy = lines[1].clone();
        lines.insert(1, copy);
    });
    let damage = damage(&options);
    assert_eq!(&damage.file, name);
    assert!(damage.reason.contains("bytes"), "{damage}");
    // One that the index knows and that is gone is missed although the rest would fit.
    fs::remove_file(dir.path().join(name)).unwrap();
    assert_eq!(&self::damage(&options).file, name);
}

#[test]
fn a_segment_that_does_not_link_to_the_next_stops_the_start() {
    let (dir, options) = stopped_store_of(1);
    let name = &segments(&dir)[0];
    change(&dir.path().join(name), |lines| drop(lines.pop()));
    let damage = damage(&options);
    assert_eq!(&damage.file, name, "{damage}");
}

#[test]
fn an_index_ahead_of_the_log_stops_the_start_and_leaves_the_log_alone() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(dir.path());
    let store = open(&options);
    commit_lines(&store, 5);
    store.close().unwrap();
    drop(store);
    let path = log_file(&dir);
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 3]).unwrap();
    let error = Embedded::open(&options).err().unwrap();
    assert!(error.is_damage());
    assert!(
        matches!(
            error,
            OpenError::Log(LogError::IndexAhead { known: 5, end: 4 })
        ),
        "{error}"
    );
    let text = error.to_string();
    assert!(
        text.contains("lines 5 to 5") && text.contains("delete index.db"),
        "{text}"
    );
    assert_eq!(fs::read(&path).unwrap().len(), bytes.len() - 3);
    // Deleting the index knowingly goes on without them.
    delete_index(dir.path());
    opens_with(&options, 4);
}

#[test]
fn a_log_that_is_gone_leaves_the_index_ahead() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(dir.path());
    let store = open(&options);
    commit_lines(&store, 5);
    store.close().unwrap();
    drop(store);
    fs::remove_file(log_file(&dir)).unwrap();
    let error = Embedded::open(&options).err().unwrap();
    assert!(
        matches!(
            error,
            OpenError::Log(LogError::IndexAhead { known: 5, end: 0 })
        ),
        "{error}"
    );
}

#[test]
fn an_index_of_another_log_stops_the_start() {
    let (ours, theirs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for (dir, filling) in [(&ours, 1), (&theirs, 2)] {
        let store = open(&options(dir.path()));
        let batch = batch(store.head(), |chain| {
            vec![unit_of(chain, &[draft(at(5), filling)], vec![], vec![])]
        });
        store.commit(batch).unwrap();
        store.close().unwrap();
    }
    fs::copy(log_file(&theirs), log_file(&ours)).unwrap();
    let error = Embedded::open(&options(ours.path())).err().unwrap();
    assert!(error.is_damage());
    assert!(
        matches!(error, OpenError::IndexDiffers { seq: 1 }),
        "{error}"
    );
}

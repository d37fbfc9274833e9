//! The index is written behind, and never needed.

use std::fs;

use bytes::Bytes;
use chancery_core::rows::{Lookup, RowKey};
use chancery_store::{Embedded, Options, Store};

use crate::support::*;

#[test]
fn the_index_catches_up_without_being_asked() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&options(dir.path()));
    commit_rows(&store, vec![put("a", "1")]);
    assert!(store.lag() <= 1);
    // Many rows are written at once, few after a short while: either way the lag ends at nothing.
    for n in 0..50 {
        commit_rows(
            &store,
            (0..200).map(|m| put(&format!("{n} {m}"), "x")).collect(),
        );
    }
    while store.lag() > 0 {
        std::thread::yield_now();
    }
    let index = rusqlite::Connection::open(dir.path().join("index.db")).unwrap();
    let rows: i64 = index
        .query_row("SELECT count(*) FROM rows", [], |row| row.get(0))
        .unwrap();
    assert_eq!(rows, 10_001);
}

#[test]
fn a_long_value_lies_apart_for_as_long_as_its_row_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let long_values = || -> Vec<Vec<u8>> {
        let index = rusqlite::Connection::open(dir.path().join("index.db")).unwrap();
        let sql = "SELECT value FROM long_values ORDER BY id";
        let mut statement = index.prepare(sql).unwrap();
        let values = statement.query_map([], |row| row.get(0)).unwrap();
        values.map(Result::unwrap).collect()
    };
    let long = |letter: &str| letter.repeat(5_000);
    let mut expected = std::collections::BTreeMap::new();
    // What was long becomes short, long again or nothing, and the other way round.
    for (round, values) in [
        ["1", "A", "B", "C"],
        ["D", "2", "E", ""],
        ["3", "F", "", "G"],
    ]
    .into_iter()
    .enumerate()
    {
        let store = open(&options(dir.path()));
        for (name, value) in ["a", "b", "c", "d"].into_iter().zip(values) {
            let value = match value {
                "1" | "2" | "3" => value.to_owned(),
                letter => long(letter),
            };
            if value.is_empty() {
                expected.remove(name);
                commit_rows(&store, vec![gone(name)]);
            } else {
                commit_rows(&store, vec![put(name, &value)]);
                expected.insert(name, value);
            }
        }
        store.flush_index().unwrap();
        let found = store.scan(&RowKey::from_stored(b""), None, 9).unwrap();
        let wanted = expected.iter().map(|(name, value)| put(name, value));
        let wanted: Vec<_> = wanted.map(|(key, row)| (key, row.unwrap())).collect();
        assert_eq!(found, wanted, "round {round}");
        store.close().unwrap();
        drop(store);
        // Another process finds them where they lie.
        let store = open(&options(dir.path()));
        for (key, row) in &wanted {
            assert_eq!(
                store.load(std::slice::from_ref(key)).unwrap(),
                [Some(row.clone())]
            );
        }
        let mut apart: Vec<_> = wanted
            .iter()
            .map(|(_, row)| row.to_vec())
            .filter(|value| value.len() > 1)
            .collect();
        let mut lying = long_values();
        apart.sort();
        lying.sort();
        assert_eq!(lying, apart, "round {round}");
    }
}

#[test]
fn a_store_knows_without_its_index_which_rows_never_were() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = options(dir.path());
    options.row_cache_bytes = chancery_store::LEAST_CACHE_BYTES;
    let store = open(&options);
    commit_rows(&store, vec![put("a", "1"), put("b", "2"), gone("b")]);
    assert_eq!(store.peek(&key("a")), Lookup::Found("1".into()));
    assert_eq!(store.peek(&key("b")), Lookup::Absent);
    assert_eq!(store.peek(&key("never")), Lookup::Absent);
    // More than the cache holds: what had to make room is in the index alone, and nothing is taken for absent.
    let names: Vec<_> = (0..400).map(|n| format!("row {n}")).collect();
    for name in &names {
        commit_rows(&store, vec![put(name, &"x".repeat(20_000))]);
        store.flush_index().unwrap();
    }
    let peeks: Vec<_> = names.iter().map(|name| store.peek(&key(name))).collect();
    assert!(peeks.contains(&Lookup::NotLoaded));
    assert!(!peeks.contains(&Lookup::Absent));
    // Which these were it keeps in mind: of what never was it still knows.
    assert_eq!(store.peek(&key("never")), Lookup::Absent);
    store.close().unwrap();
    drop(store);
    // An older store is told by its index, beside its work; until then it asks.
    let store = open(&options);
    assert_eq!(store.load(&[key("never was")]).unwrap(), [None]);
    while store.peek(&key("never")) != Lookup::Absent {
        std::thread::yield_now();
    }
    let is_absent = |name: &String| store.peek(&key(name)) == Lookup::Absent;
    assert!(!names.iter().any(is_absent));
    commit_rows(&store, vec![put("never", "1"), gone("row 7")]);
    assert_eq!(store.peek(&key("never")), Lookup::Found("1".into()));
    assert_eq!(store.peek(&key("row 7")), Lookup::Absent);
}

#[test]
fn an_index_of_another_version_is_built_anew() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = options(dir.path());
    let store = open(&options);
    commit_rows(&store, vec![put("a", "1")]);
    store.close().unwrap();
    drop(store);
    options.rows_version += 1;
    let (store, tail) = Embedded::open(&options).unwrap();
    assert_eq!((tail.from, tail.to), (1, 1));
    assert_eq!(store.load(&[key("a")]).unwrap(), [None]);
}

#[test]
fn an_index_that_is_no_database_is_built_anew() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(dir.path());
    let store = open(&options);
    commit_rows(&store, vec![put("a", "1")]);
    store.close().unwrap();
    drop(store);
    fs::write(
        dir.path().join("index.db"),
        b"not a database, but long enough to be looked at as one.".repeat(40),
    )
    .unwrap();
    let (_store, tail) = Embedded::open(&options).unwrap();
    assert_eq!((tail.from, tail.to), (1, 1));
}

#[test]
fn a_window_that_the_rules_no_longer_use_is_left_out() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&options(dir.path()));
    let batch = batch(store.head(), |chain| {
        vec![unit_of(
            chain,
            &[draft(at(1_000), 0)],
            vec![],
            vec![seen(1, at(2_000))],
        )]
    });
    store.commit(batch).unwrap();
    store.close().unwrap();
    drop(store);
    let store = open(&Options {
        windows: &["test/other"],
        ..options(dir.path())
    });
    assert_eq!(
        (store.window_len(), store.find(SEEN, &[1; 16], at(1_000))),
        (0, None)
    );
}

#[test]
fn a_key_of_any_bytes_is_found_by_its_prefix() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&options(dir.path()));
    let keys = [&[0xff][..], &[0xff, 0xff], &[0xff, 0xff, 1], &[0xfe]]
        .map(|key| RowKey::from_stored(Bytes::copy_from_slice(key)));
    commit_rows(
        &store,
        keys.iter()
            .map(|key| (key.clone(), Some("x".into())))
            .collect(),
    );
    for _ in 0..2 {
        let found = store.scan(&keys[1], None, 9).unwrap();
        let found: Vec<_> = found.into_iter().map(|(key, _)| key).collect();
        assert_eq!(found, keys[1..3]);
        store.flush_index().unwrap();
    }
}

// VA-REP-7, VA-REP-8, VA-REP-13: accepted envelopes of vacants have a table that others read too.
#[test]
fn accepted_envelopes_have_a_table_of_their_own_and_can_be_pruned() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&options(dir.path()));
    let accepted = |to: &str, number: u64, tip: u8| {
        let number = format!("{number:019}");
        let key = RowKey::text("replay_protect", &["aa", to, &number]);
        (key, Some(vec![tip; 32].into()))
    };
    commit_rows(&store, vec![accepted("bb", 1, 1), accepted("bb", 2, 2)]);
    commit_rows(&store, vec![accepted("bb", 10, 3), accepted("cc", 1, 4)]);
    assert!(
        chancery_store::prune_accepted(dir.path()).is_err(),
        "it is in use"
    );
    store.close().unwrap();
    drop(store);
    let rows = || -> Vec<(String, i64, Vec<u8>)> {
        let index = rusqlite::Connection::open(dir.path().join("index.db")).unwrap();
        let sql = "SELECT to_vid_hex, sequence_no, chain_tip FROM replay_protect \
                   WHERE from_vid_hex = 'aa' ORDER BY to_vid_hex, sequence_no";
        let mut statement = index.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
        rows.unwrap().map(Result::unwrap).collect()
    };
    let row = |to: &str, number: i64, tip: u8| (to.to_owned(), number, vec![tip; 32]);
    let newest = [row("bb", 10, 3), row("cc", 1, 4)];
    assert_eq!(rows()[..2], [row("bb", 1, 1), row("bb", 2, 2)]);
    assert_eq!(rows()[2..], newest);
    assert_eq!(chancery_store::prune_accepted(dir.path()).unwrap(), 2);
    assert_eq!(rows(), newest);
}

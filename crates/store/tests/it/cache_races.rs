//! Loads, commits, flushes and evictions at once: nobody ever sees an older row than one already committed.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use chancery_core::rows::{Row, RowKey};
use chancery_store::{Options, Store};

use crate::support::*;

const ROWS: usize = 40;

/// Rows so large that the smallest cache holds few of them: what is clean is evicted almost at once.
fn large(number: u64) -> Row {
    format!("{number:020}{}", "x".repeat(60_000))
        .into_bytes()
        .into()
}

fn number(value: &[u8]) -> u64 {
    std::str::from_utf8(&value[..20]).unwrap().parse().unwrap()
}

fn row(n: usize) -> RowKey {
    key(&format!("{n:02}"))
}

#[test]
fn a_load_never_brings_back_an_older_row() {
    let dir = tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap();
    let store = open(&Options {
        row_cache_bytes: 1,
        ..options(dir.path())
    });
    let committed: Vec<AtomicU64> = (0..ROWS).map(|_| AtomicU64::new(0)).collect();
    let is_done = AtomicBool::new(false);
    commit_rows(
        &store,
        (0..ROWS).map(|n| (row(n), Some(large(0)))).collect(),
    );
    std::thread::scope(|scope| {
        for reader in 0..3 {
            let (store, committed, is_done) = (&store, &committed, &is_done);
            scope.spawn(move || {
                let mut n = reader;
                while !is_done.load(Ordering::Relaxed) {
                    n = (n + 7) % ROWS;
                    let at_least = committed[n].load(Ordering::SeqCst);
                    let loaded = store.load(&[row(n)]).unwrap();
                    let found = number(loaded[0].as_ref().unwrap());
                    assert!(
                        found >= at_least,
                        "row {n}: {found} after {at_least} was committed"
                    );
                }
            });
            scope.spawn(move || {
                while !is_done.load(Ordering::Relaxed) {
                    let at_least: Vec<u64> =
                        committed.iter().map(|n| n.load(Ordering::SeqCst)).collect();
                    let rows = store.scan(&RowKey::text("t", &[]), None, ROWS).unwrap();
                    assert_eq!(rows.len(), ROWS);
                    for ((_, value), at_least) in rows.iter().zip(at_least) {
                        assert!(number(value) >= at_least);
                    }
                    // One moment: rows that always change together are equal.
                    assert_eq!(number(&rows[0].1), number(&rows[ROWS - 1].1));
                }
            });
        }
        for round in 1..400_u64 {
            let n = 1 + (round as usize * 11) % (ROWS - 2);
            let changed = [0, n, ROWS - 1];
            commit_rows(
                &store,
                changed.map(|n| (row(n), Some(large(round)))).to_vec(),
            );
            changed
                .iter()
                .for_each(|n| committed[*n].store(round, Ordering::SeqCst));
            if round % 3 == 0 {
                store.flush_index().unwrap();
            }
        }
        is_done.store(true, Ordering::Relaxed);
    });
}

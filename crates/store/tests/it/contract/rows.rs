use chancery_core::rows::{Lookup, RowKey};
use chancery_store::Store;

use super::Factory;
use crate::support::*;

fn names(rows: &[(RowKey, chancery_core::rows::Row)]) -> Vec<String> {
    rows.iter()
        .map(|(key, _)| String::from_utf8(key.parts()[1].clone()).unwrap())
        .collect()
}

pub fn what_was_loaded_is_known_without_a_disk<F: Factory>() {
    let (factory, store) = F::fresh();
    commit_rows(&store, vec![put("a", "1"), put("b", "2")]);
    assert_eq!(store.peek(&key("a")), Lookup::Found("1".into()));
    commit_rows(&store, vec![gone("b")]);
    assert_eq!(store.peek(&key("b")), Lookup::Absent);
    let store = factory.reopened(store).unwrap_or_else(|| F::fresh().1);
    assert!(matches!(
        store.peek(&key("a")),
        Lookup::NotLoaded | Lookup::Absent
    ));
    let rows = store.load(&[key("a"), key("b"), key("a")]).unwrap();
    assert_ne!(store.peek(&key("a")), Lookup::NotLoaded);
    assert_eq!(store.peek(&key("b")), Lookup::Absent);
    assert_eq!(rows[0], rows[2]);
}

pub fn many_rows_load_in_one_call<F: Factory>() {
    let (factory, store) = F::fresh();
    let name = |n: usize| format!("row {n}");
    commit_rows(
        &store,
        (0..128)
            .map(|n| put(&name(n * 2), &n.to_string()))
            .collect(),
    );
    let store = factory.reopened(store).unwrap_or_else(|| {
        let store = F::fresh().1;
        commit_rows(
            &store,
            (0..128)
                .map(|n| put(&name(n * 2), &n.to_string()))
                .collect(),
        );
        store
    });
    let keys: Vec<_> = (0..256).map(|n| key(&name(n))).collect();
    let rows = store.load(&keys).unwrap();
    for (n, key) in keys.iter().enumerate() {
        let expected = (n % 2 == 0).then(|| (n / 2).to_string());
        assert_eq!(value(&rows, n), expected.as_deref(), "row {n}");
        assert_ne!(store.peek(key), Lookup::NotLoaded);
    }
}

pub fn scans_merge_what_is_written_and_what_is_not<F: Factory>() {
    let (factory, store) = F::fresh();
    commit_rows(
        &store,
        ["a", "c", "e", "g"]
            .map(|name| put(name, "written"))
            .to_vec(),
    );
    factory.settle(&store);
    commit_rows(
        &store,
        vec![put("b", "new"), put("c", "new"), gone("e"), put("h", "new")],
    );
    commit_rows(&store, vec![gone("b"), put("bb", "new")]);
    commit_rows(
        &store,
        vec![(RowKey::text("tt", &["x"]), Some("other".into()))],
    );
    let all = store.scan(&RowKey::text("t", &[]), None, 99).unwrap();
    assert_eq!(names(&all), ["a", "bb", "c", "g", "h"]);
    let values: Vec<_> = all.iter().map(|(_, value)| &value[..]).collect();
    assert_eq!(
        values,
        [&b"written"[..], b"new", b"new", b"written", b"new"]
    );
    factory.settle(&store);
    assert_eq!(store.scan(&RowKey::text("t", &[]), None, 99).unwrap(), all);
}

pub fn scans_go_on_after_a_key_and_keep_their_limit<F: Factory>() {
    let (factory, store) = F::fresh();
    let prefix = RowKey::text("t", &[]);
    let name = |n: usize| format!("{n:03}");
    commit_rows(
        &store,
        (0..100).step_by(2).map(|n| put(&name(n), "even")).collect(),
    );
    factory.settle(&store);
    commit_rows(
        &store,
        (1..100).step_by(2).map(|n| put(&name(n), "odd")).collect(),
    );
    commit_rows(
        &store,
        (10..90)
            .filter(|n| n % 5 != 0)
            .map(|n| gone(&name(n)))
            .collect(),
    );
    let expected: Vec<_> = (0..100)
        .filter(|n| !(10..90).contains(n) || n % 5 == 0)
        .map(name)
        .collect();
    let mut seen = Vec::new();
    let mut after: Option<RowKey> = None;
    loop {
        let page = store.scan(&prefix, after.as_ref(), 7).unwrap();
        assert!(page.len() <= 7);
        let Some((last, _)) = page.last() else { break };
        after = Some(last.clone());
        seen.extend(names(&page));
    }
    assert_eq!(seen, expected);
    assert!(store.scan(&prefix, None, 0).unwrap().is_empty());
    assert!(
        store
            .scan(&prefix, Some(&key("zzz")), 9)
            .unwrap()
            .is_empty()
    );
    assert!(
        store
            .scan(&RowKey::text("nothing", &[]), None, 9)
            .unwrap()
            .is_empty()
    );
    // A key before the prefix changes nothing.
    assert_eq!(
        store
            .scan(&prefix, Some(&RowKey::text("a", &[])), 3)
            .unwrap()
            .len(),
        3
    );
}

pub fn forgotten_rows_are_gone<F: Factory>() {
    let (factory, store) = F::fresh();
    commit_rows(&store, vec![put("a", "1"), put("b", "2")]);
    factory.settle(&store);
    let head = store.head();
    store.forget(&[key("a"), key("never there")]).unwrap();
    assert_eq!(store.head(), head);
    assert_eq!(store.peek(&key("a")), Lookup::Absent);
    assert_eq!(
        names(&store.scan(&RowKey::text("t", &[]), None, 9).unwrap()),
        ["b"]
    );
    let Some(store) = factory.reopened(store) else {
        return;
    };
    let rows = store.load(&[key("a"), key("b")]).unwrap();
    assert_eq!((value(&rows, 0), value(&rows, 1)), (None, Some("2")));
}

pub fn rows_are_right_under_pressure<F: Factory>() {
    let (factory, store) = F::fresh();
    let name = |n: usize| format!("{n}");
    let filling = "x".repeat(1_000);
    for round in 0..3 {
        for chunk in 0..30 {
            let rows = (0..100)
                .map(|n| put(&name(chunk * 100 + n), &format!("{round} {filling}")))
                .collect();
            commit_rows(&store, rows);
        }
        factory.settle(&store);
    }
    // 3,000 rows of 1,000 bytes do not fit into the smallest cache: many come from the index.
    for n in (0..3_000).rev() {
        let rows = store.load(&[key(&name(n))]).unwrap();
        assert!(value(&rows, 0).unwrap().starts_with("2 "), "row {n}");
    }
    if store.is_durable() {
        let bound = chancery_store::LEAST_CACHE_BYTES;
        assert!(
            store.cache_bytes() < bound + bound / 4,
            "{} bytes are cached",
            store.cache_bytes()
        );
    }
}

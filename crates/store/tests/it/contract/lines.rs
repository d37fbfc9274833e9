use chancery_core::digest::Sha256Digest;
use chancery_store::{CommitError, Store};

use super::Factory;
use crate::support::*;

pub fn lines_come_back_by_number_across_segments<F: Factory>() {
    // CH-JRN-2, CH-JRN-8
    let (_factory, store) = F::fresh();
    let mut expected = Vec::new();
    for lines in [1, 3, 200, 1, 300] {
        let batch = batch(store.head(), |chain| {
            vec![unit(chain, 1, vec![]), unit(chain, lines, vec![])]
        });
        expected.extend(batch.lines.clone().into_bytes());
        store.commit(batch).unwrap();
    }
    assert_eq!(store.lines(1, usize::MAX).unwrap(), expected);
    assert_eq!(store.lines(0, 2).unwrap(), expected[..2]);
    for (from, limit) in [
        (1, 1),
        (2, 5),
        (128, 3),
        (129, 1),
        (130, 200),
        (400, 1),
        (509, 10),
        (510, 1),
        (511, 7),
    ] {
        let wanted: Vec<_> = expected
            .iter()
            .skip(from - 1)
            .take(limit)
            .cloned()
            .collect();
        assert_eq!(
            store.lines(from as u64, limit).unwrap(),
            wanted,
            "{limit} lines from {from}"
        );
    }
    assert!(store.lines(1, 0).unwrap().is_empty());
}

pub fn a_commit_moves_the_head<F: Factory>() {
    let (_factory, store) = F::fresh();
    assert_eq!(store.head(), chancery_journal::Head::EMPTY);
    let head = commit_lines(&store, 3);
    assert_eq!((head.seq, store.head()), (3, head));
    assert_eq!(head.time, Some(at(1_000)));
    let lines = store.lines(3, 1).unwrap();
    assert_eq!(head.hash, Sha256Digest::of(&lines[0]));
    let nothing = batch(head, |_| Vec::new());
    assert_eq!(store.commit(nothing).unwrap(), head);
}

pub fn a_head_that_is_not_of_the_lines_is_refused<F: Factory>() {
    let (_factory, store) = F::fresh();
    let mut wrong_seq = batch(store.head(), |chain| vec![unit(chain, 2, vec![])]);
    wrong_seq.head.seq += 1;
    assert!(matches!(
        store.commit(wrong_seq),
        Err(CommitError::Failed(_))
    ));
    let mut wrong_hash = batch(store.head(), |chain| vec![unit(chain, 2, vec![])]);
    wrong_hash.head.hash = Sha256Digest::ZERO;
    assert!(matches!(
        store.commit(wrong_hash),
        Err(CommitError::Failed(_))
    ));
    assert!(store.lines(1, 9).unwrap().is_empty());
}

pub fn a_closed_store_takes_nothing<F: Factory>() {
    let (_factory, store) = F::fresh();
    commit_rows(&store, vec![put("a", "1")]);
    let next = batch(store.head(), |chain| vec![unit(chain, 1, vec![])]);
    store.close().unwrap();
    assert!(matches!(store.commit(next), Err(CommitError::Failed(_))));
    assert!(store.load(&[key("a")]).is_err());
    assert!(store.scan(&key("a"), None, 1).is_err());
    assert!(store.lines(1, 1).is_err());
    assert!(store.forget(&[key("a")]).is_err());
    assert!(store.ops_get(&key("a")).is_err());
    assert!(store.ops_put(&[put("a", "1")], true).is_err());
    store.close().unwrap();
}

pub fn a_clean_stop_loses_nothing<F: Factory>() {
    // CH-JRN-4: a clean stop writes the index up to the last line.
    let (factory, store) = F::fresh();
    for n in 0..40 {
        commit_rows(
            &store,
            vec![put(&format!("{n:02}"), "one"), put("last", &n.to_string())],
        );
    }
    store.ops_put(&[put("cursor", "7")], false).unwrap();
    let head = store.head();
    let lines = store.lines(1, usize::MAX).unwrap();
    let Some(store) = factory.reopened(store) else {
        return;
    };
    assert_eq!((store.head(), store.lag()), (head, 0));
    assert_eq!(store.lines(1, usize::MAX).unwrap(), lines);
    let rows = store
        .load(&[key("00"), key("39"), key("last"), key("40")])
        .unwrap();
    assert_eq!(
        [0, 1, 2, 3].map(|n| value(&rows, n)),
        [Some("one"), Some("one"), Some("39"), None]
    );
    assert_eq!(
        store.ops_get(&key("cursor")).unwrap().as_deref(),
        Some(&b"7"[..])
    );
    assert_eq!(commit_lines(&store, 1).seq, 41);
}

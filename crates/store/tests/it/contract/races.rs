use chancery_core::digest::Sha256Digest;
use chancery_core::rows::RowChange;
use chancery_journal::Head;
use chancery_store::{CommitError, Store};

use super::Factory;
use crate::support::*;

pub fn a_handle_that_lost_a_race_decides_again<F: Factory>() {
    // CH-JRN-5: batches queue; the loser takes the changes in and decides again.
    let (_factory, first) = F::fresh();
    commit_lines(&first, 2);
    let second = first.clone();
    let base = second.head();
    let lost = count(&second, base);
    let won = batch(base, |chain| {
        let remembered = vec![seen(9, at(2_000))];
        vec![unit_of(
            chain,
            &[draft(at(1_000), 3)],
            vec![put("counter", "1"), put("other", "x")],
            remembered,
        )]
    });
    let head = first.commit(won).unwrap();
    let after = first.commit(counted(head, 1)).unwrap();

    let Err(CommitError::Behind {
        head: now,
        rows,
        remembered,
        ..
    }) = second.commit(lost)
    else {
        panic!("the batch was decided on an old head");
    };
    assert_eq!(now, after);
    let expected: Vec<RowChange> =
        vec![put("counter", "1"), put("other", "x"), put("counter", "2")];
    assert_eq!(rows, expected);
    assert_eq!(*remembered, [seen(9, at(2_000))]);
    second.commit(count(&second, now)).unwrap();
    let rows = first.load(&[key("counter")]).unwrap();
    assert_eq!(value(&rows, 0), Some("3"));
    assert_eq!(first.head().seq, 5);
}

pub fn two_handles_commit_in_turn<F: Factory>() {
    let (_factory, first) = F::fresh();
    let second = first.clone();
    std::thread::scope(|scope| {
        for handle in [&first, &second] {
            scope.spawn(move || {
                for _ in 0..100 {
                    count_on(handle);
                }
            });
        }
    });
    let rows = first.load(&[key("counter")]).unwrap();
    assert_eq!(value(&rows, 0), Some("200"));
    assert_eq!(second.head().seq, 200);
}

pub fn a_foreign_head_is_refused<F: Factory>() {
    let (_factory, store) = F::fresh();
    commit_lines(&store, 2);
    let foreign = Head {
        hash: Sha256Digest::of(b"elsewhere"),
        ..store.head()
    };
    assert!(matches!(
        store.commit(counted(foreign, 0)),
        Err(CommitError::Failed(_))
    ));
    let beyond = Head { seq: 7, ..foreign };
    assert!(matches!(
        store.commit(counted(beyond, 0)),
        Err(CommitError::Failed(_))
    ));
    commit_lines(&store, 1);
}

use chancery_core::rows::RowKey;
use chancery_store::Store;

use super::Factory;
use crate::support::*;

pub fn progress_is_put_and_scanned<F: Factory>() {
    // CH-JRN-15
    let (_factory, store) = F::fresh();
    assert_eq!(store.ops_get(&key("a")).unwrap(), None);
    store
        .ops_put(
            &[
                put("a", "1"),
                put("b", "2"),
                (RowKey::text("tt", &[]), Some("other".into())),
            ],
            true,
        )
        .unwrap();
    store
        .ops_put(&[put("b", "3"), gone("a"), put("c", "4")], false)
        .unwrap();
    store.ops_put(&[], true).unwrap();
    assert_eq!(store.ops_get(&key("a")).unwrap(), None);
    assert_eq!(
        store.ops_get(&key("b")).unwrap().as_deref(),
        Some(&b"3"[..])
    );
    let rows = store.ops_scan(&RowKey::text("t", &[])).unwrap();
    let expected = [put("b", "3"), put("c", "4")].map(|(key, value)| (key, value.unwrap()));
    assert_eq!(rows, expected);
    // Progress is not state: no row and no line came of it.
    assert_eq!(store.head().seq, 0);
    assert!(
        store
            .scan(&RowKey::text("t", &[]), None, 9)
            .unwrap()
            .is_empty()
    );
}

pub fn a_raised_row_of_progress_never_goes_back<F: Factory>() {
    // CH-JRN-5, CH-LIM-3: an inbox's cursor, acknowledged on two nodes at once.
    let (_factory, store) = F::fresh();
    let now = || store.ops_get(&key("cursor")).unwrap().unwrap().to_vec();
    let raise = |to: u64, beside: &str| {
        let raised = (key("cursor"), (&to.to_be_bytes()[..]).into());
        store
            .ops_raise(raised, &[put("beside", beside)], true)
            .unwrap();
    };
    for (to, expected) in [(7, 7), (3, 7), (300, 300), (299, 300)] {
        raise(to, &to.to_string());
        assert_eq!(now(), u64::to_be_bytes(expected));
        // What is written with it is not held back.
        let beside = store.ops_get(&key("beside")).unwrap().unwrap();
        assert_eq!(*beside, *to.to_string().as_bytes());
    }
}

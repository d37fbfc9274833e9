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

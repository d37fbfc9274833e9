use chancery_store::Store;

use super::Factory;
use crate::support::*;

fn remember(store: &impl Store, now: i64, records: Vec<chancery_core::window::Remember>) {
    let batch = batch(store.head(), |chain| {
        vec![unit_of(chain, &[draft(at(now), 0)], vec![], records)]
    });
    store.commit(batch).unwrap();
}

pub fn windows_remember_until_their_end<F: Factory>() {
    let (_factory, store) = F::fresh();
    remember(&store, 1_000, vec![seen(1, at(1_010)), seen(2, at(5_000))]);
    assert_eq!(store.find(SEEN, &[1; 16], at(1_010)), Some(1));
    assert_eq!(store.find(SEEN, &[1; 16], at(1_011)), None);
    assert_eq!(store.find(SEEN, &[3; 16], at(1_000)), None);
    assert_eq!(store.window_len(), 2);
    // Time that went on drops what has ended.
    remember(&store, 1_200, vec![]);
    assert_eq!(store.window_len(), 1);
    assert_eq!(store.find(SEEN, &[2; 16], at(5_000)), Some(2));
}

pub fn windows_outlive_a_stop<F: Factory>() {
    let (factory, store) = F::fresh();
    remember(&store, 1_000, vec![seen(1, at(1_010)), seen(2, at(5_000))]);
    factory.settle(&store);
    remember(&store, 1_200, vec![seen(3, at(5_000))]);
    let Some(store) = factory.reopened(store) else {
        return;
    };
    assert_eq!(store.window_len(), 2);
    assert_eq!(store.find(SEEN, &[2; 16], at(5_000)), Some(2));
    assert_eq!(store.find(SEEN, &[3; 16], at(1_200)), Some(3));
    remember(&store, 9_000, vec![seen(4, at(9_100))]);
    let Some(store) = factory.reopened(store) else {
        return;
    };
    assert_eq!(store.window_len(), 1);
}

//! The identifiers of one decision follow from its nonce and time.

use chancery_core::digest::Sha256Digest;
use chancery_core::ids::{DerivedIds, is_uuid4, is_uuid7};
use chancery_core::time::Time;
use proptest::prelude::*;

use crate::time_arithmetic::any_time;

// CH-JRN-3: SHA-256(nonce ‖ n), n in eight bytes, the first being 1.
#[test]
fn the_nth_bytes_are_the_hash_of_nonce_and_n() {
    let nonce = [7; 16];
    let mut ids = DerivedIds::new(nonce, Time::UNIX_EPOCH);
    for n in 1..=300u64 {
        let hashed = [&nonce[..], &n.to_be_bytes()].concat();
        assert_eq!(ids.next_bytes(), Sha256Digest::of(&hashed).0);
    }
    assert_eq!(ids.made(), 300);
    assert_eq!(ids.nonce(), &nonce);
}

// VX-ID-2: the identifier carries the decision's milliseconds.
#[test]
fn version_7_carries_the_time_and_the_count() {
    let decided = Time::from_unix(1_739_506_089, 564_999_000).unwrap();
    let mut ids = DerivedIds::new([0; 16], decided);
    let first = ids.next_v7().to_string();
    assert!(first.starts_with("019502a4-7e5c-7001-"), "{first}");
    let second = ids.next_v7().to_string();
    assert!(second.starts_with("019502a4-7e5c-7002-"), "{second}");
}

#[test]
fn more_than_the_counter_holds_still_increases() {
    let mut ids = DerivedIds::new([1; 16], Time::UNIX_EPOCH);
    let mut last = ids.next_v7();
    for _ in 0..9_000 {
        let next = ids.next_v7();
        assert!(next > last);
        last = next;
    }
}

proptest! {
    // CH-JRN-3, VX-ID-3: replay makes the same identifiers, and they increase.
    #[test]
    fn the_same_nonce_and_time_make_the_same(nonce in any::<[u8; 16]>(), decided in any_time(), kinds in prop::collection::vec(any::<bool>(), 1..40)) {
        let make = || {
            let mut ids = DerivedIds::new(nonce, decided);
            kinds.iter().map(|&v7| if v7 { ids.next_v7() } else { ids.next_v4() }).collect::<Vec<_>>()
        };
        let made = make();
        prop_assert_eq!(&made, &make());
        let (mut last, mut seen) = (None, std::collections::HashSet::new());
        for (&is_v7, id) in kinds.iter().zip(&made) {
            prop_assert!(seen.insert(*id));
            if is_v7 {
                prop_assert!(is_uuid7(&id.to_string()));
                prop_assert!(last < Some(*id));
                last = Some(*id);
            } else {
                prop_assert!(is_uuid4(&id.to_string()));
            }
        }
    }

    #[test]
    fn another_nonce_makes_others(a in any::<[u8; 16]>(), b in any::<[u8; 16]>()) {
        prop_assume!(a != b);
        let first = |nonce| DerivedIds::new(nonce, Time::UNIX_EPOCH).next_v4();
        prop_assert_ne!(first(a), first(b));
    }
}

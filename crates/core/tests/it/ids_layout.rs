//! The layout of identifiers, and sequences of them.

use chancery_core::ids::{Uuid, Uuid7Sequence, is_uuid4, is_uuid7, v4, v7};
use chancery_core::time::Time;
use proptest::prelude::*;

use crate::keys_vectors::{cases, text};

// VX-ID-2
#[test]
fn version_7_has_the_recorded_layout() {
    for case in cases("value-context/uuid7.json", "vectors") {
        let rand_b = u64::from_str_radix(text(&case, "rand_b_hex"), 16).unwrap();
        let rand_a = u16::try_from(case["rand_a"].as_u64().unwrap()).unwrap();
        let made = v7(case["unix_ms"].as_u64().unwrap(), rand_a, rand_b).to_string();
        assert_eq!(made, text(&case, "uuid"));
        assert!(is_uuid7(&made));
    }
    // RFC 9562, appendix A.6.
    let example = v7(0x017F_22E2_79B0, 0xCC3, 0x18C4_DC0C_0C07_398F);
    assert_eq!(example.to_string(), "017f22e2-79b0-7cc3-98c4-dc0c0c07398f");
}

// VX-ID-1
#[test]
fn only_the_exact_text_is_a_version_7_identifier() {
    let good = "019502a4-7e5c-7000-8000-000000000001";
    assert!(is_uuid7(good));
    for variant in ["8", "9", "a", "b"] {
        assert!(is_uuid7(&good.replacen("-8", &format!("-{variant}"), 1)));
    }
    for bad in [
        "",
        "019502a4-7e5c-4000-8000-000000000001",
        "019502a4-7e5c-7000-c000-000000000001",
        "019502a4-7e5c-7000-7000-000000000001",
        "019502A4-7e5c-7000-8000-000000000001",
        "019502a4-7e5c-7000-A000-000000000001",
        "{019502a4-7e5c-7000-8000-000000000001}",
        "019502a47e5c70008000000000000001",
        "019502a4-7e5c-7000-8000-000000000001\n",
        "019502a4-7e5c-7000-8000-00000000000",
        "019502a4-7e5c-7000-8000-00000000000g",
        "019502a4_7e5c-7000-8000-000000000001",
        "urn:uuid:019502a4-7e5c-7000-8000-000000000001",
        "019502a4-7e5c-7000-8000-0000000000é",
    ] {
        assert!(!is_uuid7(bad), "{bad:?}");
    }
}

#[test]
fn version_4_keeps_all_bits_but_six() {
    assert_eq!(
        v4([0xff; 16]).to_string(),
        "ffffffff-ffff-4fff-bfff-ffffffffffff"
    );
    assert_eq!(
        v4([0; 16]).to_string(),
        "00000000-0000-4000-8000-000000000000"
    );
    assert!(is_uuid4("00000000-0000-4000-8000-000000000000"));
    assert!(!is_uuid4("00000000-0000-7000-8000-000000000000"));
}

fn milliseconds(id: Uuid) -> u64 {
    id.as_u64_pair().0 >> 16
}

fn counter(id: Uuid) -> u64 {
    id.as_u64_pair().0 & 0xfff
}

// VX-ID-3: a fresh millisecond seeds the counter below 2^11, a repeated one or a step back adds one.
#[test]
fn the_counter_is_seeded_then_counts() {
    let mut sequence = Uuid7Sequence::new();
    let first = sequence.next(1_000, [0xff; 10]);
    assert_eq!((milliseconds(first), counter(first)), (1_000, 0x7ff));
    let second = sequence.next(1_000, [0; 10]);
    assert_eq!((milliseconds(second), counter(second)), (1_000, 0x800));
    let back = sequence.next(3, [0; 10]);
    assert_eq!((milliseconds(back), counter(back)), (1_000, 0x801));
    let fresh = sequence.next(1_001, [0; 10]);
    assert_eq!((milliseconds(fresh), counter(fresh)), (1_001, 0));
}

// VX-ID-3: on overflow the stored millisecond is raised by one.
#[test]
fn a_full_millisecond_borrows_the_next() {
    let mut sequence = Uuid7Sequence::new();
    let mut last = sequence.next(7, [0; 10]);
    for _ in 0..10_000 {
        let next = sequence.next(7, [0; 10]);
        assert!(next > last);
        last = next;
    }
    assert_eq!(milliseconds(last), 7 + 10_000 / 4_096);
}

// VX-ID-3: rand_b is fresh, all 62 bits of it.
#[test]
fn rand_b_is_the_given_entropy() {
    let mut entropy = [0xff; 10];
    let ones = Uuid7Sequence::new().next(1, entropy);
    assert_eq!(ones.as_u64_pair().1, 0xbfff_ffff_ffff_ffff);
    entropy[9] = 0xfe;
    let other = Uuid7Sequence::new().next(1, entropy);
    assert_eq!(other.as_u64_pair().1, 0xbfff_ffff_ffff_fffe);
}

proptest! {
    // VX-ID-1, VX-ID-2
    #[test]
    fn fields_come_back_from_the_text(unix_ms in 0..1u64 << 48, rand_a in 0..1u16 << 12, rand_b in 0..1u64 << 62) {
        let id = v7(unix_ms, rand_a, rand_b);
        prop_assert!(is_uuid7(&id.to_string()));
        prop_assert_eq!(milliseconds(id), unix_ms);
        prop_assert_eq!(counter(id), u64::from(rand_a));
        prop_assert_eq!(id.as_u64_pair().1 & ((1 << 62) - 1), rand_b);
    }

    // VX-ID-3: any clock, any entropy, as numbers and as text.
    #[test]
    fn a_sequence_strictly_increases(steps in prop::collection::vec((prop_oneof![0..20u64, any::<u64>()], any::<[u8; 10]>()), 1..200)) {
        let mut sequence = Uuid7Sequence::new();
        let mut last = String::new();
        for (unix_ms, entropy) in steps {
            let next = sequence.next(unix_ms, entropy).to_string();
            prop_assert!(is_uuid7(&next));
            prop_assert!(next > last, "{} after {}", next, last);
            last = next;
        }
        let latest = u64::try_from(Time::MAX.unix_millis()).unwrap();
        prop_assert!(milliseconds(last.parse().unwrap()) <= latest + 1);
    }

    #[test]
    fn checks_never_panic(text in "\\PC{30,40}") {
        let _ = (is_uuid7(&text), is_uuid4(&text));
    }
}

//! The timestamps of vacant: many spellings in, one out.

use chancery_core::time::{Time, TimeError, format_vacant, parse_vacant};
use proptest::prelude::*;

use crate::keys_vectors::{cases, text};
use crate::time_arithmetic::any_time;

// VA-TS-1, VA-TS-2, VA-TS-3
#[test]
fn every_recorded_timestamp_has_its_canonical_form() {
    for case in cases("vacant/timestamps.json", "cases") {
        let read = parse_vacant(text(&case, "input"));
        match case["canonical"].as_str() {
            Some(canonical) => {
                assert_eq!(format_vacant(read.unwrap()).as_str(), canonical, "{case}");
            }
            None => assert!(read.is_err(), "{case}"),
        }
    }
}

// VA-TS-3
#[test]
fn digits_beyond_six_are_cut_off() {
    for (input, canonical) in [
        (
            "2026-05-06T07:08:59.9999999Z",
            "2026-05-06T07:08:59.999999+00:00",
        ),
        ("2026-05-06T07:08:59.0000009Z", "2026-05-06T07:08:59+00:00"),
        (
            "2026-05-06T07:08:59.1234567890123",
            "2026-05-06T07:08:59.123456+00:00",
        ),
        ("2026-05-06T07:08:59,", "2026-05-06T07:08:59+00:00"),
        ("2026-05-06 07:08:59.5z", "2026-05-06T07:08:59.500000+00:00"),
        // VA-TS-2: without an offset it is UTC.
        ("2026-05-06T07:08:59", "2026-05-06T07:08:59+00:00"),
        ("2026-05-06T07:08:59+23:59", "2026-05-05T07:09:59+00:00"),
    ] {
        let read = parse_vacant(input).unwrap();
        assert_eq!(format_vacant(read).as_str(), canonical, "{input}");
        assert_eq!(read, read.truncate_to_micros(), "{input}");
    }
}

// VA-TS-3
#[test]
fn other_spellings_are_refused() {
    let none = |field, value| TimeError::NoSuch { field, value };
    for (text, error) in [
        ("2026-05-06T24:00:00Z", none("hour", 24)),
        ("2026-05-06T07:08:60Z", none("second", 60)),
        ("2026-05-06T07:08:59+24:00", none("offset hour", 24)),
        ("2026-05-06T07:08:59+00:60", none("offset minute", 60)),
        ("0001-01-01T00:00:00+00:01", TimeError::OutOfRange),
        ("9999-12-31T23:59:59-00:01", TimeError::OutOfRange),
        ("2026-05-06T07:08:59 Z", TimeError::TextAfter { at: 19 }),
        ("2026-05-06T07:08:59.5.5Z", TimeError::TextAfter { at: 21 }),
        ("2026-05-06T07:08:59Z ", TimeError::TextAfter { at: 20 }),
    ] {
        assert_eq!(parse_vacant(text), Err(error), "{text}");
    }
    for text in [
        "2026-05-06t07:08:59Z",
        "2026-05-06",
        "20260506T070859Z",
        "2026-W19-3T07:08:59Z",
        "2026-05-06T07:08Z",
        "2026-05-06T07:08:59+0000",
        "2026-05-06T07:08:59+00:00:00",
        "2026-05-06  07:08:59Z",
        "2026-02-30T07:08:59Z",
    ] {
        assert!(parse_vacant(text).is_err(), "{text}");
    }
}

proptest! {
    // VA-TS-1, VA-TS-2: the canonical form of an instant reads back to the instant, cut to microseconds.
    #[test]
    fn canonical_forms_are_fixed_points(time in any_time()) {
        let canonical = format_vacant(time);
        let read = parse_vacant(canonical.as_str()).unwrap();
        prop_assert_eq!(read, time.truncate_to_micros());
        prop_assert_eq!(format_vacant(read).to_string(), canonical.to_string());
        prop_assert!([25, 32].contains(&canonical.as_str().len()));
    }

    #[test]
    fn nothing_panics(text in "\\PC{0,60}") {
        let _: Result<Time, TimeError> = parse_vacant(&text);
    }
}

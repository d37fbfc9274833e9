//! The grammars of value-context, vibe and the log: what each takes, and what each says of the rest.

use chancery_core::time::{
    Time, TimeError, format_audit, format_millis, parse_audit, parse_value_context, parse_vibe,
};
use proptest::prelude::*;

use crate::time_arithmetic::any_time;

fn at(seconds: i64, nanos: u32) -> Time {
    Time::from_unix(seconds, nanos).unwrap()
}

/// 2026-02-15T10:30:00Z.
const NOON: i64 = 1_771_151_400;

// VX-TS-1, VX-TS-2: nothing is rounded.
#[test]
fn value_context_takes_up_to_nine_digits_exactly() {
    for (text, nanos) in [
        ("2026-02-15T10:30:00Z", 0),
        ("2026-02-15T10:30:00.0Z", 0),
        ("2026-02-15T10:30:00.1Z", 100_000_000),
        ("2026-02-15T10:30:00.123Z", 123_000_000),
        ("2026-02-15T10:30:00.123456Z", 123_456_000),
        ("2026-02-15T10:30:00.000000001Z", 1),
        ("2026-02-15T10:30:00.999999999Z", 999_999_999),
    ] {
        assert_eq!(parse_value_context(text), Ok(at(NOON, nanos)), "{text}");
    }
    assert!(parse_value_context("2024-02-29T23:59:59Z").is_ok());
    assert!(parse_value_context("2000-02-29T00:00:00Z").is_ok());
}

// VX-TS-1
#[test]
fn value_context_refuses_every_other_spelling() {
    let expected = |at, what| TimeError::Expected { at, what };
    let none = |field, value| TimeError::NoSuch { field, value };
    let day = |year, month, day| TimeError::NoSuchDay { year, month, day };
    for (text, error) in [
        ("", expected(0, "four digits of the year")),
        ("2026-02-15T10:30:00+00:00", expected(19, "a capital Z")),
        ("2026-02-15T10:30:00-00:00", expected(19, "a capital Z")),
        ("2026-02-15T10:30:00z", expected(19, "a capital Z")),
        ("2026-02-15T10:30:00", expected(19, "a capital Z")),
        ("2026-02-15t10:30:00Z", expected(10, "a capital T")),
        ("2026-02-15 10:30:00Z", expected(10, "a capital T")),
        ("20260215T103000Z", expected(4, "a hyphen")),
        ("2026-02-15", expected(10, "a capital T")),
        ("2026-02-15T10:30Z", expected(16, "a colon")),
        ("2026-02-15T10:30:00.Z", expected(20, "a fraction digit")),
        ("2026-02-15T10:30:00,5Z", expected(19, "a capital Z")),
        (
            "2026-02-15T10:30:00.1234567890Z",
            TimeError::FractionTooLong,
        ),
        ("2026-02-15T10:30:60Z", none("second", 60)),
        ("2026-02-15T24:00:00Z", none("hour", 24)),
        ("2026-02-15T10:60:00Z", none("minute", 60)),
        ("2026-00-15T10:30:00Z", none("month", 0)),
        ("2026-13-15T10:30:00Z", none("month", 13)),
        ("0000-01-01T00:00:00Z", none("year", 0)),
        ("2026-02-00T10:30:00Z", day(2026, 2, 0)),
        ("2026-02-29T10:30:00Z", day(2026, 2, 29)),
        ("1900-02-29T10:30:00Z", day(1900, 2, 29)),
        ("2026-04-31T10:30:00Z", day(2026, 4, 31)),
        ("2026-02-15T10:30:00Z\n", TimeError::TextAfter { at: 20 }),
        (
            " 2026-02-15T10:30:00Z",
            expected(0, "four digits of the year"),
        ),
        (
            "+026-02-15T10:30:00Z",
            expected(0, "four digits of the year"),
        ),
        ("2026-02-15T10:30:٠٠Z", expected(17, "two digits")),
    ] {
        assert_eq!(parse_value_context(text), Err(error), "{text:?}");
        assert!(!error.to_string().is_empty());
    }
}

// VX-TS-3: three digits, cut, never rounded up.
#[test]
fn value_context_emits_milliseconds() {
    assert_eq!(
        format_millis(at(NOON, 123_000_000)).as_str(),
        "2026-02-15T10:30:00.123Z"
    );
    assert_eq!(
        format_millis(at(NOON, 999_999_999)).as_str(),
        "2026-02-15T10:30:00.999Z"
    );
    assert_eq!(
        format_millis(at(NOON, 0)).as_str(),
        "2026-02-15T10:30:00.000Z"
    );
}

// VC-ENV-6: T and t, Z and z, offsets, 0 to 9 digits; comparison is on the instant.
#[test]
fn vibe_takes_rfc_3339_and_compares_instants() {
    let noon = parse_vibe("2026-05-15T12:00:00Z").unwrap();
    assert_eq!(noon, at(1_778_846_400, 0));
    for same in [
        "2026-05-15T14:00:00+02:00",
        "2026-05-15t12:00:00z",
        "2026-05-15T12:00:00.000000000Z",
        "2026-05-15T12:00:00-00:00",
        "2026-05-15T00:00:00-12:00",
        "2026-05-16T11:59:00+23:59",
    ] {
        assert_eq!(parse_vibe(same), Ok(noon), "{same}");
    }
    assert_eq!(
        parse_vibe("2026-05-15T12:00:00.000000001+00:00"),
        Ok(at(1_778_846_400, 1))
    );
}

// VC-ENV-5: no offset, a date only, an impossible date. VC-ENV-6: second 60.
#[test]
fn vibe_refuses_what_has_no_zone_or_does_not_exist() {
    let none = |field, value| TimeError::NoSuch { field, value };
    let expected = |at, what| TimeError::Expected { at, what };
    for (text, error) in [
        ("2026-05-15T12:00:00", TimeError::NoOffset),
        ("2026-05-15T12:00:00.5", TimeError::NoOffset),
        ("2026-05-15", expected(10, "a T")),
        ("2026-05-15 12:00:00Z", expected(10, "a T")),
        (
            "2026-02-30T12:00:00Z",
            TimeError::NoSuchDay {
                year: 2026,
                month: 2,
                day: 30,
            },
        ),
        ("2026-05-15T12:00:60Z", none("second", 60)),
        ("2016-12-31T23:59:60Z", none("second", 60)),
        ("2026-05-15T24:00:00Z", none("hour", 24)),
        ("2026-05-15T12:00:00+24:00", none("offset hour", 24)),
        ("2026-05-15T12:00:00+02:60", none("offset minute", 60)),
        ("2026-05-15T12:00:00+0200", expected(22, "a colon")),
        ("2026-05-15T12:00:00+02", expected(22, "a colon")),
        ("2026-05-15T12:00:00.Z", expected(20, "a fraction digit")),
        (
            "2026-05-15T12:00:00.1234567890Z",
            TimeError::FractionTooLong,
        ),
        (
            "2026-05-15T12:00:00 Z",
            expected(19, "Z or an offset from UTC"),
        ),
        ("2026-05-15T12:00:00ZZ", TimeError::TextAfter { at: 20 }),
        ("0001-01-01T00:00:00+00:01", TimeError::OutOfRange),
        ("9999-12-31T23:59:59-00:01", TimeError::OutOfRange),
    ] {
        assert_eq!(parse_vibe(text), Err(error), "{text:?}");
    }
}

// VC-AUD-2: a fraction without trailing zeros, none when zero.
#[test]
fn the_audit_form_has_no_trailing_zero() {
    for (nanos, text) in [
        (0, "2026-02-15T10:30:00Z"),
        (500_000_000, "2026-02-15T10:30:00.5Z"),
        (123_400_000, "2026-02-15T10:30:00.1234Z"),
        (1, "2026-02-15T10:30:00.000000001Z"),
        (10, "2026-02-15T10:30:00.00000001Z"),
    ] {
        assert_eq!(format_audit(at(NOON, nanos)).as_str(), text);
        assert_eq!(parse_audit(text), Ok(at(NOON, nanos)));
    }
    for text in ["2026-02-15T10:30:00.0Z", "2026-02-15T10:30:00.50Z"] {
        assert_eq!(parse_audit(text), Err(TimeError::TrailingZero));
    }
}

proptest! {
    // VX-TS-2, VC-AUD-2
    #[test]
    fn what_is_written_is_read_back(time in any_time()) {
        let text = format_audit(time);
        prop_assert_eq!(parse_audit(text.as_str()), Ok(time));
        prop_assert_eq!(parse_value_context(text.as_str()), Ok(time));
        prop_assert_eq!(parse_vibe(text.as_str()), Ok(time));
        let millis = parse_value_context(format_millis(time).as_str()).unwrap();
        prop_assert_eq!(Some(millis), Time::from_unix_millis(time.unix_millis()));
    }

    // VC-ENV-6, against a calendar library.
    #[test]
    fn an_offset_moves_the_clock_and_not_the_instant(
        time in any_time(), hours in 0..24i64, minutes in 0..60i64, east in any::<bool>(),
    ) {
        let offset = (hours * 3_600 + minutes * 60) * if east { 1 } else { -1 };
        let local = Time::from_unix(time.unix_seconds() + offset, time.subsecond_nanos());
        prop_assume!(local.is_some());
        let clock = format_audit(local.unwrap()).as_str().trim_end_matches('Z').to_owned();
        let sign = if east { '+' } else { '-' };
        let text = format!("{clock}{sign}{hours:02}:{minutes:02}");
        prop_assert_eq!(parse_vibe(&text), Ok(time));
        if let Ok(library) = text.parse::<jiff::Timestamp>() {
            let nanos = i128::from(time.unix_seconds()) * 1_000_000_000 + i128::from(time.subsecond_nanos());
            prop_assert_eq!(library.as_nanosecond(), nanos);
        }
    }

    #[test]
    fn nothing_panics(text in "\\PC{0,40}") {
        let _ = (parse_value_context(&text), parse_vibe(&text), parse_audit(&text));
    }

    /// One character changed: what is still accepted must mean what it says.
    #[test]
    fn a_changed_character_never_passes_unread(time in any_time(), place in 0..40usize, with in "[ -~]") {
        let mut text = format_audit(time).as_str().to_owned();
        let place = place % text.len();
        text.replace_range(place..=place, &with);
        if let Ok(read) = parse_audit(&text) {
            prop_assert_eq!(read.to_string(), text);
        }
    }
}

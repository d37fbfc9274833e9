//! Time as a value: range, arithmetic, order, and the calendar under it.

use std::time::Duration;

use chancery_core::time::{Time, format_audit, parse_audit};
use proptest::prelude::*;

const NANOS: i128 = 1_000_000_000;

fn nanos(time: Time) -> i128 {
    i128::from(time.unix_seconds()) * NANOS + i128::from(time.subsecond_nanos())
}

fn from_nanos(nanos: i128) -> Option<Time> {
    let seconds = i64::try_from(nanos.div_euclid(NANOS)).ok()?;
    Time::from_unix(seconds, u32::try_from(nanos.rem_euclid(NANOS)).unwrap())
}

pub fn any_time() -> impl Strategy<Value = Time> {
    let seconds = Time::MIN.unix_seconds()..=Time::MAX.unix_seconds();
    let fraction = prop_oneof![
        Just(0u32),
        0..1_000_000_000u32,
        (0..1_000u32).prop_map(|millis| millis * 1_000_000),
        (0..1_000_000u32).prop_map(|micros| micros * 1_000),
    ];
    (seconds, fraction).prop_map(|(seconds, nanos)| Time::from_unix(seconds, nanos).unwrap())
}

fn any_duration() -> impl Strategy<Value = Duration> {
    prop_oneof![
        any::<u64>().prop_map(Duration::from_nanos),
        (any::<u64>(), 0..1_000_000_000u32).prop_map(|(s, n)| Duration::new(s, n)),
    ]
}

#[test]
fn the_range_is_the_years_1_to_9999() {
    assert_eq!(Time::MIN.to_string(), "0001-01-01T00:00:00Z");
    assert_eq!(Time::MAX.to_string(), "9999-12-31T23:59:59.999999999Z");
    assert_eq!(Time::from_unix_seconds(Time::MIN.unix_seconds() - 1), None);
    assert_eq!(Time::from_unix_seconds(Time::MAX.unix_seconds() + 1), None);
    assert_eq!(Time::from_unix(0, 1_000_000_000), None);
    assert_eq!(Time::from_unix_micros(i64::MIN), None);
    assert_eq!(Time::from_unix_micros(i64::MAX), None);
    assert_eq!(Time::from_unix_millis(i64::MAX), None);
}

#[test]
fn counts_before_1970_round_down() {
    let time = Time::from_unix_micros(-1).unwrap();
    assert_eq!(time.to_string(), "1969-12-31T23:59:59.999999Z");
    assert_eq!(time.unix_seconds(), -1);
    assert_eq!(time.unix_millis(), -1);
    assert_eq!(time.unix_micros(), -1);
}

#[test]
fn sums_beyond_the_range_are_none_or_the_end_of_it() {
    let tick = Duration::from_nanos(1);
    assert_eq!(Time::MAX.checked_add(tick), None);
    assert_eq!(Time::MIN.checked_sub(tick), None);
    assert_eq!(Time::MAX.saturating_add(Duration::MAX), Time::MAX);
    assert_eq!(Time::MIN.saturating_sub(Duration::MAX), Time::MIN);
    assert_eq!(Time::UNIX_EPOCH.since(Time::MAX), None);
}

// VC-AUD-2: the one spelling of an instant, also in JSON.
#[test]
fn an_instant_has_one_spelling() {
    let time = Time::from_unix(1_778_846_400, 120_000_000).unwrap();
    let json = serde_json::to_string(&time).unwrap();
    assert_eq!(json, "\"2026-05-15T12:00:00.12Z\"");
    assert_eq!(serde_json::from_str::<Time>(&json).unwrap(), time);
    for other in [
        "\"2026-05-15T12:00:00.120Z\"",
        "\"2026-05-15T12:00:00.0Z\"",
        "\"2026-05-15T12:00:00+00:00\"",
        "1778846400",
        "null",
    ] {
        assert!(serde_json::from_str::<Time>(other).is_err(), "{other}");
    }
}

/// Every day of the range, both ways, against a calendar library.
#[test]
fn the_calendar_agrees_with_a_library_on_every_day() {
    let mut date = jiff::civil::date(1, 1, 1);
    let mut seconds = Time::MIN.unix_seconds();
    loop {
        let time = Time::from_unix_seconds(seconds).unwrap();
        let text = format_audit(time);
        let expected = (date.year(), date.month(), date.day());
        let written = text.as_str();
        let found = (
            written[0..4].parse::<i16>().unwrap(),
            written[5..7].parse::<i8>().unwrap(),
            written[8..10].parse::<i8>().unwrap(),
        );
        assert_eq!(found, expected);
        assert_eq!(parse_audit(written), Ok(time));
        if date == jiff::civil::date(9999, 12, 31) {
            break;
        }
        date = date.tomorrow().unwrap();
        seconds += 86_400;
    }
    assert_eq!(seconds, Time::MAX.unix_seconds() - 86_399);
}

proptest! {
    #[test]
    fn arithmetic_is_that_of_nanoseconds(time in any_time(), duration in any_duration()) {
        let length = i128::try_from(duration.as_nanos()).unwrap();
        prop_assert_eq!(time.checked_add(duration), from_nanos(nanos(time) + length));
        prop_assert_eq!(time.checked_sub(duration), from_nanos(nanos(time) - length));
    }

    #[test]
    fn distance_and_order_are_those_of_nanoseconds(a in any_time(), b in any_time()) {
        prop_assert_eq!(a.cmp(&b), nanos(a).cmp(&nanos(b)));
        prop_assert_eq!(a.distance(b).as_nanos(), nanos(a).abs_diff(nanos(b)));
        prop_assert_eq!(a.distance(b), b.distance(a));
        prop_assert_eq!(a.since(b).is_some(), a >= b);
    }

    #[test]
    fn counts_round_down(time in any_time()) {
        prop_assert_eq!(i128::from(time.unix_micros()), nanos(time).div_euclid(1_000));
        prop_assert_eq!(i128::from(time.unix_millis()), nanos(time).div_euclid(1_000_000));
        let cut = time.truncate_to_micros();
        prop_assert_eq!(Time::from_unix_micros(time.unix_micros()), Some(cut));
        prop_assert_eq!(Time::from_unix_seconds(cut.unix_seconds()).map(Time::unix_seconds), Some(time.unix_seconds()));
    }

    #[test]
    fn json_round_trips(time in any_time()) {
        let json = serde_json::to_string(&time).unwrap();
        prop_assert_eq!(serde_json::from_str::<Time>(&json).unwrap(), time);
    }
}

//! The forms that end in `Z`: what value-context accepts and emits, and the audit form of the log.

use super::scan::{Scan, instant};
use super::{NANOS_PER_MILLI, Time, TimeError, TimeText};

/// Reads `YYYY-MM-DDTHH:MM:SS[.1-9 digits]Z`, capitals only, no other zone (VX-TS-1).
///
/// ```
/// # use chancery_core::time::parse_value_context;
/// assert!(parse_value_context("2026-02-15T10:30:00.123Z").is_ok());
/// assert!(parse_value_context("2026-02-15T10:30:00+00:00").is_err());
/// ```
pub fn parse_value_context(text: &str) -> Result<Time, TimeError> {
    let mut scan = Scan::new(text);
    let seconds = scan.date_and_time(b"T", "a capital T")?;
    let nanos = scan.fraction()?;
    scan.one_of(b"Z", "a capital Z")?;
    scan.end()?;
    instant(seconds, 0, nanos)
}

/// Writes milliseconds, three digits always, the rest cut off (VX-TS-3).
#[must_use]
pub fn format_millis(time: Time) -> TimeText {
    let mut text = TimeText::to_the_second(time);
    text.push(b".");
    text.digits(time.subsecond_nanos() / NANOS_PER_MILLI, 3);
    text.push(b"Z");
    text
}

/// Reads the audit form and nothing else, so that what is read is written back byte for byte (VC-AUD-2).
pub fn parse_audit(text: &str) -> Result<Time, TimeError> {
    let time = parse_value_context(text)?;
    if text.len() > "YYYY-MM-DDTHH:MM:SSZ".len() && text.ends_with("0Z") {
        return Err(TimeError::TrailingZero);
    }
    Ok(time)
}

/// Writes UTC with `Z`, the fraction without trailing zeros, none when it is zero (VC-AUD-2).
#[must_use]
pub fn format_audit(time: Time) -> TimeText {
    let mut text = TimeText::to_the_second(time);
    let mut fraction = time.subsecond_nanos();
    if fraction != 0 {
        let mut places = 9;
        while fraction.is_multiple_of(10) {
            fraction /= 10;
            places -= 1;
        }
        text.push(b".");
        text.digits(fraction, places);
    }
    text.push(b"Z");
    text
}

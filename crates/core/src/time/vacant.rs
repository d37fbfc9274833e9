//! The timestamps of vacant envelopes: many spellings in, one out, exact to the microsecond.

use super::scan::{Scan, instant};
use super::{NANOS_PER_MICRO, Time, TimeError, TimeText};
use crate::fault;

/// Reads `YYYY-MM-DD`, `T` or one blank, `HH:MM:SS`, optionally `.` or `,` and any number of digits (those
/// after the sixth are cut off), optionally `Z`, `z` or `±HH:MM`; without an offset it is UTC (VA-TS-2,
/// VA-TS-3).
pub fn parse_vacant(text: &str) -> Result<Time, TimeError> {
    let mut scan = Scan::new(text);
    let local_seconds = scan.date_and_time(b"T ", "a capital T or a blank")?;
    let nanos = match scan.peek() {
        Some(b'.' | b',') => {
            scan.skip();
            scan.nanos_of_digits(6)
        }
        _ => 0,
    };
    let offset_seconds = match scan.peek() {
        Some(b'Z' | b'z') => {
            scan.skip();
            0
        }
        Some(sign @ (b'+' | b'-')) => {
            scan.skip();
            let offset = scan.offset(sign)?;
            if fault::on("va-zone-ignored") {
                0
            } else {
                offset
            }
        }
        _ => 0,
    };
    scan.end()?;
    instant(local_seconds, offset_seconds, nanos)
}

/// Writes the form that is signed and hashed: `+00:00`, six fraction digits or none (VA-TS-1). What is
/// below a microsecond is cut off.
#[must_use]
pub fn format_vacant(time: Time) -> TimeText {
    let mut text = TimeText::to_the_second(time);
    let micros = time.subsecond_nanos() / NANOS_PER_MICRO;
    if micros != 0 {
        text.push(b".");
        text.digits(micros, 6);
    }
    text.push(b"+00:00");
    text
}

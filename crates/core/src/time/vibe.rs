//! The timestamps of vibe envelopes: RFC 3339 with an offset.

use super::scan::{Scan, instant};
use super::{Time, TimeError};

/// Reads `YYYY-MM-DD`, `T` or `t`, `HH:MM:SS`, at most nine fraction digits, `Z`, `z` or `±hh:mm`
/// (VC-ENV-5, VC-ENV-6). The caller keeps the text; this is the instant that comparisons use.
///
/// ```
/// # use chancery_core::time::parse_vibe;
/// assert_eq!(parse_vibe("2026-05-15T14:00:00+02:00"), parse_vibe("2026-05-15T12:00:00Z"));
/// ```
pub fn parse_vibe(text: &str) -> Result<Time, TimeError> {
    let mut scan = Scan::new(text);
    let local_seconds = scan.date_and_time(b"Tt", "a T")?;
    let nanos = scan.fraction()?;
    let offset_seconds = match scan.peek() {
        None => return Err(TimeError::NoOffset),
        Some(b'Z' | b'z') => {
            scan.skip();
            0
        }
        Some(sign @ (b'+' | b'-')) => {
            scan.skip();
            scan.offset(sign)?
        }
        Some(_) => return Err(scan.expected("Z or an offset from UTC")),
    };
    scan.end()?;
    instant(local_seconds, offset_seconds, nanos)
}

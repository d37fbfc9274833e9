//! A written timestamp, without an allocation.

use std::fmt;

use super::Time;
use super::calendar::date_of;

/// The longest form is `YYYY-MM-DDTHH:MM:SS.ffffff+00:00`.
const LONGEST: usize = 32;

/// The text of an instant, held on the stack.
#[derive(Clone, Copy)]
pub struct TimeText {
    bytes: [u8; LONGEST],
    length: u8,
}

impl TimeText {
    /// `YYYY-MM-DDTHH:MM:SS` of the instant in UTC.
    pub(super) fn to_the_second(time: Time) -> Self {
        let seconds = time.unix_seconds();
        let (year, month, day) = date_of(seconds.div_euclid(86_400));
        let of_day = seconds.rem_euclid(86_400) as u32;
        let mut text = Self {
            bytes: [0; LONGEST],
            length: 0,
        };
        text.digits(year, 4);
        text.push(b"-");
        text.digits(month, 2);
        text.push(b"-");
        text.digits(day, 2);
        text.push(b"T");
        text.digits(of_day / 3_600, 2);
        text.push(b":");
        text.digits(of_day / 60 % 60, 2);
        text.push(b":");
        text.digits(of_day % 60, 2);
        text
    }

    pub(super) fn push(&mut self, bytes: &[u8]) {
        let start = usize::from(self.length);
        self.bytes[start..start + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len() as u8;
    }

    /// `value` in `count` decimal digits.
    pub(super) fn digits(&mut self, value: u32, count: usize) {
        let start = usize::from(self.length);
        let mut rest = value;
        for byte in self.bytes[start..start + count].iter_mut().rev() {
            *byte = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        self.length += count as u8;
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..usize::from(self.length)])
            .expect("only ASCII is ever pushed")
    }
}

impl AsRef<str> for TimeText {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Display for TimeText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for TimeText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

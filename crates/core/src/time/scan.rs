//! Reading the parts that all timestamp grammars share, byte by byte.

use super::calendar::{days_in_month, days_since_1970};
use super::{Time, TimeError};

/// A place in a text.
pub(super) struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Scan<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self {
            bytes: text.as_bytes(),
            at: 0,
        }
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    pub(super) fn skip(&mut self) {
        self.at += 1;
    }

    pub(super) fn expected(&self, what: &'static str) -> TimeError {
        TimeError::Expected { at: self.at, what }
    }

    /// One byte out of `accepted`.
    pub(super) fn one_of(&mut self, accepted: &[u8], what: &'static str) -> Result<u8, TimeError> {
        match self.peek() {
            Some(byte) if accepted.contains(&byte) => {
                self.at += 1;
                Ok(byte)
            }
            _ => Err(self.expected(what)),
        }
    }

    pub(super) fn end(&self) -> Result<(), TimeError> {
        if self.at == self.bytes.len() {
            Ok(())
        } else {
            Err(TimeError::TextAfter { at: self.at })
        }
    }

    fn digit(&mut self) -> Option<u32> {
        let digit = self.peek()?.wrapping_sub(b'0');
        (digit < 10).then(|| {
            self.at += 1;
            u32::from(digit)
        })
    }

    fn number(&mut self, digits: usize, what: &'static str) -> Result<u32, TimeError> {
        let mut value = 0;
        for _ in 0..digits {
            let digit = self.digit().ok_or_else(|| self.expected(what))?;
            value = value * 10 + digit;
        }
        Ok(value)
    }

    fn two_digits_up_to(&mut self, most: u32, field: &'static str) -> Result<u32, TimeError> {
        let value = self.number(2, "two digits")?;
        if value > most {
            return Err(TimeError::NoSuch { field, value });
        }
        Ok(value)
    }

    /// `YYYY-MM-DD`, one of `separators`, `HH:MM:SS`; as seconds since 1970 of that clock.
    pub(super) fn date_and_time(
        &mut self,
        separators: &[u8],
        separator: &'static str,
    ) -> Result<i64, TimeError> {
        let days = self.date()?;
        self.one_of(separators, separator)?;
        let hour = self.two_digits_up_to(23, "hour")?;
        self.one_of(b":", "a colon")?;
        let minute = self.two_digits_up_to(59, "minute")?;
        self.one_of(b":", "a colon")?;
        let second = self.two_digits_up_to(59, "second")?;
        Ok(days * 86_400 + i64::from(hour * 3_600 + minute * 60 + second))
    }

    fn date(&mut self) -> Result<i64, TimeError> {
        let year = self.number(4, "four digits of the year")?;
        self.one_of(b"-", "a hyphen")?;
        let month = self.number(2, "two digits")?;
        self.one_of(b"-", "a hyphen")?;
        let day = self.number(2, "two digits")?;
        if year == 0 {
            return Err(TimeError::NoSuch {
                field: "year",
                value: year,
            });
        }
        if !(1..=12).contains(&month) {
            return Err(TimeError::NoSuch {
                field: "month",
                value: month,
            });
        }
        if day == 0 || day > days_in_month(year, month) {
            return Err(TimeError::NoSuchDay { year, month, day });
        }
        Ok(days_since_1970(year, month, day))
    }

    /// Nothing, or a point and one to nine digits; as nanoseconds.
    pub(super) fn fraction(&mut self) -> Result<u32, TimeError> {
        if self.peek() != Some(b'.') {
            return Ok(0);
        }
        self.skip();
        let start = self.at;
        let nanos = self.nanos_of_digits(9);
        match self.at - start {
            0 => Err(self.expected("a fraction digit")),
            1..=9 => Ok(nanos),
            _ => Err(TimeError::FractionTooLong),
        }
    }

    /// Takes all digits that follow; those after `kept` places count for nothing.
    pub(super) fn nanos_of_digits(&mut self, kept: u32) -> u32 {
        let mut nanos = 0;
        let mut place = 100_000_000;
        let least = 10u32.pow(9 - kept);
        while let Some(digit) = self.digit() {
            if place >= least {
                nanos += digit * place;
            }
            place /= 10;
        }
        nanos
    }

    /// `+HH:MM` or `-HH:MM`, the sign already read; as seconds east of UTC.
    pub(super) fn offset(&mut self, sign: u8) -> Result<i64, TimeError> {
        let hours = self.two_digits_up_to(23, "offset hour")?;
        self.one_of(b":", "a colon")?;
        let minutes = self.two_digits_up_to(59, "offset minute")?;
        let seconds = i64::from(hours * 3_600 + minutes * 60);
        Ok(if sign == b'-' { -seconds } else { seconds })
    }
}

/// The instant of a clock that stands `offset_seconds` east of UTC.
pub(super) fn instant(
    local_seconds: i64,
    offset_seconds: i64,
    nanos: u32,
) -> Result<Time, TimeError> {
    Time::from_unix(local_seconds - offset_seconds, nanos).ok_or(TimeError::OutOfRange)
}

//! Time as a value, and the four grammars it is written in.
//!
//! Guarantees: a [`Time`] is an instant of the years 1 to 9999 in UTC, exact to the nanosecond; each
//! protocol's text is read by its own function, which either gives the instant or says what is wrong.
//! Refuses: to read a clock, to round, to know leap seconds, and to guess at a spelling.

mod calendar;
mod error;
mod scan;
mod text;
mod utc;
mod vacant;
mod vibe;

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

pub use error::TimeError;
pub use text::TimeText;
pub use utc::{format_audit, format_millis, parse_audit, parse_value_context};
pub use vacant::{format_vacant, parse_vacant};
pub use vibe::parse_vibe;

const NANOS_PER_SECOND: u32 = 1_000_000_000;
const NANOS_PER_MICRO: u32 = 1_000;
const NANOS_PER_MILLI: u32 = 1_000_000;

/// An instant, exact to the nanosecond.
///
/// Its text (`Display`, serde) is the audit form of VC-AUD-2: UTC, `Z`, a fraction without trailing
/// zeros, none when it is zero. So each instant has one spelling.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time {
    /// Whole seconds since 1970-01-01T00:00:00Z, rounded down.
    seconds: i64,
    /// What is left, below one second. After `seconds`, so that the derived order is the order of instants.
    nanos: u32,
}

impl Time {
    /// The first instant of year 1.
    pub const MIN: Self = Self {
        seconds: -62_135_596_800,
        nanos: 0,
    };
    /// The last instant of year 9999.
    pub const MAX: Self = Self {
        seconds: 253_402_300_799,
        nanos: NANOS_PER_SECOND - 1,
    };
    /// 1970-01-01T00:00:00Z.
    pub const UNIX_EPOCH: Self = Self {
        seconds: 0,
        nanos: 0,
    };

    /// From whole seconds since 1970 (rounded down) and the nanoseconds after them; `None` outside the
    /// years 1 to 9999 or with a billion nanoseconds or more.
    #[must_use]
    pub const fn from_unix(seconds: i64, nanos: u32) -> Option<Self> {
        if seconds < Self::MIN.seconds || seconds > Self::MAX.seconds || nanos >= NANOS_PER_SECOND {
            return None;
        }
        Some(Self { seconds, nanos })
    }

    /// From whole seconds since 1970, the form of agh timestamps.
    #[must_use]
    pub const fn from_unix_seconds(seconds: i64) -> Option<Self> {
        Self::from_unix(seconds, 0)
    }

    /// From milliseconds since 1970.
    #[must_use]
    pub const fn from_unix_millis(millis: i64) -> Option<Self> {
        let nanos = millis.rem_euclid(1_000) as u32 * NANOS_PER_MILLI;
        Self::from_unix(millis.div_euclid(1_000), nanos)
    }

    /// From microseconds since 1970.
    #[must_use]
    pub const fn from_unix_micros(micros: i64) -> Option<Self> {
        let nanos = micros.rem_euclid(1_000_000) as u32 * NANOS_PER_MICRO;
        Self::from_unix(micros.div_euclid(1_000_000), nanos)
    }

    /// Whole seconds since 1970, rounded down.
    #[must_use]
    pub const fn unix_seconds(self) -> i64 {
        self.seconds
    }

    /// Whole milliseconds since 1970, rounded down.
    #[must_use]
    pub const fn unix_millis(self) -> i64 {
        self.seconds * 1_000 + (self.nanos / NANOS_PER_MILLI) as i64
    }

    /// Whole microseconds since 1970, rounded down.
    #[must_use]
    pub const fn unix_micros(self) -> i64 {
        self.seconds * 1_000_000 + (self.nanos / NANOS_PER_MICRO) as i64
    }

    /// Nanoseconds after the whole second.
    #[must_use]
    pub const fn subsecond_nanos(self) -> u32 {
        self.nanos
    }

    /// The same instant with everything below a microsecond cut off.
    #[must_use]
    pub const fn truncate_to_micros(self) -> Self {
        Self {
            seconds: self.seconds,
            nanos: self.nanos - self.nanos % NANOS_PER_MICRO,
        }
    }

    /// Later by `duration`; `None` beyond year 9999.
    #[must_use]
    pub fn checked_add(self, duration: Duration) -> Option<Self> {
        let seconds = self
            .seconds
            .checked_add(i64::try_from(duration.as_secs()).ok()?)?;
        let nanos = self.nanos + duration.subsec_nanos();
        if nanos < NANOS_PER_SECOND {
            Self::from_unix(seconds, nanos)
        } else {
            Self::from_unix(seconds.checked_add(1)?, nanos - NANOS_PER_SECOND)
        }
    }

    /// Earlier by `duration`; `None` before year 1.
    #[must_use]
    pub fn checked_sub(self, duration: Duration) -> Option<Self> {
        let seconds = self
            .seconds
            .checked_sub(i64::try_from(duration.as_secs()).ok()?)?;
        match self.nanos.checked_sub(duration.subsec_nanos()) {
            Some(nanos) => Self::from_unix(seconds, nanos),
            None => Self::from_unix(
                seconds.checked_sub(1)?,
                self.nanos + NANOS_PER_SECOND - duration.subsec_nanos(),
            ),
        }
    }

    /// Later by `duration`, at most [`Time::MAX`].
    #[must_use]
    pub fn saturating_add(self, duration: Duration) -> Self {
        self.checked_add(duration).unwrap_or(Self::MAX)
    }

    /// Earlier by `duration`, at least [`Time::MIN`].
    #[must_use]
    pub fn saturating_sub(self, duration: Duration) -> Self {
        self.checked_sub(duration).unwrap_or(Self::MIN)
    }

    /// How long after `earlier` this is; `None` when it is before.
    #[must_use]
    pub fn since(self, earlier: Self) -> Option<Duration> {
        (self >= earlier).then(|| self.distance(earlier))
    }

    /// The time between the two, whichever comes first.
    #[must_use]
    pub fn distance(self, other: Self) -> Duration {
        let (early, late) = if self <= other {
            (self, other)
        } else {
            (other, self)
        };
        let seconds = late.seconds.abs_diff(early.seconds);
        match late.nanos.checked_sub(early.nanos) {
            Some(nanos) => Duration::new(seconds, nanos),
            None => Duration::new(seconds - 1, late.nanos + NANOS_PER_SECOND - early.nanos),
        }
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(format_audit(*self).as_str())
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(format_audit(*self).as_str())
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(format_audit(*self).as_str())
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl de::Visitor<'_> for Text {
            type Value = Time;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a UTC timestamp like 2026-05-15T12:00:00.5Z")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Time, E> {
                parse_audit(text).map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Text)
    }
}

//! What can be wrong with a timestamp.

/// Why a text is not a timestamp of the grammar it was read by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimeError {
    /// The text leaves the grammar.
    #[error("expected {what} at byte {at}")]
    Expected {
        /// Byte position.
        at: usize,
        /// What the grammar wants there.
        what: &'static str,
    },
    /// A number that its field cannot hold, such as month 13, hour 24 or second 60.
    #[error("there is no {field} {value}")]
    NoSuch {
        /// The field's name.
        field: &'static str,
        /// The number found.
        value: u32,
    },
    /// A day that the month of that year does not have.
    #[error("month {month} of year {year} has no day {day}")]
    NoSuchDay {
        /// The year.
        year: u32,
        /// The month.
        month: u32,
        /// The day.
        day: u32,
    },
    /// More than nine digits after the second.
    #[error("more than nine fraction digits")]
    FractionTooLong,
    /// A fraction that ends in zero where each instant has one spelling only.
    #[error("the fraction ends in zero")]
    TrailingZero,
    /// A time of day without saying of which zone.
    #[error("the offset from UTC is missing")]
    NoOffset,
    /// More text after a whole timestamp.
    #[error("text after the timestamp at byte {at}")]
    TextAfter {
        /// Byte position.
        at: usize,
    },
    /// The instant is before year 1 or after year 9999 in UTC.
    #[error("the instant is outside the years 1 to 9999")]
    OutOfRange,
}

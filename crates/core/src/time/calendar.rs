//! The Gregorian calendar of the years 1 to 9999: dates to days and back.
//!
//! Written out, not borrowed: the whole of it is a dozen lines and every envelope passes here; the tests
//! hold it against a calendar library.

const DAYS_BEFORE_MONTH: [u16; 13] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365];
/// From 0001-01-01 to 1970-01-01.
const DAYS_BEFORE_1970: i64 = 719_162;
const DAYS_PER_400_YEARS: u32 = 146_097;
const DAYS_PER_100_YEARS: u32 = 36_524;
const DAYS_PER_4_YEARS: u32 = 1_461;

const fn is_leap(year: u32) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

/// Days of a month (1 to 12).
pub(super) const fn days_in_month(year: u32, month: u32) -> u32 {
    let common = DAYS_BEFORE_MONTH[month as usize] - DAYS_BEFORE_MONTH[month as usize - 1];
    common as u32 + (month == 2 && is_leap(year)) as u32
}

/// Days from 1970-01-01 to a date that exists.
pub(super) const fn days_since_1970(year: u32, month: u32, day: u32) -> i64 {
    let full_years = year - 1;
    let before_year = full_years * 365 + full_years / 4 - full_years / 100 + full_years / 400;
    let before_month =
        DAYS_BEFORE_MONTH[month as usize - 1] as u32 + (month > 2 && is_leap(year)) as u32;
    (before_year + before_month + day - 1) as i64 - DAYS_BEFORE_1970
}

/// Year, month and day; `days` counts from 1970-01-01 and lies within the years 1 to 9999.
pub(super) fn date_of(days: i64) -> (u32, u32, u32) {
    let day_of_era = u32::try_from(days + DAYS_BEFORE_1970).expect("a Time is not before year 1");
    let quad_centuries = day_of_era / DAYS_PER_400_YEARS;
    let day = day_of_era % DAYS_PER_400_YEARS;
    // The last day of a leap cycle would otherwise open a fifth century or year.
    let centuries = (day / DAYS_PER_100_YEARS).min(3);
    let day = day - centuries * DAYS_PER_100_YEARS;
    let quad_years = day / DAYS_PER_4_YEARS;
    let day = day % DAYS_PER_4_YEARS;
    let years = (day / 365).min(3);
    let mut day = day - years * 365;
    let year = quad_centuries * 400 + centuries * 100 + quad_years * 4 + years + 1;

    let mut month = 1;
    while day >= days_in_month(year, month) {
        day -= days_in_month(year, month);
        month += 1;
    }
    (year, month, day + 1)
}

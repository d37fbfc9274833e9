//! Integer fields: any JSON number with an integral value from 0 to 2^53 − 1 (AG-JSON-7).

use chancery_core::json::Number;

use crate::fault::ErrorName;

const MAX_SAFE: u64 = (1 << 53) - 1;
/// Digits of the largest value.
const MAX_DIGITS: i64 = 16;

/// The value of an integer field. The token is judged exactly, never through a double.
pub(crate) fn integer(number: &Number<'_>) -> Result<u64, ErrorName> {
    let token = number.token();
    // Plain digits are what senders write.
    if token.len() <= 15
        && let Ok(value) = token.parse::<u64>()
    {
        return Ok(value);
    }
    let decimal = Decimal::of(token);
    if decimal.digits.is_empty() {
        return Ok(0);
    }
    if decimal.exponent < 0 {
        return Err(ErrorName::InvalidType);
    }
    let length = decimal.exponent.saturating_add(decimal.digits.len() as i64);
    if decimal.negative || length > MAX_DIGITS {
        return Err(ErrorName::OutOfRange);
    }
    let zeros = usize::try_from(decimal.exponent).unwrap_or_default();
    let text = decimal.digits + &"0".repeat(zeros);
    match text.parse() {
        Ok(value) if value <= MAX_SAFE => Ok(value),
        _ => Err(ErrorName::OutOfRange),
    }
}

/// `digits` × 10^`exponent`, without leading or trailing zeros.
struct Decimal {
    negative: bool,
    digits: String,
    exponent: i64,
}

impl Decimal {
    fn of(token: &str) -> Self {
        let (negative, token) = match token.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, token),
        };
        let (mantissa, exponent) = match token.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, saturating_exponent(exponent)),
            None => (token, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all = [whole, fraction].concat();
        let digits = all.trim_start_matches('0').trim_end_matches('0');
        let trailing = all.len() - all.trim_end_matches('0').len();
        let shift = trailing as i64 - fraction.len() as i64;
        Self {
            negative,
            digits: digits.to_owned(),
            exponent: exponent.saturating_add(shift),
        }
    }
}

/// An exponent beyond an `i64` decides nothing that its sign does not.
fn saturating_exponent(text: &str) -> i64 {
    text.parse().unwrap_or(if text.starts_with('-') {
        i64::MIN / 2
    } else {
        i64::MAX / 2
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(token: &str) -> Result<u64, ErrorName> {
        integer(&Number::from_token(token).expect("a number token"))
    }

    // AG-JSON-7
    #[test]
    fn the_value_decides_and_not_the_spelling() {
        for (token, value) in [
            ("0", 0),
            ("-0", 0),
            ("0.000", 0),
            ("-0e99999999999999999999", 0),
            ("1776366000.0", 1_776_366_000),
            ("1.776366e9", 1_776_366_000),
            ("17763660000e-1", 1_776_366_000),
            ("9007199254740991", MAX_SAFE),
            ("9007199254740991.0", MAX_SAFE),
        ] {
            assert_eq!(of(token), Ok(value), "{token}");
        }
        for token in [
            "1.5",
            "-1.5",
            "9007199254740991.5",
            "1e-99999999999999999999",
        ] {
            assert_eq!(of(token), Err(ErrorName::InvalidType), "{token}");
        }
        for token in [
            "-1",
            "9007199254740992",
            "1e16",
            "1e400",
            "1e99999999999999999999",
        ] {
            assert_eq!(of(token), Err(ErrorName::OutOfRange), "{token}");
        }
    }
}

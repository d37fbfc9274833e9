//! Numbers: what each dialect makes of a token or a double.

use super::Dialect;
use crate::fault;
use crate::json::Number;

/// What writing a number showed.
#[derive(Clone, Copy)]
pub(super) struct Written {
    /// All dialects write it alike.
    pub(super) agree: bool,
    /// It was written as it was read.
    pub(super) verbatim: bool,
}

/// Writes a number. A number beyond a double, which only a reader that keeps overflow lets through, has
/// no canonical form in any dialect: its token is written as it is.
pub(super) fn write_number(number: &Number<'_>, dialect: Dialect, out: &mut Vec<u8>) {
    let token = number.token();
    let exact =
        number.is_integer_token() && (dialect != Dialect::Rfc8785 || number.is_safe_integer());
    if exact {
        // VC-CAN-4, VX-CAN-7: `-0` has no digits of its own in any form.
        let digits = if token == "-0" { "0" } else { token };
        out.extend_from_slice(digits.as_bytes());
        return;
    }
    let value = number.as_f64();
    let as_read = dialect == Dialect::Rfc8785 && fault::on("vx-number-as-written");
    if value.is_finite() && !as_read {
        write_f64(value, dialect, out);
    } else {
        out.extend_from_slice(token.as_bytes());
    }
}

/// Writes a number and says how the dialects stand to it.
pub(super) fn write_number_comparing(
    number: &Number<'_>,
    dialect: Dialect,
    out: &mut Vec<u8>,
) -> Written {
    let start = out.len();
    write_number(number, dialect, out);
    let end = out.len();
    let verbatim = out[start..] == *number.token().as_bytes();
    if number.is_safe_integer() {
        return Written {
            agree: true,
            verbatim,
        };
    }
    let mut agree = true;
    for other in [Dialect::Rfc8785, Dialect::Python, Dialect::Vibe] {
        if other != dialect {
            write_number(number, other, out);
            agree &= out[start..end] == out[end..];
            out.truncate(end);
        }
    }
    Written { agree, verbatim }
}

/// Writes a double: in the Python dialect as its `repr` (VA-CJ-5), otherwise as ECMAScript does (VX-CAN-3).
/// One that is not finite has no JSON form and is written `null`, as ECMAScript does.
pub fn write_f64(value: f64, dialect: Dialect, out: &mut Vec<u8>) {
    if !value.is_finite() {
        out.extend_from_slice(b"null");
        return;
    }
    let mut buffer = ryu_js::Buffer::new();
    let shortest = buffer.format_finite(value);
    match dialect {
        Dialect::Rfc8785 | Dialect::Vibe => out.extend_from_slice(shortest.as_bytes()),
        Dialect::Python => {
            if value.is_sign_negative() {
                out.push(b'-');
            }
            Decimal::from_ecmascript(shortest).write_as_python(out);
        }
    }
}

/// The shortest digits of a double that is not negative: d.ddd × 10^exponent.
struct Decimal {
    /// Room for all that ECMAScript writes in positional form, zeros included.
    digits: [u8; 24],
    len: usize,
    exponent: i32,
}

impl Decimal {
    /// Takes apart what ECMAScript wrote, leaving the sign out.
    fn from_ecmascript(text: &str) -> Self {
        let mut decimal = Self {
            digits: [b'0'; 24],
            len: 0,
            exponent: 0,
        };
        // How many digits stand before the point, leading zeros included.
        let mut point = None;
        let mut leading_zeros = 0;
        let mut bytes = text.bytes();
        let mut exponent = 0;
        while let Some(byte) = bytes.next() {
            match byte {
                b'.' => point = Some(decimal.len + leading_zeros),
                b'e' => exponent = read_exponent(&mut bytes),
                b'0' if decimal.len == 0 => leading_zeros += 1,
                b'0'..=b'9' => {
                    decimal.digits[decimal.len] = byte;
                    decimal.len += 1;
                }
                _ => {}
            }
        }
        let whole = point.unwrap_or(decimal.len + leading_zeros);
        decimal.exponent = exponent + as_i32(whole) - as_i32(leading_zeros) - 1;
        decimal.drop_trailing_zeros();
        decimal
    }

    fn drop_trailing_zeros(&mut self) {
        while self.len > 1 && self.digits[self.len - 1] == b'0' {
            self.len -= 1;
        }
        if self.len == 0 {
            // The text was `0`: one zero is its digit.
            self.len = 1;
            self.exponent = 0;
        }
    }

    /// VA-CJ-5: positional from 10^-4 up to below 10^16, with at least one digit after the point.
    fn write_as_python(&self, out: &mut Vec<u8>) {
        let digits = &self.digits[..self.len];
        match self.exponent {
            -4..=-1 => {
                out.extend_from_slice(b"0.");
                push_zeros(-self.exponent - 1, out);
                out.extend_from_slice(digits);
            }
            0..16 => {
                let whole = self.exponent.unsigned_abs() as usize + 1;
                let (before, after) = digits.split_at(whole.min(digits.len()));
                out.extend_from_slice(before);
                push_zeros(as_i32(whole - before.len()), out);
                out.push(b'.');
                out.extend_from_slice(if after.is_empty() { b"0" } else { after });
            }
            _ => self.write_scientific(out),
        }
    }

    fn write_scientific(&self, out: &mut Vec<u8>) {
        out.push(self.digits[0]);
        if self.len > 1 {
            out.push(b'.');
            out.extend_from_slice(&self.digits[1..self.len]);
        }
        out.extend_from_slice(if self.exponent < 0 { b"e-" } else { b"e+" });
        let magnitude = self.exponent.unsigned_abs();
        if magnitude >= 100 {
            out.push(ascii_digit(magnitude / 100));
        }
        out.extend_from_slice(&[ascii_digit(magnitude / 10), ascii_digit(magnitude)]);
    }
}

/// A sign and digits, at most three.
fn read_exponent(bytes: &mut std::str::Bytes<'_>) -> i32 {
    let negative = bytes.next() == Some(b'-');
    let magnitude = bytes.fold(0, |sum, digit| sum * 10 + i32::from(digit - b'0'));
    if negative { -magnitude } else { magnitude }
}

fn push_zeros(count: i32, out: &mut Vec<u8>) {
    for _ in 0..count {
        out.push(b'0');
    }
}

/// The last decimal digit of a number.
fn ascii_digit(number: u32) -> u8 {
    b'0' + (number % 10) as u8
}

/// Lengths here are below 30.
fn as_i32(len: usize) -> i32 {
    i32::try_from(len).unwrap_or(i32::MAX)
}

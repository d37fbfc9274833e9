//! The order of member names.

use std::cmp::Ordering;

use super::Dialect;
use crate::fault;

/// Compares two names as the dialect sorts them.
pub(super) fn compare(a: &str, b: &str, dialect: Dialect) -> Ordering {
    match dialect {
        Dialect::Rfc8785 if !fault::on("vx-order-by-utf8") => compare_utf16(a, b),
        _ => a.cmp(b),
    }
}

/// Whether all dialects sort these two names alike.
pub(super) fn agree(a: &str, b: &str) -> bool {
    compare_utf16(a, b) == a.cmp(b)
}

/// Compares by UTF-16 code units, without making them. UTF-8 bytes give the same order except that the
/// surrogates of what begins with 0xF0 and up sort before U+E000 to U+FFFF, which begin with 0xEE and
/// 0xEF. No other byte of UTF-8 has those two values, so it is enough to lift them.
fn compare_utf16(a: &str, b: &str) -> Ordering {
    let lift = |byte: u8| {
        if byte == 0xee || byte == 0xef {
            byte + 0x10
        } else {
            byte
        }
    };
    let differing = a.bytes().zip(b.bytes()).find(|(x, y)| x != y);
    match differing {
        Some((x, y)) => lift(x).cmp(&lift(y)),
        None => a.len().cmp(&b.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utf16_order_is_that_of_the_code_units() {
        // VX-CAN-2
        let chars = [
            '\0',
            'a',
            '\u{7f}',
            '\u{80}',
            '\u{7ff}',
            '\u{800}',
            '\u{d7ff}',
            '\u{e000}',
            '\u{efff}',
            '\u{f000}',
            '\u{ffff}',
            '\u{10000}',
            '\u{10ffff}',
            '\u{fffff}',
            '\u{e0000}',
        ];
        let mut names = vec![String::new()];
        for a in chars {
            names.push(a.to_string());
            names.extend(chars.iter().map(|b| format!("{a}{b}")));
        }
        for a in &names {
            for b in &names {
                let expected = a.encode_utf16().cmp(b.encode_utf16());
                assert_eq!(compare(a, b, Dialect::Rfc8785), expected, "{a:?} {b:?}");
                assert_eq!(compare(a, b, Dialect::Python), a.chars().cmp(b.chars()));
                assert_eq!(agree(a, b), expected == a.chars().cmp(b.chars()));
            }
        }
    }
}

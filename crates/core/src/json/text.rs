//! Strings: finding their end, and undoing their escapes.

use std::borrow::Cow;

use super::FaultKind;

/// What is wrong at which byte offset.
pub(super) type At = (FaultKind, usize);

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// How many bytes at the start of `text` stand for themselves in a JSON string: everything but `"`, `\`
/// and what is below U+0020. Takes eight bytes at a time, because most of every envelope is such text.
pub(crate) fn plain_run(text: &[u8]) -> usize {
    let mut at = 0;
    while let Some(chunk) = text[at..].first_chunk::<8>() {
        let word = u64::from_le_bytes(*chunk);
        // A borrow can mark bytes above a true match as well; the lowest mark is always a true one.
        let quote = zero_bytes(word ^ (ONES * 0x22));
        let backslash = zero_bytes(word ^ (ONES * 0x5c));
        let control = word.wrapping_sub(ONES * 0x20) & !word & HIGHS;
        let marks = quote | backslash | control;
        if marks != 0 {
            return at + marks.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let rest = &text[at..];
    at + rest
        .iter()
        .position(|b| matches!(b, b'"' | b'\\' | 0..0x20))
        .unwrap_or(rest.len())
}

const fn zero_bytes(word: u64) -> u64 {
    word.wrapping_sub(ONES) & !word & HIGHS
}

/// Reads the string whose opening quote is before `start`. Gives it and the offset after its closing
/// quote; borrows when there is nothing to unescape.
pub(super) fn read_string(text: &str, start: usize) -> Result<(Cow<'_, str>, usize), At> {
    let end = start + plain_run(&text.as_bytes()[start..]);
    if text.as_bytes().get(end) == Some(&b'"') {
        return Ok((Cow::Borrowed(&text[start..end]), end + 1));
    }
    read_escaped(text, start, end)
}

fn read_escaped(text: &str, start: usize, mut at: usize) -> Result<(Cow<'_, str>, usize), At> {
    let bytes = text.as_bytes();
    let mut unescaped = String::from(&text[start..at]);
    loop {
        match bytes.get(at) {
            Some(b'"') => return Ok((Cow::Owned(unescaped), at + 1)),
            Some(b'\\') => {
                let (c, after) = read_escape(bytes, at)?;
                unescaped.push(c);
                let run = plain_run(&bytes[after..]);
                unescaped.push_str(&text[after..after + run]);
                at = after + run;
            }
            Some(_) => return Err((FaultKind::ControlCharacter, at)),
            None => return Err((FaultKind::UnexpectedEnd, at)),
        }
    }
}

/// Reads the escape whose backslash is at `at`.
fn read_escape(bytes: &[u8], at: usize) -> Result<(char, usize), At> {
    let c = match bytes.get(at + 1) {
        Some(b'"') => '"',
        Some(b'\\') => '\\',
        Some(b'/') => '/',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'u') => return read_unicode_escape(bytes, at),
        Some(_) => return Err((FaultKind::InvalidEscape, at)),
        None => return Err((FaultKind::UnexpectedEnd, at + 1)),
    };
    Ok((c, at + 2))
}

fn read_unicode_escape(bytes: &[u8], at: usize) -> Result<(char, usize), At> {
    let first = read_hex4(bytes, at)?;
    if let Some(c) = char::from_u32(first) {
        return Ok((c, at + 6));
    }
    // What is no character is a surrogate: a high one and an escaped low one after it make one.
    let escape_follows = bytes.get(at + 6) == Some(&b'\\') && bytes.get(at + 7) == Some(&b'u');
    if first >= 0xdc00 || !escape_follows {
        return Err((FaultKind::LoneSurrogate, at));
    }
    let second = read_hex4(bytes, at + 6)?;
    if !(0xdc00..0xe000).contains(&second) {
        return Err((FaultKind::LoneSurrogate, at));
    }
    let code_point = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
    let c = char::from_u32(code_point).expect("two surrogate halves make a code point");
    Ok((c, at + 12))
}

/// The four digits of the `\uXXXX` at `at`.
fn read_hex4(bytes: &[u8], at: usize) -> Result<u32, At> {
    let mut unit = 0;
    for offset in at + 2..at + 6 {
        let byte = *bytes
            .get(offset)
            .ok_or((FaultKind::UnexpectedEnd, offset))?;
        let digit = char::from(byte)
            .to_digit(16)
            .ok_or((FaultKind::InvalidEscape, at))?;
        unit = unit * 16 + digit;
    }
    Ok(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_run_ends_at_the_first_special_byte_wherever_it_stands() {
        for special in (0..0x20).chain([b'"', b'\\']) {
            for before in 0..20 {
                for after in 0..20 {
                    // 0x21, 0x23 and 0x5d are the neighbours a borrow could mark wrongly; the others have the high bit.
                    for filler in [0x21, 0x23, 0x5b, 0x5d, 0x7f, 0x80, 0xa2, 0xdc, 0xff] {
                        let mut text = vec![filler; before];
                        assert_eq!(plain_run(&text), before);
                        text.push(special);
                        text.extend(std::iter::repeat_n(filler, after));
                        assert_eq!(plain_run(&text), before);
                    }
                }
            }
        }
    }
}

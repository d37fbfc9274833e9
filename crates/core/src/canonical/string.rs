//! Strings, escaped as little as JSON allows.

use crate::json::plain_run;

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Writes a string as all dialects do (VX-CAN-4, VA-CJ-3, VC-CAN-3): only `"`, `\` and what is below
/// U+0020 is escaped.
pub fn write_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let mut rest = text.as_bytes();
    loop {
        let (plain, special) = rest.split_at(plain_run(rest));
        out.extend_from_slice(plain);
        let Some((&byte, after)) = special.split_first() else {
            break;
        };
        write_escape(byte, out);
        rest = after;
    }
    out.push(b'"');
}

/// Writes a string as Go does by default (AG-DIG-1 step 3): also `<`, `>`, `&`, U+2028 and U+2029 are
/// escaped.
pub fn write_string_html_safe(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    let mut utf8 = [0; 4];
    for c in text.chars() {
        match c {
            '<' | '>' | '&' => write_unicode_escape(c as u8, out),
            '\u{2028}' => out.extend_from_slice(b"\\u2028"),
            '\u{2029}' => out.extend_from_slice(b"\\u2029"),
            '"' | '\\' | '\0'..='\u{1f}' => write_escape(c as u8, out),
            c => out.extend_from_slice(c.encode_utf8(&mut utf8).as_bytes()),
        }
    }
    out.push(b'"');
}

fn write_escape(byte: u8, out: &mut Vec<u8>) {
    let short = match byte {
        b'"' => b'"',
        b'\\' => b'\\',
        0x08 => b'b',
        b'\t' => b't',
        b'\n' => b'n',
        0x0c => b'f',
        b'\r' => b'r',
        other => return write_unicode_escape(other, out),
    };
    out.extend_from_slice(&[b'\\', short]);
}

fn write_unicode_escape(byte: u8, out: &mut Vec<u8>) {
    let (high, low) = (HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]);
    out.extend_from_slice(&[b'\\', b'u', b'0', b'0', high, low]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: fn(&str, &mut Vec<u8>), text: &str) -> String {
        let mut out = Vec::new();
        write(text, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn only_what_must_be_is_escaped() {
        // VX-CAN-4, VA-CJ-3, VC-CAN-3
        let text = "\u{0}\u{1}\u{8}\t\n\u{b}\u{c}\r\u{1f} \"\\/<>&'\u{7f}é\u{2028}\u{feff}😀";
        assert_eq!(
            written(write_string, text),
            "\"\\u0000\\u0001\\b\\t\\n\\u000b\\f\\r\\u001f \\\"\\\\/<>&'\u{7f}é\u{2028}\u{feff}😀\""
        );
    }

    #[test]
    fn the_html_safe_form_also_escapes_five_more() {
        // AG-DIG-1 step 3
        let text = "\u{0}\u{8}\t\n\u{c}\r\u{1f} \"\\/<>&'\u{7f}é\u{2028}\u{2029}\u{202a}😀";
        assert_eq!(
            written(write_string_html_safe, text),
            "\"\\u0000\\b\\t\\n\\f\\r\\u001f \\\"\\\\/\\u003c\\u003e\\u0026'\u{7f}é\\u2028\\u2029\u{202a}😀\""
        );
    }
}

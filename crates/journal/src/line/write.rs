//! Writing a line.

use chancery_core::canonical::write_string;
use chancery_core::digest::Sha256Digest;
use chancery_core::line::{Draft, MetaValue, Seq};
use chancery_core::time::format_audit;

use super::member;

/// Room for what stands around the envelope.
const META_BYTES: usize = 512;

/// Appends the canonical line of a draft to `out`, without a newline.
///
/// `envelope` is the draft's envelope as it goes on record, sealed where it needed a seal, canonical in the vibe
/// dialect; `prev` is the hash of the line before; `more` says that the unit goes on.
pub fn render(
    draft: &Draft,
    envelope: &[u8],
    seq: Seq,
    prev: &Sha256Digest,
    more: bool,
    out: &mut Vec<u8>,
) {
    let raw = draft.raw.as_deref();
    out.reserve(envelope.len() + raw.map_or(0, <[u8]>::len) + META_BYTES);
    out.extend_from_slice(b"{\"envelope\":");
    out.extend_from_slice(envelope);
    out.extend_from_slice(b",\"meta\":");
    write_meta(draft, seq, prev, more, out);
    if let Some(raw) = raw {
        let text =
            std::str::from_utf8(raw).expect("a received text that was read as JSON is UTF-8");
        out.extend_from_slice(b",\"raw\":");
        write_string(text, out);
    }
    if let Some(signature) = &draft.signature {
        out.extend_from_slice(b",\"signature\":");
        write_string(signature, out);
    }
    out.push(b'}');
}

/// A member's value: a protocol's own, or one of those that every line has.
enum Member<'d> {
    Own(&'d MetaValue),
    Word(&'static str),
    Time(chancery_core::time::Time),
    Digest(&'d Sha256Digest),
    Number(u64),
    Null,
    True,
}

/// Writes the members in the order of their names: those that every line has, and the rules' own in between.
fn write_meta(draft: &Draft, seq: Seq, prev: &Sha256Digest, more: bool, out: &mut Vec<u8>) {
    let time = draft.eval_ts.map_or(Member::Null, Member::Time);
    let of_every_line = [
        Some((member::EVAL_TS, time)),
        more.then_some((member::MORE, Member::True)),
        Some((member::ORIGIN, Member::Word(draft.origin.as_str()))),
        Some((member::PREV, Member::Digest(prev))),
        Some((member::PROTOCOL, Member::Word(draft.protocol.as_str()))),
        Some((member::SEQ, Member::Number(seq))),
    ];
    let mut own: Vec<&(&'static str, MetaValue)> = draft.meta.iter().collect();
    own.sort_unstable_by_key(|(name, _)| *name);
    let mut own = own.into_iter().peekable();
    let mut writer = MetaWriter { last: "", out };
    for (name, value) in of_every_line.into_iter().flatten() {
        while let Some((name, value)) = own.next_if(|(own, _)| *own < name) {
            writer.member(name, &Member::Own(value));
        }
        writer.member(name, &value);
    }
    for (name, value) in own {
        writer.member(name, &Member::Own(value));
    }
    writer.out.push(b'}');
}

struct MetaWriter<'o> {
    last: &'static str,
    out: &'o mut Vec<u8>,
}

impl MetaWriter<'_> {
    fn member(&mut self, name: &'static str, value: &Member<'_>) {
        assert!(
            self.last < name,
            "rules add no member to meta twice, nor one that every line has"
        );
        self.out
            .push(if self.last.is_empty() { b'{' } else { b',' });
        self.last = name;
        write_word(name, self.out);
        self.out.push(b':');
        write_member(value, self.out);
    }
}

/// Writes one of the program's own words: nothing in it is escaped.
fn write_word(word: &'static str, out: &mut Vec<u8>) {
    debug_assert!(
        word.bytes()
            .all(|byte| byte >= b' ' && !b"\"\\".contains(&byte))
    );
    out.push(b'"');
    out.extend_from_slice(word.as_bytes());
    out.push(b'"');
}

fn write_member(value: &Member<'_>, out: &mut Vec<u8>) {
    match value {
        Member::Word(word) => write_word(word, out),
        Member::Time(time) => write_string(format_audit(*time).as_str(), out),
        Member::Digest(digest) => write_hex(digest.as_bytes(), out),
        Member::Null | Member::Own(MetaValue::Null) => out.extend_from_slice(b"null"),
        Member::True | Member::Own(MetaValue::True) => out.extend_from_slice(b"true"),
        Member::Number(number) | Member::Own(MetaValue::Integer(number)) => {
            write_integer(*number, out)
        }
        Member::Own(MetaValue::Text(text)) => write_string(text, out),
        Member::Own(MetaValue::Words(words)) => write_words(words, out),
        Member::Own(MetaValue::Json(json)) => out.extend_from_slice(json),
    }
}

fn write_words(words: &[&str], out: &mut Vec<u8>) {
    out.push(b'[');
    for (index, word) in words.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write_string(word, out);
    }
    out.push(b']');
}

fn write_hex(bytes: &[u8; 32], out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut digits = [b'"'; 66];
    for (pair, byte) in digits[1..65].chunks_exact_mut(2).zip(bytes) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
    out.extend_from_slice(&digits);
}

fn write_integer(mut number: u64, out: &mut Vec<u8>) {
    // 20 digits hold every u64.
    let mut digits = [b'0'; 20];
    let mut first = digits.len() - 1;
    loop {
        digits[first] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
        first -= 1;
    }
    out.extend_from_slice(&digits[first..]);
}

//! Reading a line.

use std::ops::Range;

use bytes::Bytes;
use chancery_core::canonical::{Dialect, plain_len, write, write_string};
use chancery_core::digest::Sha256Digest;
use chancery_core::json::{
    self, DuplicateNames, Fault, Integers, MAX_DEPTH, Object, Overflow, ReadRules, Value,
};
use chancery_core::line::{Line, Members, Origin, ProtocolName, Seq};
use chancery_core::time::{Time, parse_audit};

use super::member;

/// A longer line is refused: the largest body with its received text beside it stays far below.
pub const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;

const LINE: ReadRules = ReadRules {
    max_bytes: MAX_LINE_BYTES,
    max_depth: MAX_DEPTH,
    duplicate_names: DuplicateNames::Refuse,
    integers: Integers::Any,
    overflow: Overflow::Keep,
};

/// Why a text is not a line of a log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineFault {
    /// Not JSON.
    #[error("not JSON: {0}")]
    Json(Fault),
    /// A member is missing, unknown or of another type.
    #[error("{path}: {expected}")]
    Member {
        /// Where.
        path: String,
        /// What belongs there.
        expected: &'static str,
    },
    /// A line, but not in its canonical form.
    #[error("valid, but not in its canonical form from byte {offset} on")]
    NonCanonical {
        /// The first byte that differs from the canonical form.
        offset: usize,
    },
}

/// A line as it was read, in whatever form it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// The line.
    pub line: Line,
    /// Its canonical bytes.
    pub canonical: Bytes,
    /// The first byte at which the text read differs from them.
    pub differs_at: Option<usize>,
}

/// Reads a line that must be in its canonical form. The envelope is a part of the given bytes, not a copy.
///
/// # Errors
/// What is wrong with the line, and where.
pub fn parse(line: &Bytes) -> Result<Line, LineFault> {
    let reading = read(line)?;
    match reading.differs_at {
        None => Ok(reading.line),
        Some(offset) => Err(LineFault::NonCanonical { offset }),
    }
}

/// Reads a line in any form (VC-RPL-3).
///
/// # Errors
/// What is wrong with the line, and where.
pub fn read(text: &Bytes) -> Result<Reading, LineFault> {
    read_with(text, |_, _| ()).map(|(reading, ())| reading)
}

/// Reads a line in any form; `look` is shown the line, and the tree of its envelope when the text was plain.
pub(crate) fn read_with<T>(
    text: &Bytes,
    look: impl FnOnce(&Line, Option<&Value<'_>>) -> T,
) -> Result<(Reading, T), LineFault> {
    let (tree, plain) = json::read_noting(text, &LINE).map_err(LineFault::Json)?;
    let parts = Parts::of(&tree)?;
    let (canonical, envelope, differs_at) = if plain {
        (text.clone(), parts.plain_envelope(), None)
    } else {
        parts.written(text)
    };
    let tree = plain.then_some(parts.envelope);
    let mut meta = Meta::default();
    if plain {
        meta.take_plain(parts.meta_members, text, envelope.end)?;
    } else {
        meta.take_all(parts.meta_members)?;
    }
    let line = parts.into_line(meta, canonical.slice(envelope))?;
    let seen = look(&line, tree);
    let reading = Reading {
        line,
        canonical,
        differs_at,
    };
    Ok((reading, seen))
}

fn first_difference(a: &[u8], b: &[u8]) -> Option<usize> {
    if a == b {
        return None;
    }
    let common = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    Some(common)
}

/// The four members of a line.
struct Parts<'t, 'a> {
    envelope: &'t Value<'a>,
    meta: &'t Value<'a>,
    meta_members: &'t Object<'a>,
    raw: Option<&'t str>,
    signature: Option<&'t str>,
}

impl<'t, 'a> Parts<'t, 'a> {
    fn of(tree: &'t Value<'a>) -> Result<Self, LineFault> {
        let object = tree.as_object().ok_or_else(|| fault("", "an object"))?;
        let (mut envelope, mut meta, mut raw, mut signature) = (None, None, None, None);
        for (name, value) in object.iter() {
            match name {
                "envelope" => envelope = value.as_object().map(|_| value),
                "meta" => meta = value.as_object().map(|members| (value, members)),
                "raw" => raw = Some(text(value, "raw")?),
                "signature" => signature = Some(text(value, "signature")?),
                other => return Err(fault(other, "no member of a line")),
            }
        }
        let (meta, meta_members) = meta.ok_or_else(|| fault("meta", "an object"))?;
        Ok(Self {
            envelope: envelope.ok_or_else(|| fault("envelope", "an object"))?,
            meta,
            meta_members,
            raw,
            signature,
        })
    }

    /// The canonical line, where the envelope stands in it, and where the text that was read differs from it.
    fn written(&self, text: &Bytes) -> (Bytes, Range<usize>, Option<usize>) {
        let mut written = Vec::with_capacity(text.len());
        let envelope = self.write(&mut written);
        match first_difference(text, &written) {
            None => (text.clone(), envelope, None),
            differs_at => (written.into(), envelope, differs_at),
        }
    }

    /// Where the envelope stands in a plain line: it is the first member.
    fn plain_envelope(&self) -> Range<usize> {
        let start = b"{\"envelope\":".len();
        start..start + plain_len(self.envelope)
    }

    /// Writes the canonical line; says where the envelope stands in it.
    fn write(&self, out: &mut Vec<u8>) -> Range<usize> {
        out.extend_from_slice(b"{\"envelope\":");
        let start = out.len();
        write(self.envelope, Dialect::Vibe, out);
        let end = out.len();
        out.extend_from_slice(b",\"meta\":");
        write(self.meta, Dialect::Vibe, out);
        for (name, value) in [("raw", self.raw), ("signature", self.signature)] {
            if let Some(value) = value {
                out.push(b',');
                write_string(name, out);
                out.push(b':');
                write_string(value, out);
            }
        }
        out.push(b'}');
        start..end
    }

    fn into_line(self, meta: Meta, envelope: Bytes) -> Result<Line, LineFault> {
        let missing = |name: &str| fault(&["meta.", name].concat(), "a member that every line has");
        Ok(Line {
            seq: meta.seq.ok_or_else(|| missing(member::SEQ))?,
            protocol: meta.protocol.ok_or_else(|| missing(member::PROTOCOL))?,
            origin: meta.origin.ok_or_else(|| missing(member::ORIGIN))?,
            eval_ts: meta.eval_ts.ok_or_else(|| missing(member::EVAL_TS))?,
            more: meta.more,
            prev: meta.prev.ok_or_else(|| missing(member::PREV))?,
            envelope,
            raw: self.raw.map(|raw| Bytes::copy_from_slice(raw.as_bytes())),
            signature: self.signature.map(str::to_owned),
            meta: meta.rest,
        })
    }
}

#[derive(Default)]
struct Meta {
    seq: Option<Seq>,
    protocol: Option<ProtocolName>,
    origin: Option<Origin>,
    eval_ts: Option<Option<Time>>,
    more: bool,
    prev: Option<Sha256Digest>,
    rest: Members,
}

impl Meta {
    /// Takes the members of a line that had to be written out.
    fn take_all(&mut self, members: &Object<'_>) -> Result<(), LineFault> {
        let mut rest = Vec::new();
        for (name, value) in members.iter() {
            if !self.take(name, value)? {
                rest.push((name, canonical_text(value)));
            }
        }
        rest.sort_unstable_by_key(|(name, _)| *name);
        self.rest = Members::of(&rest);
        Ok(())
    }

    /// Takes the members of a plain line, whose envelope ends at `end`: further ones are pieces of its text.
    fn take_plain(
        &mut self,
        members: &Object<'_>,
        line: &Bytes,
        end: usize,
    ) -> Result<(), LineFault> {
        let mut at = end + b",\"meta\":{".len();
        self.rest = Members::within(line.clone(), members.len().saturating_sub(MEMBERS));
        for (name, value) in members.iter() {
            let name_at = at + 1;
            let json_at = name_at + name.len() + b"\":".len();
            at = json_at + plain_len(value) + 1;
            if !self.take(name, value)? {
                self.rest
                    .push(name_at..name_at + name.len(), json_at..at - 1);
            }
        }
        Ok(())
    }

    /// Takes a member that every line has; false for any other.
    fn take(&mut self, name: &str, value: &Value<'_>) -> Result<bool, LineFault> {
        let word = value.as_str();
        match name {
            member::SEQ => {
                let number = value
                    .as_number()
                    .filter(|number| number.is_safe_integer())
                    .and_then(json::Number::as_u64)
                    .filter(|seq| *seq > 0);
                self.seq = Some(number.ok_or_else(|| fault("meta.seq", "an integer from 1"))?);
            }
            member::PROTOCOL => {
                let protocol = word.and_then(ProtocolName::parse);
                self.protocol =
                    Some(protocol.ok_or_else(|| fault("meta.protocol", "the name of a protocol"))?);
            }
            member::ORIGIN => {
                let origin = word.and_then(Origin::parse);
                self.origin =
                    Some(origin.ok_or_else(|| fault("meta.origin", "external, agent or runtime"))?);
            }
            member::EVAL_TS => {
                let time = if value.is_null() {
                    Some(None)
                } else {
                    word.and_then(|text| parse_audit(text).ok()).map(Some)
                };
                self.eval_ts =
                    Some(time.ok_or_else(|| fault("meta.eval_ts", "a time in UTC, or null"))?);
            }
            member::MORE => {
                self.more = value
                    .as_bool()
                    .filter(|more| *more)
                    .ok_or_else(|| fault("meta.more", "true, or left out"))?;
            }
            member::PREV => {
                let digest = word.and_then(|text| Sha256Digest::from_lower_hex(text).ok());
                self.prev =
                    Some(digest.ok_or_else(|| fault("meta.prev", "a SHA-256 in lower case hex"))?);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// How many of its members most lines have in fields of their own.
const MEMBERS: usize = 5;

fn canonical_text(value: &Value<'_>) -> String {
    let mut text = Vec::with_capacity(32);
    write(value, Dialect::Vibe, &mut text);
    String::from_utf8(text).expect("canonical JSON is UTF-8")
}

fn text<'v>(value: &'v Value<'_>, path: &str) -> Result<&'v str, LineFault> {
    value.as_str().ok_or_else(|| fault(path, "a string"))
}

fn fault(path: &str, expected: &'static str) -> LineFault {
    LineFault::Member {
        path: path.to_owned(),
        expected,
    }
}

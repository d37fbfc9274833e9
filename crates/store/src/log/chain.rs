//! The hash chain, followed line by line at the speed of the hash.
//!
//! A line is not parsed to follow the chain: its number and link are cut from the text. What that glance does
//! not confirm is parsed strictly before it is called damage, so the glance can be wrong only in favour of
//! a second look.

use std::sync::LazyLock;

use bytes::Bytes;
use chancery_core::digest::Sha256Digest;
use chancery_core::line::Seq;
use memchr::memmem::{Finder, FinderRev};

static PREV: LazyLock<FinderRev<'static>> = LazyLock::new(|| FinderRev::new(PREV_MEMBER));
static SEQ: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(SEQ_MEMBER));
const PREV_MEMBER: &[u8] = b",\"prev\":\"";
const SEQ_MEMBER: &[u8] = b",\"seq\":";
const HEX_LEN: usize = 64;

/// What the chain needs of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub seq: Seq,
    pub prev: Sha256Digest,
    /// Whether the unit goes on.
    pub more: bool,
}

/// The end of a chain: the last line's number and hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChainEnd {
    pub seq: Seq,
    pub hash: Sha256Digest,
}

/// Why a line does not go on with a chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Break {
    /// It is no line at all.
    NotALine(String),
    /// It is a line, but not the next one.
    NotTheNext(String),
}

impl Break {
    pub(crate) fn reason(self) -> String {
        match self {
            Self::NotALine(reason) | Self::NotTheNext(reason) => reason,
        }
    }
}

impl ChainEnd {
    /// Before the first line.
    pub(crate) const START: Self = Self {
        seq: 0,
        hash: Sha256Digest::ZERO,
    };

    /// Moves on to `line`, given without its newline.
    pub(crate) fn follow(&mut self, line: &[u8]) -> Result<(), Break> {
        self.check(line)?;
        *self = Self {
            seq: self.seq + 1,
            hash: Sha256Digest::of(line),
        };
        Ok(())
    }

    /// Whether `line` is the next one.
    pub(crate) fn check(&self, line: &[u8]) -> Result<(), Break> {
        if has_hole(line) {
            return Err(Break::NotALine("it holds zero bytes".into()));
        }
        if glance(line) == Some((self.seq + 1, self.hash)) {
            return Ok(());
        }
        let link = parse(line).map_err(Break::NotALine)?;
        if link.seq != self.seq + 1 {
            let reason = format!("it has number {} where {} is due", link.seq, self.seq + 1);
            return Err(Break::NotTheNext(reason));
        }
        if link.prev != self.hash {
            let reason = format!(
                "line {} is not chained to line {}: one of them was changed",
                link.seq, self.seq
            );
            return Err(Break::NotTheNext(reason));
        }
        Ok(())
    }
}

/// Whether part of a line was never written: unwritten sectors read as zeros, and canonical JSON has none.
pub(crate) fn has_hole(line: &[u8]) -> bool {
    memchr::memchr(0, line).is_some()
}

/// The link of a line, read strictly.
pub(crate) fn parse(line: &[u8]) -> Result<Link, String> {
    let line = chancery_journal::line::parse(&Bytes::copy_from_slice(line))
        .map_err(|fault| fault.to_string())?;
    Ok(Link {
        seq: line.seq,
        prev: line.prev,
        more: line.more,
    })
}

/// Number and link of a line in canonical form, without looking at the rest of it.
///
/// No string of the line can imitate the members: inside strings every quote is escaped.
fn glance(line: &[u8]) -> Option<(Seq, Sha256Digest)> {
    let hex_start = PREV.rfind(line)? + PREV_MEMBER.len();
    let hex_end = hex_start + HEX_LEN;
    let hex = std::str::from_utf8(line.get(hex_start..hex_end)?).ok()?;
    let prev = Sha256Digest::from_lower_hex(hex).ok()?;
    let digits = hex_end + SEQ.find(&line[hex_end..])? + SEQ_MEMBER.len();
    Some((leading_number(&line[digits..])?, prev))
}

fn leading_number(text: &[u8]) -> Option<u64> {
    let len = text.iter().position(|byte| !byte.is_ascii_digit())?;
    std::str::from_utf8(&text[..len]).ok()?.parse().ok()
}

//! Where replay first differs from the log, and why.

use bytes::Bytes;
use chancery_core::line::Seq;
use chancery_core::refusal::Refusal;

use crate::line::{LineFault, read};

/// The first line that is not what the rules give, or not what a log holds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {seq}: {reason}")]
pub struct Divergence {
    /// The line.
    pub seq: Seq,
    /// Why.
    pub reason: Reason,
}

impl Divergence {
    /// A divergence at a line.
    pub fn at(seq: Seq, reason: Reason) -> Self {
        Self { seq, reason }
    }
}

/// Why a line diverges.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// It is no line.
    #[error("{0}")]
    Form(LineFault),
    /// Its number is not the next one.
    #[error("its number is {found}, the next one is {expected}")]
    Sequence {
        /// The next number.
        expected: Seq,
        /// The number on record.
        found: Seq,
    },
    /// It does not name the line before it.
    #[error("meta.prev is not the hash of the line before")]
    Chain,
    /// The signature on it does not hold.
    #[error("signature: {0}")]
    Signature(String),
    /// It holds no input that this build can read.
    #[error("cannot be read as an input: {0}")]
    Unreadable(String),
    /// The rules refuse what is recorded as accepted.
    #[error("the rules refuse it: {0}")]
    Refused(Refusal),
    /// The rules record nothing for it.
    #[error("the rules record nothing for it")]
    NotRecorded,
    /// The rules give another line.
    #[error("the rules give another {0}")]
    Differs(String),
    /// The rules want a node's signature that the line does not have.
    #[error("the node's signature is not on it")]
    NotSealed,
    /// Its unit is not whole.
    #[error("its unit is not whole")]
    UnitNotWhole,
    /// The rows that the rules read are damaged.
    #[error("rows: {0}")]
    Damaged(String),
}

/// The first member in which two lines differ, as a path.
pub(crate) fn differing_member(produced: &[u8], recorded: &Bytes) -> String {
    let produced = Bytes::copy_from_slice(produced);
    let (Ok(produced), Ok(recorded)) = (read(&produced), read(recorded)) else {
        return "line".to_owned();
    };
    let (produced, recorded) = (produced.line, recorded.line);
    let fields = [
        (produced.envelope != recorded.envelope, "envelope"),
        (produced.eval_ts != recorded.eval_ts, "meta.eval_ts"),
        (produced.more != recorded.more, "meta.more"),
        (produced.origin != recorded.origin, "meta.origin"),
        (produced.protocol != recorded.protocol, "meta.protocol"),
        (produced.seq != recorded.seq, "meta.seq"),
        (produced.raw != recorded.raw, "raw"),
        (produced.signature != recorded.signature, "signature"),
    ];
    if let Some((_, name)) = fields.iter().find(|(differs, _)| *differs) {
        return (*name).to_owned();
    }
    let own = produced
        .meta
        .iter()
        .find(|member| recorded.meta.get(member.0) != Some(member.1));
    let other = || {
        recorded
            .meta
            .iter()
            .find(|member| produced.meta.get(member.0) != Some(member.1))
    };
    own.or_else(other)
        .map_or_else(|| "line".to_owned(), |(name, _)| format!("meta.{name}"))
}

//! `chancery log verify` without its files: lines in, findings out (CH-JRN-7).
//!
//! It needs nothing beside the log. It runs no rules: that is replay.

use chancery_core::admin::{self, Act};
use chancery_core::keys::Keyring;
use chancery_core::line::{Line, ProtocolName, Seq};
use chancery_core::protocol::{SignatureCheck, Suite};

use crate::head::Head;
use crate::line::LineFault;
use crate::prepare::{Prepared, changes_keys};
use crate::units::MAX_UNIT_LINES;

/// Findings that are kept; further ones are counted.
pub const MAX_FINDINGS: usize = 1_000;

/// What a pass does not prove.
pub const NOT_PROVEN: [&str; 6] = [
    "that nothing was cut off at the end, unless the last line's hash is known from elsewhere",
    "that the log is the only one: whoever holds the node's storage can write another whole log with other unsigned lines",
    "that a line without a signature was sent by the sender it names: only the node says so",
    "that a key belonged to whom its line says: the log shows when the node took it on record, not why",
    "that the times are right: they are those of the node's clock",
    "that the rules were followed: replay shows that",
];

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Check {
    /// It is no line of a log.
    #[error("not_an_entry: {0}")]
    NotAnEntry(LineFault),
    /// A line, but not in its canonical form (VC-RPL-3).
    #[error("non_canonical_entry: differs from byte {offset} on")]
    NonCanonical {
        /// The first byte that differs.
        offset: usize,
    },
    /// Its number is not the next one.
    #[error("sequence: its number is {found}, the next one is {expected}")]
    Sequence {
        /// The next number.
        expected: Seq,
        /// The number on record.
        found: Seq,
    },
    /// It does not name the line before it.
    #[error("chain: meta.prev is not the hash of the line before")]
    Chain,
    /// The signature on it does not hold.
    #[error("signature: {0}")]
    Signature(String),
    /// A unit has too many lines.
    #[error("unit: more than {MAX_UNIT_LINES} lines")]
    UnitTooLong,
    /// The log ends inside a unit.
    #[error("unit: the log ends before its unit does")]
    UnitNotWhole,
    /// A `key` line that the keyring does not allow.
    #[error("key: {0}")]
    Key(String),
    /// A chain of a protocol is broken.
    #[error("{0}")]
    Protocol(String),
    /// The last line is not the one it should be.
    #[error("head: the log does not end with the expected line")]
    Head,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {seq}: {check}")]
pub struct Finding {
    /// The number that the line should have, going by the one before it.
    pub seq: Seq,
    /// Which of the lines that were taken it is, from 1: also where numbers jump back and forth.
    pub line: u64,
    /// What is wrong.
    pub check: Check,
}

/// A check of a protocol's own over its lines, in order: chains between pairs and the like.
pub trait LineCheck: Send {
    /// Looks at a line; says what is wrong with it.
    fn line(&mut self, line: &Line) -> Option<String>;
}

/// What verification found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyReport {
    /// Lines looked at.
    pub lines: u64,
    /// Lines that are none.
    pub unreadable: u64,
    /// Units that are whole.
    pub units: u64,
    /// Signatures that hold.
    pub signatures: u64,
    /// The first findings, in order.
    pub findings: Vec<Finding>,
    /// Findings in all.
    pub found: u64,
    /// The last line.
    pub head: Head,
    /// The number of the line that ended the last whole unit.
    pub whole: Seq,
    /// What a pass does not prove.
    pub not_proven: &'static [&'static str],
}

impl VerifyReport {
    /// Whether every check passed.
    pub fn passed(&self) -> bool {
        self.found == 0
    }

    /// Whether there is nothing in it that could be a log (CH-JRN-7: exit 3).
    pub fn is_no_log(&self) -> bool {
        self.lines > 0 && self.unreadable == self.lines
    }
}

/// Verifies a log line by line. Its memory does not grow with the log.
pub struct Verifier<S> {
    suite: S,
    keyring: Keyring,
    checks: Vec<Box<dyn LineCheck>>,
    unit_lines: usize,
    report: VerifyReport,
}

impl<S: Suite> Verifier<S> {
    /// A verifier for a whole log, from its first line.
    pub fn new(suite: S) -> Self {
        let report = VerifyReport {
            lines: 0,
            unreadable: 0,
            units: 0,
            signatures: 0,
            findings: Vec::new(),
            found: 0,
            head: Head::EMPTY,
            whole: 0,
            not_proven: &NOT_PROVEN,
        };
        Self {
            suite,
            keyring: Keyring::default(),
            checks: Vec::new(),
            unit_lines: 0,
            report,
        }
    }

    /// The same with one more check.
    #[must_use]
    pub fn with_check(mut self, check: Box<dyn LineCheck>) -> Self {
        self.checks.push(check);
        self
    }

    /// The suite, for preparing lines.
    pub fn suite(&self) -> &S {
        &self.suite
    }

    /// The keys in force after the lines taken so far. Copies are cheap.
    pub fn keyring(&self) -> &Keyring {
        &self.keyring
    }

    /// Takes the next line.
    pub fn take(&mut self, mut prepared: Prepared) {
        let signature = prepared.signature_under(&self.suite, &self.keyring);
        self.report.lines += 1;
        let place = self.report.head.seq + 1;
        match &prepared.reading {
            Err(fault) => {
                self.report.unreadable += 1;
                self.find(place, Check::NotAnEntry(fault.clone()));
                self.report
                    .head
                    .advance(prepared.hash, ProtocolName::Node, None);
            }
            Ok(reading) => {
                if let Some(offset) = reading.differs_at {
                    self.find(place, Check::NonCanonical { offset });
                }
                self.take_line(place, &reading.line, signature);
                self.report.head.advance(
                    prepared.hash,
                    reading.line.protocol,
                    reading.line.eval_ts,
                );
                // After a gap the lines behind it are judged among themselves.
                self.report.head.seq = reading.line.seq;
            }
        }
    }

    fn take_line(&mut self, place: Seq, line: &Line, signature: SignatureCheck) {
        if line.seq != place {
            self.find(
                place,
                Check::Sequence {
                    expected: place,
                    found: line.seq,
                },
            );
        }
        if line.prev != self.report.head.hash {
            self.find(place, Check::Chain);
        }
        match signature {
            SignatureCheck::Valid => self.report.signatures += 1,
            SignatureCheck::NotSigned => {}
            SignatureCheck::Invalid(why) => self.find(place, Check::Signature(why)),
        }
        self.take_into_unit(place, line.more);
        self.follow_keys(place, line);
        let mut broken = Vec::new();
        broken.extend(self.checks.iter_mut().filter_map(|check| check.line(line)));
        for what in broken {
            self.find(place, Check::Protocol(what));
        }
    }

    fn take_into_unit(&mut self, place: Seq, more: bool) {
        self.unit_lines += 1;
        if !more {
            self.unit_lines = 0;
            self.report.units += 1;
            self.report.whole = place;
        } else if self.unit_lines == MAX_UNIT_LINES {
            self.find(place, Check::UnitTooLong);
        }
    }

    fn follow_keys(&mut self, place: Seq, line: &Line) {
        if !changes_keys(line) {
            return;
        }
        if let Ok(Act::Key(record)) = admin::reread(line)
            && let Err(error) = admin::set_key(&mut self.keyring, record)
        {
            self.find(place, Check::Key(error.to_string()));
        }
    }

    fn find(&mut self, seq: Seq, check: Check) {
        self.report.found += 1;
        if self.report.findings.len() < MAX_FINDINGS {
            let line = self.report.lines;
            self.report.findings.push(Finding { seq, line, check });
        }
    }

    /// Ends with the report. `expected` is the last line as it is known from elsewhere: without it nobody can tell
    /// whether the log's end was cut off or changed.
    pub fn finish(mut self, expected: Option<Head>) -> VerifyReport {
        let last = self.report.head.seq;
        if self.unit_lines > 0 {
            self.find(last, Check::UnitNotWhole);
        }
        if let Some(expected) = expected
            && (expected.seq, expected.hash) != (last, self.report.head.hash)
        {
            self.find(last, Check::Head);
        }
        self.report
    }
}

//! Verification and replay of files, on all cores (CH-JRN-7).

use chancery_core::keys::Keyring;
use chancery_core::line::{Line, ProtocolName, Seq};
use chancery_core::protocol::Suite;
use chancery_journal::{
    Backing, Check, Finding, Head, LineCheck, Prepared, ReplayReport, Replayer, Terms, Verifier,
    VerifyReport,
};
use chancery_store::Scratch;
use chancery_vacant::rules::ChainCheck;

use super::batches::Batches;
use super::lines::{Lines, Where};
use super::places::Places;
use super::pool::{self, Taker};
use crate::exit::Failure;
use crate::terminal::Progress;

/// What verification of files found.
pub type Verified = Checked<VerifyReport>;

/// A report, and the way from its places back to files.
#[derive(Debug)]
pub struct Checked<R> {
    /// The report.
    pub report: R,
    /// Lines of the files.
    pub lines: u64,
    /// Lines that are none.
    pub unreadable: u64,
    /// A last line that has no newline.
    pub unended: Option<Where>,
    /// The first line of a protocol that the suite does not serve: nobody checked its signature.
    pub unserved: Option<(Where, ProtocolName)>,
    places: Places,
}

impl<R> Checked<R> {
    /// The file and line of a place in the chain.
    pub fn place(&self, seq: Seq) -> Option<Where> {
        self.places.of(seq)
    }

    /// The file and line of the line with this number among all that were read, from 1.
    pub fn nth(&self, line: u64) -> Option<Where> {
        self.places.nth(line)
    }

    /// Whether there is nothing in it that could be a log.
    pub fn is_no_log(&self) -> bool {
        self.lines > 0 && self.unreadable == self.lines
    }
}

impl Verified {
    /// The last line that a start would leave, when all that is wrong is behind it: what was being written when a node ended
    /// was never acknowledged, and is cut off (CH-JRN-4).
    pub fn torn_after(&self) -> Option<Seq> {
        let report = &self.report;
        let is_of_end = |finding: &Finding| {
            let was_cut = matches!(finding.check, Check::NotAnEntry(_) | Check::UnitNotWhole);
            finding.line == report.lines && (was_cut || self.unended.is_some())
        };
        let is_wrong = self.unended.is_some() || report.found > 0;
        let are_kept = report.found == report.findings.len() as u64;
        if !is_wrong
            || !are_kept
            || self.unserved.is_some()
            || !report.findings.iter().all(is_of_end)
        {
            return None;
        }
        Some(match self.unended {
            // A line without its end was not written whole, whatever it says.
            Some(_) => report.whole.min(report.head.seq.saturating_sub(1)),
            None => report.whole,
        })
    }

    /// Leaves out what was found at the very end: a log that is being written may stop in the middle of a unit.
    pub fn leave_out_end(&mut self) {
        let last = self.report.head.seq;
        self.report.findings.retain(|finding| finding.seq < last);
        self.unended = None;
    }
}

/// The rules to check with, and the protocols that they are of.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'r, S> {
    /// The rules.
    pub suite: &'r S,
    /// Whether they are of a protocol.
    pub serves: fn(ProtocolName) -> bool,
}

/// Verifies the lines of files: form, sequence, chain, signatures. `expected` is the last line as it is known from
/// elsewhere.
///
/// # Errors
/// A file cannot be read.
pub fn verify<S: Suite + Clone>(
    rules: Rules<'_, S>,
    lines: Lines,
    expected: Option<Head>,
    progress: &mut Progress,
) -> Result<Verified, Failure> {
    Ok(verify_with_keys(rules, lines, expected, progress)?.0)
}

/// The same, with the keys as they are on record after the last line.
///
/// # Errors
/// A file cannot be read.
pub fn verify_with_keys<S: Suite + Clone>(
    rules: Rules<'_, S>,
    lines: Lines,
    expected: Option<Head>,
    progress: &mut Progress,
) -> Result<(Verified, Keyring), Failure> {
    let verifier = Verifier::new(rules.suite.clone()).with_check(Box::new(VacantChains::default()));
    let mut taker = Counting::of(verifier, rules.serves, progress);
    let unended = taker.run(rules.suite, lines)?;
    let keyring = taker.checker.keyring().clone();
    let verified = taker.checked(unended, |verifier| verifier.finish(expected));
    Ok((verified, keyring))
}

/// Replays the lines of files: the same, and the rules run again.
///
/// # Errors
/// A file cannot be read.
pub fn replay<S: Suite + Clone>(
    rules: Rules<'_, S>,
    lines: Lines,
    progress: &mut Progress,
) -> Result<Checked<ReplayReport>, Failure> {
    Ok(replay_to_rows(rules, lines, progress)?.0)
}

/// The same, with the state that the log leaves. Memory does not grow with the log: rows that are long at rest go to a
/// temporary file.
///
/// # Errors
/// A file cannot be read.
pub fn replay_to_rows<S: Suite + Clone>(
    rules: Rules<'_, S>,
    lines: Lines,
    progress: &mut Progress,
) -> Result<(Checked<ReplayReport>, Scratch), Failure> {
    let replayer = Replayer::on(rules.suite.clone(), Scratch::default())
        .map_err(|damage| Failure::damaged(damage.to_string()))?;
    let mut taker = Counting::of(replayer, rules.serves, progress);
    let unended = taker.run(rules.suite, lines)?;
    let mut left = Scratch::default();
    let checked = taker.checked(unended, |replayer| {
        let (report, rows) = replayer.end();
        left = rows;
        report
    });
    Ok((checked, left))
}

/// The chains between pairs of vacants: no gap, no repeat, no fork (VA-REP-3).
#[derive(Default)]
struct VacantChains(ChainCheck);

impl LineCheck for VacantChains {
    fn line(&mut self, line: &Line) -> Option<String> {
        self.0.line(line)
    }
}

/// What checks lines in order.
trait Checker<S: Suite> {
    fn terms(&self) -> Terms<S>;
    fn take(&mut self, prepared: Prepared);
}

impl<S: Suite> Checker<S> for Verifier<S> {
    fn terms(&self) -> Terms<S> {
        Terms::of_keys(self.keyring())
    }

    fn take(&mut self, prepared: Prepared) {
        self.take(prepared);
    }
}

impl<S: Suite, B: Backing> Checker<S> for Replayer<S, B> {
    fn terms(&self) -> Terms<S> {
        self.terms()
    }

    fn take(&mut self, prepared: Prepared) {
        self.take(prepared);
    }
}

/// A checker with a count of what it was given.
struct Counting<'p, C> {
    checker: C,
    places: Places,
    lines: u64,
    unreadable: u64,
    unserved: Option<(Where, ProtocolName)>,
    serves: fn(ProtocolName) -> bool,
    progress: &'p mut Progress,
}

impl<'p, C> Counting<'p, C> {
    fn of(checker: C, serves: fn(ProtocolName) -> bool, progress: &'p mut Progress) -> Self {
        Self {
            checker,
            places: Places::default(),
            lines: 0,
            unreadable: 0,
            unserved: None,
            serves,
            progress,
        }
    }

    fn run<S: Suite + Clone>(&mut self, suite: &S, lines: Lines) -> Result<Option<Where>, Failure>
    where
        C: Checker<S>,
    {
        let mut batches = Batches::of(lines);
        pool::run(suite, &mut batches, self)?;
        Ok(batches.unended)
    }

    fn checked<R>(self, unended: Option<Where>, finish: impl FnOnce(C) -> R) -> Checked<R> {
        Checked {
            report: finish(self.checker),
            lines: self.lines,
            unreadable: self.unreadable,
            unended,
            unserved: self.unserved,
            places: self.places,
        }
    }
}

impl<S: Suite, C: Checker<S>> Taker<S> for Counting<'_, C> {
    fn terms(&self) -> Terms<S> {
        self.checker.terms()
    }

    fn take(&mut self, at: Where, prepared: Prepared) {
        self.places.take(at, &prepared);
        self.lines += 1;
        match &prepared.reading {
            Err(_) => self.unreadable += 1,
            Ok(reading) if !(self.serves)(reading.line.protocol) => {
                self.unserved.get_or_insert((at, reading.line.protocol));
            }
            Ok(_) => {}
        }
        self.checker.take(prepared);
    }

    fn done(&mut self, bytes: u64) {
        self.progress.advance(bytes);
    }
}

//! `chancery log replay` without its files: the rules run again over a whole log (CH-JRN-7, VC-RPL-2).
//!
//! Lines come prepared, in the order of the log. Memory holds one unit and what the backing keeps there of the rules' state,
//! never the log.

use chancery_core::keys::Keyring;
use chancery_core::line::{Line, Seq};
use chancery_core::protocol::{SignatureCheck, Suite};
use chancery_core::rows::{MapRows, RowsDamaged};

use crate::backing::{Backing, InMemory};
use crate::divergence::{Divergence, Reason};
use crate::fold::{Fold, Produced, Recorded};
use crate::head::Head;
use crate::line::LineFault;
use crate::prepare::{Prepared, Terms};
use crate::units::Units;

/// What replay found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayReport {
    /// Lines whose form, chain and signature were checked.
    pub verified: u64,
    /// Lines that the rules gave again, byte for byte.
    pub replayed: u64,
    /// Lines left out because this build does not have their rules.
    pub left_out: u64,
    /// Signatures that hold.
    pub signatures: u64,
    /// The first divergence.
    pub divergence: Option<Divergence>,
    /// The last line.
    pub head: Head,
}

/// Replays a log line by line, with its state in memory or elsewhere.
pub struct Replayer<S: Suite, B = InMemory> {
    fold: Fold<S, B>,
    units: Units<Recorded>,
    /// The input that the open unit began with, when it was read already.
    input: Option<S::Input>,
    /// Set once the state is no longer the log's: a unit was lost or diverged.
    lost: bool,
    report: ReplayReport,
}

impl<S: Suite> Replayer<S> {
    /// A replay in memory from a log's first line, on rows that were there before it (a world seed), if any.
    ///
    /// # Errors
    /// Those rows cannot be read.
    pub fn new(suite: S, rows: MapRows) -> Result<Self, RowsDamaged> {
        let backing = InMemory {
            rows,
            ..InMemory::default()
        };
        Self::on(suite, backing)
    }

    /// Ends with the report and the rows that the rules left.
    pub fn finish(self) -> (ReplayReport, MapRows) {
        let (report, backing) = self.end();
        (report, backing.rows)
    }
}

impl<S: Suite, B: Backing> Replayer<S, B> {
    /// A replay from a log's first line on a backing of its own.
    ///
    /// # Errors
    /// Its rows cannot be read.
    pub fn on(suite: S, backing: B) -> Result<Self, RowsDamaged> {
        let report = ReplayReport {
            verified: 0,
            replayed: 0,
            left_out: 0,
            signatures: 0,
            divergence: None,
            head: Head::EMPTY,
        };
        Ok(Self {
            fold: Fold::new(suite, backing, Head::EMPTY, false)?,
            units: Units::default(),
            input: None,
            lost: false,
            report,
        })
    }

    /// The suite, for preparing lines.
    pub fn suite(&self) -> &S {
        self.fold.suite()
    }

    /// The keys in force after the units taken so far. Copies are cheap.
    pub fn keyring(&self) -> &Keyring {
        self.fold.keyring()
    }

    /// What lines are best prepared under from here on.
    pub fn terms(&self) -> Terms<S> {
        self.fold.in_force().terms()
    }

    /// The first divergence so far: a caller that only wants that can stop.
    pub fn divergence(&self) -> Option<&Divergence> {
        self.report.divergence.as_ref()
    }

    /// Takes the next line.
    pub fn take(&mut self, mut prepared: Prepared) {
        let signature = prepared.signature_under(self.fold.suite(), self.fold.keyring());
        if self.units.unfinished().is_empty() {
            self.input = prepared.take_input(self.fold.in_force());
        }
        let place = self.report.head.seq + 1;
        self.report.verified += 1;
        let reading = match prepared.reading {
            Ok(reading) => reading,
            Err(fault) => {
                self.lose(place, Reason::Form(fault));
                self.report.head.seq = place;
                self.report.head.hash = prepared.hash;
                return;
            }
        };
        // A line in another form, an edit elsewhere or a bad signature leave the rules' input as it is: go on (VC-RPL-3).
        if let Some(offset) = reading.differs_at {
            self.diverge(place, Reason::Form(LineFault::NonCanonical { offset }));
        }
        self.check_chain(place, &reading.line);
        match signature {
            SignatureCheck::Valid => self.report.signatures += 1,
            SignatureCheck::NotSigned => {}
            SignatureCheck::Invalid(why) => self.diverge(place, Reason::Signature(why)),
        }
        self.report
            .head
            .advance(prepared.hash, reading.line.protocol, reading.line.eval_ts);
        self.report.head.seq = self.report.head.seq.max(reading.line.seq);
        self.take_into_unit(
            place,
            Recorded {
                line: reading.line,
                canonical: reading.canonical,
                hash: prepared.hash,
            },
        );
    }

    fn check_chain(&mut self, place: Seq, line: &Line) {
        if line.seq != place {
            self.lose(
                place,
                Reason::Sequence {
                    expected: place,
                    found: line.seq,
                },
            );
        }
        if line.prev != self.report.head.hash {
            self.diverge(place, Reason::Chain);
        }
    }

    fn take_into_unit(&mut self, place: Seq, recorded: Recorded) {
        if self.lost {
            return;
        }
        let more = recorded.line.more;
        match self.units.push(recorded, more) {
            Ok(None) => {}
            Ok(Some(unit)) => self.apply(&unit),
            Err(_) => self.lose(place, Reason::UnitNotWhole),
        }
    }

    fn apply(&mut self, unit: &[Recorded]) {
        let lines = unit.len() as u64;
        match self.fold.apply_read(unit, self.input.take()) {
            Ok(Produced::Same { .. }) => self.report.replayed += lines,
            Ok(Produced::LeftOut) => self.report.left_out += lines,
            Err(divergence) => self.lose(divergence.seq, divergence.reason),
        }
    }

    /// The state cannot be followed any further; form, chain and signatures still are.
    fn lose(&mut self, seq: Seq, reason: Reason) {
        self.lost = true;
        self.units.abandon();
        self.diverge(seq, reason);
    }

    fn diverge(&mut self, seq: Seq, reason: Reason) {
        let is_first = self
            .report
            .divergence
            .as_ref()
            .is_none_or(|first| seq < first.seq);
        if is_first {
            self.report.divergence = Some(Divergence::at(seq, reason));
        }
    }

    /// Ends with the report and the state that the rules left.
    pub fn end(mut self) -> (ReplayReport, B) {
        if let Some(last) = self.units.unfinished().last() {
            let seq = last.line.seq;
            self.diverge(seq, Reason::UnitNotWhole);
        }
        (self.report, self.fold.into_backing())
    }
}

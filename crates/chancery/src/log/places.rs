//! From a line's place in the chain back to its file and line.

use chancery_core::line::Seq;
use chancery_journal::Prepared;

use super::lines::Where;

/// Runs that are remembered: a log with more gaps than this is named by place alone.
const MAX_RUNS: usize = 10_000;

/// Follows the places that verification and replay count by, which jump where lines are missing.
#[derive(Debug, Default)]
pub(super) struct Places {
    head: Seq,
    /// Where each run of consecutive places begins.
    runs: Vec<(Seq, Where)>,
    last: Option<Where>,
    /// Lines so far, and where each run of them that follow each other in one file begins, the first of them from 1.
    lines: u64,
    in_files: Vec<(u64, Where)>,
}

impl Places {
    pub(super) fn take(&mut self, at: Where, prepared: &Prepared) {
        let place = self.head + 1;
        if !self.goes_on(place, at) && self.runs.len() < MAX_RUNS {
            self.runs.push((place, at));
        }
        self.head = place;
        if let Ok(reading) = &prepared.reading {
            self.head = self.head.max(reading.line.seq);
        }
        self.lines += 1;
        let follows = |last: Where| last.file == at.file && last.line + 1 == at.line;
        if !self.last.is_some_and(follows) {
            self.in_files.push((self.lines, at));
        }
        self.last = Some(at);
    }

    /// The file and line of the line with this number among all that were taken, from 1.
    pub(super) fn nth(&self, line: u64) -> Option<Where> {
        let run = self.in_files.partition_point(|(first, _)| *first <= line);
        let (first, at) = *self.in_files.get(run.checked_sub(1)?)?;
        Some(Where {
            line: at.line + (line - first),
            ..at
        })
    }

    fn goes_on(&self, place: Seq, at: Where) -> bool {
        self.runs.last().is_some_and(|(first_place, first)| {
            first.file == at.file && place - first_place == at.line - first.line
        })
    }

    /// The file and line of a place.
    pub(super) fn of(&self, place: Seq) -> Option<Where> {
        let run = self
            .runs
            .partition_point(|(first, _)| *first <= place)
            .checked_sub(1)?;
        let (first_place, first) = self.runs[run];
        let at = Where {
            line: first.line + (place - first_place),
            ..first
        };
        // A place in a gap belongs to the line before it.
        let next = self.runs.get(run + 1).map(|(_, next)| *next);
        let end = next
            .filter(|next| next.file == at.file)
            .map(|next| next.line - 1);
        Some(Where {
            line: end.map_or(at.line, |end| at.line.min(end)),
            ..at
        })
    }
}

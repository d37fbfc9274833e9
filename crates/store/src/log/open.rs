//! Opening a log: every check and repair of CH-JRN-4.
//!
//! Guarantees: what is cut off was never acknowledged. That is the text after the last newline, a last line that
//! is no line, a last unit that is not whole, and lines that a power cut left with holes: unwritten sectors
//! read as zero bytes, which no line contains, and only the last append can have any.
//! Refuses to touch a log that is damaged anywhere else.

use std::io;
use std::sync::{Arc, OnceLock};

use chancery_core::line::Seq;

use super::LARGEST_APPEND_BYTES;
use super::chain::{self, Break, ChainEnd};
use super::damage::{Damage, LogError};
use super::segment::{Closed, OPEN_NAME, Offsets, Open, closed_name, parse_closed_name};
use super::walk::{first_line, last_line, walk};
use crate::disk::{Disk, DiskFile};

/// What another source (the index) knows about a log that is being opened.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Up to which line the log reached at least.
    pub seq: Seq,
    /// Closed segments: the first line's number and the size in bytes.
    pub closed: Vec<(Seq, u64)>,
}

/// What was cut off at the end of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repair {
    /// The last line that is left.
    pub end: Seq,
    /// How many bytes were cut off.
    pub bytes: u64,
    /// Why.
    pub reason: String,
}

/// Checks the closed segments by presence, size and link.
pub(super) fn closed_segments(
    disk: &dyn Disk,
    known: &Known,
) -> Result<Vec<Arc<Closed>>, LogError> {
    let mut firsts: Vec<Seq> = disk
        .list()?
        .iter()
        .filter_map(|name| parse_closed_name(name))
        .collect();
    firsts.sort_unstable();
    if let Some((first, _)) = known
        .closed
        .iter()
        .find(|(first, _)| firsts.binary_search(first).is_err())
    {
        return Err(Damage::file(closed_name(*first), "the segment is missing").into());
    }
    let mut segments: Vec<Arc<Closed>> = Vec::with_capacity(firsts.len());
    let mut end = ChainEnd::START;
    for first in firsts {
        if first > end.seq + 1 {
            let reason = format!("the segment is missing: the next one begins with line {first}");
            return Err(Damage::file(closed_name(end.seq + 1), reason).into());
        }
        let size = known
            .closed
            .iter()
            .find(|(of, _)| *of == first)
            .map(|(_, size)| *size);
        let segment = closed_segment(disk, first, end, size)?;
        end = segment.end;
        segments.push(Arc::new(segment));
    }
    Ok(segments)
}

fn closed_segment(
    disk: &dyn Disk,
    first: Seq,
    before: ChainEnd,
    size: Option<u64>,
) -> Result<Closed, LogError> {
    let name = closed_name(first);
    let file = disk.open_read(&name)?;
    let len = file.len()?;
    if let Some(size) = size.filter(|size| *size != len) {
        return Err(Damage::file(
            name,
            format!("it has {len} bytes, and had {size} when it was closed"),
        )
        .into());
    }
    let Some(head) = first_line(&*file)? else {
        return Err(Damage::file(name, "it holds no line").into());
    };
    before
        .check(&head)
        .map_err(|broken| Damage::line(&name, 1, broken.reason()))?;
    let Some((_, last)) = last_line(&*file, len)? else {
        return Err(Damage::file(name, "its last line has no end").into());
    };
    let link = chain::parse(&last)
        .map_err(|reason| Damage::file(&name, format!("its last line: {reason}")))?;
    if link.seq < first || link.more {
        return Err(Damage::file(
            name,
            format!("it ends with line {}, which ends no unit here", link.seq),
        )
        .into());
    }
    let hash = chancery_core::digest::Sha256Digest::of(&last);
    Ok(Closed {
        first,
        end: ChainEnd {
            seq: link.seq,
            hash,
        },
        len,
        offsets: OnceLock::new(),
    })
}

/// Checks the open segment whole and cuts off what was never acknowledged.
pub(super) fn open_segment(
    disk: &dyn Disk,
    before: ChainEnd,
    known: &Known,
) -> Result<(Open, Option<Repair>), LogError> {
    if !disk.list()?.iter().any(|name| name == OPEN_NAME) {
        reaches(before.seq, known)?;
        return Ok((Open::create(disk, before)?, None));
    }
    let file = disk.open_append(OPEN_NAME)?;
    let survey = survey(&*file, before)?;
    let torn = survey.torn()?;
    let (end, len) = last_whole_unit(&*file, &survey, before)?;
    reaches(end.seq, known)?;
    let repair = (len < survey.len).then(|| Repair {
        end: end.seq,
        bytes: survey.len - len,
        reason: torn.unwrap_or_else(|| "the last unit is not whole".into()),
    });
    if repair.is_some() {
        file.truncate(len)?;
    }
    // A process that was killed may have left lines that are written but not synced: from here on they count.
    file.sync_data()?;
    disk.sync_dir()?;
    let mut offsets = survey.offsets;
    offsets.cut(end.seq - before.seq);
    Ok((
        Open {
            file,
            first: before.seq + 1,
            end,
            len,
            offsets,
        },
        repair,
    ))
}

fn reaches(end: Seq, known: &Known) -> Result<(), LogError> {
    if end < known.seq {
        return Err(LogError::IndexAhead {
            known: known.seq,
            end,
        });
    }
    Ok(())
}

/// What one pass over the open segment found.
struct Survey {
    /// The file's length.
    len: u64,
    /// Behind the last line that is on the chain.
    good_len: u64,
    lines: u64,
    offsets: Offsets,
    bad: Option<Bad>,
}

/// The first line that is not on the chain.
struct Bad {
    broken: Break,
    is_last: bool,
    has_hole: bool,
}

fn survey(file: &dyn DiskFile, before: ChainEnd) -> io::Result<Survey> {
    let len = file.len()?;
    let mut end = before;
    let mut offsets = Offsets::default();
    let mut lines = 0;
    let mut bad = None;
    let good_len = walk(file, 0, len, |offset, line| match end.follow(line) {
        Ok(()) => {
            offsets.note(lines, offset);
            lines += 1;
            true
        }
        Err(broken) => {
            let is_last = offset + line.len() as u64 + 1 == len;
            bad = Some(Bad {
                broken,
                is_last,
                has_hole: chain::has_hole(line),
            });
            false
        }
    })?;
    Ok(Survey {
        len,
        good_len,
        lines,
        offsets,
        bad,
    })
}

impl Survey {
    /// Why the text behind the good lines may be cut off; nothing when there is none.
    fn torn(&self) -> Result<Option<String>, Damage> {
        let rest = self.len - self.good_len;
        match &self.bad {
            None if rest == 0 => Ok(None),
            None => Ok(Some("the last line has no end".into())),
            Some(bad) if bad.has_hole && rest <= LARGEST_APPEND_BYTES as u64 => {
                Ok(Some("the last append was not written whole".into()))
            }
            Some(Bad {
                broken: Break::NotALine(reason),
                is_last: true,
                ..
            }) => Ok(Some(format!("the last line is not a line: {reason}"))),
            Some(bad) => Err(Damage::line(
                OPEN_NAME,
                self.lines + 1,
                bad.broken.clone().reason(),
            )),
        }
    }
}

/// The end of the last whole unit, and the file's length there.
fn last_whole_unit(
    file: &dyn DiskFile,
    survey: &Survey,
    before: ChainEnd,
) -> Result<(ChainEnd, u64), LogError> {
    // Nearly always the last line ends a unit; else the unit's first line is sought backwards, piece by piece.
    let mut to = survey.good_len;
    for (slot, from) in survey.offsets.as_slice().iter().enumerate().rev() {
        let mut whole = None;
        let mut fault = None;
        let mut number = slot as u64 * super::segment::STRIDE;
        walk(file, *from, to, |offset, line| {
            number += 1;
            match chain::parse(line) {
                Ok(link) if !link.more => {
                    let hash = chancery_core::digest::Sha256Digest::of(line);
                    whole = Some((
                        ChainEnd {
                            seq: link.seq,
                            hash,
                        },
                        offset + line.len() as u64 + 1,
                    ));
                }
                Ok(_) => {}
                // Lines before the last are vouched for by the chain; only the last can be found out here.
                Err(reason) => fault = Some((number, reason)),
            }
            true
        })?;
        let is_last = |number: u64| number == survey.lines && survey.good_len == survey.len;
        if let Some((number, reason)) = fault.filter(|(number, _)| !is_last(*number)) {
            return Err(Damage::line(OPEN_NAME, number, reason).into());
        }
        if let Some(whole) = whole {
            return Ok(whole);
        }
        to = *from;
    }
    Ok((before, 0))
}

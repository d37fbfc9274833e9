//! Backups: a directory with the log, its seed, and what is beside it.
//!
//! A backup holds every line that was acknowledged before it began, and whole units only. What is beside the log is read
//! before it, so that no cursor points beyond it. The list is written last: a directory without it is no backup.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use bytes::Bytes;
use chancery_core::digest::{Sha256Digest, hex};
use chancery_core::line::Seq;
use chancery_core::rows::{Row, RowKey};
use chancery_journal::Head;
use chancery_journal::line::parse;
use chancery_node::suite::Chancery;
use chancery_store::Beside;
use serde::{Deserialize, Serialize};

use super::place::{Source, StorePlace};
use super::{bring, tell};
use crate::commands::log::rules;
use crate::config::Config;
use crate::exit::{Failure, Outcome};
use crate::host::keep_seed_in;
use crate::log::{LOG_FILE, Lines, find, verify};
use crate::secret_file;
use crate::terminal::{Progress, Terminal};

/// The list of a backup.
const LIST: &str = "backup.json";

/// What a backup says of itself.
#[derive(Serialize, Deserialize)]
struct List {
    lines: Seq,
    sha256: String,
    /// Rows of progress, in hex.
    ops: Vec<(String, String)>,
    /// Open deliveries in hex, and up to which line they were looked for.
    open: Option<(Vec<String>, Seq)>,
}

impl List {
    fn of(head: Head, beside: &Beside) -> Self {
        let row = |(key, row): &(RowKey, Row)| (hex::encode(key.as_bytes()), hex::encode(row));
        let keys = |keys: &[RowKey]| keys.iter().map(|key| hex::encode(key.as_bytes())).collect();
        let open = beside.open.as_ref();
        Self {
            lines: head.seq,
            sha256: head.hash.hex(),
            ops: beside.ops.iter().map(row).collect(),
            open: open.map(|(open, through)| (keys(open), *through)),
        }
    }

    fn read(dir: &Path) -> Result<Self, Failure> {
        let path = dir.join(LIST);
        let text = std::fs::read(&path).map_err(|error| {
            Failure::usage(format!("cannot read {}: {error}", path.display()))
                .next("name a directory that chancery store backup wrote to its end")
        })?;
        serde_json::from_slice(&text)
            .map_err(|error| Failure::damaged(format!("{}: {error}", path.display())))
    }

    fn head(&self) -> Result<Head, Failure> {
        let hash = Sha256Digest::from_hex(&self.sha256);
        Ok(Head {
            seq: self.lines,
            hash: hash.map_err(|_| damaged("sha256"))?,
            time: None,
        })
    }

    fn beside(&self) -> Result<Beside, Failure> {
        let bytes = |text: &String| hex::decode(text).map_err(|_| damaged("a row"));
        let key = |text: &String| Ok(RowKey::from_stored(bytes(text)?));
        let row = |(name, row): &(String, String)| Ok((key(name)?, bytes(row)?.into()));
        let ops = self.ops.iter().map(row).collect::<Result<_, Failure>>()?;
        let open = match &self.open {
            Some((open, through)) => {
                let keys = open.iter().map(key).collect::<Result<_, Failure>>()?;
                Some((keys, *through))
            }
            None => None,
        };
        Ok(Beside { ops, open })
    }
}

fn damaged(what: &str) -> Failure {
    Failure::damaged(format!("{LIST}: {what} is none"))
}

/// Writes a backup of the configured store.
pub(super) fn backup(config: &Config, into: &Path, terminal: &mut Terminal) -> Outcome {
    let place = StorePlace::configured(config)?;
    if into.exists() {
        return Err(secret_file::exists(into).into());
    }
    secret_file::make_private_folder(into)?;
    let source = Source::as_it_is(&place)?;
    let (head, source) = write_log(source, &into.join(LOG_FILE), terminal)?;
    if let Some((seed, text)) = &source.seed {
        keep_seed_in(into, seed, text)?;
    }
    let list = serde_json::to_vec(&List::of(head, &source.beside));
    let list = list.map_err(|error| Failure::damaged(error.to_string()))?;
    secret_file::write_private(&into.join(LIST), &list)?;
    tell(head, "in the backup", terminal)
}

/// Writes the whole units of a log; gives the head, and the rest of the source.
fn write_log(
    mut source: Source,
    path: &Path,
    terminal: &Terminal,
) -> Result<(Head, Source), Failure> {
    let cannot =
        |error: std::io::Error| Failure::usage(format!("cannot write {}: {error}", path.display()));
    let mut options = File::options();
    options.write(true).create(true).truncate(true);
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut out = BufWriter::new(options.open(path).map_err(cannot)?);
    let size = source.size;
    let mut progress = size.progress(terminal);
    let (mut head, mut unit) = (Head::EMPTY, Unit::after(Head::EMPTY));
    while let Some(line) = source.lines.next() {
        let line = line.map_err(|error| source.failed(Failure::damaged(error.to_string())))?;
        progress.advance(size.of(&line));
        if unit.is_whole_with(line)? {
            head = unit.head;
            for line in std::mem::replace(&mut unit, Unit::after(head)).lines {
                out.write_all(&line).map_err(cannot)?;
                out.write_all(b"\n").map_err(cannot)?;
            }
        }
    }
    progress.finish();
    out.flush().map_err(cannot)?;
    out.get_ref().sync_all().map_err(cannot)?;
    Ok((head, source))
}

/// Lines of a unit that goes on.
struct Unit {
    head: Head,
    lines: Vec<Bytes>,
}

impl Unit {
    fn after(head: Head) -> Self {
        Self {
            head,
            lines: Vec::new(),
        }
    }

    /// Takes a line that follows the chain; whether the unit ends with it.
    fn is_whole_with(&mut self, text: Bytes) -> Result<bool, Failure> {
        let expected = self.head.seq + 1;
        let wrong = |what: String| Failure::damaged(format!("line {expected}: {what}"));
        let line = parse(&text).map_err(|fault| wrong(fault.to_string()))?;
        if line.seq != expected || line.prev != self.head.hash {
            return Err(wrong("it does not follow the line before".to_owned()));
        }
        self.head = Head {
            seq: expected,
            hash: Sha256Digest::of(&text),
            time: None,
        };
        self.lines.push(text);
        Ok(!line.more)
    }
}

/// Puts a backup into the configured store.
pub(super) fn restore(config: &Config, from: &Path, terminal: &mut Terminal) -> Outcome {
    let place = StorePlace::configured(config)?;
    let list = List::read(from)?;
    check_log(from, list.head()?, terminal)?;
    let source = Source::of_files(from, list.beside()?)?;
    let head = bring(source, &place, terminal)?;
    tell(head, "restored", terminal)
}

/// Nothing is written before the whole log was found sound, and to be the one that the list tells of.
fn check_log(from: &Path, head: Head, terminal: &Terminal) -> Result<(), Failure> {
    let lines = Lines::of(find(&[from.join(LOG_FILE)])?);
    let mut progress = Progress::of_bytes(lines.total_bytes(), terminal);
    let suite = Chancery::default();
    let expected = (head.seq > 0).then_some(head);
    let verified = verify(rules(&suite), lines, expected, &mut progress)?;
    progress.finish();
    let found = verified.report.found;
    let is_all = verified.report.head.seq == head.seq;
    if found > 0 || verified.unended.is_some() || !is_all {
        let first = verified.report.findings.first();
        let what = first.map_or_else(
            || {
                format!(
                    "it has {} lines, not {}",
                    verified.report.head.seq, head.seq
                )
            },
            |finding| format!("line {}: {}", finding.seq, finding.check),
        );
        return Err(Failure::damaged(format!(
            "{} is not the log that was backed up: {what}",
            from.join(LOG_FILE).display()
        ))
        .next("nothing was written; use another backup"));
    }
    Ok(())
}

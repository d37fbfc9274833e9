//! The log of a data directory as it is now, also while a node writes to it.
//!
//! Guarantees: whole units only, with every line that was acknowledged before; a file that gets another name while it is
//! read changes nothing. Nobody is kept out.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use chancery_journal::line::parse;

use super::files::{LOG_FILE, closed_segments};

/// How much of the end of a file is looked at first for the end of a unit.
const END_BYTES: u64 = 1 << 20;

/// The whole units of a log in files.
#[derive(Clone, Debug)]
pub struct LiveLog {
    closed: Vec<PathBuf>,
    open: Arc<File>,
    /// Up to where the open file holds whole units.
    end: u64,
}

impl LiveLog {
    /// The log in a directory; none where there is no file of one.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn of(folder: &Path) -> io::Result<Option<Self>> {
        let open = match File::open(folder.join(LOG_FILE)) {
            // It has just got another name, and the next is not there yet.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                match closed_segments(folder)?.last() {
                    Some(last) => File::open(last)?,
                    None => return Ok(None),
                }
            }
            opened => opened?,
        };
        // Files that were closed since then come after this one, and it may be the first of them.
        let own = open.metadata()?;
        let mut closed = Vec::new();
        for path in closed_segments(folder)? {
            let found = fs::metadata(&path)?;
            if (found.dev(), found.ino()) == (own.dev(), own.ino()) {
                break;
            }
            closed.push(path);
        }
        let end = end_of_units(&open, own.len())?;
        Ok(Some(Self {
            closed,
            open: Arc::new(open),
            end,
        }))
    }

    /// How many bytes it has.
    pub fn bytes(&self) -> Option<u64> {
        let closed: Option<u64> = self
            .closed
            .iter()
            .map(|path| Some(fs::metadata(path).ok()?.len()))
            .sum();
        Some(closed? + self.end)
    }

    pub(super) fn reader(&self) -> impl Read + use<> {
        Reader {
            log: self.clone(),
            file: 0,
            closed: None,
            at: 0,
        }
    }
}

impl PartialEq for LiveLog {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.open, &other.open)
    }
}

impl Eq for LiveLog {}

/// Where the last whole unit among the first `len` bytes of a file ends: a line that is no line ends one as well, so that
/// it is found.
fn end_of_units(file: &File, len: u64) -> io::Result<u64> {
    let mut window = END_BYTES;
    loop {
        let from = len.saturating_sub(window);
        let mut text = vec![0; usize::try_from(len - from).unwrap_or(usize::MAX)];
        file.read_exact_at(&mut text, from)?;
        if let Some(end) = last_end(&text, from == 0) {
            return Ok(from + end as u64);
        }
        if from == 0 {
            return Ok(0);
        }
        window *= 2;
    }
}

/// The end of the last line that ends a unit; `is_start` if the text begins with a line.
fn last_end(text: &[u8], is_start: bool) -> Option<usize> {
    let mut end = text.iter().rposition(|byte| *byte == b'\n')?;
    loop {
        let before = text[..end].iter().rposition(|byte| *byte == b'\n');
        let start = match before {
            Some(at) => at + 1,
            None if is_start => 0,
            None => return None,
        };
        let line = Bytes::copy_from_slice(&text[start..end]);
        if parse(&line).is_ok_and(|line| line.more) {
            end = before?;
        } else {
            return Some(end + 1);
        }
    }
}

struct Reader {
    log: LiveLog,
    file: usize,
    closed: Option<File>,
    /// How much of the open file was read.
    at: u64,
}

impl Read for Reader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while let Some(path) = self.log.closed.get(self.file) {
            let file = match &mut self.closed {
                Some(file) => file,
                none => none.insert(File::open(path)?),
            };
            let read = file.read(into)?;
            if read > 0 || into.is_empty() {
                return Ok(read);
            }
            self.closed = None;
            self.file += 1;
        }
        let left = usize::try_from(self.log.end - self.at).unwrap_or(usize::MAX);
        let wanted = into.len().min(left);
        let read = self.log.open.read_at(&mut into[..wanted], self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

//! Lines out of files, block by block.

use std::io::{self, Read};

use bytes::Bytes;
use chancery_journal::line::MAX_LINE_BYTES;

use super::files::LogFile;
use crate::exit::Failure;

/// Bytes read at a time.
const BLOCK_BYTES: usize = 1 << 20;

/// The place of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Where {
    /// Which of the files.
    pub file: usize,
    /// Which line of it, from 1.
    pub line: u64,
}

/// Whole lines of one file.
#[derive(Clone, Debug)]
pub struct Block {
    /// The place of the first.
    pub first: Where,
    /// The lines without their newlines. One that is too long to be a line is cut after its limit.
    pub lines: Vec<Bytes>,
    /// Whether the last has no newline.
    pub unended: bool,
    /// Bytes of the file they take.
    pub bytes: u64,
}

/// Reads the lines of a log in order. Holds one block and at most one line beyond it.
pub struct Lines {
    files: Vec<LogFile>,
    file: usize,
    open: Option<Box<dyn Read>>,
    rest: Vec<u8>,
    next_line: u64,
}

impl Lines {
    /// The lines of these files, one after the other.
    pub fn of(files: Vec<LogFile>) -> Self {
        Self {
            files,
            file: 0,
            open: None,
            rest: Vec::new(),
            next_line: 1,
        }
    }

    /// The files.
    pub fn files(&self) -> &[LogFile] {
        &self.files
    }

    /// The size of all files, when it is known.
    pub fn total_bytes(&self) -> Option<u64> {
        self.files.iter().map(LogFile::bytes).sum()
    }

    /// The next lines.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn next_block(&mut self) -> Result<Option<Block>, Failure> {
        loop {
            let Some(file) = self.files.get(self.file) else {
                return Ok(None);
            };
            let name = file.name();
            let cannot =
                |error: io::Error| Failure::damaged(format!("cannot read {name}: {error}"));
            if self.open.is_none() {
                self.open = Some(file.open().map_err(cannot)?);
                self.next_line = 1;
            }
            let ended = self.fill().map_err(cannot)?;
            let block = self.cut(ended);
            if ended {
                self.open = None;
                self.file += 1;
            }
            if block.is_some() {
                return Ok(block);
            }
        }
    }

    /// Reads on until there is a newline in a good part of a block; says whether the file has ended.
    fn fill(&mut self) -> io::Result<bool> {
        let Some(open) = &mut self.open else {
            return Ok(true);
        };
        let mut searched = 0;
        loop {
            let before = self.rest.len();
            let read = open
                .by_ref()
                .take(BLOCK_BYTES as u64)
                .read_to_end(&mut self.rest)?;
            if read == 0 {
                return Ok(true);
            }
            let has_newline = self.rest[searched..].contains(&b'\n');
            searched = self.rest.len();
            if has_newline {
                return Ok(false);
            }
            if before > MAX_LINE_BYTES {
                // No line is that long: what is beyond the limit is not kept.
                self.rest.truncate(MAX_LINE_BYTES + 1);
                searched = self.rest.len();
            }
        }
    }

    fn cut(&mut self, ended: bool) -> Option<Block> {
        let whole = self
            .rest
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        let tail = self.rest.split_off(whole);
        let mut text = std::mem::replace(&mut self.rest, tail);
        let unended = ended && !self.rest.is_empty();
        if unended {
            text.append(&mut self.rest);
        }
        if text.is_empty() {
            return None;
        }
        let bytes = text.len() as u64;
        let lines = split(&Bytes::from(text));
        let first = Where {
            file: self.file,
            line: self.next_line,
        };
        self.next_line += lines.len() as u64;
        Some(Block {
            first,
            lines,
            unended,
            bytes,
        })
    }
}

fn split(text: &Bytes) -> Vec<Bytes> {
    let mut lines = Vec::new();
    let mut start = 0;
    for (at, byte) in text.iter().enumerate() {
        if *byte == b'\n' {
            lines.push(text.slice(start..at));
            start = at + 1;
        }
    }
    if start < text.len() {
        lines.push(text.slice(start..));
    }
    lines
}

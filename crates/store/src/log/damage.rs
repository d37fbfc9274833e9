//! What can be wrong with a log on disk.

use std::io;

use chancery_core::line::Seq;

/// A place in the log that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}{}: {reason}", line.map(|line| format!(", line {line}")).unwrap_or_default())]
pub struct Damage {
    /// The file.
    pub file: String,
    /// The line within that file, from 1; none when the file as a whole is meant.
    pub line: Option<u64>,
    /// What is wrong.
    pub reason: String,
}

impl Damage {
    pub(crate) fn file(file: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            file: file.into(),
            line: None,
            reason: reason.into(),
        }
    }

    pub(crate) fn line(file: impl Into<String>, line: u64, reason: impl Into<String>) -> Self {
        Self {
            file: file.into(),
            line: Some(line),
            reason: reason.into(),
        }
    }
}

/// Why a log could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// It was changed, or part of it is lost.
    #[error("the log is damaged: {0}")]
    Damaged(#[from] Damage),
    /// The index knows lines that the log does not have.
    #[error(
        "the index knows the log up to line {known}, but the log ends with line {end}: lines {} to {known} were \
         acknowledged and are missing. Restore the log from a copy, or delete index.db to go on without them",
        end + 1
    )]
    IndexAhead {
        /// The last line that the index reflects.
        known: Seq,
        /// The last whole line of the log.
        end: Seq,
    },
    /// The file system failed.
    #[error("the log cannot be read: {0}")]
    Io(#[from] io::Error),
}

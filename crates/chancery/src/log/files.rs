//! Which files make up a log (CH-JRN-2).

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::live::LiveLog;
use super::store_log::StoreLog;
use crate::exit::Failure;

/// The open segment of a log.
pub const LOG_FILE: &str = "audit.jsonl";

/// One file of a log, or standard input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogFile {
    /// A file.
    Path(PathBuf),
    /// Standard input.
    Stdin,
    /// The committed lines of an open store.
    Store(StoreLog),
    /// The files of a directory that a node may write to.
    Live(LiveLog),
}

impl LogFile {
    /// The name for people.
    pub fn name(&self) -> String {
        match self {
            Self::Path(path) => path.display().to_string(),
            Self::Stdin => "standard input".to_owned(),
            Self::Store(_) | Self::Live(_) => "log".to_owned(),
        }
    }

    /// Its size, when it is known beforehand.
    pub fn bytes(&self) -> Option<u64> {
        match self {
            Self::Path(path) => fs::metadata(path).ok().map(|metadata| metadata.len()),
            Self::Live(log) => log.bytes(),
            Self::Stdin | Self::Store(_) => None,
        }
    }

    pub(super) fn open(&self) -> io::Result<Box<dyn Read>> {
        Ok(match self {
            Self::Path(path) => Box::new(File::open(path)?),
            Self::Stdin => Box::new(io::stdin()),
            Self::Store(log) => Box::new(log.reader()),
            Self::Live(log) => Box::new(log.reader()),
        })
    }
}

/// The files that arguments name, in the order of the log: a directory stands for its segments, `-` for standard input.
///
/// # Errors
/// One of them is not there.
pub fn find(arguments: &[PathBuf]) -> Result<Vec<LogFile>, Failure> {
    let mut files = Vec::new();
    for argument in arguments {
        if argument == Path::new("-") {
            files.push(LogFile::Stdin);
        } else if argument.is_dir() {
            files.extend(segments(argument)?.into_iter().map(LogFile::Path));
        } else if argument.exists() {
            files.push(LogFile::Path(argument.clone()));
        } else {
            return Err(
                Failure::usage(format!("there is no file {}", argument.display()))
                    .next("name a log file, a data directory, or - for standard input"),
            );
        }
    }
    Ok(files)
}

/// The segments in a data directory: the closed ones by their first number, then the open one.
fn segments(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let cannot =
        |error: io::Error| Failure::usage(format!("cannot read {}: {error}", folder.display()));
    let mut closed = closed_segments(folder).map_err(cannot)?;
    let open = folder.join(LOG_FILE);
    if open.exists() {
        closed.push(open);
    }
    if closed.is_empty() {
        return Err(
            Failure::usage(format!("there is no log in {}", folder.display()))
                .next(format!("a data directory holds {LOG_FILE}")),
        );
    }
    Ok(closed)
}

/// The segments that are closed, by their first number.
pub(super) fn closed_segments(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut closed = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path
            .file_name()
            .and_then(|name| name.to_str())
            .is_some_and(is_segment)
        {
            closed.push(path);
        }
    }
    closed.sort();
    Ok(closed)
}

/// `audit-<first seq, 20 digits>.jsonl`
fn is_segment(name: &str) -> bool {
    name.strip_prefix("audit-")
        .and_then(|rest| rest.strip_suffix(".jsonl"))
        .is_some_and(|digits| digits.len() == 20 && digits.bytes().all(|b| b.is_ascii_digit()))
}

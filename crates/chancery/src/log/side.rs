//! The two files beside the log: what was refused, and what was ignored or repeated (CH-JRN-6).

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use serde_json::Value;

/// Notes that are shown about one envelope.
const MAX_NOTES: usize = 100;

/// A line of one of the two files.
#[derive(Clone, Debug, PartialEq)]
pub struct Note {
    /// Whether it says that an envelope was refused; else it is an event.
    pub refused: bool,
    /// What it says.
    pub members: Value,
}

impl Note {
    /// A member that is a text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.members.get(name)?.as_str()
    }
}

/// The notes about an envelope in a data directory, older files first. Lines that cannot be read are passed over: these
/// files are written without sync, and prove nothing.
pub fn notes_about(id: &str, folder: &Path) -> Vec<Note> {
    let mut notes = Vec::new();
    for (stem, refused) in [("rejections", true), ("events", false)] {
        for path in files_of(stem, folder) {
            let Ok(file) = File::open(path) else { continue };
            let about = BufReader::new(file)
                .lines()
                .map_while(Result::ok)
                .filter(|line| line.contains(id))
                .filter_map(|line| serde_json::from_str::<Value>(&line).ok())
                .filter(|members| members.get("message_id").and_then(Value::as_str) == Some(id))
                .map(|members| Note { refused, members });
            notes.extend(about.take(MAX_NOTES));
        }
    }
    notes
}

/// The file and the ones it was rotated to: with their numbers they sort after it, and are older.
fn files_of(stem: &str, folder: &Path) -> Vec<std::path::PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut files: Vec<_> = entries
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .filter(|path| {
            path.file_name()
                .and_then(|name| name.to_str())
                .is_some_and(|name| name.starts_with(stem) && name.contains(".jsonl"))
        })
        .collect();
    files.sort();
    files.reverse();
    files
}

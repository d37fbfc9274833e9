//! All rows of one moment, and the line they reflect: what a check compares while a node writes on.
//!
//! Guarantees: the rows are those after one line, whoever writes meanwhile. Nobody is kept out, nothing is written.

use std::path::Path;

use chancery_core::rows::{Row, RowKey};
use chancery_journal::Head;
use rusqlite::{Connection, OpenFlags};

use crate::contract::StoreError;
use crate::index::{self, INDEX_NAME};

/// Rows of one moment.
#[derive(Clone, Debug)]
pub struct Moment {
    /// The last line that they reflect.
    pub head: Head,
    /// In the order of their keys.
    pub rows: Vec<(RowKey, Row)>,
}

/// The rows in the index of a data directory, also one that a node has open. None where there is no index, or one of
/// another version: the next start makes one.
///
/// # Errors
/// It cannot be read.
pub fn moment_in(dir: &Path, rows_version: u32) -> Result<Option<Moment>, StoreError> {
    let path = dir.join(INDEX_NAME);
    if !path.is_file() {
        return Ok(None);
    }
    let read = || -> rusqlite::Result<Option<Moment>> {
        // Who only reads leaves the write-ahead log as it is, also when the node ends meanwhile.
        let connection = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        let snapshot = connection.unchecked_transaction()?;
        index::moment_of(&snapshot, rows_version)
    };
    read().map_err(|error| StoreError(format!("{INDEX_NAME}: {error}")))
}

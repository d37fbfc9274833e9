//! A look at a data directory that changes nothing: who has it open, and what its databases say of themselves.

use std::fs::{File, TryLockError};
use std::path::Path;

use chancery_core::line::Seq;
use rusqlite::{Connection, OpenFlags};

use crate::index::{self, INDEX_NAME};
use crate::lock::{LOCK_NAME, holder};
use crate::ops::OPS_NAME;

/// What there is to see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// Process id and address of whoever has it open, as it wrote them.
    pub holder: Option<String>,
    /// The index.
    pub index: IndexLook,
    /// Why the rows of progress cannot be used, when they are there and cannot.
    pub ops_damage: Option<String>,
}

/// What an index says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexLook {
    /// There is none.
    Missing,
    /// It was written by another version of the program.
    OtherVersion,
    /// It cannot be used, and why.
    Damaged(String),
    /// It reflects the log up to this line.
    UpTo(Seq),
}

/// Looks at a directory, also of a running node.
pub fn inspect(dir: &Path, rows_version: u32) -> Inspection {
    let ops = dir.join(OPS_NAME);
    Inspection {
        holder: held_by(dir),
        index: look_at_index(&dir.join(INDEX_NAME), rows_version),
        ops_damage: ops.exists().then(|| sound(&ops).err()).flatten(),
    }
}

/// Asks for the lock as a reader would and gives it back at once.
fn held_by(dir: &Path) -> Option<String> {
    let mut file = File::open(dir.join(LOCK_NAME)).ok()?;
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => Some(holder(&mut file)),
        _ => None,
    }
}

fn look_at_index(path: &Path, rows_version: u32) -> IndexLook {
    if !path.exists() {
        return IndexLook::Missing;
    }
    let looked = sound(path).and_then(|connection| {
        index::mark_of(&connection, rows_version).map_err(|error| error.to_string())
    });
    match looked {
        Ok(Some(seq)) => IndexLook::UpTo(seq),
        Ok(None) => IndexLook::OtherVersion,
        Err(reason) => IndexLook::Damaged(reason),
    }
}

/// A connection that only reads, to a database in which SQLite finds no fault.
fn sound(path: &Path) -> Result<Connection, String> {
    let open = || -> Result<(Connection, String), rusqlite::Error> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
        let connection = Connection::open_with_flags(address(path), flags)?;
        let told = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
        Ok((connection, told))
    };
    match open() {
        Ok((connection, told)) if told == "ok" => Ok(connection),
        Ok((_, told)) => Err(told),
        Err(error) => Err(error.to_string()),
    }
}

/// Where SQLite finds it. A database that was closed has no `-wal` beside it, and a reader would leave one behind unless
/// it is told that nobody writes.
fn address(path: &Path) -> String {
    let text = path.display().to_string();
    let text = text
        .replace('%', "%25")
        .replace('?', "%3f")
        .replace('#', "%23");
    let is_closed = !path.with_extension("db-wal").exists();
    let how = if is_closed { "?immutable=1" } else { "" };
    format!("file:{text}{how}")
}

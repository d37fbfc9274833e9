//! The index: rows and windows in SQLite (`index.db`), written behind the log.
//!
//! Guarantees: what it holds is the state after one line of the log, whose number, hash and offset it names; it is
//! never ahead of the log; it can be deleted at any time and costs a longer start. An index of another schema or
//! with other rows than this build writes, or one that cannot be read, is built anew.

mod accepted;
mod readers;
mod roll;
mod rows;
mod writer;

use std::fs;
use std::io;
use std::path::Path;

use chancery_core::digest::Sha256Digest;
use chancery_core::line::Seq;
use chancery_core::rows::RowKey;
use chancery_core::time::parse_audit;
use chancery_core::window::{WindowName, Windows};
use chancery_journal::Head;
use rusqlite::{Connection, OpenFlags, OptionalExtension};

use rows::WHOLE_ROWS;

pub(crate) use accepted::prune;
pub(crate) use readers::Readers;
pub(crate) use readers::end_of;
pub(crate) use roll::RollCall;
pub(crate) use writer::{Behind, IndexWriter, run};

use crate::disk::private_file;
use crate::moment::Moment;
use crate::pending::Mark;
use crate::windows;

pub(crate) const INDEX_NAME: &str = "index.db";
const SCHEMA_VERSION: u32 = 4;
const SCHEMA: &str = "
    CREATE TABLE windows (id INTEGER PRIMARY KEY, name TEXT NOT NULL, ends_ms INTEGER NOT NULL, records BLOB NOT NULL);
    CREATE INDEX windows_by_end ON windows (ends_ms);
    CREATE TABLE segments (first INTEGER PRIMARY KEY, bytes INTEGER NOT NULL);
    CREATE TABLE replay_protect (
        from_vid_hex VARCHAR NOT NULL, to_vid_hex VARCHAR NOT NULL, sequence_no INTEGER NOT NULL,
        chain_tip BLOB NOT NULL, PRIMARY KEY (from_vid_hex, to_vid_hex, sequence_no)
    );
    CREATE TABLE mark (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        seq INTEGER NOT NULL, hash BLOB NOT NULL, time TEXT, segment INTEGER NOT NULL, offset INTEGER NOT NULL
    );
";

/// What an index held when it was opened.
pub(crate) struct Opened {
    pub writer: IndexWriter,
    pub readers: Readers,
    pub mark: Mark,
    pub closed: Vec<(Seq, u64)>,
    pub windows: Windows,
    pub has_no_rows: bool,
}

impl Mark {
    /// Before the first line.
    pub(crate) const START: Self = Self {
        head: Head::EMPTY,
        segment: 1,
        offset: 0,
    };
}

/// Opens the index, or begins a new one.
pub(crate) fn open(
    dir: &Path,
    windows: &[WindowName],
    rows_version: u32,
) -> Result<Opened, rusqlite::Error> {
    let path = dir.join(INDEX_NAME);
    match open_file(&path, windows, rows_version) {
        Ok(Some(opened)) => return Ok(opened),
        Ok(None) => tracing::warn!(
            file = INDEX_NAME,
            "index of another version: it is built anew from the log"
        ),
        Err(error) if is_damage(&error) => {
            tracing::warn!(file = INDEX_NAME, %error, "index cannot be read: it is built anew from the log");
        }
        Err(error) => return Err(error),
    }
    remove(&path).map_err(sql_io)?;
    open_file(&path, windows, rows_version)?.ok_or(rusqlite::Error::InvalidQuery)
}

/// What `PRAGMA user_version` says of an index of this build.
const fn version(rows_version: u32) -> u32 {
    SCHEMA_VERSION * 1_000_000 + rows_version
}

/// The line up to which an index reflects the log; none when it was written by another version.
pub(crate) fn mark_of(
    connection: &Connection,
    rows_version: u32,
) -> Result<Option<Seq>, rusqlite::Error> {
    let found: u32 = connection.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if found != version(rows_version) {
        return Ok(None);
    }
    Ok(Some(read_mark(connection)?.head.seq))
}

/// All rows as this transaction sees them; none when they were written by another version.
pub(crate) fn moment_of(
    snapshot: &Connection,
    rows_version: u32,
) -> Result<Option<Moment>, rusqlite::Error> {
    let Some(_) = mark_of(snapshot, rows_version)? else {
        return Ok(None);
    };
    let head = read_mark(snapshot)?.head;
    let sql = format!("SELECT key, value FROM {WHOLE_ROWS} ORDER BY key");
    let mut statement = snapshot.prepare(&sql)?;
    let rows = statement.query_map([], |row| {
        let key = RowKey::from_stored(row.get_ref(0)?.as_blob()?);
        Ok((key, rows::value(row, 1)?))
    })?;
    let rows = rows.collect::<Result<_, _>>()?;
    Ok(Some(Moment { head, rows }))
}

/// None when the file was written by another version.
fn open_file(
    path: &Path,
    names: &[WindowName],
    rows_version: u32,
) -> Result<Option<Opened>, rusqlite::Error> {
    private_file()
        .append(true)
        .create(true)
        .open(path)
        .map_err(sql_io)?;
    // One thread writes: SQLite need not lock what nobody else has.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    let version = version(rows_version);
    match connection.query_row("PRAGMA user_version", [], |row| row.get::<_, u32>(0))? {
        0 => create(&connection, version)?,
        found if found != version => return Ok(None),
        _ => tune(&connection)?,
    }
    let mark = read_mark(&connection)?;
    let closed = read_segments(&connection)?;
    let windows = read_windows(&connection, names)?;
    let sql = "SELECT NOT EXISTS (SELECT 1 FROM rows)";
    let has_no_rows = connection.query_row(sql, [], |row| row.get(0))?;
    let readers = Readers::new(path.to_owned());
    let last_closed = closed.last().map_or(0, |(first, _)| *first);
    let writer = IndexWriter::new(connection, last_closed);
    Ok(Some(Opened {
        writer,
        readers,
        mark,
        closed,
        windows,
        has_no_rows,
    }))
}

/// A few long values fill a page: an answer that a key is bound to takes about 2,000 bytes.
const PAGE_BYTES: u32 = 8_192;

/// 64 MiB: a page that is changed again and again is copied from the write-ahead log once.
const CHECKPOINT_PAGES: u32 = 8_192;

fn create(connection: &Connection, version: u32) -> Result<(), rusqlite::Error> {
    connection.pragma_update(None, "page_size", PAGE_BYTES)?;
    tune(connection)?;
    connection.execute_batch("BEGIN IMMEDIATE")?;
    connection.execute_batch(SCHEMA)?;
    connection.execute_batch(rows::SCHEMA)?;
    connection.execute_batch(&format!("PRAGMA user_version = {version}; COMMIT"))
}

fn tune(connection: &Connection) -> Result<(), rusqlite::Error> {
    connection.pragma_update(None, "journal_mode", "WAL")?;
    // A lost transaction is decided again from the log; a torn one would be wrong rows.
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "cache_size", -32_768)?;
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)
}

fn read_mark(connection: &Connection) -> Result<Mark, rusqlite::Error> {
    let sql = "SELECT seq, hash, time, segment, offset FROM mark WHERE id = 1";
    let mark = connection
        .query_row(sql, [], |row| {
            let time = row
                .get::<_, Option<String>>(2)?
                .map(|text| parse_audit(&text));
            let time = time.transpose().map_err(|error| damaged(2, error))?;
            let hash = Sha256Digest(row.get::<_, [u8; 32]>(1)?);
            let head = Head {
                seq: number(row.get(0)?),
                hash,
                time,
            };
            Ok(Mark {
                head,
                segment: number(row.get(3)?),
                offset: number(row.get(4)?),
            })
        })
        .optional()?;
    Ok(mark.unwrap_or(Mark::START))
}

fn read_segments(connection: &Connection) -> Result<Vec<(Seq, u64)>, rusqlite::Error> {
    let mut statement = connection.prepare("SELECT first, bytes FROM segments ORDER BY first")?;
    let rows = statement.query_map([], |row| Ok((number(row.get(0)?), number(row.get(1)?))))?;
    rows.collect()
}

/// Window names live in the program: a stored one that it does not know is left out.
fn read_windows(connection: &Connection, names: &[WindowName]) -> Result<Windows, rusqlite::Error> {
    let mut all = Windows::default();
    let mut statement = connection.prepare("SELECT name, records FROM windows ORDER BY id")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let stored = row.get_ref(0)?.as_str()?;
        let Some(name) = names.iter().find(|name| **name == stored) else {
            continue;
        };
        let records = windows::unpack(name, row.get_ref(1)?.as_blob()?)
            .ok_or_else(|| damaged(1, io::Error::other("a packet of window records is cut")))?;
        records.iter().for_each(|record| all.remember(record));
    }
    Ok(all)
}

fn remove(path: &Path) -> io::Result<()> {
    for suffix in ["", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(suffix);
        match fs::remove_file(name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Whether the file is no index (any more), as opposed to a disk that fails or is full.
fn is_damage(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    match error {
        rusqlite::Error::SqliteFailure(failure, text) => {
            let lacks_table = text
                .as_deref()
                .is_some_and(|text| text.starts_with("no such"));
            lacks_table || matches!(failure.code, DatabaseCorrupt | NotADatabase)
        }
        rusqlite::Error::FromSqlConversionFailure(..) | rusqlite::Error::InvalidColumnType(..) => {
            true
        }
        _ => false,
    }
}

fn damaged(
    column: usize,
    error: impl std::error::Error + Send + Sync + 'static,
) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Blob, Box::new(error))
}

fn sql_io(error: io::Error) -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(Box::new(error))
}

/// SQLite's integers are signed; ours come back as they went in.
fn number(stored: i64) -> u64 {
    stored as u64
}

fn stored(number: u64) -> i64 {
    number as i64
}

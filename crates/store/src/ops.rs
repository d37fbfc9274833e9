//! Progress that is no decision (CH-JRN-15): `ops.db`.
//!
//! Guarantees: what was put survives `kill -9`, and a power cut too when it was put `synced`. Losing the file repeats
//! deliveries and shows inbox entries again, never an effect.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use chancery_core::rows::{Row, RowChange, RowKey};
use rusqlite::{Connection, OpenFlags, OptionalExtension, params};

use crate::contract::StoreError;
use crate::disk::private_file;
use crate::index::end_of;

pub(crate) const OPS_NAME: &str = "ops.db";
const SCHEMA: &str =
    "CREATE TABLE IF NOT EXISTS ops (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID";

/// Rows of progress.
pub(crate) struct Ops {
    connection: Mutex<Option<Writer>>,
}

struct Writer {
    connection: Connection,
    is_synced: bool,
}

/// The rows of progress in a data directory, also one that a node has open; none where there are none.
///
/// # Errors
/// They cannot be read.
pub fn ops_in(dir: &Path) -> Result<Vec<(RowKey, Row)>, StoreError> {
    let path = dir.join(OPS_NAME);
    if !path.is_file() {
        return Ok(Vec::new());
    }
    let read = || -> rusqlite::Result<Vec<(RowKey, Row)>> {
        let connection = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        let mut statement = connection.prepare("SELECT key, value FROM ops ORDER BY key")?;
        let rows = statement.query_map([], |row| {
            let key = RowKey::from_stored(row.get_ref(0)?.as_blob()?);
            Ok((key, row.get::<_, Vec<u8>>(1)?.into()))
        })?;
        rows.collect()
    };
    read().map_err(|error| failed(&error))
}

impl Ops {
    pub(crate) fn open(dir: &Path) -> Result<Self, StoreError> {
        let path = dir.join(OPS_NAME);
        private_file()
            .append(true)
            .create(true)
            .open(&path)
            .map_err(|error| failed(&error))?;
        let connection = open_connection(&path).map_err(|error| failed(&error))?;
        Ok(Self {
            connection: Mutex::new(Some(Writer {
                connection,
                is_synced: true,
            })),
        })
    }

    pub(crate) fn get(&self, key: &RowKey) -> Result<Option<Row>, StoreError> {
        self.with(|writer| {
            let mut statement = writer
                .connection
                .prepare_cached("SELECT value FROM ops WHERE key = ?1")?;
            let value = statement
                .query_row([key.as_bytes()], |row| row.get::<_, Vec<u8>>(0))
                .optional()?;
            Ok(value.map(Row::from))
        })
    }

    pub(crate) fn scan(&self, prefix: &RowKey) -> Result<Vec<(RowKey, Row)>, StoreError> {
        self.with(|writer| {
            let end = end_of(prefix.as_bytes());
            let to = if end.is_some() {
                "key < ?2"
            } else {
                "?2 IS NULL"
            };
            let sql = format!("SELECT key, value FROM ops WHERE key >= ?1 AND {to} ORDER BY key");
            let mut statement = writer.connection.prepare_cached(&sql)?;
            let rows = statement.query_map(params![prefix.as_bytes(), end], |row| {
                let key = RowKey::from_stored(row.get_ref(0)?.as_blob()?);
                Ok((key, row.get::<_, Vec<u8>>(1)?.into()))
            })?;
            rows.collect()
        })
    }

    pub(crate) fn put(&self, changes: &[RowChange], synced: bool) -> Result<(), StoreError> {
        self.with(|writer| {
            writer.sync(synced)?;
            let transaction = writer.connection.transaction()?;
            let upsert = "INSERT INTO ops (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = ?2";
            for (key, value) in changes {
                match value {
                    Some(value) => {
                        transaction.prepare_cached(upsert)?.execute(params![key.as_bytes(), value.as_ref()])?
                    }
                    None => transaction.prepare_cached("DELETE FROM ops WHERE key = ?1")?.execute([key.as_bytes()])?,
                };
            }
            transaction.commit()
        })
    }

    pub(crate) fn close(&self) -> Result<(), StoreError> {
        match self.lock().take() {
            Some(writer) => writer
                .connection
                .close()
                .map_err(|(_, error)| failed(&error)),
            None => Ok(()),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Writer>> {
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(
        &self,
        work: impl FnOnce(&mut Writer) -> Result<T, rusqlite::Error>,
    ) -> Result<T, StoreError> {
        match &mut *self.lock() {
            Some(writer) => work(writer).map_err(|error| failed(&error)),
            None => Err(StoreError(format!("{OPS_NAME}: the store is closed"))),
        }
    }
}

impl Writer {
    /// Whether commits wait for the disk. One that does also makes those before it durable.
    fn sync(&mut self, synced: bool) -> Result<(), rusqlite::Error> {
        if self.is_synced != synced {
            self.connection.pragma_update(
                None,
                "synchronous",
                if synced { "FULL" } else { "NORMAL" },
            )?;
            self.is_synced = synced;
        }
        Ok(())
    }
}

fn open_connection(path: &Path) -> Result<Connection, rusqlite::Error> {
    let connection = Connection::open(path)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.execute_batch(SCHEMA)?;
    Ok(connection)
}

fn failed(error: &dyn std::error::Error) -> StoreError {
    StoreError(format!("{OPS_NAME}: {error}"))
}

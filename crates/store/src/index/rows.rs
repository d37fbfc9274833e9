//! Where rows lie: a short value beside its key, a long one in a table of its own, one behind the other as they come.
//!
//! Beside its key a long value would fill pages that are sorted by key, and be written again whenever a neighbour
//! changes. An answer that a key is bound to is written once, and hardly ever read.
//!
//! Guarantees: a long value is there exactly as long as the row that names it. Triggers see to that, whoever writes rows.

use bytes::Bytes;
use chancery_core::rows::{Row, RowKey};
use rusqlite::{CachedStatement, Connection, params};

/// What is longer lies in the table of long values.
const LONGEST_BESIDE_ITS_KEY: usize = 512;

/// Nothing here can violate a constraint half-way through a statement: otherwise SQLite would keep a copy of each page that
/// a row with triggers touches.
pub(super) const SCHEMA: &str = "
    CREATE TABLE rows (key BLOB PRIMARY KEY, value BLOB, long_id INTEGER) WITHOUT ROWID;
    CREATE TABLE long_values (id INTEGER PRIMARY KEY, value BLOB);
    CREATE TRIGGER long_value_replaced AFTER UPDATE ON rows WHEN old.long_id IS NOT NULL
        BEGIN DELETE FROM long_values WHERE id = old.long_id; END;
    CREATE TRIGGER long_value_removed AFTER DELETE ON rows WHEN old.long_id IS NOT NULL
        BEGIN DELETE FROM long_values WHERE id = old.long_id; END;
";

/// Rows with their values, wherever those lie: `key` and `value`.
pub(super) const WHOLE_ROWS: &str = "(
    SELECT rows.key AS key, coalesce(long_values.value, rows.value) AS value
    FROM rows LEFT JOIN long_values ON long_values.id = rows.long_id)";

/// Writes rows within one transaction.
pub(super) struct RowWriter<'c> {
    put: CachedStatement<'c>,
    put_long: CachedStatement<'c>,
    remove: CachedStatement<'c>,
    connection: &'c Connection,
}

impl<'c> RowWriter<'c> {
    /// Prepares what it takes.
    pub(super) fn new(connection: &'c Connection) -> Result<Self, rusqlite::Error> {
        let put = "INSERT OR FAIL INTO rows (key, value, long_id) VALUES (?1, ?2, ?3)
            ON CONFLICT (key) DO UPDATE SET value = excluded.value, long_id = excluded.long_id";
        Ok(Self {
            put: connection.prepare_cached(put)?,
            put_long: connection.prepare_cached("INSERT INTO long_values (value) VALUES (?1)")?,
            remove: connection.prepare_cached("DELETE FROM rows WHERE key = ?1")?,
            connection,
        })
    }

    /// Writes a row; removes it where it has no value.
    pub(super) fn write(
        &mut self,
        key: &RowKey,
        value: Option<&Row>,
    ) -> Result<(), rusqlite::Error> {
        let key = key.as_bytes();
        let Some(value) = value.map(|row| &**row) else {
            self.remove.execute([key])?;
            return Ok(());
        };
        if value.len() <= LONGEST_BESIDE_ITS_KEY {
            self.put.execute(params![key, value, None::<i64>])?;
        } else {
            self.put_long.execute([value])?;
            let id = self.connection.last_insert_rowid();
            self.put.execute(params![key, None::<&[u8]>, id])?;
        }
        Ok(())
    }
}

/// A row's value out of a query of [`WHOLE_ROWS`].
pub(super) fn value(row: &rusqlite::Row<'_>, column: usize) -> Result<Row, rusqlite::Error> {
    let bytes = Bytes::copy_from_slice(row.get_ref(column)?.as_blob()?);
    Ok(bytes.into())
}

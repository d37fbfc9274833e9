//! Reading the index while it is written: a few connections, each in the snapshot of its transaction.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use chancery_core::rows::{Row, RowKey};
use rusqlite::{Connection, OpenFlags, params};

use super::rows::{self, WHOLE_ROWS};
use crate::pending::RowMap;

/// Connections beyond this are closed after use.
const MOST_IDLE: usize = 4;

pub(crate) struct Readers {
    path: PathBuf,
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            idle: Mutex::default(),
        }
    }

    /// Others of the same index, with connections of their own.
    pub(crate) fn another(&self) -> Self {
        Self::new(self.path.clone())
    }

    /// The rows of these keys, all of one moment.
    pub(crate) fn load(&self, keys: &[&RowKey]) -> Result<Vec<Option<Row>>, rusqlite::Error> {
        self.read(|connection| {
            let sql = format!("SELECT value FROM {WHOLE_ROWS} WHERE key = ?1");
            let mut statement = connection.prepare_cached(&sql)?;
            let mut values = Vec::with_capacity(keys.len());
            for key in keys {
                let mut rows = statement.query([key.as_bytes()])?;
                values.push(match rows.next()? {
                    Some(row) => Some(rows::value(row, 0)?),
                    None => None,
                });
            }
            Ok(values)
        })
    }

    /// Up to `limit` keys after one, in order.
    pub(crate) fn keys_after(
        &self,
        after: &[u8],
        limit: usize,
    ) -> Result<Vec<RowKey>, rusqlite::Error> {
        self.read(|connection| {
            let sql = format!("SELECT key FROM rows WHERE key > ?1 ORDER BY key LIMIT {limit}");
            let mut statement = connection.prepare_cached(&sql)?;
            let keys = statement.query_map([after], |row| {
                Ok(RowKey::from_stored(row.get_ref(0)?.as_blob()?))
            })?;
            keys.collect()
        })
    }

    /// The rows below `prefix` and after `after`, with the changes of `overlay` on top; at most `limit`.
    pub(crate) fn scan(
        &self,
        prefix: &RowKey,
        after: Option<&RowKey>,
        limit: usize,
        overlay: RowMap,
    ) -> Result<Vec<(RowKey, Row)>, rusqlite::Error> {
        self.read(|connection| {
            // Bounds are spelled out, so that SQLite seeks to the first row and stops at the last.
            let (from, start) = match after.filter(|after| *after >= prefix) {
                Some(after) => ("key > ?1", after),
                None => ("key >= ?1", prefix),
            };
            let end = end_of(prefix.as_bytes());
            let to = if end.is_some() {
                "key < ?2"
            } else {
                "?2 IS NULL"
            };
            let sql =
                format!("SELECT key, value FROM {WHOLE_ROWS} WHERE {from} AND {to} ORDER BY key");
            let mut statement = connection.prepare_cached(&sql)?;
            let mut rows = statement.query(params![start.as_bytes(), end])?;
            let mut changed = overlay.into_iter().peekable();
            let mut merged = Vec::new();
            let take = |merged: &mut Vec<_>, (key, value): (RowKey, Option<Row>)| {
                merged.extend(value.map(|value| (key, value)));
            };
            while merged.len() < limit
                && let Some(row) = rows.next()?
            {
                let key = row.get_ref(0)?.as_blob()?;
                while let Some(change) = changed.next_if(|(changed, _)| changed.as_bytes() < key) {
                    take(&mut merged, change);
                }
                match changed.next_if(|(changed, _)| changed.as_bytes() == key) {
                    Some(change) => take(&mut merged, change),
                    None => merged.push((RowKey::from_stored(key), rows::value(row, 1)?)),
                }
            }
            while merged.len() < limit
                && let Some(change) = changed.next()
            {
                take(&mut merged, change);
            }
            merged.truncate(limit);
            Ok(merged)
        })
    }

    fn read<T>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, rusqlite::Error>,
    ) -> Result<T, rusqlite::Error> {
        let idle = self
            .idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop();
        let connection = match idle {
            Some(connection) => connection,
            None => self.connect()?,
        };
        let transaction = connection.unchecked_transaction()?;
        let result = read(&connection);
        transaction.finish()?;
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < MOST_IDLE {
            idle.push(connection);
        }
        result
    }

    fn connect(&self) -> Result<Connection, rusqlite::Error> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.path, flags)?;
        connection.pragma_update(None, "query_only", true)?;
        connection.pragma_update(None, "cache_size", -8_192)?;
        Ok(connection)
    }

    /// Closes the idle connections.
    pub(crate) fn close(&self) {
        self.idle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }
}

/// The first key above all that start with `prefix`; none when there is no such key.
pub(crate) fn end_of(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != u8::MAX)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

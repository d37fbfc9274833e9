//! Rows read in one snapshot: those that a store has in memory when it is opened, or all.

use chancery_core::rows::{Row, RowChange, RowKey};
use tokio_postgres::Transaction;
use tokio_postgres::types::{ToSql, Type};

use super::link::Patience;
use super::{PAGE_ROWS, PostgresError};
use crate::cache;

/// No more than this is read at a start, whatever the cache may hold: it must not wait for it.
pub(super) const MOST_BYTES: usize = 64 << 20;

/// The first rows of a journal, in the order of their keys; all, where they have room in `bytes`.
pub(super) struct Warm {
    pub(super) rows: Vec<RowChange>,
    /// Whether these are all.
    pub(super) is_whole: bool,
}

impl Warm {
    pub(super) async fn of(
        snapshot: &Transaction<'_>,
        journal: i64,
        bytes: usize,
        patience: &Patience,
    ) -> Result<Self, PostgresError> {
        let mut left = bytes;
        let mut rows: Vec<RowChange> = Vec::new();
        loop {
            let after = rows
                .last()
                .map_or(&[][..], |(key, _)| key.as_bytes())
                .to_vec();
            let given: [(&(dyn ToSql + Sync), Type); 3] = [
                (&journal, Type::INT8),
                (&after, Type::BYTEA),
                (&PAGE_ROWS, Type::INT8),
            ];
            let sql = "SELECT key, value FROM chancery.state
                WHERE journal = $1 AND key > $2 ORDER BY key LIMIT $3";
            // Each page has its time: how many there are says nothing about the server.
            let page = patience
                .with(async { Ok(snapshot.query_typed(sql, &given).await?) })
                .await?;
            for row in &page {
                let key = RowKey::from_stored(row.get::<_, &[u8]>(0));
                let value = Some(Row::from(row.get::<_, &[u8]>(1)));
                let Some(rest) = left.checked_sub(cache::cost(&key, value.as_ref())) else {
                    return Ok(Self {
                        rows,
                        is_whole: false,
                    });
                };
                left = rest;
                rows.push((key, value));
            }
            if page.len() < PAGE_ROWS as usize {
                return Ok(Self {
                    rows,
                    is_whole: true,
                });
            }
        }
    }
}

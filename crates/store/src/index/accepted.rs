//! The table of accepted envelopes of vacants, one row each, in the form that others read too (VA-REP-7, VA-REP-8,
//! CH-JRN-11).
//!
//! Rows of this one space have a table of their own. Nothing reads them back through the store: where a chain stands is
//! a row like any other. So the oldest may be dropped at any time (VA-REP-13).

use std::path::Path;

use chancery_core::rows::RowKey;
use rusqlite::{Connection, Transaction, params};

use super::INDEX_NAME;

/// The space, and the table.
const SPACE: &str = "replay_protect";

/// Writes a row of that space; whether it is one.
pub(super) fn write(
    transaction: &Transaction<'_>,
    key: &RowKey,
    tip: Option<&[u8]>,
) -> Result<bool, rusqlite::Error> {
    if !key.is_in(SPACE) {
        return Ok(false);
    }
    let parts = key.parts();
    let texts: Vec<&str> = parts
        .iter()
        .filter_map(|part| std::str::from_utf8(part).ok())
        .collect();
    let [_, from, to, number] = texts[..] else {
        return Ok(false);
    };
    let Ok(number) = number.parse::<i64>() else {
        return Ok(false);
    };
    match tip {
        Some(tip) => transaction
            .prepare_cached("INSERT OR REPLACE INTO replay_protect VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![from, to, number, tip])?,
        None => transaction
            .prepare_cached(
                "DELETE FROM replay_protect WHERE from_vid_hex = ?1 AND to_vid_hex = ?2 AND sequence_no = ?3",
            )?
            .execute(params![from, to, number])?,
    };
    Ok(true)
}

/// Drops all rows but the newest of each pair; gives how many those were.
pub(crate) fn prune(dir: &Path) -> Result<usize, rusqlite::Error> {
    let connection = Connection::open(dir.join(INDEX_NAME))?;
    connection.execute(
        "DELETE FROM replay_protect WHERE sequence_no < (
            SELECT MAX(sequence_no) FROM replay_protect AS newest
            WHERE newest.from_vid_hex = replay_protect.from_vid_hex
              AND newest.to_vid_hex = replay_protect.to_vid_hex)",
        [],
    )
}

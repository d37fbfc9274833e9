//! Reading rows, lines and progress.
//!
//! Rows that rules read together must be of one moment. A statement sees one; it also tells the head of that moment, and
//! where that is not the head this process knows, the changes in between are taken in and the rows are read again.

use std::sync::MutexGuard;

use bytes::Bytes;
use chancery_core::line::Seq;
use chancery_core::rows::{Lookup, Row, RowChange, RowKey};
use tokio_postgres::types::Type;

use super::bytea::Bytea;
use super::last::LastChanges;
use super::session::{Given, Sql};
use super::{Commits, PAGE_ROWS, PostgresError, Shared, seq_of, stored};
use crate::contract::StoreError;
use crate::index::end_of;
use crate::stillness::Stillness;

/// How often rows are read while the journal moves, before it is made to stand still for this process.
const FREE_READS: usize = 3;

/// Greater than every key: spaces have names of letters.
const BEYOND_KEYS: [u8; 1] = [0xff];

/// One lookup a key. The planner may take `key = ANY ($2)` for a filter over all rows of the journal, where it believes in
/// few of them; below a LIMIT it can make nothing else of this, whatever it believes.
static ROWS_OF: Sql = Sql {
    text: "SELECT j.seq, s.key, s.value FROM chancery.journal j
        LEFT JOIN LATERAL (
            SELECT one.key, one.value FROM unnest($2) AS wanted (key)
            CROSS JOIN LATERAL (
                SELECT key, value FROM chancery.state
                WHERE journal = $1 AND key = wanted.key LIMIT 1
            ) one
        ) s ON true WHERE j.id = $1 ORDER BY s.key",
    types: &[Type::INT8, Type::BYTEA_ARRAY],
};
static ROWS_BELOW: Sql = Sql {
    text: "SELECT j.seq, s.key, s.value FROM chancery.journal j
        LEFT JOIN LATERAL (
            SELECT key, value FROM chancery.state
            WHERE journal = j.id AND key >= $2 AND key < $3 ORDER BY key LIMIT $4
        ) s ON true WHERE j.id = $1 ORDER BY s.key",
    types: &[Type::INT8, Type::BYTEA, Type::BYTEA, Type::INT8],
};
static LINES: Sql = Sql {
    text: "SELECT text FROM chancery.line
        WHERE journal = $1 AND seq >= $2 AND seq <= $3 ORDER BY seq LIMIT $4",
    types: &[Type::INT8, Type::INT8, Type::INT8, Type::INT8],
};
/// As [`ROWS_OF`]: the places of the rows are looked up, each by its key.
static REMOVE_ROWS: Sql = Sql {
    text: "DELETE FROM chancery.state WHERE ctid = ANY (ARRAY(
            SELECT one.ctid FROM unnest($2) AS gone (key)
            CROSS JOIN LATERAL (
                SELECT ctid FROM chancery.state
                WHERE journal = $1 AND key = gone.key LIMIT 1
            ) one
        ))",
    types: &[Type::INT8, Type::BYTEA_ARRAY],
};
static PROGRESS: Sql = Sql {
    text: "SELECT value FROM chancery.progress WHERE journal = $1 AND key = $2",
    types: &[Type::INT8, Type::BYTEA],
};
static PROGRESS_BELOW: Sql = Sql {
    text: "SELECT 0::bigint, key, value FROM chancery.progress
        WHERE journal = $1 AND key >= $2 AND key < $3 ORDER BY key LIMIT $4",
    types: &[Type::INT8, Type::BYTEA, Type::BYTEA, Type::INT8],
};
/// One statement is one transaction.
static PUT_PROGRESS: Sql = Sql {
    text: "WITH gone AS (
            DELETE FROM chancery.progress WHERE ctid = ANY (ARRAY(
                SELECT one.ctid FROM unnest($4) AS gone (key)
                CROSS JOIN LATERAL (
                    SELECT ctid FROM chancery.progress
                    WHERE journal = $1 AND key = gone.key LIMIT 1
                ) one
            ))
        )
        INSERT INTO chancery.progress AS now (journal, key, value)
        SELECT $1, key, value FROM unnest($2, $3) AS given (key, value)
        ON CONFLICT (journal, key) DO UPDATE SET value = CASE
            WHEN excluded.key = $5 THEN greatest(now.value, excluded.value)
            ELSE excluded.value END",
    types: &[
        Type::INT8,
        Type::BYTEA_ARRAY,
        Type::BYTEA_ARRAY,
        Type::BYTEA_ARRAY,
        Type::BYTEA,
    ],
};

/// Rows of one moment, and the head of it.
struct Moment {
    seq: Seq,
    rows: Vec<(RowKey, Row)>,
}

impl Shared {
    pub(super) fn load(&self, keys: &[RowKey]) -> Result<Vec<Option<Row>>, PostgresError> {
        let mut found: Vec<Lookup> = keys.iter().map(|key| self.cache.peek(key)).collect();
        for attempt in 0.. {
            let missing: Vec<usize> = (0..keys.len())
                .filter(|n| found[*n] == Lookup::NotLoaded)
                .collect();
            if missing.is_empty() {
                break;
            }
            let mut commits = self.made_to_stand_still(attempt);
            let mut read_at = self.cache.written();
            let known = self.head().seq;
            let wanted = missing.iter().map(|n| Bytea::Key(keys[*n].clone()));
            let moment = self.rows_of(wanted.collect())?;
            if moment.seq != known {
                if !self.move_on(commits.as_deref_mut(), moment.seq)? {
                    continue;
                }
                read_at = self.cache.written();
            }
            for n in missing {
                let place = moment.rows.binary_search_by(|(key, _)| key.cmp(&keys[n]));
                let value = place.ok().map(|place| moment.rows[place].1.clone());
                if let Some(value) = self.cache.settle(&keys[n], value, read_at) {
                    found[n] = value.map_or(Lookup::Absent, Lookup::Found);
                }
            }
        }
        let value = |lookup| match lookup {
            Lookup::Found(row) => Some(row),
            Lookup::Absent | Lookup::NotLoaded => None,
        };
        Ok(found.into_iter().map(value).collect())
    }

    /// After a few reads that others were faster than, nobody here commits while it is read once more. Whoever commits
    /// may wait for a thread that decides, so that one never waits for it.
    fn made_to_stand_still(&self, attempt: usize) -> Option<MutexGuard<'_, Commits>> {
        let stands = attempt >= FREE_READS && !Stillness::is_kept_here();
        stands.then(|| self.lock_commits())
    }

    /// Takes in what rows that were read at a line had already; whether they are of this process's own moment then. They
    /// are where nobody here commits meanwhile: however fast others are, the read need not be made again. A thread that
    /// decides goes on without them, and decides in vain.
    fn move_on(&self, commits: Option<&mut Commits>, read: Seq) -> Result<bool, PostgresError> {
        if Stillness::disturbs_this_thread() {
            return Err(PostgresError::Moved);
        }
        match commits {
            Some(commits) => self.catch_up_to(commits, read),
            None => {
                self.catch_up(&mut self.lock_commits())?;
                Ok(false)
            }
        }
    }

    fn rows_of(&self, keys: Vec<Bytea>) -> Result<Moment, PostgresError> {
        let (session, journal) = (self.link.reader()?, self.journal);
        self.link
            .run(async move { moment_of(&session.query(&ROWS_OF, &[&journal, &keys]).await?) })
    }

    pub(super) fn scan(
        &self,
        prefix: &RowKey,
        after: Option<&RowKey>,
        limit: usize,
    ) -> Result<Vec<(RowKey, Row)>, PostgresError> {
        for attempt in 0.. {
            let mut commits = self.made_to_stand_still(attempt);
            let known = self.head().seq;
            let moment = self.rows_below(prefix, after, limit)?;
            if moment.seq == known || self.move_on(commits.as_deref_mut(), moment.seq)? {
                return Ok(moment.rows);
            }
        }
        unreachable!("a scan ends with rows or an error")
    }

    fn rows_below(
        &self,
        prefix: &RowKey,
        after: Option<&RowKey>,
        limit: usize,
    ) -> Result<Moment, PostgresError> {
        let (session, journal) = (self.link.reader()?, self.journal);
        let (from, end) = range_of(prefix, after);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.link.run(async move {
            let given: Given<'_> = vec![&journal, &from, &end, &limit];
            moment_of(&session.query(&ROWS_BELOW, &given).await?)
        })
    }

    pub(super) fn lines(&self, from: Seq, limit: usize) -> Result<Vec<Bytes>, PostgresError> {
        let (session, journal) = (self.link.reader()?, self.journal);
        let (from, limit) = (stored(from), i64::try_from(limit).unwrap_or(i64::MAX));
        // Never beyond what the rows of this process reflect.
        let to = stored(self.head().seq);
        self.link.run(async move {
            let given: Given<'_> = vec![&journal, &from, &to, &limit];
            let rows = session.query(&LINES, &given).await?;
            let text = |row: &tokio_postgres::Row| Bytes::copy_from_slice(row.get(0));
            Ok(rows.iter().map(text).collect())
        })
    }

    /// Drops rows of the agenda.
    pub(super) fn forget(&self, keys: &[RowKey]) -> Result<(), PostgresError> {
        let mut commits = self.lock_commits();
        let (session, journal) = (self.link.reader()?, self.journal);
        let removed: Vec<Bytea> = keys.iter().cloned().map(Bytea::Key).collect();
        self.link.run(async move {
            session.execute(&REMOVE_ROWS, &[&journal, &removed]).await?;
            Ok(())
        })?;
        commits.change += 1;
        let gone: Vec<RowChange> = keys.iter().map(|key| (key.clone(), None)).collect();
        self.cache.apply(&gone, commits.change);
        self.cache.set_written(commits.change);
        Ok(())
    }

    pub(super) fn progress(&self, key: &RowKey) -> Result<Option<Row>, PostgresError> {
        let (session, journal) = (self.link.reader()?, self.journal);
        let key = Bytea::Key(key.clone());
        self.link.run(async move {
            let rows = session.query(&PROGRESS, &[&journal, &key]).await?;
            Ok(rows.first().map(|row| Row::from(row.get::<_, &[u8]>(0))))
        })
    }

    /// All progress below a prefix, page by page: how much there is says nothing about the server.
    pub(super) fn all_progress(&self, prefix: &RowKey) -> Result<Vec<(RowKey, Row)>, StoreError> {
        let mut all: Vec<(RowKey, Row)> = Vec::new();
        loop {
            let after = all.last().map(|(key, _)| key);
            let page = self.patiently(|| self.progress_below(prefix, after))?;
            let is_last = page.len() < PAGE_ROWS as usize;
            all.extend(page);
            if is_last {
                return Ok(all);
            }
        }
    }

    /// Progress below a prefix, after a row of it: a page.
    fn progress_below(
        &self,
        prefix: &RowKey,
        after: Option<&RowKey>,
    ) -> Result<Vec<(RowKey, Row)>, PostgresError> {
        let (session, journal) = (self.link.reader()?, self.journal);
        let (from, end) = range_of(prefix, after);
        self.link.run(async move {
            let given: Given<'_> = vec![&journal, &from, &end, &PAGE_ROWS];
            let rows = session.query(&PROGRESS_BELOW, &given).await?;
            Ok(rows.iter().filter_map(keyed).collect())
        })
    }

    /// Writes progress; the row `raised` never goes back.
    pub(super) fn put_progress(
        &self,
        changes: &[RowChange],
        raised: Option<&RowKey>,
    ) -> Result<(), PostgresError> {
        if changes.is_empty() {
            return Ok(());
        }
        let (session, journal) = (self.link.reader()?, self.journal);
        let LastChanges {
            keys,
            values,
            removed,
        } = LastChanges::of(changes.iter());
        let raised = raised.cloned().map(Bytea::Key);
        self.link.run(async move {
            let given: Given<'_> = vec![&journal, &keys, &values, &removed, &raised];
            session.execute(&PUT_PROGRESS, &given).await?;
            Ok(())
        })
    }
}

/// Where keys below a prefix, and after one of them, begin and end. A statement that is prepared once needs both ends.
fn range_of(prefix: &RowKey, after: Option<&RowKey>) -> (Vec<u8>, Vec<u8>) {
    let mut from = prefix.as_bytes().to_vec();
    if let Some(after) = after {
        // The least that is greater.
        let next = [after.as_bytes(), &[0]].concat();
        from = from.max(next);
    }
    let end = end_of(prefix.as_bytes());
    (from, end.unwrap_or_else(|| BEYOND_KEYS.to_vec()))
}

fn keyed(row: &tokio_postgres::Row) -> Option<(RowKey, Row)> {
    let key: Option<&[u8]> = row.get(1);
    Some((RowKey::from_stored(key?), Row::from(row.get::<_, &[u8]>(2))))
}

fn moment_of(rows: &[tokio_postgres::Row]) -> Result<Moment, PostgresError> {
    let first = rows
        .first()
        .ok_or_else(|| PostgresError::Damaged("the journal is gone".to_owned()))?;
    Ok(Moment {
        seq: seq_of(first.get(0)),
        rows: rows.iter().filter_map(keyed).collect(),
    })
}

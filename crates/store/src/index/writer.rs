//! Writing behind: one thread, one transaction after the other.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use chancery_core::line::Seq;
use rusqlite::{Connection, Transaction, params};

use super::rows::RowWriter;
use super::{accepted, stored};
use crate::cache::Cache;
use crate::log::Log;
use crate::pending::{Job, Pending};
use crate::windows::pack;

/// How long to wait after a transaction that failed.
const PAUSE: Duration = Duration::from_secs(1);

/// What the writer's thread shares with the store.
pub(crate) struct Behind {
    pub pending: Pending,
    pub cache: Cache,
    /// The last line that the index reflects.
    pub seq: AtomicU64,
    /// Held while a transaction becomes visible: whoever holds it reads an index that stands still.
    pub gate: Mutex<()>,
}

/// The connection that writes.
pub(crate) struct IndexWriter {
    connection: Connection,
    last_closed: Seq,
    forgotten_minute: i64,
}

impl IndexWriter {
    pub(super) fn new(connection: Connection, last_closed: Seq) -> Self {
        connection.set_prepared_statement_cache_capacity(16);
        Self {
            connection,
            last_closed,
            forgotten_minute: i64::MIN,
        }
    }

    /// Writes one job; `closed` are the segments closed since the last one.
    fn write(&mut self, job: &Job, closed: &[(Seq, u64)]) -> Result<(), rusqlite::Error> {
        let transaction = self.connection.transaction()?;
        write_rows(&transaction, job)?;
        write_windows(&transaction, job)?;
        let minute = job
            .mark
            .head
            .time
            .map_or(i64::MIN, |time| time.unix_seconds().div_euclid(60));
        if minute > self.forgotten_minute {
            let sql = "DELETE FROM windows WHERE ends_ms < ?1";
            transaction
                .prepare_cached(sql)?
                .execute([minute.saturating_mul(60_000)])?;
        }
        write_mark(&transaction, job, closed)?;
        transaction.commit()?;
        self.forgotten_minute = self.forgotten_minute.max(minute);
        if let Some((first, _)) = closed.last() {
            self.last_closed = *first;
        }
        Ok(())
    }
}

fn write_rows(transaction: &Transaction<'_>, job: &Job) -> Result<(), rusqlite::Error> {
    let mut rows = RowWriter::new(transaction)?;
    for (key, value) in &*job.rows {
        if !accepted::write(transaction, key, value.as_deref())? {
            rows.write(key, value.as_ref())?;
        }
    }
    Ok(())
}

fn write_windows(transaction: &Transaction<'_>, job: &Job) -> Result<(), rusqlite::Error> {
    let sql = "INSERT INTO windows (name, ends_ms, records) VALUES (?1, ?2, ?3)";
    let mut put = transaction.prepare_cached(sql)?;
    for packet in pack(&job.remembered) {
        put.execute(params![packet.window, packet.ends_ms, packet.bytes])?;
    }
    Ok(())
}

fn write_mark(
    transaction: &Transaction<'_>,
    job: &Job,
    closed: &[(Seq, u64)],
) -> Result<(), rusqlite::Error> {
    let mut segment = transaction
        .prepare_cached("INSERT OR REPLACE INTO segments (first, bytes) VALUES (?1, ?2)")?;
    for (first, bytes) in closed {
        segment.execute([stored(*first), stored(*bytes)])?;
    }
    let mark = &job.mark;
    let sql = "INSERT OR REPLACE INTO mark (id, seq, hash, time, segment, offset) VALUES (1, ?1, ?2, ?3, ?4, ?5)";
    let time = mark.head.time.map(|time| time.to_string());
    transaction.prepare_cached(sql)?.execute(params![
        stored(mark.head.seq),
        mark.head.hash.as_bytes(),
        time,
        stored(mark.segment),
        stored(mark.offset),
    ])?;
    Ok(())
}

/// The writer's thread: until it is told to end.
pub(crate) fn run(mut writer: IndexWriter, behind: &Behind, log: &Arc<Log>) {
    while let Some(job) = behind.pending.next_job() {
        while let Err(error) = write_and_publish(&mut writer, behind, log, &job) {
            tracing::error!(%error, "the index cannot be written");
            if !behind.pending.failed(error.to_string(), PAUSE) {
                return;
            }
        }
        behind.cache.recount(&*job.rows);
        behind.cache.shrink();
        behind.pending.announce(&job);
    }
}

fn write_and_publish(
    writer: &mut IndexWriter,
    behind: &Behind,
    log: &Log,
    job: &Job,
) -> Result<(), rusqlite::Error> {
    // A segment closed after the job's mark is known to the log only, which is what the index is checked against.
    let closed: Vec<_> = log.closed(writer.last_closed + 1);
    let closed: Vec<_> = closed
        .into_iter()
        .filter(|(first, _)| *first < job.mark.segment)
        .collect();
    let _gate = behind.gate.lock().unwrap_or_else(PoisonError::into_inner);
    writer.write(job, &closed)?;
    behind.pending.written(|| {
        behind.cache.set_written(job.change);
        behind.seq.store(job.mark.head.seq, Ordering::SeqCst);
    });
    Ok(())
}

//! What a batch puts into the tables.

use bytes::Bytes;
use chancery_core::line::Seq;
use chancery_core::time::Time;
use chancery_core::window::Remember;
use chancery_journal::Head;
use futures_util::future::{join, join3};
use tokio_postgres::types::Type;

use super::bytea::Bytea;
use super::last::LastChanges;
use super::session::{Given, Session, Sql};
use super::{PostgresError, packed, stored, time_text};
use crate::changes::Changes;
use crate::contract::Batch;
use crate::windows;

/// Changes of so many lines before the head are kept for those who are behind.
const KEPT_LINES: Seq = 1_000_000;
/// Older ones are dropped when a batch crosses a multiple of this.
const DROP_EVERY: Seq = 4_096;

/// A batch as its statements take it.
pub(super) struct Writes {
    pub(super) base: Head,
    /// Tells this batch from one of another process with the same lines.
    pub(super) token: Vec<u8>,
    journal: i64,
    base_seq: i64,
    base_hash: Vec<u8>,
    seq: i64,
    hash: Vec<u8>,
    time: Option<String>,
    lines: Vec<Bytea>,
    rows: LastChanges,
    names: Vec<String>,
    ends_ms: Vec<i64>,
    records: Vec<Vec<u8>>,
    packed: Vec<u8>,
    now_ms: i64,
    kept: i64,
    drops: bool,
}

impl Writes {
    /// What is written for a batch with these changes.
    pub(super) fn of(journal: i64, batch: Batch, changes: &Changes) -> Result<Self, PostgresError> {
        let mut token = vec![0; 16];
        getrandom::fill(&mut token).map_err(|error| PostgresError::Runtime(error.to_string()))?;
        let remembered: Vec<Remember> = changes.remembered().copied().collect();
        let packets = windows::pack(&remembered);
        let (base, head) = (batch.base, batch.head);
        let lines: Vec<Bytes> = batch.lines.into_bytes();
        let rows = LastChanges::of(changes.rows());
        Ok(Self {
            base,
            token,
            journal,
            base_seq: stored(base.seq),
            base_hash: base.hash.0.to_vec(),
            seq: stored(head.seq),
            hash: head.hash.0.to_vec(),
            time: time_text(head.time),
            lines: lines.into_iter().map(Bytea::Line).collect(),
            names: packets.iter().map(|one| one.window.to_owned()).collect(),
            ends_ms: packets.iter().map(|one| one.ends_ms).collect(),
            packed: packed::pack(&rows, &packets, &batch.spent),
            rows,
            records: packets.into_iter().map(|one| one.bytes).collect(),
            now_ms: head.time.map_or(0, Time::unix_millis),
            kept: stored(head.seq.saturating_sub(KEPT_LINES)),
            drops: base.seq / DROP_EVERY != head.seq / DROP_EVERY,
        })
    }

    /// Writes all of it and ends the transaction, in one trip: requests leave without waiting for the answers before them.
    pub(super) async fn write(&self, session: &Session) -> Result<(), PostgresError> {
        let (dropped_batches, dropped_packets) = (self.drop_batches(), self.drop_packets());
        let given = self.given();
        let written = session.execute(&WRITE, &given);
        let dropped = async {
            if !self.drops {
                return Ok(());
            }
            let both = join(
                session.execute(&DROP_BATCHES, &dropped_batches),
                session.execute(&DROP_PACKETS, &dropped_packets),
            );
            let (batches, packets) = both.await;
            batches.and(packets).map(drop)
        };
        // The end must leave last, and is not one if anything before it failed: then the transaction is rolled back.
        let (written, dropped, ended) = join3(written, dropped, session.say("COMMIT")).await;
        let moved = written?;
        dropped?;
        ended?;
        assert_eq!(moved, 1, "a batch was written without its head");
        Ok(())
    }

    fn given(&self) -> Given<'_> {
        vec![
            &self.journal,
            &self.base_seq,
            &self.base_hash,
            &self.seq,
            &self.hash,
            &self.time,
            &self.token,
            &self.packed,
            &self.lines,
            &self.rows.keys,
            &self.rows.values,
            &self.rows.removed,
            &self.names,
            &self.ends_ms,
            &self.records,
        ]
    }

    fn drop_batches(&self) -> Given<'_> {
        vec![&self.journal, &self.kept]
    }

    fn drop_packets(&self) -> Given<'_> {
        vec![&self.journal, &self.now_ms]
    }
}

/// The statements that write, to be prepared before any of them leaves.
pub(super) static STATEMENTS: [&Sql; 3] = [&WRITE, &DROP_BATCHES, &DROP_PACKETS];

/// All of a batch in one statement, of which each part has its own rows: the server answers once, and nobody is woken for
/// an answer that says nothing. Rows that go are looked up one by one, as in `reads`.
static WRITE: Sql = Sql {
    text: "WITH lines AS (
            INSERT INTO chancery.line (journal, seq, text)
            SELECT $1, $2 + place, text FROM unnest($9) WITH ORDINALITY AS given (text, place)
        ), batch AS (
            INSERT INTO chancery.batch (journal, base, base_hash, token, seq, hash, time, changes)
            VALUES ($1, $2, $3, $7, $4, $5, $6, $8)
        ), put AS (
            INSERT INTO chancery.state (journal, key, value)
            SELECT $1, key, value FROM unnest($10, $11) AS given (key, value)
            ON CONFLICT (journal, key) DO UPDATE SET value = excluded.value
        ), removed AS (
            DELETE FROM chancery.state WHERE ctid = ANY (ARRAY(
                SELECT one.ctid FROM unnest($12) AS gone (key)
                CROSS JOIN LATERAL (
                    SELECT ctid FROM chancery.state
                    WHERE journal = $1 AND key = gone.key LIMIT 1
                ) one
            ))
        ), packets AS (
            INSERT INTO chancery.packet (journal, name, ends_ms, records)
            SELECT $1, name, ends_ms, records
            FROM unnest($13, $14, $15) AS given (name, ends_ms, records)
        )
        UPDATE chancery.journal SET seq = $4, hash = $5, time = $6
        WHERE id = $1 AND seq = $2 AND hash = $3",
    types: &[
        Type::INT8,
        Type::INT8,
        Type::BYTEA,
        Type::INT8,
        Type::BYTEA,
        Type::TEXT,
        Type::BYTEA,
        Type::BYTEA,
        Type::BYTEA_ARRAY,
        Type::BYTEA_ARRAY,
        Type::BYTEA_ARRAY,
        Type::BYTEA_ARRAY,
        Type::TEXT_ARRAY,
        Type::INT8_ARRAY,
        Type::BYTEA_ARRAY,
    ],
};
static DROP_BATCHES: Sql = Sql {
    text: "DELETE FROM chancery.batch WHERE journal = $1 AND base < $2",
    types: &[Type::INT8, Type::INT8],
};
static DROP_PACKETS: Sql = Sql {
    text: "DELETE FROM chancery.packet WHERE journal = $1 AND ends_ms < $2",
    types: &[Type::INT8, Type::INT8],
};

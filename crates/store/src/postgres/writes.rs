//! What a batch puts into the tables.

use bytes::Bytes;
use chancery_core::line::Seq;
use chancery_core::time::Time;
use chancery_core::window::Remember;
use chancery_journal::Head;
use futures_util::future::{join, join_all};
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
    pub(super) token: [u8; 16],
    journal: i64,
    base_seq: i64,
    base_hash: Vec<u8>,
    token_bytes: Vec<u8>,
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
        let mut token = [0; 16];
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
            token_bytes: token.to_vec(),
            seq: stored(head.seq),
            hash: head.hash.0.to_vec(),
            time: time_text(head.time),
            lines: lines.into_iter().map(Bytea::Line).collect(),
            names: packets.iter().map(|one| one.window.to_owned()).collect(),
            ends_ms: packets.iter().map(|one| one.ends_ms).collect(),
            packed: packed::pack(&rows, &packets),
            rows,
            records: packets.into_iter().map(|one| one.bytes).collect(),
            now_ms: head.time.map_or(0, Time::unix_millis),
            kept: stored(head.seq.saturating_sub(KEPT_LINES)),
            drops: base.seq / DROP_EVERY != head.seq / DROP_EVERY,
        })
    }

    /// Writes all of it and ends the transaction, in one trip: requests leave without waiting for the answers before them.
    pub(super) async fn write(&self, session: &Session) -> Result<(), PostgresError> {
        let requests = self.requests();
        let written = requests
            .iter()
            .map(|(sql, given)| session.execute(sql, given));
        // The end must leave last, and is not one if anything before it failed: then the transaction is rolled back.
        let (written, ended) = join(join_all(written), session.say("COMMIT")).await;
        written.into_iter().collect::<Result<Vec<u64>, _>>()?;
        ended
    }

    fn requests(&self) -> Vec<(&'static Sql, Given<'_>)> {
        let journal = &self.journal;
        let mut requests: Vec<(&'static Sql, Given<'_>)> = vec![
            (&INSERT_LINES, vec![journal, &self.base_seq, &self.lines]),
            (
                &INSERT_BATCH,
                vec![
                    journal,
                    &self.base_seq,
                    &self.base_hash,
                    &self.token_bytes,
                    &self.seq,
                    &self.hash,
                    &self.time,
                    &self.packed,
                ],
            ),
            (
                &MOVE_HEAD,
                vec![
                    journal,
                    &self.seq,
                    &self.hash,
                    &self.time,
                    &self.base_seq,
                    &self.base_hash,
                ],
            ),
        ];
        let LastChanges {
            keys,
            values,
            removed,
        } = &self.rows;
        if !keys.is_empty() {
            requests.push((&PUT_ROWS, vec![journal, keys, values]));
        }
        if !removed.is_empty() {
            requests.push((&REMOVE_ROWS, vec![journal, removed]));
        }
        if !self.names.is_empty() {
            let packets: Given<'_> = vec![journal, &self.names, &self.ends_ms, &self.records];
            requests.push((&INSERT_PACKETS, packets));
        }
        if self.drops {
            requests.push((&DROP_BATCHES, vec![journal, &self.kept]));
            requests.push((&DROP_PACKETS, vec![journal, &self.now_ms]));
        }
        requests
    }
}

/// The statements that write, to be prepared before any of them leaves.
pub(super) static STATEMENTS: [&Sql; 8] = [
    &INSERT_LINES,
    &INSERT_BATCH,
    &MOVE_HEAD,
    &PUT_ROWS,
    &REMOVE_ROWS,
    &INSERT_PACKETS,
    &DROP_BATCHES,
    &DROP_PACKETS,
];

static INSERT_LINES: Sql = Sql {
    text: "INSERT INTO chancery.line (journal, seq, text)
        SELECT $1, $2 + place, text FROM unnest($3) WITH ORDINALITY AS given (text, place)",
    types: &[Type::INT8, Type::INT8, Type::BYTEA_ARRAY],
};
static INSERT_BATCH: Sql = Sql {
    text: "INSERT INTO chancery.batch (journal, base, base_hash, token, seq, hash, time, changes)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
    types: &[
        Type::INT8,
        Type::INT8,
        Type::BYTEA,
        Type::BYTEA,
        Type::INT8,
        Type::BYTEA,
        Type::TEXT,
        Type::BYTEA,
    ],
};
static MOVE_HEAD: Sql = Sql {
    text: "UPDATE chancery.journal SET seq = $2, hash = $3, time = $4
        WHERE id = $1 AND seq = $5 AND hash = $6",
    types: &[
        Type::INT8,
        Type::INT8,
        Type::BYTEA,
        Type::TEXT,
        Type::INT8,
        Type::BYTEA,
    ],
};
static PUT_ROWS: Sql = Sql {
    text: "INSERT INTO chancery.state (journal, key, value)
        SELECT $1, key, value FROM unnest($2, $3) AS given (key, value)
        ON CONFLICT (journal, key) DO UPDATE SET value = excluded.value",
    types: &[Type::INT8, Type::BYTEA_ARRAY, Type::BYTEA_ARRAY],
};
pub(super) static REMOVE_ROWS: Sql = Sql {
    text: "DELETE FROM chancery.state WHERE journal = $1 AND key = ANY ($2)",
    types: &[Type::INT8, Type::BYTEA_ARRAY],
};
static INSERT_PACKETS: Sql = Sql {
    text:
        "INSERT INTO chancery.packet (journal, name, ends_ms, records)
        SELECT $1, name, ends_ms, records FROM unnest($2, $3, $4) AS given (name, ends_ms, records)",
    types: &[
        Type::INT8,
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

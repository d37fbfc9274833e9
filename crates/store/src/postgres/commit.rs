//! Committing: one transaction a batch, under a lock on the head row, in two trips.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Instant;

use bytes::Bytes;
use chancery_core::line::Seq;
use chancery_core::time::Time;
use chancery_core::window::Remember;
use chancery_journal::Head;
use futures_util::future::{join, join_all, join3};
use tokio_postgres::Client;
use tokio_postgres::types::{ToSql, Type};

use super::last::LastChanges;
use super::{
    Commits, PATIENCE, PAUSE, PostgresError, Shared, head_of, packed, seq_of, stored, time_text,
};
use crate::changes::Changes;
use crate::contract::{Batch, CommitError};
use crate::embedded::check_batch;
use crate::windows;

/// Changes of so many lines before the head are kept for those who are behind.
const KEPT_LINES: Seq = 1_000_000;
/// Older ones are dropped when a batch crosses a multiple of this.
const DROP_EVERY: Seq = 4_096;

/// What a batch puts into the tables.
struct Writes {
    /// Tells this batch from one of another process with the same lines.
    token: [u8; 16],
    /// Who writes it.
    process: String,
    base: Head,
    head: Head,
    lines: Vec<Vec<u8>>,
    keys: Vec<Vec<u8>>,
    values: Vec<Vec<u8>>,
    removed: Vec<Vec<u8>>,
    names: Vec<String>,
    ends_ms: Vec<i64>,
    records: Vec<Vec<u8>>,
    packed: Vec<u8>,
}

impl Writes {
    fn of(batch: &Batch, changes: &Changes, process: &str) -> Result<Self, PostgresError> {
        let mut token = [0; 16];
        getrandom::fill(&mut token).map_err(|error| PostgresError::Runtime(error.to_string()))?;
        let LastChanges {
            keys,
            values,
            removed,
        } = LastChanges::of(changes.rows());
        let remembered: Vec<Remember> = changes.remembered().copied().collect();
        let packets = windows::pack(&remembered);
        Ok(Self {
            token,
            process: process.to_owned(),
            base: batch.base,
            head: batch.head,
            lines: batch.lines.iter().map(<[u8]>::to_vec).collect(),
            keys,
            values,
            removed,
            names: packets.iter().map(|one| one.window.to_owned()).collect(),
            ends_ms: packets.iter().map(|one| one.ends_ms).collect(),
            records: packets.into_iter().map(|one| one.bytes).collect(),
            packed: packed::pack(changes),
        })
    }
}

/// What the trip that takes the lock brings.
struct Locked {
    head: Head,
    /// Packed changes that this process does not know yet, with the head after each.
    missed: Vec<(Head, Bytes)>,
}

impl Shared {
    pub(super) fn commit(&self, batch: Batch) -> Result<Head, CommitError> {
        check_batch(&batch).map_err(CommitError::Failed)?;
        let mut commits = self.lock_commits();
        let head = self.head();
        if (batch.base.seq, batch.base.hash) != (head.seq, head.hash) {
            return Err(self.behind_by(&mut commits, batch.base));
        }
        if batch.lines.is_empty() {
            return self.confirm(&mut commits, batch.base);
        }
        let changes = Changes::of(batch.units.clone());
        let writes = Writes::of(&batch, &changes, self.duty.name())
            .map(Arc::new)
            .map_err(failed)?;
        let attempted = self.insist(&mut commits, |commits| self.attempt(commits, &writes));
        match attempted? {
            (Attempt::Committed, others) => {
                let rows: Vec<_> = changes.rows().cloned().collect();
                let remembered: Vec<_> = changes.remembered().copied().collect();
                self.take(&mut commits, &rows, &remembered, batch.head);
                let taken = self.take_foreign(&mut commits, others);
                taken.map(|()| batch.head).map_err(failed)
            }
            (Attempt::Behind, others) => {
                self.take_foreign(&mut commits, others).map_err(failed)?;
                Err(self.behind_by(&mut commits, batch.base))
            }
        }
    }

    /// Does something again while the server is gone, each time over a new connection.
    fn insist<T>(
        &self,
        commits: &mut Commits,
        work: impl Fn(&mut Commits) -> Result<T, PostgresError>,
    ) -> Result<T, CommitError> {
        let given_up = Instant::now() + PATIENCE;
        loop {
            match work(commits) {
                Err(error) if error.is_passing() && Instant::now() < given_up => {
                    tracing::warn!(%error, "a batch could not be committed yet");
                    commits.client = None;
                    thread::sleep(PAUSE);
                }
                result => return result.map_err(failed),
            }
        }
    }

    /// One transaction. Whatever became of an attempt before it is settled by then: its session held the head row, so
    /// the lock is had only after it has ended one way or the other. Also gives what others committed: before this batch
    /// when it is behind, after it when it was there already.
    fn attempt(
        &self,
        commits: &mut Commits,
        writes: &Arc<Writes>,
    ) -> Result<(Attempt, Vec<(Head, Bytes)>), PostgresError> {
        let client = self.committer(commits)?;
        let (journal, known) = (self.journal, self.head().seq);
        let writes = Arc::clone(writes);
        self.link.run(async move {
            let locked = lock(&client, journal, known).await?;
            if (locked.head.seq, locked.head.hash) == (writes.base.seq, writes.base.hash) {
                write(&client, journal, &writes).await?;
                return Ok((Attempt::Committed, Vec::new()));
            }
            let is_there = holds(&client, journal, &writes).await?;
            client.batch_execute("ROLLBACK").await?;
            // An attempt before this one came through although its answer was lost. It is this process's own batch: whoever
            // decided on top of it need not decide again.
            if is_there {
                let after_it = locked.missed.into_iter().skip(1);
                return Ok((Attempt::Committed, after_it.collect()));
            }
            Ok((Attempt::Behind, locked.missed))
        })
    }

    /// Whether a head is still the head: an answer that nothing was written for must not be of an old moment.
    fn confirm(&self, commits: &mut Commits, base: Head) -> Result<Head, CommitError> {
        self.insist(commits, |commits| self.catch_up(commits))?;
        match self.head().seq == base.seq {
            true => Ok(base),
            false => Err(self.behind_by(commits, base)),
        }
    }

    fn committer(&self, commits: &mut Commits) -> Result<Arc<Client>, PostgresError> {
        let alive = commits.client.as_ref().filter(|client| !client.is_closed());
        if let Some(client) = alive {
            return Ok(Arc::clone(client));
        }
        let client = Arc::new(self.link.connect()?);
        commits.client = Some(Arc::clone(&client));
        Ok(client)
    }

    /// Takes in what other processes committed since.
    pub(super) fn catch_up(&self, commits: &mut Commits) -> Result<(), PostgresError> {
        let client = self.committer(commits)?;
        let (journal, known) = (self.journal, self.head().seq);
        let missed = self
            .link
            .run(async move { missed(&client, journal, known).await })?;
        self.take_foreign(commits, missed)
    }

    /// Takes in what others committed, once nobody keeps the store still.
    fn take_foreign(
        &self,
        commits: &mut Commits,
        missed: Vec<(Head, Bytes)>,
    ) -> Result<(), PostgresError> {
        if missed.is_empty() {
            return Ok(());
        }
        let _end = self.still.end();
        self.foreign.fetch_add(1, Ordering::AcqRel);
        for (head, packed) in missed {
            let (rows, remembered) =
                packed::unpack(&packed, self.window_names).ok_or_else(|| {
                    PostgresError::Damaged("the changes of a batch are cut".to_owned())
                })?;
            self.take(commits, &rows, &remembered, head);
        }
        Ok(())
    }

    /// What a batch that was decided on `base` has missed.
    fn behind_by(&self, commits: &mut Commits, base: Head) -> CommitError {
        let since = self.insist(commits, |commits| {
            self.catch_up(commits)?;
            // Not beyond what was just taken in: whoever decides again reads the rows of this head.
            let (client, journal, head) = (self.committer(commits)?, self.journal, self.head());
            let since = async move { since(&client, journal, base, head).await };
            Ok((head, self.link.run(since)?))
        });
        let (head, batches) = match since {
            Ok((head, Some(batches))) => (head, batches),
            Ok((_, None)) => return failed(PostgresError::TooFarBehind(base.seq)),
            Err(error) => return error,
        };
        let (mut rows, mut remembered) = (Vec::new(), Vec::new());
        for packed in &batches {
            let Some((more_rows, more)) = packed::unpack(packed, self.window_names) else {
                return failed(PostgresError::Damaged("a batch is cut".to_owned()));
            };
            rows.extend(more_rows);
            remembered.extend(more);
        }
        CommitError::Behind {
            head,
            rows,
            remembered,
        }
    }
}

/// What became of an attempt.
enum Attempt {
    /// It is in the journal, since now or since an attempt before.
    Committed,
    /// Others were faster.
    Behind,
}

fn failed(error: PostgresError) -> CommitError {
    CommitError::Failed(error.to_string())
}

/// Takes the lock and brings what this process has missed, in one trip.
async fn lock(client: &Client, journal: i64, known: Seq) -> Result<Locked, PostgresError> {
    let sql = "SELECT seq, hash, time FROM chancery.journal WHERE id = $1 FOR UPDATE";
    let parameters: Parameters<'_> = vec![(&journal, Type::INT8)];
    let head = client.query_typed(sql, &parameters);
    let (begun, head, missed) = join3(
        client.batch_execute("BEGIN"),
        head,
        missed(client, journal, known),
    )
    .await;
    begun?;
    let head = head?;
    let head = head
        .first()
        .ok_or_else(|| PostgresError::Damaged("the journal is gone".to_owned()))?;
    Ok(Locked {
        head: head_of(head, 0)?,
        missed: missed?,
    })
}

async fn missed(
    client: &Client,
    journal: i64,
    known: Seq,
) -> Result<Vec<(Head, Bytes)>, PostgresError> {
    let rows = client
        .query_typed(
            "SELECT seq, hash, time, changes, base FROM chancery.batch
             WHERE journal = $1 AND base >= $2 ORDER BY base",
            &[(&journal, Type::INT8), (&stored(known), Type::INT8)],
        )
        .await?;
    if rows.first().is_some_and(|row| seq_of(row.get(4)) != known) {
        return Err(PostgresError::TooFarBehind(known));
    }
    rows.iter()
        .map(|row| Ok((head_of(row, 0)?, Bytes::copy_from_slice(row.get(3)))))
        .collect()
}

/// The packed changes of every batch from `base` to `head`; none when `base` is no head this journal had lately.
async fn since(
    client: &Client,
    journal: i64,
    base: Head,
    head: Head,
) -> Result<Option<Vec<Bytes>>, PostgresError> {
    let rows = client
        .query_typed(
            "SELECT changes, base, base_hash FROM chancery.batch
             WHERE journal = $1 AND base >= $2 AND base < $3 ORDER BY base",
            &[
                (&journal, Type::INT8),
                (&stored(base.seq), Type::INT8),
                (&stored(head.seq), Type::INT8),
            ],
        )
        .await?;
    let is_a_head = rows.first().is_some_and(|first| {
        let hash: &[u8] = first.get(2);
        seq_of(first.get(1)) == base.seq && hash == &base.hash.0[..]
    });
    let changes = rows.iter().map(|row| Bytes::copy_from_slice(row.get(0)));
    Ok(is_a_head.then(|| changes.collect()))
}

/// Whether the batch that follows its base in the journal is this one.
async fn holds(client: &Client, journal: i64, writes: &Writes) -> Result<bool, PostgresError> {
    let (base, token) = (stored(writes.base.seq), &writes.token[..]);
    let found = client
        .query_typed(
            "SELECT 1 FROM chancery.batch WHERE journal = $1 AND base = $2 AND token = $3",
            &[
                (&journal, Type::INT8),
                (&base, Type::INT8),
                (&token, Type::BYTEA),
            ],
        )
        .await?;
    Ok(!found.is_empty())
}

/// All of a batch and its end, in one trip: requests leave without waiting for the answers before them.
async fn write(client: &Client, journal: i64, writes: &Writes) -> Result<(), PostgresError> {
    let values = Values::of(journal, writes);
    let mut requests = values.always();
    values.add_rows(&mut requests);
    values.add_windows(&mut requests);
    let written = requests
        .iter()
        .map(|(sql, parameters)| client.execute_typed(sql, parameters));
    // The end must leave last, and is not one if anything before it failed: then the transaction is rolled back.
    let (written, ended) = join(join_all(written), client.batch_execute("COMMIT")).await;
    written.into_iter().collect::<Result<Vec<u64>, _>>()?;
    Ok(ended?)
}

/// What the statements of a batch are given, as PostgreSQL takes it.
struct Values<'w> {
    writes: &'w Writes,
    journal: i64,
    notice: String,
    base: i64,
    seq: i64,
    token: &'w [u8],
    base_hash: &'w [u8],
    hash: &'w [u8],
    time: Option<String>,
    now_ms: i64,
    kept: i64,
    drops: bool,
}

impl<'w> Values<'w> {
    fn of(journal: i64, writes: &'w Writes) -> Self {
        Self {
            writes,
            journal,
            notice: format!("{journal} {}", writes.process),
            base: stored(writes.base.seq),
            seq: stored(writes.head.seq),
            token: &writes.token,
            base_hash: &writes.base.hash.0,
            hash: &writes.head.hash.0,
            time: time_text(writes.head.time),
            now_ms: writes.head.time.map_or(0, Time::unix_millis),
            kept: stored(writes.head.seq.saturating_sub(KEPT_LINES)),
            drops: writes.base.seq / DROP_EVERY != writes.head.seq / DROP_EVERY,
        }
    }

    fn always(&self) -> Vec<Request<'_>> {
        let lines: Parameters<'_> = vec![
            (&self.journal, Type::INT8),
            (&self.base, Type::INT8),
            (&self.writes.lines, Type::BYTEA_ARRAY),
        ];
        let batch: Parameters<'_> = vec![
            (&self.journal, Type::INT8),
            (&self.base, Type::INT8),
            (&self.base_hash, Type::BYTEA),
            (&self.token, Type::BYTEA),
            (&self.seq, Type::INT8),
            (&self.hash, Type::BYTEA),
            (&self.time, Type::TEXT),
            (&self.writes.packed, Type::BYTEA),
        ];
        let head: Parameters<'_> = vec![
            (&self.journal, Type::INT8),
            (&self.seq, Type::INT8),
            (&self.hash, Type::BYTEA),
            (&self.time, Type::TEXT),
        ];
        vec![
            (INSERT_LINES, lines),
            (INSERT_BATCH, batch),
            (MOVE_HEAD, head),
            (NOTIFY, vec![(&self.notice, Type::TEXT)]),
        ]
    }

    fn add_rows<'r>(&'r self, requests: &mut Vec<Request<'r>>) {
        let journal: (&'r (dyn ToSql + Sync), Type) = (&self.journal, Type::INT8);
        if !self.writes.keys.is_empty() {
            let keys: (&'r (dyn ToSql + Sync), Type) = (&self.writes.keys, Type::BYTEA_ARRAY);
            let values: (&'r (dyn ToSql + Sync), Type) = (&self.writes.values, Type::BYTEA_ARRAY);
            requests.push((PUT_ROWS, vec![journal.clone(), keys, values]));
        }
        if !self.writes.removed.is_empty() {
            let keys: (&'r (dyn ToSql + Sync), Type) = (&self.writes.removed, Type::BYTEA_ARRAY);
            requests.push((REMOVE_ROWS, vec![journal, keys]));
        }
    }

    fn add_windows<'r>(&'r self, requests: &mut Vec<Request<'r>>) {
        if !self.writes.names.is_empty() {
            let packets: Parameters<'r> = vec![
                (&self.journal, Type::INT8),
                (&self.writes.names, Type::TEXT_ARRAY),
                (&self.writes.ends_ms, Type::INT8_ARRAY),
                (&self.writes.records, Type::BYTEA_ARRAY),
            ];
            requests.push((INSERT_PACKETS, packets));
        }
        if self.drops {
            let batches: Parameters<'r> =
                vec![(&self.journal, Type::INT8), (&self.kept, Type::INT8)];
            let packets: Parameters<'r> =
                vec![(&self.journal, Type::INT8), (&self.now_ms, Type::INT8)];
            requests.push((DROP_BATCHES, batches));
            requests.push((DROP_PACKETS, packets));
        }
    }
}

type Parameters<'r> = Vec<(&'r (dyn ToSql + Sync), Type)>;
type Request<'r> = (&'static str, Parameters<'r>);

const INSERT_LINES: &str = "INSERT INTO chancery.line (journal, seq, text)
    SELECT $1, $2 + place, text FROM unnest($3) WITH ORDINALITY AS given (text, place)";
const INSERT_BATCH: &str =
    "INSERT INTO chancery.batch (journal, base, base_hash, token, seq, hash, time, changes)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
const MOVE_HEAD: &str = "UPDATE chancery.journal SET seq = $2, hash = $3, time = $4 WHERE id = $1";
const NOTIFY: &str = "SELECT pg_notify('chancery', $1)";
const PUT_ROWS: &str = "INSERT INTO chancery.state (journal, key, value)
    SELECT $1, key, value FROM unnest($2, $3) AS given (key, value)
    ON CONFLICT (journal, key) DO UPDATE SET value = excluded.value";
const REMOVE_ROWS: &str = "DELETE FROM chancery.state WHERE journal = $1 AND key = ANY ($2)";
const INSERT_PACKETS: &str = "INSERT INTO chancery.packet (journal, name, ends_ms, records)
    SELECT $1, name, ends_ms, records FROM unnest($2, $3, $4) AS given (name, ends_ms, records)";
const DROP_BATCHES: &str = "DELETE FROM chancery.batch WHERE journal = $1 AND seq < $2";
const DROP_PACKETS: &str = "DELETE FROM chancery.packet WHERE journal = $1 AND ends_ms < $2";

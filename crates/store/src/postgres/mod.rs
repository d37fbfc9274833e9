//! The store in PostgreSQL: the same lines and rows in tables, committed under a lock on the journal's head row (CH-JRN-5).
//!
//! Guarantees: a batch is one transaction; batches of any number of processes on one journal follow each other, and one
//! that was decided on an old head gets what it missed; what rules read is of one moment. A connection that ends in the
//! middle of a commit leaves no doubt: the head row is locked anew, which waits for whatever became of the transaction,
//! and then says whether the batch is there.

mod awake;
mod bytea;
mod commit;
mod error;
mod follow;
mod last;
mod link;
mod look;
mod moment;
mod notes;
mod packed;
#[cfg(test)]
mod patience_tests;
mod reads;
mod schema;
mod seed;
mod session;
mod teller;
mod tls;
mod version;
mod warm;
mod writes;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use chancery_core::digest::Sha256Digest;
use chancery_core::line::Seq;
use chancery_core::rows::{Lookup, Row, RowChange, RowKey};
use chancery_core::time::{Time, format_audit, parse_audit};
use chancery_core::window::{Remember, WindowId, WindowName, Windows};
use chancery_journal::Head;
use tokio_postgres::{Client, IsolationLevel};

use crate::cache::{Cache, Index};
use crate::contract::{Batch, CommitError, Store, StoreError, Watch};
use crate::stillness::{Still, Stillness};
use crate::windows;
pub use error::PostgresError;
use error::told;
use follow::Duty;
use link::{Link, Patience};
pub use look::{PostgresLook, look};
use notes::Notes;
use session::Session;
use teller::Teller;
use warm::Warm;

/// How a store in PostgreSQL is opened.
#[derive(Clone)]
pub struct PostgresOptions {
    /// Where the server is: `postgres://…`, with `sslmode` and `sslrootcert` as the module `tls` reads them.
    pub url: String,
    /// The password, where the address has none.
    pub password: Option<String>,
    /// Which journal of the database: a tenant's own.
    pub journal: String,
    /// Whether the journal is begun when it is not there.
    pub may_begin: bool,
    /// How much memory cached rows may take.
    pub row_cache_bytes: usize,
    /// The windows that the rules use.
    pub windows: &'static [WindowName],
    /// [`crate::ROWS_VERSION`]; a journal with another one is refused.
    pub rows_version: u32,
}

/// Secrets are told nowhere: the address may hold one.
impl std::fmt::Debug for PostgresOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresOptions")
            .field("journal", &self.journal)
            .finish_non_exhaustive()
    }
}

/// How long a server that is gone or silent is waited for; then nothing of a batch may be answered.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long it is waited for by a process that stops and only says farewell.
const FAREWELL: Duration = Duration::from_secs(2);
/// Rows that are read at once: a server that is alive has them in far less than anybody waits for it.
const PAGE_ROWS: i64 = 4_096;
/// Between two attempts to reach it.
const PAUSE: Duration = Duration::from_millis(100);

/// A handle on a journal in PostgreSQL. A clone is another handle of the same process, which may lose races.
#[derive(Clone)]
pub struct Postgres {
    shared: Arc<Shared>,
}

struct Shared {
    link: Link,
    journal: i64,
    window_names: &'static [WindowName],
    cache: Cache,
    windows: RwLock<Windows>,
    /// As far as this process knows.
    head: RwLock<Head>,
    commits: Mutex<Commits>,
    still: Stillness,
    /// How often changes of others came in.
    foreign: AtomicU64,
    /// For how many more batches others are expected to be faster.
    contended: AtomicU32,
    duty: Duty,
    teller: Teller,
    notes: Notes,
    /// Whether the last read was given up because the server was gone or silent.
    is_away: AtomicBool,
    is_closed: AtomicBool,
}

/// What following the journal in order needs.
struct Commits {
    /// The connection that commits; none after it ended.
    session: Option<Arc<Session>>,
    change: u64,
    forgotten_minute: Option<i64>,
}

impl Postgres {
    /// Opens a journal. Where it may be begun the tables are brought to this build's state; whoever only reads changes
    /// nothing.
    ///
    /// # Errors
    /// The server cannot be reached or is too old, or its tables are not this build's.
    pub fn open(options: &PostgresOptions) -> Result<Self, PostgresError> {
        Self::open_with(options, Patience::of(PATIENCE))
    }

    /// The same over a server that may say nothing for so long.
    fn open_with(options: &PostgresOptions, patience: Patience) -> Result<Self, PostgresError> {
        let link = Link::with(&options.url, options.password.as_deref(), patience.clone())?;
        let mut client = link.connect()?;
        let (name, rows_version) = (options.journal.clone(), i64::from(options.rows_version));
        let may_begin = options.may_begin;
        let warm_bytes = (options.row_cache_bytes / 2).min(warm::MOST_BYTES);
        // The tables of a large journal are not changed in a moment.
        let begun = link.run_to_its_end(async move {
            version::ensure_known(&client).await?;
            if may_begin {
                schema::migrate(&mut client).await?;
                begin(&client, &name, rows_version).await?;
            } else if !schema::is_current(&client).await? {
                return Err(PostgresError::NoJournal(name));
            }
            found(&mut client, &name, warm_bytes, &patience).await
        })?;
        if begun.rows_version != i64::from(options.rows_version) {
            return Err(PostgresError::OtherRows {
                found: begun.rows_version,
                known: options.rows_version,
            });
        }
        let mut all = Windows::default();
        for (stored, records) in &begun.packets {
            let Some(name) = options.windows.iter().find(|name| *name == stored) else {
                continue;
            };
            let records = windows::unpack(name, records)
                .ok_or_else(|| PostgresError::Damaged("a packet of records is cut".to_owned()))?;
            records.iter().for_each(|record| all.remember(record));
        }
        let time = begun.head.time;
        time.into_iter().for_each(|time| all.forget_ended(time));
        let (duty, teller) = (Duty::new()?, Teller::default());
        let notice = notice(begun.journal, duty.name());
        link.spawn(teller.clone().tell_all(link.caller(), notice))?;
        // What others add comes in with their batches, before anything is decided on those: a cache that began with all
        // rows goes on having them.
        let index = match begun.warm.is_whole {
            true => Index::Empty,
            false => Index::Unknown,
        };
        let cache = Cache::new(options.row_cache_bytes, index);
        cache.apply(&begun.warm.rows, 0);
        let shared = Shared {
            link,
            journal: begun.journal,
            window_names: options.windows,
            cache,
            windows: RwLock::new(all),
            head: RwLock::new(begun.head),
            commits: Mutex::new(Commits {
                session: None,
                change: 0,
                forgotten_minute: None,
            }),
            still: Stillness::default(),
            foreign: AtomicU64::new(0),
            contended: AtomicU32::new(0),
            duty,
            teller,
            notes: Notes::new(),
            is_away: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
        };
        Ok(Self {
            shared: Arc::new(shared),
        })
    }

    /// Takes in what other processes committed. Gives the head.
    ///
    /// # Errors
    /// The server cannot be reached, or this process is too far behind.
    pub fn follow(&self) -> Result<Head, StoreError> {
        self.shared.ensure_open()?;
        let shared = &*self.shared;
        shared.patiently(|| shared.catch_up(&mut shared.lock_commits()))?;
        Ok(shared.head())
    }

    /// Whether the last read was given up because the server was gone or silent: what it holds is not damaged by that.
    pub fn is_away(&self) -> bool {
        self.shared.is_away.load(Ordering::Acquire)
    }
}

/// How a process tells of its commits.
fn notice(journal: i64, process: &str) -> String {
    format!("{journal} {process}")
}

/// A journal as it was found or begun.
struct Begun {
    journal: i64,
    rows_version: i64,
    head: Head,
    packets: Vec<(String, Vec<u8>)>,
    warm: Warm,
}

async fn begin(client: &Client, name: &str, rows_version: i64) -> Result<(), PostgresError> {
    client
        .execute(
            "INSERT INTO chancery.journal (name, rows_version, seq, hash)
             VALUES ($1, $2::bigint, 0, $3) ON CONFLICT (name) DO NOTHING",
            &[&name, &rows_version, &&Sha256Digest::ZERO.0[..]],
        )
        .await?;
    Ok(())
}

async fn found(
    client: &mut Client,
    name: &str,
    warm_bytes: usize,
    patience: &Patience,
) -> Result<Begun, PostgresError> {
    // One snapshot: records and rows must be those of the head.
    let snapshot = client.build_transaction();
    let snapshot = snapshot.isolation_level(IsolationLevel::RepeatableRead);
    let snapshot = snapshot.read_only(true).start().await?;
    let found = snapshot
        .query(
            "SELECT j.id, j.rows_version::bigint, j.seq, j.hash, j.time, p.name, p.records
             FROM chancery.journal j LEFT JOIN chancery.packet p ON p.journal = j.id
             WHERE j.name = $1 ORDER BY p.id",
            &[&name],
        )
        .await?;
    let first = found
        .first()
        .ok_or_else(|| PostgresError::NoJournal(name.to_owned()))?;
    let packet = |row: &tokio_postgres::Row| -> Option<(String, Vec<u8>)> {
        Some((row.get::<_, Option<String>>(5)?, row.get(6)))
    };
    let journal = first.get(0);
    let begun = Begun {
        journal,
        rows_version: first.get(1),
        head: head_of(first, 2)?,
        packets: found.iter().filter_map(packet).collect(),
        warm: Warm::of(&snapshot, journal, warm_bytes, patience).await?,
    };
    snapshot.commit().await?;
    Ok(begun)
}

/// A head in three columns.
fn head_of(row: &tokio_postgres::Row, column: usize) -> Result<Head, PostgresError> {
    let damaged = |what: &str| PostgresError::Damaged(format!("{what} of the head"));
    let hash: &[u8] = row.get(column + 1);
    let time: Option<&str> = row.get(column + 2);
    Ok(Head {
        seq: seq_of(row.get(column)),
        hash: Sha256Digest(hash.try_into().map_err(|_| damaged("the hash"))?),
        time: time
            .map(parse_audit)
            .transpose()
            .map_err(|_| damaged("the time"))?,
    })
}

fn time_text(time: Option<Time>) -> Option<String> {
    time.map(|time| format_audit(time).as_str().to_owned())
}

/// PostgreSQL's integers are signed; ours come back as they went in.
fn seq_of(stored: i64) -> Seq {
    stored as Seq
}

fn stored(seq: Seq) -> i64 {
    seq as i64
}

impl Shared {
    fn head(&self) -> Head {
        *self.head.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_commits(&self) -> MutexGuard<'_, Commits> {
        self.commits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ensure_open(&self) -> Result<(), StoreError> {
        if self.is_closed.load(Ordering::SeqCst) {
            return Err(PostgresError::Closed.into());
        }
        Ok(())
    }

    /// Does something again while the server is gone, for as long as a commit would.
    fn patiently<T>(&self, work: impl Fn() -> Result<T, PostgresError>) -> Result<T, StoreError> {
        let patience = self.link.patience();
        let given_up = patience.end();
        loop {
            self.ensure_open()?;
            let done = work();
            if matches!(done, Err(PostgresError::Silent(_))) {
                self.link.forget_reader();
            }
            let is_away = matches!(&done, Err(error) if error.is_passing());
            match done {
                Err(error) if is_away && patience.now() < given_up => {
                    tracing::warn!(%error, "PostgreSQL does not answer yet");
                    std::thread::sleep(PAUSE);
                }
                result => {
                    self.is_away.store(is_away, Ordering::Release);
                    return Ok(result?);
                }
            }
        }
    }

    /// Tells of the last commits, which the teller may not have come to.
    fn tell_last(&self) {
        let notice = notice(self.journal, self.duty.name());
        let last = self.teller.clone().tell_last(self.link.caller(), notice);
        if let Err(error) = self.link.run_for(FAREWELL, last) {
            tracing::debug!(%error, "the others find the last commits by themselves");
        }
    }

    /// Takes committed changes in: they are in the database, so no row has to be kept for it.
    fn take<'r>(
        &self,
        commits: &mut Commits,
        rows: impl IntoIterator<Item = &'r RowChange>,
        remembered: &[Remember],
        head: Head,
    ) {
        commits.change += 1;
        self.cache.apply(rows, commits.change);
        self.cache.set_written(commits.change);
        let minute = head.time.map(|time| time.unix_seconds().div_euclid(60));
        if !remembered.is_empty() || minute > commits.forgotten_minute {
            let mut windows = self.windows.write().unwrap_or_else(PoisonError::into_inner);
            windows.remember_all(remembered);
            if minute > commits.forgotten_minute {
                commits.forgotten_minute = minute;
                head.time
                    .into_iter()
                    .for_each(|time| windows.forget_ended(time));
            }
        }
        *self.head.write().unwrap_or_else(PoisonError::into_inner) = head;
    }
}

impl Store for Postgres {
    fn head(&self) -> Head {
        self.shared.head()
    }

    fn peek(&self, key: &RowKey) -> Lookup {
        self.shared.cache.peek(key)
    }

    fn load(&self, keys: &[RowKey]) -> Result<Vec<Option<Row>>, StoreError> {
        let shared = &*self.shared;
        shared.patiently(|| shared.load(keys))
    }

    fn scan(
        &self,
        prefix: &RowKey,
        after: Option<&RowKey>,
        limit: usize,
    ) -> Result<Vec<(RowKey, Row)>, StoreError> {
        let shared = &*self.shared;
        shared.patiently(|| shared.scan(prefix, after, limit))
    }

    fn find(&self, window: WindowName, id: &WindowId, now: Time) -> Option<u64> {
        let windows = self.shared.windows.read();
        windows
            .unwrap_or_else(PoisonError::into_inner)
            .find(window, id, now)
    }

    fn window_len(&self) -> usize {
        let windows = self.shared.windows.read();
        windows.unwrap_or_else(PoisonError::into_inner).len()
    }

    fn commit(&self, batch: Batch) -> Result<Head, CommitError> {
        self.shared
            .ensure_open()
            .map_err(|error| CommitError::Failed(error.0))?;
        self.shared.commit(batch)
    }

    fn forget(&self, keys: &[RowKey]) -> Result<(), StoreError> {
        let shared = &*self.shared;
        shared.patiently(|| shared.forget(keys))
    }

    fn lines(&self, from: Seq, limit: usize) -> Result<Vec<Bytes>, StoreError> {
        let shared = &*self.shared;
        shared.patiently(|| shared.lines(from, limit))
    }

    fn lag(&self) -> u64 {
        0
    }

    fn ops_get(&self, key: &RowKey) -> Result<Option<Row>, StoreError> {
        let shared = &*self.shared;
        shared.patiently(|| shared.progress(key))
    }

    fn ops_scan(&self, prefix: &RowKey) -> Result<Vec<(RowKey, Row)>, StoreError> {
        self.shared.all_progress(prefix)
    }

    /// A statement is durable when it is answered, whether that is asked for or not.
    fn ops_put(&self, changes: &[RowChange], _synced: bool) -> Result<(), StoreError> {
        let shared = &*self.shared;
        shared.patiently(|| shared.put_progress(changes, None))
    }

    fn ops_raise(
        &self,
        raised: (RowKey, Row),
        changes: &[RowChange],
        _synced: bool,
    ) -> Result<(), StoreError> {
        let shared = &*self.shared;
        let (key, value) = raised;
        let mut changes = changes.to_vec();
        changes.push((key.clone(), Some(value)));
        shared.patiently(|| shared.put_progress(&changes, Some(&key)))
    }

    fn keep_still(&self) -> Still<'_> {
        self.shared.still.keep()
    }

    fn foreign_changes(&self) -> u64 {
        self.shared.foreign.load(Ordering::Acquire)
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn is_contended(&self) -> bool {
        self.shared.contended.load(Ordering::Acquire) > 0
    }

    fn take_turn(&self, base: Head) -> CommitError {
        match self.shared.ensure_open() {
            Ok(()) => self.shared.take_turn(base),
            Err(error) => CommitError::Failed(error.0),
        }
    }

    fn duty(&self) -> Option<u64> {
        self.shared.duty.term()
    }

    fn watch(&self, watch: Watch) -> Result<(), StoreError> {
        self.shared.ensure_open()?;
        Ok(self.shared.watch(watch)?)
    }

    fn tell(&self, note: String) {
        self.shared.notes.tell(note);
    }

    fn process(&self) -> &str {
        self.shared.duty.name()
    }

    fn is_durable(&self) -> bool {
        true
    }

    fn cache_bytes(&self) -> usize {
        self.shared.cache.bytes()
    }

    fn close(&self) -> Result<(), StoreError> {
        // Nobody commits any more once the lock was had with the flag set.
        let mut commits = self.shared.lock_commits();
        self.shared.is_closed.store(true, Ordering::SeqCst);
        commits.session = None;
        drop(commits);
        self.shared.tell_last();
        self.shared.lay_down_duty();
        self.shared.link.close();
        Ok(())
    }
}

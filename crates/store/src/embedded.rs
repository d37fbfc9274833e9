//! The embedded store: the log in files, rows in a cache with an index written behind, progress in a second database.
//!
//! Guarantees: [`Store::commit`] returns after the lines are durable and the rows are visible; a failed append or sync
//! is final; handles on one journal commit one after the other, and one that lost a race gets what it missed.
//! A store that is dropped without [`Store::close`] is left as `kill -9` would leave it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::JoinHandle;

use bytes::Bytes;
use chancery_core::digest::Sha256Digest;
use chancery_core::line::Seq;
use chancery_core::rows::{Lookup, Row, RowChange, RowKey};
use chancery_core::time::Time;
use chancery_core::window::{WindowId, WindowName, Windows};
use chancery_journal::Head;

use crate::cache::{self, Cache};
use crate::changes::Changes;
use crate::contract::{Batch, CommitError, Store, StoreError, StoredUnit};
use crate::disk::{Disk, RealDisk, create_private_dir};
use crate::history::{HandleId, History};
use crate::index::{self, Behind, Readers, RollCall};
use crate::lock::DirLock;
use crate::log::{Known, Log, LogError, Repair, ScrubError, Scrubbed};
use crate::opening::{OpenError, Options, Tail};
use crate::ops::Ops;
use crate::pending::{Mark, Pending, Stop};

/// How often a read of the index is tried while it moves, before it is made to stand still.
const FREE_READS: usize = 3;

/// A handle on an embedded store. A clone is another handle on the same journal, which may lose races.
pub struct Embedded {
    shared: Arc<Shared>,
    handle: HandleId,
}

struct Shared {
    log: Arc<Log>,
    behind: Arc<Behind>,
    readers: Readers,
    windows: RwLock<Windows>,
    ops: Ops,
    head: RwLock<Head>,
    commit: Mutex<Commits>,
    is_closed: AtomicBool,
    index_lag_entries: u64,
    writer: Mutex<Option<JoinHandle<()>>>,
    roll: Mutex<Option<RollCall>>,
    lock: DirLock,
}

/// What committing in order needs.
#[derive(Default)]
struct Commits {
    history: History,
    change: u64,
    forgotten_minute: Option<i64>,
}

impl Embedded {
    /// Opens the store in its directory. The tail has to be recovered before anything is committed.
    pub fn open(options: &Options) -> Result<(Self, Tail), OpenError> {
        let disk = RealDisk::open(&options.dir)?;
        Self::open_on(Arc::new(disk), options)
    }

    /// The same with the log on another disk.
    pub fn open_on(disk: Arc<dyn Disk>, options: &Options) -> Result<(Self, Tail), OpenError> {
        create_private_dir(&options.dir)?;
        let lock = DirLock::take(&options.dir, &options.address)?;
        let index = index::open(&options.dir, options.windows, options.rows_version)
            .map_err(|error| OpenError::Index(error.to_string()))?;
        let known = Known {
            seq: index.mark.head.seq,
            closed: index.closed,
        };
        let (log, repair) = Log::open(disk, options.segment_bytes, &known)?;
        if let Some(repair) = &repair {
            let Repair { end, bytes, reason } = repair;
            tracing::warn!(%end, %bytes, %reason, "cut off the end of the log, which was never acknowledged");
        }
        check_belongs(&log, &index.mark)?;
        let ops = Ops::open(&options.dir)?;
        let tail = Tail {
            from: index.mark.head.seq + 1,
            to: log.end().seq,
            repair,
        };
        let begins = match index.has_no_rows {
            true => cache::Index::Empty,
            false => cache::Index::Told,
        };
        let behind = Arc::new(Behind {
            pending: Pending::new(index.mark),
            cache: Cache::new(options.row_cache_bytes, begins),
            seq: AtomicU64::new(index.mark.head.seq),
            gate: Mutex::new(()),
        });
        let log = Arc::new(log);
        let writer = spawn_writer(index.writer, behind.clone(), log.clone())?;
        let is_told = begins == cache::Index::Told;
        let roll = is_told.then(|| RollCall::begin(index.readers.another(), behind.clone()));
        let mut commits = Commits::default();
        let handle = commits.history.enter(index.mark.head.seq);
        let shared = Shared {
            log,
            behind,
            readers: index.readers,
            windows: RwLock::new(index.windows),
            ops,
            head: RwLock::new(index.mark.head),
            commit: Mutex::new(commits),
            is_closed: AtomicBool::new(false),
            index_lag_entries: options.index_lag_entries,
            writer: Mutex::new(Some(writer)),
            roll: Mutex::new(roll.transpose()?),
            lock,
        };
        Ok((
            Self {
                shared: Arc::new(shared),
                handle,
            },
            tail,
        ))
    }

    /// Writes into the lock file at which address this process serves.
    pub fn tell_address(&self, address: &str) -> std::io::Result<()> {
        self.shared.lock.tell(address)
    }

    /// Checks the closed segments whole: for a thread in the background (CH-JRN-4). Ends early once `stop` is set.
    pub fn scrub(&self, stop: &AtomicBool) -> Result<Scrubbed, ScrubError> {
        self.shared.log.scrub(stop)
    }

    /// Writes everything committed so far to the index.
    pub fn flush_index(&self) -> Result<(), StoreError> {
        self.shared.behind.pending.flush().map_err(StoreError)
    }

    /// Why the index cannot be written at present, if it cannot.
    pub fn index_failure(&self) -> Option<String> {
        self.shared.behind.pending.failure()
    }

    /// Takes in what lines of the log changed that were decided again: recovery. `head` is the last of them.
    ///
    /// Waits while the index is further behind than it may be.
    pub fn take_in(&self, units: Vec<StoredUnit>, head: Head) -> Result<(), StoreError> {
        let end = self.shared.log.end();
        if head.seq > end.seq {
            return Err(StoreError(format!(
                "line {} is beyond the log's end, {}",
                head.seq, end.seq
            )));
        }
        let read = |error| StoreError(format!("log: {error}"));
        let (segment, offset) = self.shared.log.position_after(head.seq).map_err(read)?;
        let mut commits = self.shared.lock_commits();
        self.shared.apply(
            &mut commits,
            self.handle,
            units,
            Mark {
                head,
                segment,
                offset,
            },
        );
        drop(commits);
        let behind = &self.shared.behind;
        behind
            .pending
            .wait_for_lag(|| self.lag(), self.shared.index_lag_entries)
            .map_err(StoreError)
    }
}

fn spawn_writer(
    writer: index::IndexWriter,
    behind: Arc<Behind>,
    log: Arc<Log>,
) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new()
        .name("index writer".into())
        .spawn(move || index::run(writer, &behind, &log))
}

/// An index ahead of the log was found out when the log was opened; here, one of another log.
fn check_belongs(log: &Log, mark: &Mark) -> Result<(), OpenError> {
    if mark.head.seq == 0 {
        return Ok(());
    }
    let line = log.lines(mark.head.seq, 1).map_err(LogError::Io)?;
    match line.first() {
        Some(line) if Sha256Digest::of(line) == mark.head.hash => Ok(()),
        _ => Err(OpenError::IndexDiffers { seq: mark.head.seq }),
    }
}

impl Shared {
    fn lock_commits(&self) -> MutexGuard<'_, Commits> {
        self.commit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn head(&self) -> Head {
        *self.head.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn ensure_open(&self) -> Result<(), StoreError> {
        if self.is_closed.load(Ordering::SeqCst) {
            return Err(StoreError("the store is closed".into()));
        }
        Ok(())
    }

    /// Makes changes of durable lines visible; the head last, so that whoever reads it first and rows after it
    /// sees rows at least that new.
    fn apply(&self, commits: &mut Commits, handle: HandleId, units: Vec<StoredUnit>, mark: Mark) {
        let base = self.head().seq;
        commits.change += 1;
        let changes = Arc::new(Changes::of(units));
        self.behind.cache.apply(changes.rows(), commits.change);
        self.remember(commits, &changes, mark.head);
        commits
            .history
            .committed(handle, base, mark.head.seq, &changes);
        self.behind
            .pending
            .push(changes, commits.change, Some(mark));
        *self.head.write().unwrap_or_else(PoisonError::into_inner) = mark.head;
    }

    fn remember(&self, commits: &mut Commits, changes: &Changes, head: Head) {
        let minute = head.time.map(|time| time.unix_seconds().div_euclid(60));
        if changes.remembered().next().is_none() && minute <= commits.forgotten_minute {
            return;
        }
        let mut windows = self.windows.write().unwrap_or_else(PoisonError::into_inner);
        windows.remember_all(changes.remembered());
        if minute > commits.forgotten_minute {
            commits.forgotten_minute = minute;
            head.time
                .into_iter()
                .for_each(|time| windows.forget_ended(time));
        }
    }

    fn behind_by(&self, commits: &mut Commits, handle: HandleId, base: Head) -> CommitError {
        let head = self.head();
        match commits.history.since(handle, base.seq, head.seq) {
            Some((rows, remembered)) if base.seq < head.seq => CommitError::Behind {
                head,
                rows,
                remembered: remembered.into(),
                spent: Box::default(),
            },
            _ => CommitError::Failed(format!(
                "a batch on line {} cannot follow line {}: this handle is not of this journal, or too far behind",
                base.seq, head.seq
            )),
        }
    }

    /// Rows that are not in memory, read from an index that did not move meanwhile.
    fn fetch(&self, keys: &[RowKey], found: &mut [Lookup]) -> Result<(), rusqlite::Error> {
        let cache = &self.behind.cache;
        for attempt in 0.. {
            let mut missing: Vec<usize> = (0..keys.len())
                .filter(|n| found[*n] == Lookup::NotLoaded)
                .collect();
            if missing.is_empty() {
                break;
            }
            missing.sort_unstable_by(|a, b| keys[*a].cmp(&keys[*b]));
            let _still = (attempt >= FREE_READS).then(|| {
                self.behind
                    .gate
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
            });
            let read_at = cache.written();
            let wanted: Vec<&RowKey> = missing.iter().map(|n| &keys[*n]).collect();
            let values = self.readers.load(&wanted)?;
            for (n, value) in missing.into_iter().zip(values) {
                if let Some(value) = cache.settle(&keys[n], value, read_at) {
                    found[n] = value.map_or(Lookup::Absent, Lookup::Found);
                }
            }
        }
        Ok(())
    }
}

impl Store for Embedded {
    fn head(&self) -> Head {
        self.shared.head()
    }

    fn peek(&self, key: &RowKey) -> Lookup {
        self.shared.behind.cache.peek(key)
    }

    fn load(&self, keys: &[RowKey]) -> Result<Vec<Option<Row>>, StoreError> {
        self.shared.ensure_open()?;
        let mut found: Vec<Lookup> = keys.iter().map(|key| self.peek(key)).collect();
        self.shared
            .fetch(keys, &mut found)
            .map_err(|error| StoreError(format!("index.db: {error}")))?;
        let value = |lookup| match lookup {
            Lookup::Found(bytes) => Some(bytes),
            Lookup::Absent | Lookup::NotLoaded => None,
        };
        Ok(found.into_iter().map(value).collect())
    }

    fn scan(
        &self,
        prefix: &RowKey,
        after: Option<&RowKey>,
        limit: usize,
    ) -> Result<Vec<(RowKey, Row)>, StoreError> {
        self.shared.ensure_open()?;
        let behind = &self.shared.behind;
        for attempt in 0.. {
            let still = (attempt >= FREE_READS)
                .then(|| behind.gate.lock().unwrap_or_else(PoisonError::into_inner));
            let (overlay, epoch) = behind.pending.overlay(prefix, after, limit);
            let rows = self.shared.readers.scan(prefix, after, limit, overlay);
            let rows = rows.map_err(|error| StoreError(format!("index.db: {error}")))?;
            // Within one epoch, or held still, the index lacked exactly the changes laid over it: the rows are those
            // of one moment.
            if still.is_some() || behind.pending.epoch() == epoch {
                return Ok(rows);
            }
        }
        unreachable!("an index that stands still is read at once")
    }

    fn find(&self, window: WindowName, id: &WindowId, now: Time) -> Option<u64> {
        self.shared
            .windows
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .find(window, id, now)
    }

    fn window_len(&self) -> usize {
        self.shared
            .windows
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .len()
    }

    fn commit(&self, batch: Batch) -> Result<Head, CommitError> {
        let shared = &self.shared;
        let mut commits = shared.lock_commits();
        shared
            .ensure_open()
            .map_err(|error| CommitError::Failed(error.0))?;
        let head = shared.head();
        if (batch.base.seq, batch.base.hash) != (head.seq, head.hash) {
            return Err(shared.behind_by(&mut commits, self.handle, batch.base));
        }
        if shared.log.end().seq != head.seq {
            return Err(CommitError::Failed(
                "the tail of the log is not recovered yet".into(),
            ));
        }
        check_batch(&batch).map_err(CommitError::Failed)?;
        if batch.lines.is_empty() {
            return Ok(head);
        }
        let end = shared
            .log
            .append(&batch.lines, batch.head.hash)
            .map_err(|poisoned| CommitError::Failed(poisoned.0))?;
        let mark = Mark {
            head: batch.head,
            segment: end.segment,
            offset: end.offset,
        };
        shared.apply(&mut commits, self.handle, batch.units, mark);
        Ok(batch.head)
    }

    fn forget(&self, keys: &[RowKey]) -> Result<(), StoreError> {
        self.shared.ensure_open()?;
        let changes = Changes::of_rows(keys.iter().map(|key| (key.clone(), None)).collect());
        let behind = &self.shared.behind;
        let mut commits = self.shared.lock_commits();
        commits.change += 1;
        behind.cache.apply(changes.rows(), commits.change);
        behind.pending.push(Arc::new(changes), commits.change, None);
        Ok(())
    }

    fn lines(&self, from: Seq, limit: usize) -> Result<Vec<Bytes>, StoreError> {
        self.shared.ensure_open()?;
        self.shared
            .log
            .lines(from, limit)
            .map_err(|error| StoreError(format!("log: {error}")))
    }

    fn lag(&self) -> u64 {
        self.shared
            .head()
            .seq
            .saturating_sub(self.shared.behind.seq.load(Ordering::SeqCst))
    }

    fn ops_get(&self, key: &RowKey) -> Result<Option<Row>, StoreError> {
        self.shared.ops.get(key)
    }

    fn ops_scan(&self, prefix: &RowKey) -> Result<Vec<(RowKey, Row)>, StoreError> {
        self.shared.ops.scan(prefix)
    }

    fn ops_put(&self, changes: &[RowChange], synced: bool) -> Result<(), StoreError> {
        self.shared.ops.put(changes, synced)
    }

    fn is_durable(&self) -> bool {
        true
    }

    fn cache_bytes(&self) -> usize {
        self.shared.behind.cache.bytes()
    }

    fn close(&self) -> Result<(), StoreError> {
        // Nobody commits any more once the lock was had with the flag set.
        let commits = self.shared.lock_commits();
        self.shared.is_closed.store(true, Ordering::SeqCst);
        drop(commits);
        self.shared.end_writer(Stop::Written);
        self.shared.readers.close();
        self.shared.ops.close()?;
        match self.shared.behind.pending.failure() {
            Some(failure) => Err(StoreError(format!("index.db: {failure}"))),
            None => Ok(()),
        }
    }
}

/// A batch whose head is not that of its lines would break the chain for good.
pub(crate) fn check_batch(batch: &Batch) -> Result<(), String> {
    let lines = batch.lines.len();
    let hash = batch.lines.last().map_or(batch.base.hash, Sha256Digest::of);
    if batch.head.seq != batch.base.seq + lines as u64 || batch.head.hash != hash {
        return Err(format!(
            "the batch's head, line {}, is not that of its {lines} lines",
            batch.head.seq
        ));
    }
    Ok(())
}

impl Shared {
    fn end_writer(&self, how: Stop) {
        drop(
            self.roll
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take(),
        );
        self.behind.pending.stop(how);
        let writer = self
            .writer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if writer.is_some_and(|writer| writer.join().is_err()) {
            tracing::error!(
                "the index writer panicked; the index is behind and catches up at the next start"
            );
        }
    }
}

impl Clone for Embedded {
    fn clone(&self) -> Self {
        // The lock first: no commit may fall between the head that the handle knows and its entry.
        let mut commits = self.shared.lock_commits();
        let handle = commits.history.enter(self.shared.head().seq);
        drop(commits);
        Self {
            shared: self.shared.clone(),
            handle,
        }
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.shared.lock_commits().history.leave(self.handle);
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.end_writer(Stop::Now);
    }
}

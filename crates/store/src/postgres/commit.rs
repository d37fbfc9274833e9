//! Committing: one transaction a batch, under a lock on the head row, in two trips.
//!
//! A batch that was decided on an old head is decided again while the lock is kept: nobody overtakes it a second time.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use chancery_core::line::Seq;
use chancery_core::rows::RowChange;
use chancery_core::window::{Remember, WindowName};
use chancery_journal::Head;
use futures_util::future::join3;
use tokio_postgres::types::Type;

use super::session::{Session, Sql};
use super::writes::{self, Writes};
use super::{Commits, PAUSE, PostgresError, Shared, head_of, packed, seq_of, stored};
use crate::changes::Changes;
use crate::contract::{Batch, CommitError, Spent};
use crate::embedded::check_batch;

/// So many batches after one that others were faster than, the head is locked before anything is decided.
const CONTENDED_FOR: u32 = 16;

/// A batch that another process committed, or this one in an attempt whose answer was lost.
struct Missed {
    base: Seq,
    token: Vec<u8>,
    head: Head,
    rows: Vec<RowChange>,
    remembered: Vec<Remember>,
    spent: Vec<Spent>,
    /// How long ago it was committed, by the server's clock: those of the nodes may differ.
    ago: Duration,
}

/// What became of an attempt.
enum Attempt {
    /// It is in the journal, since now or since an attempt before; others may have followed.
    Committed(Vec<Missed>),
    /// Others were faster. The lock is kept for the batch that is decided instead.
    Behind(Vec<Missed>),
}

impl Shared {
    pub(super) fn commit(&self, mut batch: Batch) -> Result<Head, CommitError> {
        check_batch(&batch).map_err(CommitError::Failed)?;
        let mut commits = self.lock_commits();
        if batch.lines.is_empty() {
            return self.confirm(&mut commits, batch.base);
        }
        let (base, head) = (batch.base, batch.head);
        let changes = Changes::of(std::mem::take(&mut batch.units));
        let writes = Writes::of(self.journal, batch, &changes).map_err(failed)?;
        let attempted = self.insist(&mut commits, |commits| self.attempt(commits, &writes));
        match attempted? {
            Attempt::Committed(others) => {
                let one_less = |left: u32| left.checked_sub(1);
                let contended =
                    self.contended
                        .fetch_update(Ordering::AcqRel, Ordering::Acquire, one_less);
                let remembered: Vec<Remember> = changes.remembered().copied().collect();
                self.take(&mut commits, changes.rows(), &remembered, head);
                self.take_foreign(&mut commits, &others);
                self.teller.committed(contended.is_ok());
                Ok(head)
            }
            Attempt::Behind(missed) => {
                self.contended.store(CONTENDED_FOR, Ordering::Release);
                Err(self.behind(&mut commits, base, missed))
            }
        }
    }

    /// Locks the head for the batch that comes next, and gives what came after `base`.
    pub(super) fn take_turn(&self, base: Head) -> CommitError {
        let mut commits = self.lock_commits();
        match self.insist(&mut commits, |commits| self.lock_for_next(commits, base)) {
            Ok(missed) => self.behind(&mut commits, base, missed),
            Err(error) => error,
        }
    }

    /// Locks the head and keeps it locked.
    fn lock_for_next(
        &self,
        commits: &mut Commits,
        base: Head,
    ) -> Result<Vec<Missed>, PostgresError> {
        let session = self.committer(commits)?;
        let begin = begin_after(session.take_held());
        let locking = lock(&session, begin, self.journal, base, self.window_names);
        let (head, missed) = self.link.run_here(locking)?;
        session.hold(head);
        Ok(missed)
    }

    /// Does something again while the server is gone, each time over a new connection.
    fn insist<T>(
        &self,
        commits: &mut Commits,
        work: impl Fn(&mut Commits) -> Result<T, PostgresError>,
    ) -> Result<T, CommitError> {
        let patience = self.link.patience();
        let given_up = patience.end();
        loop {
            match work(commits) {
                Err(error) if error.is_passing() && patience.now() < given_up => {
                    tracing::warn!(%error, "a batch could not be committed yet");
                    commits.session = None;
                    thread::sleep(PAUSE);
                }
                result => return result.map_err(failed),
            }
        }
    }

    /// One transaction. Whatever became of an attempt before it is settled by then: its session held the head row, so
    /// the lock is had only after it has ended one way or the other.
    fn attempt(&self, commits: &mut Commits, writes: &Writes) -> Result<Attempt, PostgresError> {
        let session = self.committer(commits)?;
        let held = session.take_held();
        let (journal, names) = (self.journal, self.window_names);
        let (missed, head) = self.link.run_here(async {
            if held.is_some_and(|head| is_same(head, writes.base)) {
                writes.write(&session).await?;
                return Ok((Vec::new(), None));
            }
            let begin = begin_after(held);
            let (head, missed) = lock(&session, begin, journal, writes.base, names).await?;
            if is_same(head, writes.base) {
                writes.write(&session).await?;
                return Ok((Vec::new(), None));
            }
            Ok((missed, Some(head)))
        })?;
        let Some(head) = head else {
            return Ok(Attempt::Committed(Vec::new()));
        };
        session.hold(head);
        // An attempt before this one came through although its answer was lost. It is this process's own batch: whoever
        // decided on top of it need not decide again.
        let is_own = |first: &Missed| first.token == writes.token;
        if missed.first().is_some_and(is_own) {
            return Ok(Attempt::Committed(missed.into_iter().skip(1).collect()));
        }
        Ok(Attempt::Behind(missed))
    }

    /// Whether a head is still the head: an answer that nothing was written for must not be of an old moment.
    fn confirm(&self, commits: &mut Commits, base: Head) -> Result<Head, CommitError> {
        let missed = self.insist(commits, |commits| self.missed_since(commits, base))?;
        if let Some(session) = &commits.session
            && session.take_held().is_some()
        {
            // A connection that is gone has let go of it.
            let _ = self.link.run_here(session.say("ROLLBACK"));
        }
        if !missed.is_empty() {
            return Err(self.behind(commits, base, missed));
        }
        match is_same(base, self.head()) {
            true => Ok(base),
            false => Err(failed(PostgresError::TooFarBehind(base.seq))),
        }
    }

    fn committer(&self, commits: &mut Commits) -> Result<Arc<Session>, PostgresError> {
        let alive = commits
            .session
            .as_ref()
            .filter(|session| !session.is_closed());
        if let Some(session) = alive {
            return Ok(Arc::clone(session));
        }
        let session = self.link.committer()?;
        let locking = [&LOCK_HEAD, &MISSED];
        let all: Vec<&Sql> = writes::STATEMENTS.into_iter().chain(locking).collect();
        self.link.run_here(session.prepare(&all))?;
        commits.session = Some(Arc::clone(&session));
        Ok(session)
    }

    fn missed_since(
        &self,
        commits: &mut Commits,
        base: Head,
    ) -> Result<Vec<Missed>, PostgresError> {
        let session = self.committer(commits)?;
        let asking = missed(&session, self.journal, base, self.window_names);
        let asked = self.link.run_here(asking);
        if matches!(asked, Err(PostgresError::Silent(_))) {
            commits.session = None;
        }
        asked
    }

    /// Takes in what other processes committed since.
    pub(super) fn catch_up(&self, commits: &mut Commits) -> Result<(), PostgresError> {
        let missed = self.missed_since(commits, self.head())?;
        self.take_foreign(commits, &missed);
        Ok(())
    }

    /// The same up to a line that others came to; whether this process is there now, and not beyond.
    pub(super) fn catch_up_to(
        &self,
        commits: &mut Commits,
        seq: Seq,
    ) -> Result<bool, PostgresError> {
        let mut missed = self.missed_since(commits, self.head())?;
        missed.retain(|one| one.head.seq <= seq);
        self.take_foreign(commits, &missed);
        Ok(self.head().seq == seq)
    }

    /// Takes in what others committed and is not known yet, once nobody keeps the store still.
    fn take_foreign(&self, commits: &mut Commits, missed: &[Missed]) {
        let known = self.head().seq;
        let mut unknown = missed.iter().filter(|one| one.base >= known).peekable();
        if unknown.peek().is_none() {
            return;
        }
        let _end = self.still.end();
        self.foreign.fetch_add(1, Ordering::AcqRel);
        for one in unknown {
            self.take(commits, &one.rows, &one.remembered, one.head);
        }
    }

    /// What a batch that was decided on `base` has missed.
    fn behind(&self, commits: &mut Commits, base: Head, missed: Vec<Missed>) -> CommitError {
        self.take_foreign(commits, &missed);
        let head = missed.last().map_or(base, |last| last.head);
        let (mut rows, mut remembered, mut spent) = (Vec::new(), Vec::new(), Vec::new());
        for one in missed {
            rows.extend(one.rows);
            remembered.extend(one.remembered);
            spent.extend(one.spent.into_iter().map(|spent| (spent, one.ago)));
        }
        CommitError::Behind {
            head,
            rows,
            remembered: remembered.into(),
            spent: spent.into(),
        }
    }
}

fn failed(error: PostgresError) -> CommitError {
    CommitError::Failed(error.to_string())
}

fn is_same(one: Head, other: Head) -> bool {
    (one.seq, one.hash) == (other.seq, other.hash)
}

/// How a transaction begins after one that may have the lock for another batch.
fn begin_after(held: Option<Head>) -> &'static str {
    match held {
        None => "BEGIN",
        Some(_) => "ROLLBACK; BEGIN",
    }
}

static LOCK_HEAD: Sql = Sql {
    text: "SELECT seq, hash, time FROM chancery.journal WHERE id = $1 FOR UPDATE",
    types: &[Type::INT8],
};
static MISSED: Sql = Sql {
    text: "SELECT seq, hash, time, base, base_hash, token, changes,
            extract(epoch FROM clock_timestamp() - at)::float8
        FROM chancery.batch WHERE journal = $1 AND base >= $2 ORDER BY base",
    types: &[Type::INT8, Type::INT8],
};

/// Takes the lock and brings what came after a head, in one trip. Nothing is locked when it fails.
async fn lock(
    session: &Session,
    begin: &str,
    journal: i64,
    base: Head,
    names: &[WindowName],
) -> Result<(Head, Vec<Missed>), PostgresError> {
    let (begun, head, missed) = join3(
        session.say(begin),
        session.query(&LOCK_HEAD, &[&journal]),
        missed(session, journal, base, names),
    )
    .await;
    let locked = || -> Result<(Head, Vec<Missed>), PostgresError> {
        begun?;
        let (head, missed) = (head?, missed?);
        let head = head
            .first()
            .ok_or_else(|| PostgresError::Damaged("the journal is gone".to_owned()))?;
        let head = head_of(head, 0)?;
        if missed.is_empty() && !is_same(head, base) {
            return Err(PostgresError::TooFarBehind(base.seq));
        }
        Ok((head, missed))
    };
    let locked = locked();
    if locked.is_err() {
        // A connection that is gone has let go of it.
        let _ = session.say("ROLLBACK").await;
    }
    locked
}

/// What was committed after a head that this journal had.
async fn missed(
    session: &Session,
    journal: i64,
    base: Head,
    names: &[WindowName],
) -> Result<Vec<Missed>, PostgresError> {
    let rows = session
        .query(&MISSED, &[&journal, &stored(base.seq)])
        .await?;
    let follows = |row: &tokio_postgres::Row| {
        let hash: &[u8] = row.get(4);
        seq_of(row.get(3)) == base.seq && hash == &base.hash.0[..]
    };
    if !rows.first().is_none_or(follows) {
        return Err(PostgresError::TooFarBehind(base.seq));
    }
    let missed = |row: &tokio_postgres::Row| {
        let unpacked = packed::unpack(row.get(6), names)
            .ok_or_else(|| PostgresError::Damaged("the changes of a batch are cut".to_owned()))?;
        Ok(Missed {
            base: seq_of(row.get(3)),
            token: row.get(5),
            head: head_of(row, 0)?,
            rows: unpacked.rows,
            remembered: unpacked.remembered,
            spent: unpacked.spent,
            ago: ago_of(row.get(7)),
        })
    };
    rows.iter().map(missed).collect()
}

/// The age of a batch; one that was committed before ages were kept is of any time ago.
fn ago_of(seconds: Option<f64>) -> Duration {
    let Some(seconds) = seconds else {
        return Duration::MAX;
    };
    // Below zero where the server's clock was set back, or is another server's.
    Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX)
}

//! Following the other processes of a journal: being told of their commits, and sharing the duties.
//!
//! After its commits a process notifies whoever listens (`teller`). Notices can be lost with a connection, so the journal is
//! looked at every second as well. Timers and deliveries are the duty of one process at a time: a lease that it renews, and that another takes
//! when it has lapsed. Its own clock ends the lease for the holder, the server's clock for everybody else; the holder
//! counts from before it asked, so it never believes in a lease that another can have.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, stream};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::MissedTickBehavior;
use tokio_postgres::types::Type;
use tokio_postgres::{AsyncMessage, Client, Notification};

use super::link::Caller;
use super::notes::{self, Parts};
use super::session::Sql;
use super::{FAREWELL, PAUSE, Postgres, PostgresError, Shared};
use crate::contract::{StoreError, Watch};

/// How often the journal is looked at although nobody told of a commit.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long a duty is one's own.
const LEASE: Duration = Duration::from_secs(5);
/// How often it is asked for or renewed.
const RENEW_EVERY: Duration = Duration::from_millis(500);

type Moved = Arc<dyn Fn() + Send + Sync>;

/// The lease of this process.
pub(super) struct Duty {
    /// Tells this process from others.
    name: String,
    lease: Mutex<Lease>,
}

#[derive(Default)]
struct Lease {
    until: Option<Instant>,
    /// How often the duty has come to this process.
    term: u64,
    /// Given back for good: what is still heard about it does not count.
    is_laid_down: bool,
}

impl Lease {
    fn is_held(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() < until)
    }
}

impl Duty {
    pub(super) fn new() -> Result<Self, PostgresError> {
        let mut name = [0; 8];
        getrandom::fill(&mut name).map_err(|error| PostgresError::Runtime(error.to_string()))?;
        Ok(Self {
            name: format!("{:016x}", u64::from_be_bytes(name)),
            lease: Mutex::default(),
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The term of the duty, while it is held.
    pub(super) fn term(&self) -> Option<u64> {
        let lease = self.lock();
        lease.is_held().then_some(lease.term)
    }

    /// The duty is held until then. One that lapsed in between has come anew.
    fn set(&self, until: Option<Instant>) {
        let mut lease = self.lock();
        if !lease.is_laid_down {
            lease.term += u64::from(until.is_some() && !lease.is_held());
            lease.until = until;
        }
    }

    /// The duty is never held again. Was it, until now?
    fn lay_down(&self) -> bool {
        let mut lease = self.lock();
        let was_held = lease.is_held();
        lease.is_laid_down = true;
        lease.until = None;
        was_held
    }

    fn is_laid_down(&self) -> bool {
        self.lock().is_laid_down
    }

    fn lock(&self) -> MutexGuard<'_, Lease> {
        self.lease.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    /// Tells of the others, and of the duty, until the store is closed.
    pub(super) fn watch(self: &Arc<Self>, watch: Watch) -> Result<(), PostgresError> {
        let caller = self.link.caller();
        let (listening, renewing) = (Arc::downgrade(self), Arc::downgrade(self));
        let moved = Arc::clone(&watch.moved);
        self.link.spawn(listen(caller.clone(), listening, watch))?;
        self.link.spawn(keep_duty(caller, renewing, moved))?;
        self.begin_telling()
    }

    /// Gives the duty back, so that another need not wait for the lease to lapse.
    pub(super) fn lay_down_duty(&self) {
        if !self.duty.lay_down() {
            return;
        }
        let (caller, journal) = (self.link.caller(), self.journal);
        let name = self.duty.name().to_owned();
        let laid_down = self.link.run_for(FAREWELL, async move {
            let client = caller.client().await?;
            let sql = "DELETE FROM chancery.duty WHERE journal = $1 AND holder = $2";
            let given: Given<'_> = [(&journal, Type::INT8), (&name, Type::TEXT)];
            client.execute_typed(sql, &given).await?;
            Ok(())
        });
        if let Err(error) = laid_down {
            tracing::debug!(%error, "the duties lapse by themselves");
        }
    }
}

static HELD: Sql = Sql {
    text: "SELECT 1 FROM chancery.duty WHERE journal = $1 AND until > now()",
    types: &[Type::INT8],
};

impl Postgres {
    /// Whether a node runs on this journal: one of all that do has the duty. Of one that was killed it is still said until
    /// its lease lapses.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub fn is_attended(&self) -> Result<bool, StoreError> {
        let (shared, journal) = (&*self.shared, self.shared.journal);
        shared.patiently(|| {
            let session = shared.link.reader()?;
            shared
                .link
                .run(async move { Ok(!session.query(&HELD, &[&journal]).await?.is_empty()) })
        })
    }
}

type Given<'g> = [(&'g (dyn tokio_postgres::types::ToSql + Sync), Type); 2];

/// Listens for commits and notes of others, and looks every second.
async fn listen(caller: Caller, of: Weak<Shared>, watch: Watch) {
    let (told, mut notices) = unbounded_channel();
    tokio::spawn(hear(caller, told));
    let mut look = tokio::time::interval(LOOK_EVERY);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut parts = Parts::default();
    loop {
        let notice = tokio::select! {
            _ = look.tick() => None,
            notice = notices.recv() => match notice {
                Some(notice) => Some(notice),
                None => return,
            },
        };
        let Some(shared) = of.upgrade() else { return };
        let (journal, own) = (shared.journal, shared.duty.name());
        match notice {
            None => (watch.moved)(),
            Some(Notice::Note(text)) => {
                if let Some(note) = parts.take(&text, journal, own) {
                    (watch.heard)(note);
                }
            }
            // Of its own commits nobody need be told, nor of those of other journals.
            Some(Notice::Commit(text)) => {
                let (of_journal, process) = text.split_once(' ').unwrap_or_default();
                if of_journal == journal.to_string() && process != own {
                    (watch.moved)();
                }
            }
        }
    }
}

/// What the server passes on.
enum Notice {
    Commit(String),
    Note(String),
}

impl Notice {
    fn of(notice: &Notification) -> Self {
        let text = notice.payload().to_owned();
        match notice.channel() {
            notes::CHANNEL => Self::Note(text),
            _ => Self::Commit(text),
        }
    }
}

/// Passes notices on, over one connection after the other.
async fn hear(caller: Caller, told: UnboundedSender<Notice>) {
    while !told.is_closed() {
        if let Err(error) = hear_once(&caller, &told).await {
            tracing::debug!(%error, "commits of others are looked for, not told");
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn hear_once(caller: &Caller, told: &UnboundedSender<Notice>) -> Result<(), PostgresError> {
    let (client, mut connection) = caller.call().await?;
    let mut messages = stream::poll_fn(move |cx| connection.poll_message(cx));
    let told = told.clone();
    let hearing = async move {
        while let Some(message) = messages.next().await {
            if let AsyncMessage::Notification(notice) = message?
                && told.send(Notice::of(&notice)).is_err()
            {
                break;
            }
        }
        Ok(())
    };
    let asking = async {
        client
            .batch_execute("LISTEN chancery; LISTEN chancery_notes")
            .await?;
        // The client has to stay: its end is the connection's.
        std::future::pending::<Result<(), PostgresError>>().await
    };
    tokio::select! {
        heard = hearing => heard,
        asked = asking => asked,
    }
}

/// Asks for the duty again and again. `moved` is told whenever it has come or gone.
async fn keep_duty(caller: Caller, of: Weak<Shared>, moved: Moved) {
    let mut client: Option<Client> = None;
    let mut renew = tokio::time::interval(RENEW_EVERY);
    renew.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut held = None;
    loop {
        renew.tick().await;
        let Some(shared) = of.upgrade() else { return };
        if shared.duty.is_laid_down() {
            return;
        }
        let (journal, name) = (shared.journal, shared.duty.name().to_owned());
        drop(shared);
        let asked = Instant::now();
        let mine = ask(&caller, &mut client, journal, name).await;
        let Some(shared) = of.upgrade() else { return };
        match mine {
            Ok(true) => shared.duty.set(Some(asked + LEASE)),
            Ok(false) => shared.duty.set(None),
            Err(error) => {
                tracing::debug!(%error, "the duties cannot be asked for");
                client = None;
            }
        }
        let term = shared.duty.term();
        drop(shared);
        if term != held {
            held = term;
            moved();
        }
    }
}

/// Whether the duty is this process's, for a lease from now.
async fn ask(
    caller: &Caller,
    client: &mut Option<Client>,
    journal: i64,
    name: String,
) -> Result<bool, PostgresError> {
    let client = match client {
        Some(client) => client,
        None => client.insert(caller.client().await?),
    };
    let lease = LEASE.as_secs_f64();
    let sql = "INSERT INTO chancery.duty AS duty (journal, holder, until)
        VALUES ($1, $2, clock_timestamp() + make_interval(secs => $3))
        ON CONFLICT (journal) DO UPDATE SET holder = excluded.holder, until = excluded.until
        WHERE duty.holder = excluded.holder OR duty.until < clock_timestamp()";
    let given: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 3] = [
        (&journal, Type::INT8),
        (&name, Type::TEXT),
        (&lease, Type::FLOAT8),
    ];
    Ok(client.execute_typed(sql, &given).await? == 1)
}

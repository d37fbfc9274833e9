//! Connections to the server, for callers that block.
//!
//! A store's methods may be called from any thread. What reads, listens and tells runs on a runtime of the link's own, and the
//! caller waits for it outside of any runtime; the connection that commits is driven by whoever commits. A server that is
//! there and says nothing is waited for no longer than one that is gone.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::{Handle, Runtime, RuntimeFlavor};
use tokio_postgres::config::Host;
use tokio_postgres::{Client, Config, Connection, Socket};

use super::awake::Awake;
use super::session::Session;
use super::tls::{Asked, Secured, Tls};
use super::{PATIENCE, PostgresError, told};

/// A session that stands idle in the middle of a transaction holds the journal's head: the server ends it after this
/// time, and whoever was paused commits nothing when it wakes.
const IDLE_IN_TRANSACTION: Duration = Duration::from_secs(10);
/// How a session commits. A lock that is kept and not used is let go of with its connection, by the server.
const COMMITS: &str = "SET idle_in_transaction_session_timeout TO '2s'";
/// How statements are planned: once, and by keys. What the server believes about a journal's size when it plans is soon
/// wrong, and nothing here is ever better read as a whole table.
const PLANS: &str =
    "-c plan_cache_mode=force_generic_plan -c enable_seqscan=off -c enable_bitmapscan=off";
/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(5);

/// How long a quiet connection is left alone.
const KEEPALIVE: Duration = Duration::from_secs(5);
/// How long what was sent may stay unanswered by the other machine.
const GONE: Duration = Duration::from_secs(15);

/// The way to a server.
pub(super) struct Link {
    caller: Caller,
    /// None once it is closed. Ending a runtime waits for its work, so it is given away to be dropped.
    runtime: Mutex<Option<Runtime>>,
    /// What drives the connection that commits: whoever commits, on its own thread. Others wait for the lock meanwhile, so
    /// nobody is to be woken in between.
    desk: Mutex<Option<Runtime>>,
    reader: Mutex<Option<Arc<Session>>>,
    patience: Patience,
}

/// How long a server may say nothing.
#[derive(Clone)]
pub(super) struct Patience {
    time: Duration,
    awake: Arc<Awake>,
}

impl Patience {
    pub(super) fn of(time: Duration) -> Self {
        Self {
            time,
            awake: Arc::new(Awake::new()),
        }
    }

    /// When it ends, by [`Self::now`].
    pub(super) fn end(&self) -> Duration {
        self.now() + self.time
    }

    /// What it is measured by.
    pub(super) fn now(&self) -> Duration {
        self.awake.now()
    }

    /// Work that is one question to the server, or few. A connection that it was silent over is not to be used any more.
    pub(super) async fn with<T>(
        &self,
        work: impl Future<Output = Result<T, PostgresError>>,
    ) -> Result<T, PostgresError> {
        tokio::select! {
            biased;
            done = work => done,
            () = self.awake.passes(self.time) => Err(PostgresError::Silent(self.time)),
        }
    }
}

impl Link {
    /// The way to a server that may say nothing for as long as servers may.
    pub(super) fn new(url: &str, password: Option<&str>) -> Result<Self, PostgresError> {
        Self::with(url, password, Patience::of(PATIENCE))
    }

    pub(super) fn with(
        url: &str,
        password: Option<&str>,
        patience: Patience,
    ) -> Result<Self, PostgresError> {
        let Asked { url, tls } = Asked::of(url)?;
        let mut config: Config = url.parse()?;
        if let Some(password) = password {
            config.password(password);
        }
        config.connect_timeout(CONNECT);
        config.application_name("chancery");
        // A machine that is gone answers nothing: neither side waits for it for ever.
        config.keepalives_idle(KEEPALIVE);
        config.keepalives_interval(KEEPALIVE);
        config.tcp_user_timeout(GONE);
        config.options(format!(
            "{PLANS} -c idle_in_transaction_session_timeout={}",
            IDLE_IN_TRANSACTION.as_millis()
        ));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("postgres")
            .enable_all()
            .build()
            .map_err(|error| PostgresError::Runtime(error.to_string()))?;
        let desk = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| PostgresError::Runtime(error.to_string()))?;
        Ok(Self {
            caller: Caller { config, tls },
            runtime: Mutex::new(Some(runtime)),
            desk: Mutex::new(Some(desk)),
            reader: Mutex::new(None),
            patience,
        })
    }

    /// How long the server may say nothing.
    pub(super) fn patience(&self) -> &Patience {
        &self.patience
    }

    /// Runs work to its end, or until the server has said nothing for too long.
    pub(super) fn run<T, F>(&self, work: F) -> Result<T, PostgresError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, PostgresError>> + Send + 'static,
    {
        let patience = self.patience.clone();
        self.run_to_its_end(async move { patience.with(work).await })
    }

    /// The same with another time.
    pub(super) fn run_for<T, F>(&self, time: Duration, work: F) -> Result<T, PostgresError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, PostgresError>> + Send + 'static,
    {
        let awake = Arc::clone(&self.patience.awake);
        self.run_to_its_end(async move { Patience { time, awake }.with(work).await })
    }

    /// Runs work to its end, however long that takes.
    pub(super) fn run_to_its_end<T, F>(&self, work: F) -> Result<T, PostgresError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, PostgresError>> + Send + 'static,
    {
        let (done, result) = std::sync::mpsc::sync_channel(1);
        {
            let runtime = self.runtime.lock().unwrap_or_else(PoisonError::into_inner);
            let runtime = runtime.as_ref().ok_or(PostgresError::Closed)?;
            runtime.spawn(async move {
                // Whoever asked may be gone.
                let _ = done.send(work.await);
            });
        }
        let wait = || result.recv().unwrap_or(Err(PostgresError::Closed));
        // A task that waits here must not keep others from their thread.
        match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
            Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(wait),
            _ => wait(),
        }
    }

    /// Runs work of the connection that commits like [`Self::run`], on this thread.
    pub(super) fn run_here<T, F>(&self, work: F) -> Result<T, PostgresError>
    where
        T: Send,
        F: Future<Output = Result<T, PostgresError>> + Send,
    {
        let desk = self.desk.lock().unwrap_or_else(PoisonError::into_inner);
        let desk = desk.as_ref().ok_or(PostgresError::Closed)?;
        let work = self.patience.with(work);
        if Handle::try_current().is_err() {
            return desk.block_on(work);
        }
        // A thread of another runtime cannot drive this one.
        std::thread::scope(|scope| {
            let done = scope.spawn(|| desk.block_on(work)).join();
            done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Starts work that goes on until the link is closed.
    pub(super) fn spawn(
        &self,
        work: impl Future<Output = ()> + Send + 'static,
    ) -> Result<(), PostgresError> {
        let runtime = self.runtime.lock().unwrap_or_else(PoisonError::into_inner);
        let runtime = runtime.as_ref().ok_or(PostgresError::Closed)?;
        runtime.spawn(work);
        Ok(())
    }

    /// How connections are made.
    pub(super) fn caller(&self) -> Caller {
        self.caller.clone()
    }

    /// A new connection.
    pub(super) fn connect(&self) -> Result<Client, PostgresError> {
        let caller = self.caller();
        self.run(async move { caller.client().await })
    }

    /// A new connection that commits.
    pub(super) fn committer(&self) -> Result<Arc<Session>, PostgresError> {
        let caller = self.caller();
        let client = self.run_here(async move {
            let client = caller.client().await?;
            client.batch_execute(COMMITS).await?;
            Ok(client)
        })?;
        Ok(Arc::new(Session::new(client)))
    }

    /// The connection that reads, made anew where it ended.
    pub(super) fn reader(&self) -> Result<Arc<Session>, PostgresError> {
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(session) = reader.as_ref().filter(|session| !session.is_closed()) {
            return Ok(Arc::clone(session));
        }
        let session = Arc::new(Session::new(self.connect()?));
        *reader = Some(Arc::clone(&session));
        Ok(session)
    }

    /// The next one who reads does it over another connection.
    pub(super) fn forget_reader(&self) {
        *self.reader.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Ends every connection.
    pub(super) fn close(&self) {
        self.forget_reader();
        let runtime = self
            .runtime
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let desk = self
            .desk
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        for runtime in runtime.into_iter().chain(desk) {
            runtime.shutdown_background();
        }
    }
}

/// Makes connections.
#[derive(Clone)]
pub(super) struct Caller {
    config: Config,
    tls: Tls,
}

impl Caller {
    /// A connection that nobody has to attend to.
    pub(super) async fn client(&self) -> Result<Client, PostgresError> {
        let (client, connection) = self.call().await?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::warn!(%error, "a connection to PostgreSQL ended");
            }
        });
        Ok(client)
    }

    /// A connection for words that may be lost: they need not be on a disk.
    pub(super) async fn teller(&self) -> Result<Client, PostgresError> {
        let client = self.client().await?;
        client
            .batch_execute("SET synchronous_commit TO off")
            .await?;
        Ok(client)
    }

    /// A connection and what has to be attended to for it to work.
    pub(super) async fn call(
        &self,
    ) -> Result<(Client, Connection<Socket, Secured>), PostgresError> {
        let called = self.config.connect(self.tls.clone()).await;
        called.map_err(|error| self.told(error))
    }

    /// What is wrong with a connection that did not come about: the password is in no part of it.
    fn told(&self, error: tokio_postgres::Error) -> PostgresError {
        let said = error.as_db_error();
        let refuses = said.is_some_and(|said| said.code().code().starts_with("28"));
        // The server asks for a password, and there is none: the client says so itself.
        let lacks_password = error.to_string().starts_with("invalid configuration");
        match said {
            Some(_) if !refuses => PostgresError::Server(error),
            _ if refuses || lacks_password => PostgresError::Denied {
                place: self.place(),
                user: self.config.get_user().unwrap_or("nobody").to_owned(),
                reason: told(&error),
            },
            _ if is_insecure(&error) => PostgresError::Insecure {
                place: self.place(),
                reason: told(&error),
            },
            _ => PostgresError::Unreachable {
                place: self.place(),
                reason: told(&error),
            },
        }
    }

    /// The servers, as people write them.
    fn place(&self) -> String {
        let ports = self.config.get_ports();
        let hosts = self.config.get_hosts().iter().enumerate();
        let places = hosts.map(|(n, host)| {
            let port = ports.get(n).or(ports.first()).copied().unwrap_or(5432);
            match host {
                Host::Tcp(name) => format!("{name}:{port}"),
                Host::Unix(path) => path.display().to_string(),
            }
        });
        places.collect::<Vec<_>>().join(", ")
    }
}

/// Whether a handshake of TLS failed, other than by the end of the connection. The client tells it in words alone.
fn is_insecure(error: &tokio_postgres::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    let source = std::error::Error::source(error);
    let broken = source.and_then(|source| source.downcast_ref::<std::io::Error>());
    let has_ended = broken.is_some_and(|broken| {
        matches!(
            broken.kind(),
            BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof
        )
    });
    error
        .to_string()
        .starts_with("error performing TLS handshake")
        && !has_ended
}

impl Drop for Link {
    fn drop(&mut self) {
        self.close();
    }
}

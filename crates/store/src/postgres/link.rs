//! Connections to the server, for callers that block.
//!
//! One connection commits, one reads. A store's methods may be called from any thread: the work runs on a runtime of the
//! link's own, and the caller waits for it outside of any runtime.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio_postgres::{Client, Config, NoTls};

use super::PostgresError;

/// A session that stands idle in the middle of a transaction holds the journal's head: the server ends it after this
/// time, and whoever was paused commits nothing when it wakes.
const IDLE_IN_TRANSACTION: Duration = Duration::from_secs(10);
/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(5);

/// The way to a server.
pub(super) struct Link {
    config: Config,
    /// None once it is closed. Ending a runtime waits for its work, so it is given away to be dropped.
    runtime: Mutex<Option<Runtime>>,
    reader: Mutex<Option<Arc<Client>>>,
}

impl Link {
    pub(super) fn new(url: &str) -> Result<Self, PostgresError> {
        let mut config: Config = url.parse()?;
        config.connect_timeout(CONNECT);
        config.application_name("chancery");
        config.options(format!(
            "-c idle_in_transaction_session_timeout={}",
            IDLE_IN_TRANSACTION.as_millis()
        ));
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("postgres")
            .enable_all()
            .build()
            .map_err(|error| PostgresError::Runtime(error.to_string()))?;
        Ok(Self {
            config,
            runtime: Mutex::new(Some(runtime)),
            reader: Mutex::new(None),
        })
    }

    /// Runs work to its end.
    pub(super) fn run<T, F>(&self, work: F) -> Result<T, PostgresError>
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
        result.recv().unwrap_or(Err(PostgresError::Closed))
    }

    /// A new connection.
    pub(super) fn connect(&self) -> Result<Client, PostgresError> {
        let config = self.config.clone();
        self.run(async move {
            let (client, connection) = config.connect(NoTls).await?;
            tokio::spawn(async move {
                if let Err(error) = connection.await {
                    tracing::warn!(%error, "a connection to PostgreSQL ended");
                }
            });
            Ok(client)
        })
    }

    /// The connection that reads, made anew where it ended.
    pub(super) fn reader(&self) -> Result<Arc<Client>, PostgresError> {
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = reader.as_ref().filter(|client| !client.is_closed()) {
            return Ok(Arc::clone(client));
        }
        let client = Arc::new(self.connect()?);
        *reader = Some(Arc::clone(&client));
        Ok(client)
    }

    /// Ends every connection.
    pub(super) fn close(&self) {
        *self.reader.lock().unwrap_or_else(PoisonError::into_inner) = None;
        let runtime = self
            .runtime
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(runtime) = runtime {
            runtime.shutdown_background();
        }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.close();
    }
}

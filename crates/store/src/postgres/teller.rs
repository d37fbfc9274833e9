//! Telling the others that something was committed.
//!
//! Not in the transaction of the batch: a notice in it makes every commit of the server wait in one line, and wakes whoever
//! listens for each. A process that ends before it tells is not missed: the others look every second as well.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio_postgres::Client;
use tokio_postgres::types::Type;

use super::link::Caller;
use super::{PAUSE, PostgresError};

/// At most one notice in this time: whoever is busy learns of the others with its own commits.
const PAUSE_BETWEEN: Duration = Duration::from_millis(2);

/// What a process has to tell.
#[derive(Clone, Default)]
pub(super) struct Teller(Arc<Pending>);

#[derive(Default)]
struct Pending {
    is_untold: AtomicBool,
    wake: Notify,
}

impl Teller {
    /// Something was committed.
    pub(super) fn committed(&self) {
        self.0.is_untold.store(true, Ordering::Release);
        self.0.wake.notify_one();
    }

    /// Tells of commits from now on.
    pub(super) async fn tell_all(self, caller: Caller, notice: String) {
        let mut client: Option<Client> = None;
        loop {
            self.0.wake.notified().await;
            if let Err(error) = self.tell(&caller, &mut client, &notice).await {
                tracing::debug!(%error, "a commit is not told");
                client = None;
                self.0.is_untold.store(true, Ordering::Release);
                tokio::time::sleep(PAUSE).await;
                self.0.wake.notify_one();
            }
            tokio::time::sleep(PAUSE_BETWEEN).await;
        }
    }

    /// Tells what was not told yet.
    pub(super) async fn tell_last(
        self,
        caller: Caller,
        notice: String,
    ) -> Result<(), PostgresError> {
        self.tell(&caller, &mut None, &notice).await
    }

    async fn tell(
        &self,
        caller: &Caller,
        client: &mut Option<Client>,
        notice: &String,
    ) -> Result<(), PostgresError> {
        if !self.0.is_untold.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        let client = match client {
            Some(client) => client,
            None => client.insert(caller.teller().await?),
        };
        let sql = "SELECT pg_notify('chancery', $1)";
        client.query_typed(sql, &[(notice, Type::TEXT)]).await?;
        Ok(())
    }
}

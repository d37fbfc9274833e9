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

/// At most one notice in this time.
const PAUSE_BETWEEN: Duration = Duration::from_millis(2);
/// The same where several commit: each learns of the others with its own commits, and only who does not commit is told.
const PAUSE_BETWEEN_CONTENDED: Duration = Duration::from_millis(20);

/// What a process has to tell.
#[derive(Clone, Default)]
pub(super) struct Teller(Arc<Pending>);

#[derive(Default)]
struct Pending {
    is_untold: AtomicBool,
    is_contended: AtomicBool,
    wake: Notify,
}

impl Teller {
    /// Something was committed, by one of several or not.
    pub(super) fn committed(&self, is_contended: bool) {
        self.0.is_contended.store(is_contended, Ordering::Release);
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
            let pause = match self.0.is_contended.load(Ordering::Acquire) {
                true => PAUSE_BETWEEN_CONTENDED,
                false => PAUSE_BETWEEN,
            };
            tokio::time::sleep(pause).await;
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

//! The lock on the head row, kept for a batch that is decided again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chancery_journal::Head;

use super::session::Session;

/// How long it is kept: deciding takes a fraction of it. Whoever needs longer may be overtaken once more.
const KEPT: Duration = Duration::from_millis(250);

/// A transaction that has the lock and has written nothing.
pub(super) struct Hold {
    session: Arc<Session>,
    head: Head,
    /// Whoever takes this away ends the transaction.
    is_kept: Arc<AtomicBool>,
}

impl Hold {
    /// Keeps the lock that a session has. Called on the link's runtime.
    pub(super) fn of(session: Arc<Session>, head: Head) -> Self {
        let is_kept = Arc::new(AtomicBool::new(true));
        let hold = Self {
            session: Arc::clone(&session),
            head,
            is_kept: Arc::clone(&is_kept),
        };
        tokio::spawn(async move {
            tokio::time::sleep(KEPT).await;
            release(&session, &is_kept).await;
        });
        hold
    }

    /// The head that is locked, where it still is: the transaction is the caller's from here on.
    pub(super) fn take_up(self, session: &Arc<Session>) -> Option<Head> {
        let is_here = Arc::ptr_eq(&self.session, session);
        (is_here && self.is_kept.swap(false, Ordering::AcqRel)).then_some(self.head)
    }

    /// Nobody needs it.
    pub(super) async fn let_go(self) {
        release(&self.session, &self.is_kept).await;
    }
}

async fn release(session: &Session, is_kept: &AtomicBool) {
    if is_kept.swap(false, Ordering::AcqRel)
        && let Err(error) = session.say("ROLLBACK").await
    {
        tracing::debug!(%error, "the lock on the head went with its connection");
    }
}

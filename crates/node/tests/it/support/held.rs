//! Awaiting what a held store was asked.

use std::sync::Arc;

pub use chancery_store::testing::HeldStore;

/// What [`HeldStore`] lets a thread wait for, for tasks.
pub trait Awaited {
    /// Returns once so many commits were begun; gives the number of units in each.
    async fn begun(&self, commits: usize) -> Vec<usize>;
    /// Returns once so many envelopes were looked up in a window.
    async fn looked_up(&self, envelopes: usize);
}

impl Awaited for Arc<HeldStore> {
    async fn begun(&self, commits: usize) -> Vec<usize> {
        elsewhere(self, move |held| held.wait_for_begun(commits)).await
    }

    async fn looked_up(&self, envelopes: usize) {
        elsewhere(self, move |held| held.wait_for_looked_up(envelopes)).await;
    }
}

async fn elsewhere<T: Send + 'static>(
    held: &Arc<HeldStore>,
    wait: impl FnOnce(&HeldStore) -> T + Send + 'static,
) -> T {
    let held = Arc::clone(held);
    tokio::task::spawn_blocking(move || wait(&held))
        .await
        .unwrap()
}

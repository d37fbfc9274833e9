//! What hosted AGH peers that act by themselves share: reading their inbox in order, and sending each answer once.
//!
//! Each answer is sent under a key that follows from the line it answers, so a restart in between repeats none.

use std::sync::Arc;
use std::time::Duration;

use chancery_agh::answer::Outcome;
use chancery_core::inbox::InboxName;
use chancery_core::line::Seq;
use chancery_core::refusal::Refusal;
use chancery_store::StoreError;
use serde_json::Value;

use crate::inboxes::InboxEntry;
use crate::office::Office;

/// Entries read at once.
const PORTION: usize = 64;
/// The pause before something is tried again that the node or the broker was too busy for.
const PAUSE: Duration = Duration::from_millis(250);
/// How often a peer that is not there is looked for again.
const UNSEEN_AT_MOST: u32 = 20;

/// A peer that acts by itself.
pub(crate) trait Hosted {
    /// Deals with an envelope that it got.
    fn deal_with(&self, seq: Seq, envelope: &Value) -> impl Future<Output = ()> + Send;
}

/// Deals with every envelope that an inbox gets, in order, until the node stops.
pub(crate) async fn follow(office: &Arc<Office>, name: InboxName, hosted: &impl Hosted) {
    loop {
        match deal_with_all(office, &name, hosted).await {
            Ok(()) => {}
            Err(error) if office.gate().has_failed() => {
                tracing::debug!(%error, "a hosted peer ends with its node");
                return;
            }
            Err(error) => {
                tracing::warn!(%error, "an inbox could not be read; it is tried again");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Deals with everything after the cursor, then waits for more.
async fn deal_with_all(
    office: &Arc<Office>,
    name: &InboxName,
    hosted: &impl Hosted,
) -> Result<(), StoreError> {
    office.duty_begun().await;
    let (after, entries) = read(office, name).await?;
    if entries.is_empty() {
        return office.inboxes().wait(name, after).await;
    }
    for entry in entries {
        if let Ok(line) = serde_json::from_slice::<Value>(&entry.line) {
            hosted.deal_with(entry.seq, &line["envelope"]).await;
        }
        let (office, name) = (Arc::clone(office), name.clone());
        let moved = move || office.inboxes().acknowledge(&name, entry.seq);
        blocking(moved).await?;
    }
    Ok(())
}

async fn read(
    office: &Arc<Office>,
    name: &InboxName,
) -> Result<(Seq, Vec<InboxEntry>), StoreError> {
    let (office, name) = (Arc::clone(office), name.clone());
    blocking(move || {
        let after = office.inboxes().cursor(&name)?;
        Ok((after, office.inboxes().read(&name, after, PORTION)?))
    })
    .await
}

/// Does something where it may wait for the disk.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| StoreError(error.to_string()))?
}

/// Sends once for each key; what the node is too busy for, or whoever is not seen yet after a start, is tried again.
pub(crate) async fn send(office: &Office, key: String, body: &Value) -> Result<Outcome, Refusal> {
    let body = body.to_string();
    let mut unseen = 0;
    loop {
        match office.send_agh(body.as_bytes(), Some(key.clone())).await {
            Err(refusal) if refusal.code == "busy" => tokio::time::sleep(PAUSE).await,
            Err(refusal) if refusal.code == "not_found" && unseen < UNSEEN_AT_MOST => {
                unseen += 1;
                tokio::time::sleep(PAUSE).await;
            }
            sent => return sent,
        }
    }
}

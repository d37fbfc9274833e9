//! From a peer's inbox to its connection, in order, no further ahead than the connection takes it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chancery_agh::peer::PeerRecord;
use chancery_agh::peer::inbox;
use chancery_core::inbox::InboxName;
use chancery_core::line::Seq;
use chancery_node::Office;
use chancery_store::StoreError;
use tokio::sync::mpsc;

/// Entries that are read ahead: an envelope may have a megabyte.
const AHEAD: usize = 2;
/// The pause after a read that failed.
const PAUSE: Duration = Duration::from_millis(250);

/// An envelope of the inbox, as it came in.
pub(super) struct Entry {
    pub(super) seq: Seq,
    pub(super) envelope: Bytes,
}

/// Where the entries of an inbox come out.
pub(super) type Entries = mpsc::Receiver<Entry>;

/// The inbox of a peer.
pub(super) fn name_of(record: &PeerRecord) -> InboxName {
    let workspace = record.workspace_id.as_deref();
    inbox(workspace, &record.channel, &record.card.peer_id)
}

/// Reads an inbox from its cursor on, as far as it is looked back (AG-DLV-2), until nobody takes entries any more.
pub(super) async fn feed(office: Arc<Office>, name: InboxName, entries: mpsc::Sender<Entry>) {
    let mut after = None;
    loop {
        match portion(&office, &name, after).await {
            Ok((from, read)) => {
                after = Some(read.last().map_or(from, |entry| entry.seq));
                let is_empty = read.is_empty();
                for entry in read {
                    if entries.send(entry).await.is_err() {
                        return;
                    }
                }
                if is_empty && office.inboxes().wait(&name, from).await.is_err() {
                    tokio::time::sleep(PAUSE).await;
                }
            }
            Err(_) if office.gate().has_failed() || entries.is_closed() => return,
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// A channel for entries.
pub(super) fn channel() -> (mpsc::Sender<Entry>, Entries) {
    mpsc::channel(AHEAD)
}

async fn portion(
    office: &Arc<Office>,
    name: &InboxName,
    after: Option<Seq>,
) -> Result<(Seq, Vec<Entry>), StoreError> {
    let (office, name) = (Arc::clone(office), name.clone());
    let read = move || {
        let after = match after {
            Some(after) => after,
            None => office.inboxes().cursor(&name)?,
        };
        let depth = office.gate().settings().agh.max_queue_depth;
        let (after, _) = office.inboxes().newest(&name, after, depth)?;
        let lines = office.inboxes().read(&name, after, AHEAD)?;
        let entries: Result<Vec<Entry>, StoreError> = lines
            .into_iter()
            .map(|entry| {
                let line = chancery_journal::line::parse(&entry.line)
                    .map_err(|fault| StoreError(fault.to_string()))?;
                let envelope = line.received().clone();
                Ok(Entry {
                    seq: entry.seq,
                    envelope,
                })
            })
            .collect();
        Ok((after, entries?))
    };
    let read = tokio::task::spawn_blocking(read).await;
    read.map_err(|error| StoreError(error.to_string()))?
}

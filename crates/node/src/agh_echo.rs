//! A hosted AGH peer that answers by itself: it takes on every piece of work it is given and says it back.
//!
//! Each answer is sent under a key that follows from the line it answers, so a restart in between repeats none.

use std::sync::Arc;
use std::time::Duration;

use chancery_agh::peer::{PeerRecord, inbox};
use chancery_core::inbox::InboxName;
use chancery_core::line::Seq;
use chancery_store::StoreError;
use serde_json::{Map, Value, json};

use crate::inboxes::InboxEntry;
use crate::office::Office;

/// Entries read at once.
const PORTION: usize = 64;
/// The pause before something is tried again that the node or the broker was too busy for.
const PAUSE: Duration = Duration::from_millis(250);

/// How often a peer that is not there is looked for again.
const UNSEEN_AT_MOST: u32 = 20;

/// Answers what a peer gets, until the node stops.
pub async fn echo(office: Arc<Office>, record: PeerRecord) {
    let name = inbox(
        record.workspace_id.as_deref(),
        &record.channel,
        &record.card.peer_id,
    );
    loop {
        match answer_all(&office, &record, &name).await {
            Ok(()) => {}
            Err(error) if office.gate().has_failed() => {
                tracing::debug!(%error, "an echo ends with its node");
                return;
            }
            Err(error) => {
                tracing::warn!(%error, "an inbox could not be read; it is tried again");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Answers everything after the cursor, then waits for more.
async fn answer_all(
    office: &Arc<Office>,
    record: &PeerRecord,
    name: &InboxName,
) -> Result<(), StoreError> {
    let (after, entries) = read(office, name).await?;
    if entries.is_empty() {
        return office.inboxes().wait(name, after).await;
    }
    for entry in entries {
        for (step, answer) in answers(record, &entry.line) {
            send(office, entry.seq, step, &answer).await;
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

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| StoreError(error.to_string()))?
}

/// Sends one answer; what the rules refuse is over already, and what they are too busy for is tried again.
async fn send(office: &Office, answered: Seq, step: &str, body: &Value) {
    let key = format!("echo-{answered}-{step}");
    let body = body.to_string();
    let mut unseen = 0;
    loop {
        match office.send_agh(body.as_bytes(), Some(key.clone())).await {
            Err(refusal) if refusal.code == "busy" => tokio::time::sleep(PAUSE).await,
            // After a start it takes a moment until it is known again who is there.
            Err(refusal) if refusal.code == "not_found" && unseen < UNSEEN_AT_MOST => {
                unseen += 1;
                tokio::time::sleep(PAUSE).await;
            }
            Err(refusal) => {
                tracing::debug!(%refusal, answered, "an echo was refused");
                return;
            }
            Ok(_) => return,
        }
    }
}

/// What is said to a line: that the work is taken on, and its end. Only what asks for work is answered.
fn answers(record: &PeerRecord, line: &[u8]) -> Vec<(&'static str, Value)> {
    let Ok(line) = serde_json::from_slice::<Value>(line) else {
        return Vec::new();
    };
    let envelope = &line["envelope"];
    let kind = envelope["kind"].as_str().unwrap_or_default();
    let has_work = envelope["interaction_id"].is_string() || envelope["work_id"].is_string();
    let asks = matches!(kind, "direct" | "say" | "capability") && envelope["to"].is_string();
    if !(asks && has_work) {
        return Vec::new();
    }
    let text = envelope["body"]["text"].as_str();
    let text = text.or_else(|| envelope["body"]["capability"]["summary"].as_str());
    let said = format!("echo: {}", text.unwrap_or_default());
    let accepted = json!({"for_id": envelope["id"], "status": "accepted"});
    let completed = json!({"state": "completed", "message": said});
    vec![
        ("accepted", reply(record, envelope, "receipt", accepted)),
        ("completed", reply(record, envelope, "trace", completed)),
    ]
}

/// An answer where the envelope stood (AG-SND-3).
fn reply(record: &PeerRecord, envelope: &Value, kind: &str, body: Value) -> Value {
    let mut members = Map::new();
    for kept in [
        "workspace_id",
        "channel",
        "interaction_id",
        "work_id",
        "surface",
        "thread_id",
        "direct_id",
        "trace_id",
    ] {
        if let Some(value) = envelope.get(kept).filter(|value| !value.is_null()) {
            members.insert(kept.to_owned(), value.clone());
        }
    }
    members.insert("kind".to_owned(), kind.into());
    members.insert("from".to_owned(), record.card.peer_id.as_str().into());
    members.insert("to".to_owned(), envelope["from"].clone());
    members.insert("reply_to".to_owned(), envelope["id"].clone());
    members.insert("causation_id".to_owned(), envelope["id"].clone());
    members.insert("body".to_owned(), body);
    members.into()
}

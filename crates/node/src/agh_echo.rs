//! A hosted AGH peer that answers by itself: it takes on every piece of work it is given and says it back.

use std::sync::Arc;

use chancery_agh::peer::{PeerRecord, inbox};
use chancery_core::line::Seq;
use serde_json::{Map, Value, json};

use crate::agh_hosted::{Hosted, follow, send};
use crate::office::Office;

/// Answers what a peer gets, until the node stops.
pub async fn echo(office: Arc<Office>, record: PeerRecord) {
    let name = inbox(
        record.workspace_id.as_deref(),
        &record.channel,
        &record.card.peer_id,
    );
    let echo = Echo { office, record };
    follow(&echo.office, name, &echo).await;
}

struct Echo {
    office: Arc<Office>,
    record: PeerRecord,
}

impl Hosted for Echo {
    async fn deal_with(&self, answered: Seq, envelope: &Value) {
        for (step, answer) in answers(&self.record, envelope) {
            let key = format!("echo-{answered}-{step}");
            // What the rules refuse is over already.
            if let Err(refusal) = send(&self.office, key, &answer).await {
                tracing::debug!(%refusal, answered, "an echo was refused");
            }
        }
    }
}

/// What is said to a line: that the work is taken on, and its end. Only what asks for work is answered.
fn answers(record: &PeerRecord, envelope: &Value) -> Vec<(&'static str, Value)> {
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

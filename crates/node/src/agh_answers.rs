//! A hosted AGH peer that answers by itself: it takes on every piece of work it is given, and ends it with words. An echo says
//! the work back; other words come from a behaviour ([`crate::respond`]).
//!
//! What a stop interrupted is asked again only of a behaviour that does no harm by it; of any other the work has failed
//! (CH-JRN-16).

use std::sync::Arc;
use std::time::Duration;

use chancery_agh::handover;
use chancery_agh::peer::{PeerRecord, inbox};
use chancery_core::json::{self, ReadRules};
use chancery_core::line::{ProtocolName, Seq};
use serde_json::{Map, Value, json};

use crate::agh_hosted::{Hosted, follow, send};
use crate::office::Office;
use crate::respond::{Question, Responder, Unheard};

/// How long a behaviour may think about one piece of work.
const PATIENCE: Duration = Duration::from_secs(60);

/// Answers what a peer gets, until the node stops: with words of `responder`, or as an echo.
pub async fn answers(office: Arc<Office>, record: PeerRecord, responder: Option<Responder>) {
    let name = inbox(
        record.workspace_id.as_deref(),
        &record.channel,
        &record.card.peer_id,
    );
    let peer = Answering {
        office,
        record,
        responder,
    };
    follow(&peer.office, name, &peer).await;
}

struct Answering {
    office: Arc<Office>,
    record: PeerRecord,
    responder: Option<Responder>,
}

/// How work ends: its last state, and what is said about it.
type End = (&'static str, String);

impl Hosted for Answering {
    /// Only what asks for work is answered: that it is taken on, and its end.
    async fn deal_with(&self, answered: Seq, envelope: &Value) {
        if !asks_for_work(envelope) {
            return;
        }
        let accepted = json!({"for_id": envelope["id"], "status": "accepted"});
        let accepted = self.reply(envelope, "receipt", accepted);
        let was_taken_on =
            match send(&self.office, format!("echo-{answered}-accepted"), &accepted).await {
                Ok(outcome) => outcome.sent_before,
                // What the rules refuse is over already.
                Err(refusal) => {
                    tracing::debug!(%refusal, answered, "work was not taken on");
                    return;
                }
            };
        let (state, message) = self.work(answered, envelope, was_taken_on).await;
        let ended = json!({"state": state, "message": message});
        let ended = self.reply(envelope, "trace", ended);
        if let Err(refusal) = send(&self.office, format!("echo-{answered}-completed"), &ended).await
        {
            tracing::debug!(%refusal, answered, "the end of some work was refused");
        }
    }
}

impl Answering {
    async fn work(&self, answered: Seq, envelope: &Value, was_taken_on: bool) -> End {
        let text = envelope["body"]["text"].as_str();
        let text = text.or_else(|| envelope["body"]["capability"]["summary"].as_str());
        let text = text.unwrap_or_default();
        let Some(responder) = &self.responder else {
            return ("completed", format!("echo: {text}"));
        };
        if was_taken_on && !responder.is_pure() {
            return ("failed", "interrupted".to_owned());
        }
        let Some(slot) = responder.wait_for_slot().await else {
            return ("failed", "failed".to_owned());
        };
        let peer_id = self.record.card.peer_id.as_str();
        let question = Question {
            protocol: ProtocolName::Agh,
            seq: answered,
            agent: peer_id.to_owned(),
            address: peer_id.to_owned(),
            from: envelope["from"].as_str().unwrap_or_default().to_owned(),
            text: text.to_owned(),
            marked: Some(marked(envelope)),
        };
        match responder.ask(slot, question, PATIENCE).await {
            Ok(words) => ("completed", words),
            Err(Unheard::Timeout) => ("failed", "timeout".to_owned()),
            Err(Unheard::Failed(_)) => ("failed", "failed".to_owned()),
        }
    }

    /// An answer where the envelope stood (AG-SND-3).
    fn reply(&self, envelope: &Value, kind: &str, body: Value) -> Value {
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
        members.insert("from".to_owned(), self.record.card.peer_id.as_str().into());
        members.insert("to".to_owned(), envelope["from"].clone());
        members.insert("reply_to".to_owned(), envelope["id"].clone());
        members.insert("causation_id".to_owned(), envelope["id"].clone());
        members.insert("body".to_owned(), body);
        members.into()
    }
}

/// The envelope in the form that its own words cannot pass for the operator's in (AG-DLV-5).
fn marked(envelope: &Value) -> String {
    let text = envelope.to_string();
    let read = json::read(text.as_bytes(), &ReadRules::AGH);
    read.map_or_else(|_| String::new(), |envelope| handover::marked(&envelope))
}

fn asks_for_work(envelope: &Value) -> bool {
    let kind = envelope["kind"].as_str().unwrap_or_default();
    let has_work = envelope["interaction_id"].is_string() || envelope["work_id"].is_string();
    let asks = matches!(kind, "direct" | "say" | "capability") && envelope["to"].is_string();
    asks && has_work
}

//! What a node says by itself in the name of its peers: that they are here, and the question who else is (AG-GRT-2).

use chancery_core::digest::hex;
use chancery_core::json::Object;

use crate::kind::Kind;
use crate::made::{Made, proven_by};
use crate::message::Message;
use crate::peer::PeerRecord;
use crate::revision::Revision;
use crate::whois::own_value;

/// What the identifiers of a node's own questions begin with: their answers are signs of life and nothing more, so
/// they are on no log and in no inbox (CH-JRN-13).
const OWN_QUESTION: &str = "chancery-presence-";

/// The greeting of a local peer. With `signed` its proof waits for a signature.
pub fn greet(record: &PeerRecord, id: String, now: i64, signed: bool) -> Object<'static> {
    let card = record.shown_card();
    let body = Object::new()
        .with("summary", card.greeting())
        .with("peer_card", own_value(&card));
    of_peer(record, Kind::Greet, id, now, body, signed)
}

/// A local peer's question who is in its channel. With `signed` its proof waits for a signature.
pub fn who_is_there(record: &PeerRecord, id: &str, now: i64, signed: bool) -> Object<'static> {
    let body = Object::new().with("type", "request");
    let id = format!("{OWN_QUESTION}{id}");
    of_peer(record, Kind::Whois, id, now, body, signed)
}

/// Whether a message answers a question that a node asked by itself.
pub(crate) fn answers_own_question(message: &Message) -> bool {
    let asked = message.reply_to.as_deref();
    asked.is_some_and(|id| id.starts_with(OWN_QUESTION))
}

fn of_peer(
    record: &PeerRecord,
    kind: Kind,
    id: String,
    now: i64,
    body: Object<'static>,
    signed: bool,
) -> Object<'static> {
    let revision = match record.workspace_id {
        None => Revision::A,
        Some(_) => Revision::B,
    };
    let made = Made {
        id,
        kind,
        revision,
        workspace: record.workspace_id.as_deref(),
        channel: &record.channel,
        from: &record.card.peer_id,
        to: None,
        work: None,
        container: None,
        reply_to: None,
        trace_id: None,
        causation_id: None,
        ts: now,
    };
    let public = record.public_key.as_deref();
    let public = public.and_then(|key| hex::decode_array(key).ok());
    proven_by(
        made.into_object(body, None),
        public.as_ref().filter(|_| signed),
    )
}

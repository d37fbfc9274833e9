//! Automatic receipts: which refusals are told to the sender, and how (AG-RCT-1 to AG-RCT-7).

use bytes::Bytes;
use chancery_core::canonical::{Dialect, to_bytes};
use chancery_core::fault;
use chancery_core::json::{Object, Value};

use crate::body::ReceiptStatus;
use crate::fault::{ErrorName, Fault, Reason, Stage};
use crate::kind::Kind;
use crate::made::{Made, proven_by};
use crate::message::Message;
use crate::revision::Revision;

/// The status and code of the receipt that a refusal is due; none when it is due none. That `to` is a local peer is
/// the caller's to know.
pub fn due(message: &Message, fault: &Fault) -> Option<(ReceiptStatus, Reason)> {
    message.to.as_ref()?;
    message.work.as_ref()?;
    // A receipt of revision B stands in a container; one that is not good cannot hold it.
    let usable = message.revision == Revision::A
        || (message.container.is_some() && fault.stage != Stage::Conversation);
    if !usable {
        return None;
    }
    match fault.error {
        ErrorName::UnsupportedKind => {
            return Some((ReceiptStatus::Unsupported, Reason::UnsupportedKind));
        }
        ErrorName::NotTarget | ErrorName::Busy => return None,
        _ => {}
    }
    if !is_work(message) {
        return None;
    }
    Some(match fault.reason() {
        Reason::Duplicate => (ReceiptStatus::Duplicate, Reason::Duplicate),
        Reason::Expired => (ReceiptStatus::Expired, Reason::Expired),
        reason => (ReceiptStatus::Rejected, reason),
    })
}

/// Whether an envelope asks for work (AG-RCT-1, AG-B-22).
fn is_work(message: &Message) -> bool {
    match (message.kind, message.revision) {
        (Some(Kind::Direct | Kind::Capability), _) => true,
        (Some(Kind::Say), revision) => revision == Revision::B,
        (Some(Kind::Receipt), _) => fault::on("ag-receipt-to-a-receipt"),
        _ => false,
    }
}

/// The receipt (AG-RCT-4); with a key its proof waits for a signature.
pub fn receipt(
    message: &Message,
    status: ReceiptStatus,
    reason: Reason,
    id: String,
    now: i64,
    public: Option<&[u8; 32]>,
) -> Bytes {
    let from = message.to.as_deref().unwrap_or_default();
    let body = Object::new()
        .with("for_id", message.id.to_string())
        .with("status", status.as_str())
        .with("reason_code", reason.as_str());
    let envelope = Made::answering(message, Kind::Receipt, from, id, now);
    let envelope = envelope.into_object(body, None);
    to_bytes(&Value::Object(proven_by(envelope, public)), Dialect::Vibe).into()
}

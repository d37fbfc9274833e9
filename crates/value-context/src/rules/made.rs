//! A message that is made here: identifier, time, canonical bytes, and the line it becomes.

use std::time::Duration;

use bytes::Bytes;
use chancery_core::canonical::{Dialect, to_bytes};
use chancery_core::decision::{Cx, Stop};
use chancery_core::ids::{Uuid, Uuid7Sequence};
use chancery_core::json::{Object, Value};
use chancery_core::line::{Draft, DraftEnvelope, MetaValue, Origin, ProtocolName};
use chancery_core::rows::RowKey;
use chancery_core::time::{Time, format_millis, parse_value_context};

use super::{CHECKS, content_tag};
use crate::agent_id::AgentId;
use crate::message::{Kind, MAX_MAX_BYTES, Recipient, Timestamp, Version, read_json};
use crate::message_id::MessageId;
use crate::sign::envelope;
use crate::signature::SignedForms;
use crate::verify::MAX_AHEAD;

/// The row of the last identifier this node made: identifiers strictly increase (VX-ID-3).
pub(super) fn last_id_key() -> RowKey {
    RowKey::text("vx-last-id", &[])
}

/// A message that was made here.
pub(super) struct Made {
    pub(super) id: MessageId,
    pub(super) timestamp: Timestamp,
    now: Time,
    /// Canonical, without a signature.
    pub(super) envelope: Bytes,
}

impl Made {
    pub(super) fn new(
        kind: Kind,
        version: Version,
        sender: &AgentId,
        recipient: &Recipient,
        payload: Object<'_>,
        not_before: Option<Time>,
        cx: &mut Cx<'_>,
    ) -> Result<Self, Stop> {
        let (id, now) = (next_id(cx)?, cx.now());
        let made_at = not_before.map_or(now, |earliest| later(now, earliest));
        let mut members = envelope(kind, id, sender, recipient, made_at, payload);
        members.insert("vcp_message", version.as_str());
        let envelope = to_bytes(&Value::Object(members), Dialect::Vibe).into();
        Ok(Self {
            id,
            timestamp: stamp(made_at),
            now,
            envelope,
        })
    }

    /// Whether the older canonical form of it differs from the one that is signed (VX-CAN-6).
    pub(super) fn diverges(&self) -> bool {
        read_json(&self.envelope, MAX_MAX_BYTES)
            .is_ok_and(|value| SignedForms::of(&value).legacy_if_different().is_some())
    }

    /// Tells its copies from another message under the same identifier.
    pub(super) fn tag(&self) -> u64 {
        content_tag(&self.envelope)
    }

    /// Its line; sealed with the sender's key where the node holds it (CH-JRN-10).
    pub(super) fn draft(
        &self,
        sender: &AgentId,
        signed: bool,
        origin: Origin,
        mut meta: Vec<(&'static str, MetaValue)>,
    ) -> Draft {
        let bytes = self.envelope.clone();
        meta.push(("checks_passed", MetaValue::Words(CHECKS)));
        let envelope = if signed {
            let signer = sender.as_str().to_owned();
            DraftEnvelope::Unsealed { bytes, signer }
        } else {
            meta.push(("via", MetaValue::Text("in_process".to_owned())));
            DraftEnvelope::Whole(bytes)
        };
        Draft {
            protocol: ProtocolName::ValueContext,
            origin,
            envelope,
            raw: None,
            signature: None,
            eval_ts: Some(self.now),
            meta,
        }
    }
}

fn next_id(cx: &mut Cx<'_>) -> Result<MessageId, Stop> {
    let last: Option<MessageId> = cx.row(&last_id_key())?;
    let mut sequence =
        last.map_or_else(Uuid7Sequence::new, |last| Uuid7Sequence::after(last.uuid()));
    let mut entropy = [0; 10];
    entropy.copy_from_slice(&cx.entropy()[..10]);
    let unix_ms = u64::try_from(cx.now().unix_millis()).unwrap_or_default();
    let made: Uuid = sequence.next(unix_ms, entropy);
    let id = MessageId::made(made);
    cx.put(last_id_key(), &id);
    Ok(id)
}

/// Now, or a moment a little ahead that is not before `earliest` in whole milliseconds: as far ahead as a receiver
/// takes it (VX-RPL-1).
fn later(now: Time, earliest: Time) -> Time {
    let millisecond = Duration::from_nanos(999_999);
    let earliest = earliest.saturating_add(millisecond);
    now.max(earliest.min(now.saturating_add(MAX_AHEAD)))
}

/// The time as the envelope has it: milliseconds.
fn stamp(now: Time) -> Timestamp {
    let text = format_millis(now);
    let instant =
        parse_value_context(text.as_str()).expect("a time that was just written is read again");
    Timestamp {
        text: text.as_str().into(),
        instant,
    }
}

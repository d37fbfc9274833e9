//! A message of a hosted agent: the node adds identifier and time, and a signature when it holds the key.

use std::time::Duration;

use bytes::Bytes;
use chancery_core::admin::{RunState, run_state};
use chancery_core::canonical::{Dialect, to_bytes};
use chancery_core::decision::{Cx, Stop, Verdict};
use chancery_core::delivery::Delivery;
use chancery_core::ids::{Uuid, Uuid7Sequence};
use chancery_core::json::{Place, Value};
use chancery_core::line::{Draft, DraftEnvelope, MetaValue, Origin, ProtocolName};
use chancery_core::rows::RowKey;
use chancery_core::time::{Time, format_millis, parse_value_context};

use super::audience::{Handed, ask_for_room, hand_over, keep_shares, listeners};
use super::{CHECKS, SENT, content_tag, window_id};
use crate::agent::{AgentRecord, hosted, participant};
use crate::code::{Code, Fault};
use crate::message::{Payload, Recipient, Timestamp};
use crate::message_id::MessageId;
use crate::outgoing::Outgoing;
use crate::protocol::Answer;
use crate::settings::Settings;
use crate::sign::envelope;

/// How long a repeated request is recognised.
const IDEMPOTENCY: Duration = Duration::from_secs(24 * 60 * 60);
/// The pauses before the second, third and fourth attempt (VX-RTY-1).
const PAUSES_MS: [u32; 3] = [1_000, 2_000, 4_000];
/// How long one attempt may take (VX-RTY-2).
const ATTEMPT_MS: u32 = 5_000;
/// How long after signing the last attempt may begin: a later one would be stale (VX-RTY-7).
const HOLD_MS: u32 = 240_000;

/// The row of the last identifier this node made: identifiers strictly increase (VX-ID-3).
pub(super) fn last_id_key() -> RowKey {
    RowKey::text("vx-last-id", &[])
}

/// Decides what a hosted agent wants to send.
pub fn send(
    outgoing: &Outgoing,
    idempotency: Option<&str>,
    settings: &Settings,
    cx: &mut Cx<'_>,
) -> Result<Verdict<Answer>, Stop> {
    let sender = outgoing.sender.as_str();
    let record = sending_agent(sender, cx)?;
    let request = idempotency.map(|key| window_id(sender, key.as_bytes()));
    if let Some(seq) = request.and_then(|request| cx.seen(SENT, &request)) {
        return Ok(Verdict::Pass {
            answer: Answer::SentBefore(seq),
            repeat: Vec::new(),
        });
    }
    check_consent(outgoing, settings)?;
    let listeners = listeners(sender, &outgoing.recipient, cx)?;
    let remote = remote_recipients(outgoing, &record, &listeners);
    check_can_sign(outgoing, &remote)?;
    ask_for_room(sender, &listeners, cx)?;
    let made = Made::new(outgoing, next_id(cx)?, cx.now());
    let Payload::ContextShare(share) = &outgoing.content;
    let handed = Handed {
        id: made.id,
        tag: content_tag(&made.envelope),
        sender,
        timestamp: &made.timestamp,
        share,
    };
    let changes = keep_shares(&handed, &listeners, cx)?;
    let seq = cx.line(made.draft(outgoing, idempotency, changes));
    if let Some(request) = request {
        cx.remember(SENT, request, seq, IDEMPOTENCY);
    }
    hand_over(&handed, &listeners, seq, settings, cx);
    for to in remote {
        cx.deliver(seq, delivery(participant(sender, Some(&record)), to));
    }
    Ok(Verdict::Record {
        answer: Answer::Accepted(made.id),
    })
}

/// The sender's record: it must be hosted here and free to speak.
fn sending_agent(sender: &str, cx: &Cx<'_>) -> Result<AgentRecord, Stop> {
    let Some(record) = hosted(cx, sender)? else {
        let fault = Fault::new(Code::NotFound, "the sender is not hosted here").under("VX-RUN-3");
        return Err(fault
            .at(&Place::ROOT.child("sender"))
            .into_refusal("sender")
            .into());
    };
    if run_state(cx, participant(sender, Some(&record)))? == RunState::Suspended {
        let fault = Fault::new(Code::SenderSuspended, "the sender is suspended").under("VX-RUN-3");
        return Err(fault.into_refusal("direction").into());
    }
    Ok(record)
}

/// A personal state leaves only with its owner's consent (VX-PS-5).
fn check_consent(outgoing: &Outgoing, settings: &Settings) -> Result<(), Stop> {
    let Payload::ContextShare(share) = &outgoing.content;
    let allowed = settings.share_personal_state
        && (outgoing.recipient != Recipient::Broadcast || settings.share_personal_state_broadcast);
    if share.personal_state.is_none() || allowed {
        return Ok(());
    }
    let fault = Fault::new(
        Code::NotAuthorized,
        "sharing personal states is not switched on",
    )
    .under("VX-PS-5");
    Err(fault
        .at(&Place::ROOT.child("payload").child("personal_state"))
        .into_refusal("direction")
        .into())
}

fn remote_recipients(outgoing: &Outgoing, record: &AgentRecord, local: &[String]) -> Vec<String> {
    let is_local = |id: &str| local.iter().any(|listener| listener == id);
    match &outgoing.recipient {
        Recipient::Directed(agent) if is_local(agent.as_str()) => Vec::new(),
        Recipient::Directed(agent) => vec![agent.as_str().to_owned()],
        Recipient::Broadcast => record
            .known()
            .into_iter()
            .filter(|id| !is_local(id))
            .map(str::to_owned)
            .collect(),
    }
}

/// Whatever leaves this process is signed (VX-SIG-1).
fn check_can_sign(outgoing: &Outgoing, remote: &[String]) -> Result<(), Stop> {
    if outgoing.signed || remote.is_empty() {
        return Ok(());
    }
    let fault = Fault::new(
        Code::SignatureMissing,
        "this node holds no key of the sender to sign with",
    );
    Err(fault
        .at(&Place::ROOT.child("sender"))
        .into_refusal("signature")
        .into())
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

/// A message that was made here.
struct Made {
    id: MessageId,
    now: Time,
    timestamp: Timestamp,
    /// Canonical, without a signature.
    envelope: Bytes,
}

impl Made {
    fn new(outgoing: &Outgoing, id: MessageId, now: Time) -> Self {
        let payload = outgoing.payload.clone();
        let members = envelope(
            outgoing.kind,
            id,
            &outgoing.sender,
            &outgoing.recipient,
            now,
            payload,
        );
        let envelope = to_bytes(&Value::Object(members), Dialect::Vibe).into();
        Self {
            id,
            now,
            timestamp: stamp(now),
            envelope,
        }
    }

    fn draft(
        &self,
        outgoing: &Outgoing,
        idempotency: Option<&str>,
        changes: Option<MetaValue>,
    ) -> Draft {
        let bytes = self.envelope.clone();
        let mut meta = vec![("checks_passed", MetaValue::Words(CHECKS))];
        if let Some(key) = idempotency {
            meta.push(("idempotency", MetaValue::Text(key.to_owned())));
        }
        if let Some(changes) = changes {
            meta.push(("context_change", changes));
        }
        let envelope = if outgoing.signed {
            let signer = outgoing.sender.as_str().to_owned();
            DraftEnvelope::Unsealed { bytes, signer }
        } else {
            meta.push(("via", MetaValue::Text("in_process".to_owned())));
            DraftEnvelope::Whole(bytes)
        };
        Draft {
            protocol: ProtocolName::ValueContext,
            origin: Origin::Agent,
            envelope,
            raw: None,
            signature: None,
            eval_ts: Some(self.now),
            meta,
        }
    }
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

fn delivery(from: &str, to: String) -> Delivery {
    Delivery {
        protocol: ProtocolName::ValueContext,
        from: from.to_owned(),
        to,
        exempt: false,
        pauses_ms: PAUSES_MS.to_vec(),
        attempt_ms: ATTEMPT_MS,
        hold_ms: Some(HOLD_MS),
    }
}

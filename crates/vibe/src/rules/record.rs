//! Step 16 and 17 as data: the lines of a unit, what is remembered of each envelope, and the answer.

use std::sync::Arc;

use bytes::Bytes;
use chancery_core::canonical::write_string;
use chancery_core::decision::{Guard, Stop};
use chancery_core::ids::child_id;
use chancery_core::inbox::InboxName;
use chancery_core::line::{Origin, ProtocolName, Seq};

use super::admission::merchant_of;
use super::diff::Cause;
use super::lines::{Batch, LineOf, envelope, line};
use super::turn::{Child, Effect, Step, Turn};
use super::{Sender, act, follow, idempotency, views};
use crate::action::Action;
use crate::address::{Address, Side};
use crate::answer::{Answer, refusal_body};
use crate::code::Code;
use crate::message::Message;
use crate::payload::Payload;
use crate::settings::Platform;
use crate::state::{MsgRow, key};

/// An envelope as it goes on record.
pub(super) struct Recorded<'r> {
    /// Its canonical bytes.
    pub(super) bytes: Bytes,
    /// From outside, or made by the rules.
    pub(super) origin: Origin,
    /// Its signature.
    pub(super) signature: Option<&'r str>,
    /// The principal that sent it.
    pub(super) principal: Option<&'r str>,
    /// The line that a hosted agent answers by it.
    pub(super) answers: Option<Seq>,
}

/// What came of one envelope.
pub(super) struct Done {
    /// Its line.
    pub(super) seq: Seq,
    /// What it changed.
    pub(super) diff: Option<Bytes>,
    /// How many world envelopes it caused.
    pub(super) children: u64,
    /// What is remembered of it.
    pub(super) row: Arc<MsgRow>,
}

/// Carries an admitted envelope out: its action, its lines, its follow-ups, its answer.
pub(super) fn accept(
    mut turn: Turn<'_, '_>,
    step: &Step<'_>,
    payload: &Payload,
    message: &Message,
    sender: &Sender<'_>,
) -> Result<Answer, Stop> {
    let recorded = Recorded {
        bytes: message.canonical.clone(),
        origin: if sender.is_hosted {
            Origin::Agent
        } else {
            Origin::External
        },
        signature: message.signature.as_deref(),
        principal: sender.principal,
        answers: sender.answers,
    };
    check_room(&mut turn, step, payload)?;
    let mut emitted = Vec::new();
    let done = perform(&mut turn, step, payload, &recorded, &mut emitted)?;
    let mut follow_up_error = None;
    if turn.settings.platform == Platform::Auto {
        // What the runtime makes by itself is no principal's.
        turn.principal = None;
        follow_up_error = follow::follow(&mut turn, step, payload, &done, &mut emitted)?;
    }
    turn.session.clock = turn.eval;
    turn.cx
        .put_value(key::session(turn.session_id), turn.session);
    if let (Some(agent), Some(line)) = (sender.principal, sender.answers) {
        turn.cx.put(key::answered(agent, line), &step.msg_id);
    }
    // Replay answers nobody.
    if !turn.cx.keeps_agenda() {
        return Ok(Answer::Accepted {
            body: Bytes::new(),
            replayed: false,
        });
    }
    let body = AnswerBody {
        msg_id: step.msg_id,
        session_id: turn.session_id,
        done: &done,
        emitted: &emitted,
        follow_up_error: follow_up_error.as_ref().map(refusal_body),
    };
    let body = match step.key.filter(|_| step.action.is_mutation()) {
        Some(own) => {
            let (eval, settings) = (turn.eval, turn.settings);
            let principal = sender.principal;
            idempotency::bind(message, own, principal, eval, &body, settings, turn.cx)?
        }
        None => {
            let mut bytes = Vec::with_capacity(body.len());
            body.write(&mut bytes);
            bytes.into()
        }
    };
    Ok(Answer::Accepted {
        body,
        replayed: false,
    })
}

/// The body of an acceptance (VC-HTTP-2), to be written where it is kept.
pub(super) struct AnswerBody<'b> {
    msg_id: &'b str,
    session_id: &'b str,
    done: &'b Done,
    emitted: &'b [Bytes],
    follow_up_error: Option<Vec<u8>>,
}

impl AnswerBody<'_> {
    /// About how long it is: a little more, unless an identifier has to be escaped.
    pub(super) fn len(&self) -> usize {
        const NAMES: usize = 128;
        let emitted: usize = self.emitted.iter().map(|one| one.len() + 1).sum();
        let diff = self.done.diff.as_ref().map_or(4, Bytes::len);
        let error = self.follow_up_error.as_ref().map_or(4, Vec::len);
        NAMES + emitted + diff + error + self.msg_id.len() + self.session_id.len()
    }

    /// Writes it, canonical.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"emitted\":[");
        for (index, envelope) in self.emitted.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            out.extend_from_slice(envelope);
        }
        out.extend_from_slice(b"],\"follow_up_error\":");
        out.extend_from_slice(self.follow_up_error.as_deref().unwrap_or(b"null"));
        out.extend_from_slice(b",\"msg_id\":");
        write_string(self.msg_id, out);
        out.extend_from_slice(b",\"seq\":");
        out.extend_from_slice(self.done.seq.to_string().as_bytes());
        out.extend_from_slice(b",\"session_id\":");
        write_string(self.session_id, out);
        out.extend_from_slice(b",\"state_diff\":");
        out.extend_from_slice(self.done.diff.as_deref().unwrap_or(b"null"));
        out.extend_from_slice(b",\"status\":\"accepted\"}");
    }
}

/// Runs an envelope's action and drafts its lines. A refusal comes before any change, but for a derived identifier that is
/// used: that one is of the whole unit (VC-CLR-9).
pub(super) fn perform(
    turn: &mut Turn<'_, '_>,
    step: &Step<'_>,
    payload: &Payload,
    recorded: &Recorded<'_>,
    emitted: &mut Vec<Bytes>,
) -> Result<Done, Stop> {
    let before = (!turn.is_new && turn.cx.keeps_agenda()).then(|| views::session(&turn.session));
    let mut effect = act(turn, step, payload)?;
    let children = std::mem::take(&mut effect.children);
    let diff = finish_diff(turn, step, &mut effect, before)?;
    let diff_id = diff.is_some().then_some(step.msg_id);
    let batch = |index: usize| {
        (!children.is_empty()).then(|| Batch {
            id: step.msg_id,
            index,
            size: children.len() + 1,
        })
    };
    let seq = turn.cx.line(line(&LineOf {
        envelope: recorded.bytes.clone(),
        origin: recorded.origin,
        signature: recorded.signature,
        principal: recorded.principal,
        answers: recorded.answers,
        eval: turn.eval,
        diff_of: diff_id,
        batch: batch(0),
        to_world: step.to.side == Side::World,
    }));
    let row = remember(turn, step, &mut effect, seq);
    deliver(turn, step.to, step.to_text, payload, seq)?;
    for (index, child) in children.iter().enumerate() {
        let id = derived_id(turn, step.msg_id, index as u64 + 1)?;
        let bytes = record_child(turn, step, child, &id, batch(index + 1), diff_id, &row);
        emitted.push(bytes);
    }
    Ok(Done {
        seq,
        diff,
        children: children.len() as u64,
        row,
    })
}

/// An identifier that follows from an envelope's, if it is free (VC-CAN-6, VC-CLR-9).
pub(super) fn derived_id(turn: &Turn<'_, '_>, msg_id: &str, index: u64) -> Result<String, Stop> {
    let id = child_id(msg_id, index).to_string();
    if turn.cx.bytes(&key::msg(&id))?.is_some() {
        return Err(Code::DuplicateMsgId.stop());
    }
    Ok(id)
}

fn finish_diff(
    turn: &mut Turn<'_, '_>,
    step: &Step<'_>,
    effect: &mut Effect,
    before: Option<Bytes>,
) -> Result<Option<Bytes>, Stop> {
    turn.is_new = false;
    let Some(diff) = &mut effect.diff else {
        return Ok(None);
    };
    if !turn.cx.keeps_agenda() {
        diff.ops.advance_world_hash(turn.cx)?;
        return Ok(Some(Bytes::new()));
    }
    let after = views::session(&turn.session);
    if before.as_ref() != Some(&after) {
        diff.ops
            .note("sessions", turn.session_id, before, Some(after));
    }
    let cause = Cause {
        msg_id: step.msg_id,
        session_id: turn.session_id,
        from: step.from_text,
        key: step.key.unwrap_or_default(),
    };
    diff.finish(&cause, turn.cx).map(Some)
}

fn record_child(
    turn: &mut Turn<'_, '_>,
    step: &Step<'_>,
    child: &Child,
    id: &str,
    batch: Option<Batch<'_>>,
    diff_id: Option<&str>,
    parent: &MsgRow,
) -> Bytes {
    let bytes = envelope(&crate::rules::lines::Made {
        msg_id: id,
        kind: child.action.kind(),
        payload: &child.payload,
        from: child.from,
        to: "world",
        in_reply_to: step.msg_id,
        session_id: turn.session_id,
        ts: step.ts_text,
    });
    let seq = turn.cx.line(line(&LineOf {
        envelope: bytes.clone(),
        origin: Origin::Runtime,
        signature: None,
        principal: None,
        answers: None,
        eval: turn.eval,
        diff_of: diff_id,
        batch,
        to_world: true,
    }));
    let row = MsgRow {
        seq,
        session_id: turn.session_id.into(),
        kind: child.action,
        to: Side::World,
        thread: parent.thread.clone(),
        about: None,
        asks: false,
    };
    turn.cx.put_value(key::msg(id), row);
    bytes
}

fn remember(
    turn: &mut Turn<'_, '_>,
    step: &Step<'_>,
    effect: &mut Effect,
    seq: Seq,
) -> Arc<MsgRow> {
    let thread = if step.action == Action::ProposeOffer {
        Some(step.msg_id.into())
    } else {
        step.replied
            .as_ref()
            .and_then(|replied| replied.thread.clone())
    };
    let row = Arc::new(MsgRow {
        seq,
        session_id: turn.session_id.into(),
        kind: step.action,
        to: step.to.side,
        thread,
        about: effect.about.take().map(String::into_boxed_str),
        asks: effect.asks,
    });
    turn.cx.put_shared(key::msg(step.msg_id), Arc::clone(&row));
    row
}

/// Refuses an envelope whose receiver has no room (CH-LIM-3), before anything changes. Replay has no inboxes.
fn check_room(turn: &mut Turn<'_, '_>, step: &Step<'_>, payload: &Payload) -> Result<(), Stop> {
    if !turn.cx.keeps_agenda() {
        return Ok(());
    }
    match receiver(turn, step.to, step.to_text, payload)? {
        Some(name) => turn
            .cx
            .guard(Guard::Inbox { name: &name }, || Code::Overloaded.refuse()),
        None => Ok(()),
    }
}

/// Puts an envelope into the inbox of its receiver.
fn deliver(
    turn: &mut Turn<'_, '_>,
    to: Address,
    to_text: &str,
    payload: &Payload,
    seq: Seq,
) -> Result<(), Stop> {
    if turn.cx.keeps_agenda()
        && let Some(name) = receiver(turn, to, to_text, payload)?
    {
        turn.cx.inbox(name, seq);
    }
    Ok(())
}

/// The inbox of a receiver, by session owner or merchant (VC-ADR-9); the world has none.
fn receiver(
    turn: &Turn<'_, '_>,
    to: Address,
    to_text: &str,
    payload: &Payload,
) -> Result<Option<InboxName>, Stop> {
    let owner = match to.side {
        Side::World => return Ok(None),
        Side::Platform => None,
        Side::Merchant => merchant_of(payload, turn.cx)?,
        Side::Buyer | Side::Consumer => Some(match &turn.session.consumer_id {
            Some(consumer) => consumer.clone(),
            None => ["c_", turn.session_id].concat(),
        }),
    };
    Ok(Some(inbox(to_text, owner.as_deref())))
}

/// The inbox of an address: of a merchant or a consumer where the side has many.
pub fn inbox(address: &str, owner: Option<&str>) -> InboxName {
    let agent = match owner {
        Some(owner) => [address, "@", owner].concat(),
        None => address.to_owned(),
    };
    InboxName {
        protocol: ProtocolName::Vibe,
        agent,
    }
}

//! The rules: what becomes of an envelope once its form is known (steps 3 and 5 to 7).
//!
//! Rejections are verdicts, not refusals: they may come with a receipt that the sender is to have. Nothing has a side
//! effect before duplicates are looked for (AG-VAL-7).

mod audience;
mod conversations;
mod interactions;
mod queue;
mod receive;
mod relay;
mod respond;
mod send;

use std::time::Duration;

use chancery_core::admin::{Act, agent_key, node_line};
use chancery_core::decision::{Cx, Stop, Verdict};
use chancery_core::digest::Sha256;
use chancery_core::fault;
use chancery_core::inbox::open_page_key;
use chancery_core::line::{Origin, ProtocolName, Seq};
use chancery_core::protocol::{Failure, Input};
use chancery_core::rows::RowKey;
use chancery_core::time::Time;
use chancery_core::window::{WindowId, WindowName};

pub use conversations::{Conversation, conversation_key, conversations_prefix};
pub use interactions::{Stored as StoredInteraction, interaction_key, interactions_prefix};
pub use receive::receive;
pub(crate) use relay::VIA as VIA_CONNECTION;
pub use relay::relay;
pub use send::send;

use crate::answer::Answer;
use crate::message::Message;
use crate::peer::{address, channel_key, inbox};
use crate::protocol::Agh;
use crate::revision::Revision;
use crate::settings::Settings;

/// Envelopes that left a line (AG-DUP-1).
pub const SEEN: WindowName = "agh/seen";
/// Keys of send requests that were carried out.
pub const SENT: WindowName = "agh/sent";

/// The steps that a recorded envelope has passed.
const CHECKS: &[&str] = &[
    "parse",
    "members",
    "freshness",
    "body",
    "routing",
    "lifecycle",
];

/// The rows that a decision will surely read.
pub fn wants(input: &Input<Agh>, wants: &mut Vec<RowKey>) {
    match input {
        Input::Envelope(authentic) => wants_of(&authentic.message, wants),
        Input::Outgoing { content, .. } => {
            let (workspace, channel, from) = content.place();
            wants.push(agent_key(
                ProtocolName::Agh,
                &address(workspace, channel, from),
            ));
            wants.push(channel_key(workspace, channel));
        }
        _ => {}
    }
}

fn wants_of(message: &Message, wants: &mut Vec<RowKey>) {
    let (workspace, channel) = (message.workspace.as_deref(), &*message.channel);
    match &message.to {
        Some(to) => {
            wants.push(agent_key(
                ProtocolName::Agh,
                &address(workspace, channel, to),
            ));
            wants.push(open_page_key(&inbox(workspace, channel, to)));
        }
        None => wants.push(channel_key(workspace, channel)),
    }
    if let Some(work) = &message.work {
        wants.push(interaction_key(workspace, channel, work));
    }
}

/// Puts a publication that failed on record. If the envelope was the last of its interaction, that is as before
/// (AG-LIF-10, CH-JRN-11).
pub fn note_failure(
    of: Seq,
    about: &str,
    why: Failure,
    settings: &Settings,
    cx: &mut Cx<'_>,
) -> Result<Verdict<Answer>, Stop> {
    if let Some(key) = audience::interaction_of(about) {
        interactions::put_back(&key, of, settings, cx)?;
    }
    let act = Act::Failed {
        protocol: ProtocolName::Agh,
        of,
        about: about.to_owned(),
        code: why,
    };
    let now = cx.now();
    cx.line(node_line(&act, Origin::External, Some(now)));
    Ok(Verdict::Record {
        answer: Answer::Noted,
    })
}

/// An envelope in the memory of duplicates: its sender and identifier (AG-DUP-1), within one revision's addresses.
fn envelope_id(message: &Message) -> WindowId {
    let revision = match message.revision {
        Revision::A => "A",
        Revision::B => "B",
    };
    let workspace = message.workspace.as_deref().unwrap_or_default();
    if fault::on("ag-duplicate-by-id-alone") {
        return window_id(&[revision, workspace, &message.id]);
    }
    window_id(&[revision, workspace, &message.from, &message.id])
}

fn window_id(parts: &[&str]) -> WindowId {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(&(part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    let mut id = [0; 16];
    id.copy_from_slice(&hash.finish().0[..16]);
    id
}

/// How long an envelope is remembered: until it could no longer pass freshness (AG-DUP-3).
fn memory_span(message: &Message, now: Time, settings: &Settings) -> Duration {
    let now_s = now.unix_seconds();
    let end = message.expires_at.unwrap_or_else(|| {
        message
            .ts
            .saturating_add(settings.max_replay_age_s)
            .saturating_add(1)
    });
    let end = i64::try_from(end).unwrap_or(i64::MAX);
    let span = u64::try_from(end.saturating_sub(now_s)).unwrap_or_default();
    Duration::from_secs(span.clamp(1, settings.max_dedupe_retention_s.max(1)))
}

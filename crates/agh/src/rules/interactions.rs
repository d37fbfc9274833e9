//! Interactions on record: found by name, moved by the table, and never more than their limit (AG-LIF-12).

use chancery_core::decision::{Cx, Event as Told, Stop};
use chancery_core::line::{ProtocolName, Seq};
use chancery_core::rows::RowKey;
use serde::{Deserialize, Serialize};

use super::queue::Queue;
use crate::body::State;
use crate::lifecycle::{Interaction, Move};
use crate::message::Message;
use crate::settings::Settings;

/// Interactions that can still move, the longest untouched first.
const ACTIVE: Queue = Queue("active");
/// Interactions that have ended, the oldest first.
const ENDED: Queue = Queue("ended");

/// Ended ones that are forgotten when one more comes.
const FORGOTTEN_AT_ONCE: usize = 2;

/// An interaction's row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stored {
    /// The interaction.
    #[serde(flatten)]
    pub interaction: Interaction,
    /// The line of the last envelope that counted.
    pub last_seq: Seq,
    /// The state before that envelope; none when it opened the interaction.
    pub before: Option<State>,
}

/// The row of an interaction: in revision A by channel and name, in B by workspace and name (AG-LIF-8, AG-B-21).
pub fn interaction_key(workspace: Option<&str>, channel: &str, name: &str) -> RowKey {
    interactions_prefix(workspace, channel).child(name.as_bytes())
}

/// The prefix of a channel's interactions, or of a workspace's.
pub fn interactions_prefix(workspace: Option<&str>, channel: &str) -> RowKey {
    match workspace {
        None => RowKey::text("agh-interaction", &["a", channel]),
        Some(workspace) => RowKey::text("agh-interaction", &["b", workspace]),
    }
}

/// The row that a message's unit of work has.
pub(super) fn key_of(message: &Message) -> Option<RowKey> {
    let work = message.work.as_deref()?;
    Some(interaction_key(
        message.workspace.as_deref(),
        &message.channel,
        work,
    ))
}

/// An interaction on record. One that ended long enough ago is as good as forgotten.
pub(super) fn find(key: &RowKey, settings: &Settings, cx: &Cx<'_>) -> Result<Option<Stored>, Stop> {
    let stored: Option<Stored> = cx.row(key)?;
    Ok(stored.filter(|stored| !is_over(&stored.interaction, settings, cx)))
}

/// Writes what a message made of its interaction. `seq` is the message's line.
pub(super) fn apply(
    key: RowKey,
    record: Option<Stored>,
    step: Move,
    message: &Message,
    seq: Seq,
    settings: &Settings,
    cx: &mut Cx<'_>,
) -> Result<State, Stop> {
    let now = cx.now().unix_seconds();
    let before = record.as_ref().map(|stored| stored.interaction.state);
    let mut interaction = match record {
        Some(stored) => stored.interaction,
        None => opened(message, now),
    };
    if let Move::Advance(state) = step {
        interaction.state = state;
    }
    let state = interaction.state;
    interaction.updated = now;
    interaction.last_id = message.id.to_string();
    cx.put(
        key.clone(),
        &Stored {
            interaction,
            last_seq: seq,
            before,
        },
    );
    file(&key, state, cx)?;
    if before.is_none() {
        make_room(settings, cx)?;
    }
    Ok(state)
}

/// Takes the effect of the line `of` back, if it was the last.
pub(super) fn put_back(
    key: &RowKey,
    of: Seq,
    settings: &Settings,
    cx: &mut Cx<'_>,
) -> Result<(), Stop> {
    let Some(mut stored) = find(key, settings, cx)?.filter(|stored| stored.last_seq == of) else {
        return Ok(());
    };
    match stored.before {
        None => {
            forget(key, cx)?;
        }
        Some(state) => {
            stored.interaction.state = state;
            cx.put(key.clone(), &stored);
            file(key, state, cx)?;
        }
    }
    Ok(())
}

fn opened(message: &Message, now: i64) -> Interaction {
    let in_b = message.container.is_some();
    Interaction {
        initiator: message.from.to_string(),
        target: message.to.as_deref().unwrap_or_default().to_owned(),
        state: State::Submitted,
        created: now,
        updated: now,
        last_id: String::new(),
        container: message
            .container
            .as_ref()
            .map(|container| container.id.to_string()),
        channel: in_b.then(|| message.channel.to_string()),
    }
}

/// Puts an interaction at the end of the queue that its state belongs to.
fn file(key: &RowKey, state: State, cx: &mut Cx<'_>) -> Result<(), Stop> {
    let (into, out_of) = if state.is_terminal() {
        (ENDED, ACTIVE)
    } else {
        (ACTIVE, ENDED)
    };
    out_of.remove(key, cx)?;
    into.touch(key, cx)
}

/// Forgets what ended long ago; beyond the limit the oldest ended, then the active one longest untouched.
fn make_room(settings: &Settings, cx: &mut Cx<'_>) -> Result<(), Stop> {
    for _ in 0..FORGOTTEN_AT_ONCE {
        let Some(key) = ENDED.first(cx)? else { break };
        let stored: Option<Stored> = cx.row(&key)?;
        if stored.is_some_and(|stored| !is_over(&stored.interaction, settings, cx)) {
            break;
        }
        forget(&key, cx)?;
    }
    while ENDED.len(cx)? + ACTIVE.len(cx)? > settings.max_interactions {
        if let Some(key) = ENDED.first(cx)? {
            forget(&key, cx)?;
        } else if let Some(key) = ACTIVE.first(cx)? {
            let stored: Option<Stored> = cx.row(&key)?;
            cx.event(Told {
                name: "interaction_evicted",
                protocol: ProtocolName::Agh,
                message_id: stored.map(|stored| stored.interaction.last_id),
            });
            forget(&key, cx)?;
        } else {
            break;
        }
    }
    Ok(())
}

fn forget(key: &RowKey, cx: &mut Cx<'_>) -> Result<(), Stop> {
    cx.remove(key.clone());
    ENDED.remove(key, cx)?;
    ACTIVE.remove(key, cx)
}

fn is_over(interaction: &Interaction, settings: &Settings, cx: &Cx<'_>) -> bool {
    let retention = i64::try_from(settings.retention_s()).unwrap_or(i64::MAX);
    let age = cx.now().unix_seconds().saturating_sub(interaction.updated);
    interaction.state.is_terminal() && age > retention
}

//! Conversations of revision B: threads and rooms, who speaks there and what was said last (AG-B-28).

use chancery_core::decision::{Cx, Stop};
use chancery_core::line::Seq;
use chancery_core::rows::RowKey;
use serde::{Deserialize, Serialize};

use super::queue::Queue;
use crate::body::State;
use crate::message::Message;
use crate::settings::Settings;

/// Conversations, the longest silent first.
const RECENT: Queue = Queue("conversations");
/// Participants that a conversation names.
const PARTICIPANTS: usize = 256;
/// The latest messages that a conversation names; older ones are in the log.
const MESSAGES: usize = 128;

/// A thread or a room.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conversation {
    /// `thread` or `direct`.
    pub surface: String,
    /// Who has spoken or was spoken to, in order.
    pub participants: Vec<String>,
    /// How many messages there were.
    pub message_count: u64,
    /// The lines of the latest ones.
    pub messages: Vec<Seq>,
    /// Works that were opened here and have not ended.
    pub open_work: u64,
    /// When something was last said, in Unix seconds.
    pub last_activity: i64,
}

/// The row of a conversation.
pub fn conversation_key(workspace: &str, channel: &str, container: &str) -> RowKey {
    conversations_prefix(workspace, channel).child(container.as_bytes())
}

/// The prefix of a channel's conversations.
pub fn conversations_prefix(workspace: &str, channel: &str) -> RowKey {
    RowKey::text("agh-conversation", &[workspace, channel])
}

/// What a message did to the work it belongs to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Worked {
    pub(super) before: Option<State>,
    pub(super) after: Option<State>,
}

/// Notes a message in its conversation.
pub(super) fn note(
    message: &Message,
    worked: Worked,
    line: Seq,
    settings: &Settings,
    cx: &mut Cx<'_>,
) -> Result<(), Stop> {
    let (Some(workspace), Some(container)) = (&message.workspace, &message.container) else {
        return Ok(());
    };
    let key = conversation_key(workspace, &message.channel, &container.id);
    let mut conversation: Conversation = cx.row(&key)?.unwrap_or_default();
    conversation.surface = container.surface.to_owned();
    for peer in [Some(&message.from), message.to.as_ref()]
        .into_iter()
        .flatten()
    {
        let known = conversation
            .participants
            .iter()
            .any(|name| **name == **peer);
        if !known && conversation.participants.len() < PARTICIPANTS {
            conversation.participants.push(peer.to_string());
        }
    }
    conversation.message_count += 1;
    conversation.messages.push(line);
    if conversation.messages.len() > MESSAGES {
        conversation.messages.remove(0);
    }
    conversation.last_activity = cx.now().unix_seconds();
    let ended = |state: Option<State>| state.is_some_and(State::is_terminal);
    match (worked.before, worked.after) {
        (None, Some(_)) => conversation.open_work += 1,
        (Some(_), after) if ended(after) && !ended(worked.before) => {
            conversation.open_work = conversation.open_work.saturating_sub(1);
        }
        _ => {}
    }
    cx.put(key.clone(), &conversation);
    RECENT.touch(&key, cx)?;
    while RECENT.len(cx)? > settings.max_conversations {
        let Some(oldest) = RECENT.first(cx)? else {
            break;
        };
        cx.remove(oldest.clone());
        RECENT.remove(&oldest, cx)?;
    }
    Ok(())
}

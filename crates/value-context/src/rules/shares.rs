//! The newest share of each sender, as each hosted agent knows it (VX-CS-2).

use chancery_core::decision::{Cx, Stop};
use chancery_core::rows::RowKey;
use chancery_core::time::Time;
use serde::{Deserialize, Serialize};

use super::told::Told;
use crate::context::{ChangeSeverity, Context, change};
use crate::message_id::MessageId;
use crate::payload::ContextShare;
use crate::personal_state::PersonalState;

/// A share on record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// When it was made.
    pub timestamp: Time,
    /// Its message.
    pub message_id: MessageId,
    /// The sender's context.
    pub context: Box<str>,
    /// The sender's constitution.
    pub constitution_ref: Box<str>,
    /// How the sender's owner is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub personal_state: Option<PersonalState>,
}

/// The row of the newest share of `sender` at `receiver`.
pub fn share_key(receiver: &str, sender: &str) -> RowKey {
    RowKey::text("vx-share", &[receiver, sender])
}

/// The prefix of all shares at `receiver`.
pub fn shares_prefix(receiver: &str) -> RowKey {
    RowKey::text("vx-share", &[receiver])
}

/// The row of the context that a hosted agent shared last: its current one.
pub fn own_context_key(agent: &str) -> RowKey {
    RowKey::text("vx-context", &[agent])
}

/// Keeps what a hosted agent shared itself.
pub(super) fn keep_own(agent: &str, context: &str, cx: &mut Cx<'_>) -> Result<(), Stop> {
    let key = own_context_key(agent);
    let kept: Option<Box<str>> = cx.row(&key)?;
    if kept.as_deref() != Some(context) {
        cx.put(key, &context);
    }
    Ok(())
}

/// Keeps a share unless a newer one is there, by time and then identifier. Says how much the context changed.
pub(super) fn keep_newest(
    receiver: &str,
    told: &Told<'_>,
    share: &ContextShare,
    cx: &mut Cx<'_>,
) -> Result<Option<ChangeSeverity>, Stop> {
    let key = share_key(receiver, told.sender);
    let kept = cx.shared::<Share>(&key)?;
    let order = (told.timestamp.instant, told.id);
    if kept
        .as_ref()
        .is_some_and(|kept| (kept.timestamp, kept.message_id) > order)
    {
        return Ok(None);
    }
    let to_keep = Share {
        timestamp: told.timestamp.instant,
        message_id: told.id,
        context: share.context.clone(),
        constitution_ref: share.constitution_ref.clone(),
        personal_state: share.personal_state,
    };
    cx.put_value(key, to_keep);
    Ok(kept.and_then(|kept| change_between(&kept.context, &share.context)))
}

fn change_between(from: &str, to: &str) -> Option<ChangeSeverity> {
    if from == to {
        return None;
    }
    let (from, to) = (Context::parse(from).ok()?, Context::parse(to).ok()?);
    change(&from, &to).map(|change| change.severity)
}

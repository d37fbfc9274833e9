//! Who on this node gets a message, who of them has it already, and what they get.

use std::collections::BTreeMap;
use std::time::Duration;

use chancery_core::admin::{agent_key, canonical_json};
use chancery_core::decision::{Cx, Guard, Stop};
use chancery_core::inbox::InboxName;
use chancery_core::line::{MetaValue, ProtocolName, Seq};

use super::{SEEN, shares, window_id};
use crate::agent::known_by_key;
use crate::code::{Code, Fault};
use crate::message::{ContextShare, Recipient, Timestamp};
use crate::message_id::MessageId;
use crate::settings::Settings;

/// The inbox of a hosted agent.
pub(super) fn inbox(agent: &str) -> InboxName {
    InboxName {
        protocol: ProtocolName::ValueContext,
        agent: agent.to_owned(),
    }
}

/// The hosted agents that a message is for: the one it names, or all that know the sender (VX-BC-3).
pub(super) fn listeners(
    sender: &str,
    recipient: &Recipient,
    cx: &Cx<'_>,
) -> Result<Vec<String>, Stop> {
    let ids = match recipient {
        Recipient::Directed(agent) => vec![agent.as_str().to_owned()],
        Recipient::Broadcast => cx.row(&known_by_key(sender))?.unwrap_or_default(),
    };
    let mut hosted = Vec::with_capacity(ids.len());
    for id in ids {
        if cx
            .bytes(&agent_key(ProtocolName::ValueContext, &id))?
            .is_some()
        {
            hosted.push(id);
        }
    }
    Ok(hosted)
}

/// Leaves those that have not seen the message; the value of one that has, when all have (VX-DUP-1).
pub(super) fn drop_those_who_have_it(
    listeners: &mut Vec<String>,
    id: MessageId,
    cx: &Cx<'_>,
) -> Option<u64> {
    let mut seen = None;
    listeners.retain(
        |listener| match cx.seen(SEEN, &window_id(listener, id.uuid().as_bytes())) {
            Some(tag) => {
                seen = Some(tag);
                false
            }
            None => true,
        },
    );
    seen
}

/// Asks soft state whether there is room for one more message of `sender` to each of them (check 9).
pub(super) fn ask_for_room(
    sender: &str,
    listeners: &[String],
    cx: &mut Cx<'_>,
) -> Result<(), Stop> {
    let refuse =
        |code, message: &'static str| move || Fault::new(code, message).into_refusal("capacity");
    cx.guard(
        Guard::Rate { sender },
        refuse(Code::RateLimited, "too many messages of this sender"),
    )?;
    cx.guard(
        Guard::Window,
        refuse(Code::Overloaded, "the memory of identifiers is full"),
    )?;
    for listener in listeners {
        let name = inbox(listener);
        cx.guard(
            Guard::Inbox { name: &name },
            refuse(Code::Overloaded, "the agent's inbox is full"),
        )?;
    }
    Ok(())
}

/// What is handed over: the parts of a message that its effects depend on.
pub(super) struct Handed<'a> {
    pub(super) id: MessageId,
    pub(super) tag: u64,
    pub(super) sender: &'a str,
    pub(super) timestamp: &'a Timestamp,
    pub(super) share: &'a ContextShare,
}

/// Keeps the share for each listener and says for whom the sender's context changed how much (VX-CS-2, VX-CS-3).
pub(super) fn keep_shares(
    handed: &Handed<'_>,
    listeners: &[String],
    cx: &mut Cx<'_>,
) -> Result<Option<MetaValue>, Stop> {
    let mut changes = BTreeMap::new();
    for listener in listeners {
        if let Some(change) = shares::keep_newest(listener, handed, cx)? {
            changes.insert(listener.as_str(), change.as_str());
        }
    }
    Ok((!changes.is_empty()).then(|| MetaValue::Json(canonical_json(&changes))))
}

/// Records the identifier and puts the line into each inbox, as one step (VX-DUP-4).
pub(super) fn hand_over(
    handed: &Handed<'_>,
    listeners: &[String],
    line: Seq,
    settings: &Settings,
    cx: &mut Cx<'_>,
) {
    let window = Duration::from_secs(settings.dedupe_window_s);
    for listener in listeners {
        let id = window_id(listener, handed.id.uuid().as_bytes());
        cx.remember(SEEN, id, handed.tag, window);
        cx.inbox(inbox(listener), line);
    }
}

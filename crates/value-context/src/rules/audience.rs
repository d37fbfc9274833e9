//! Who on this node gets a message, who of them has it already, and what they get.

use std::collections::BTreeMap;
use std::time::Duration;

use chancery_core::admin::{agent_key, canonical_json};
use chancery_core::decision::{Cx, Guard, Stop};
use chancery_core::fault;
use chancery_core::inbox::InboxName;
use chancery_core::line::{MetaValue, ProtocolName, Seq};

use super::told::Told;
use super::{SEEN, announcements, shares, window_id};
use crate::agent::{hosted, known_by_key};
use crate::code::{Code, Fault};
use crate::message::{Payload, Recipient};
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
            Some(_) if fault::on("vx-duplicate-processed") => true,
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
    payload: &Payload,
    listeners: &[String],
    cx: &mut Cx<'_>,
) -> Result<(), Stop> {
    let refuse =
        |code, message: &'static str| move || Fault::new(code, message).into_refusal("capacity");
    // Escalations of those who may send them are never limited by rate (VX-ERR-4).
    if !payload.is_exempt() {
        cx.guard(
            Guard::Rate { sender },
            refuse(Code::RateLimited, "too many messages of this sender"),
        )?;
    }
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

/// A member of a line's `meta` that says something for each of several listeners.
type Report = (&'static str, MetaValue);

/// Keeps what each listener holds the newest of, and says what it makes of it: how much the sender's context changed
/// (VX-CS-2, VX-CS-3), how an announced constitution compares with its own (VX-CA-5).
pub(super) fn keep_newest(
    told: &Told<'_>,
    listeners: &[String],
    cx: &mut Cx<'_>,
) -> Result<Option<Report>, Stop> {
    let mut found = BTreeMap::new();
    let name = match told.payload {
        Payload::ContextShare(share) => {
            for listener in listeners {
                if let Some(change) = shares::keep_newest(listener, told, share, cx)? {
                    found.insert(listener.as_str(), change.as_str());
                }
            }
            "context_change"
        }
        Payload::ConstitutionAnnounce(announce) => {
            for listener in listeners {
                let record = hosted(cx, listener)?.unwrap_or_default();
                let comparison = announcements::keep(listener, &record, told, announce, cx)?;
                found.insert(listener.as_str(), comparison.as_str());
            }
            "constitution"
        }
        _ => return Ok(None),
    };
    Ok((!found.is_empty()).then(|| (name, MetaValue::Json(canonical_json(&found)))))
}

/// Records the identifier and puts the line into each inbox, as one step (VX-DUP-4).
pub(super) fn hand_over(
    told: &Told<'_>,
    listeners: &[String],
    line: Seq,
    settings: &Settings,
    cx: &mut Cx<'_>,
) {
    let window = Duration::from_secs(settings.dedupe_window_s);
    for listener in listeners {
        let id = window_id(listener, told.id.uuid().as_bytes());
        cx.remember(SEEN, id, told.tag, window);
        cx.inbox(inbox(listener), line);
    }
}

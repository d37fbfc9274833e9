//! Task writes (AG-SEC-4, AG-CARD-12): work that a peer hands to the hosted peer that keeps tasks. What is asked before
//! such an envelope is taken in; refusing is all that happens here, so that no rule depends on who is present.

use chancery_core::json::{ReadRules, Value, read};

use crate::body::card::PeerCard;
use crate::fault::{ErrorName, Fault, Stage};
use crate::grammar::{is_channel, is_peer_id, is_work_id, split_handle};
use crate::lifecycle::Interaction;
use crate::message::{Content, Message};
use crate::settings::Tasks;
use crate::trust::TrustState;

/// The extension that says what a task write is about.
const TASK: &str = "agh.task";
/// The capability of whoever may write tasks (AG-CARD-12).
const WRITE: &str = "task.write";

/// What is known about the channel, the sender and the task.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Known {
    /// Whether anybody here is in the channel.
    pub channel_is_joined: bool,
    /// Whether the keeper is.
    pub keeper_is_there: bool,
    /// The card of the sender, while it is there.
    pub card: Option<PeerCard>,
    /// The task.
    pub task: Option<Interaction>,
}

/// Whether an envelope writes a task: it hands work to the keeper, or reports about it. Work that the keeper itself
/// handed over is none.
pub fn is_write(message: &Message, tasks: &Tasks, task: Option<&Interaction>) -> bool {
    message.to.as_deref() == Some(tasks.keeper.as_str())
        && message.work.is_some()
        && matches!(message.content, Ok(Content::Said | Content::Report(_)))
        && task.is_none_or(|task| task.initiator != tasks.keeper)
}

/// Judges a task write.
pub fn judge(message: &Message, tasks: &Tasks, known: &Known) -> Result<(), Fault> {
    let refuse = |error| Err(Fault::new(error, Stage::Routing));
    let Some(asked) = Asked::of(message.received()) else {
        return refuse(ErrorName::InvalidRequest);
    };
    let from = &*message.from;
    let is_peer = is_peer_id(from) || split_handle(from).is_some();
    if !is_peer || !is_channel(&message.channel) || !asked.is_well_named() {
        return refuse(ErrorName::ValidationFailed);
    }
    if !known.channel_is_joined {
        return refuse(ErrorName::StaleChannel);
    }
    if !known.keeper_is_there {
        return refuse(ErrorName::TaskIngressUnavailable);
    }
    let Some(card) = &known.card else {
        return refuse(ErrorName::PeerNotFound);
    };
    let claims = card
        .capabilities
        .iter()
        .any(|capability| capability == WRITE);
    // The card is a claim: what it claims counts for whoever proves who it is, or is known to this node.
    let is_known = matches!(message.trust, TrustState::Verified { .. })
        || tasks.writers.iter().any(|writer| writer == from);
    if !claims || !is_known {
        return refuse(ErrorName::CapabilityDenied);
    }
    if !asked.channel.is_empty() && asked.channel != *message.channel {
        return refuse(ErrorName::ChannelMismatch);
    }
    match &known.task {
        None if asked.updates || matches!(message.content, Ok(Content::Report(_))) => {
            refuse(ErrorName::TaskNotFound)
        }
        Some(task) if task.initiator != from => refuse(ErrorName::PermissionDenied),
        _ => Ok(()),
    }
}

/// What a write says about itself.
struct Asked {
    request_id: String,
    /// The channel that it is for; empty for the one it came in by.
    channel: String,
    /// Whether the task has to be there.
    updates: bool,
}

impl Asked {
    fn of(envelope: &[u8]) -> Option<Self> {
        let envelope = read(envelope, &ReadRules::AGH).ok()?;
        let task = envelope.get("ext")?.get(TASK)?.as_object()?;
        let text = |name: &str| match task.get(name) {
            None | Some(Value::Null) => Some(String::new()),
            Some(value) => value.as_str().map(str::to_owned),
        };
        let updates = match task.get("update") {
            None | Some(Value::Null) => false,
            Some(Value::Bool(updates)) => *updates,
            Some(_) => return None,
        };
        Some(Self {
            request_id: task.get("request_id")?.as_str()?.to_owned(),
            channel: text("channel")?,
            updates,
        })
    }

    fn is_well_named(&self) -> bool {
        is_work_id(&self.request_id) && (self.channel.is_empty() || is_channel(&self.channel))
    }
}

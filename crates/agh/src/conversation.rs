//! Surfaces, containers and work of revision B (AG-B-4 to AG-B-9): step 4 there.

use chancery_core::digest::{Sha256, hex};

use crate::envelope::Envelope;
use crate::fault::{ErrorName, Fault, Stage};
use crate::grammar::{is_direct_id, is_thread_id, is_work_id};
use crate::kind::Kind;

/// Where something is said in revision B.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Container<'v> {
    /// A public thread of the channel.
    Thread(&'v str),
    /// The room of two peers.
    Room(&'v str),
}

impl<'v> Container<'v> {
    /// The container's name; threads and rooms cannot share one.
    pub const fn id(self) -> &'v str {
        match self {
            Self::Thread(id) | Self::Room(id) => id,
        }
    }

    /// The word in `surface`.
    pub const fn surface(self) -> &'static str {
        match self {
            Self::Thread(_) => "thread",
            Self::Room(_) => "direct",
        }
    }
}

/// Checks the members of a conversation against the kind.
pub fn check<'v>(envelope: &Envelope<'v>, kind: Kind) -> Result<Option<Container<'v>>, Fault> {
    if matches!(kind, Kind::Greet | Kind::Whois) {
        return check_outside(envelope).map(|()| None);
    }
    let container = container(envelope)?;
    match envelope.work_id {
        None if matches!(kind, Kind::Receipt | Kind::Trace) => {
            return Err(fault(ErrorName::WorkIdRequired, "work_id"));
        }
        Some(work) if !is_work_id(work) => {
            return Err(fault(ErrorName::InvalidWorkId, "work_id"));
        }
        _ => {}
    }
    if let Container::Room(room) = container {
        check_room(envelope, room)?;
    }
    Ok(Some(container))
}

/// AG-B-5
fn check_outside(envelope: &Envelope<'_>) -> Result<(), Fault> {
    let members = [
        ("surface", envelope.surface),
        ("thread_id", envelope.thread_id),
        ("direct_id", envelope.direct_id),
        ("work_id", envelope.work_id),
    ];
    match members.into_iter().find(|(_, value)| value.is_some()) {
        Some((name, _)) => Err(fault(ErrorName::ConversationFieldForbidden, name)),
        None => Ok(()),
    }
}

/// AG-B-4, AG-B-6, AG-B-7
pub(crate) fn container<'v>(envelope: &Envelope<'v>) -> Result<Container<'v>, Fault> {
    match envelope.surface {
        None => Err(fault(ErrorName::SurfaceRequired, "surface")),
        Some("thread") => {
            if envelope.direct_id.is_some() {
                return Err(fault(ErrorName::ContainerConflict, "direct_id"));
            }
            let id = envelope
                .thread_id
                .ok_or_else(|| fault(ErrorName::MissingField, "thread_id"))?;
            if !is_thread_id(id) {
                return Err(fault(ErrorName::InvalidThreadId, "thread_id"));
            }
            Ok(Container::Thread(id))
        }
        Some("direct") => {
            if envelope.thread_id.is_some() {
                return Err(fault(ErrorName::ContainerConflict, "thread_id"));
            }
            let id = envelope
                .direct_id
                .ok_or_else(|| fault(ErrorName::MissingField, "direct_id"))?;
            if !is_direct_id(id) {
                return Err(fault(ErrorName::InvalidDirectId, "direct_id"));
            }
            Ok(Container::Room(id))
        }
        Some(_) => Err(fault(ErrorName::InvalidSurface, "surface")),
    }
}

/// A room has two members, and its name follows from them (AG-B-9).
fn check_room(envelope: &Envelope<'_>, room: &str) -> Result<(), Fault> {
    let Some(to) = envelope.to else {
        return Err(fault(ErrorName::ToRequired, "to"));
    };
    let workspace = envelope.workspace_id.unwrap_or_default();
    if direct_id(workspace, envelope.channel, envelope.from, to).as_deref() != Some(room) {
        return Err(fault(ErrorName::DirectRoomMismatch, "direct_id"));
    }
    Ok(())
}

fn fault(error: ErrorName, member: &'static str) -> Fault {
    Fault::new(error, Stage::Conversation).at(member)
}

/// The name of the room of two peers (AG-B-7); none when they are one.
pub fn direct_id(workspace: &str, channel: &str, one: &str, other: &str) -> Option<String> {
    if one == other {
        return None;
    }
    let (low, high) = if one < other {
        (one, other)
    } else {
        (other, one)
    };
    let mut hash = Sha256::new();
    hash.update(b"agh-network/direct-room/v0");
    for part in [workspace, channel, low, high] {
        hash.update(&[0]);
        hash.update(part.as_bytes());
    }
    let digest = hash.finish();
    Some(format!("direct_{}", hex::encode(&digest.0[..16])))
}

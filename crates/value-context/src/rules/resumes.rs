//! Messages that let a child go on (VX-RUN-6), seen from both sides.

use chancery_core::decision::{Cx, Stop};

use super::children::{put_view, view_of};
use super::evaluations;
use super::open::Standing;
use super::told::Told;
use crate::agent::hosted;
use crate::context::{Context, Dimension};
use crate::message::{Payload, Recipient};
use crate::message_id::MessageId;

/// Which open escalations a message of a parent closes.
#[derive(Debug, PartialEq, Eq)]
enum Closes {
    Nothing,
    All,
    These(Vec<MessageId>),
}

impl Closes {
    fn of(told: &Told<'_>) -> Self {
        if !told.is_directed() {
            return Self::Nothing;
        }
        match told.payload {
            Payload::ConstraintPropagate(propagate) => {
                let resumes: Vec<_> = propagate.resumes().collect();
                if resumes.iter().any(|entry| !entry.resume) {
                    return Self::Nothing;
                }
                let named: Vec<_> = resumes.iter().map(|entry| entry.escalation_id).collect();
                if named.is_empty() || named.contains(&None) {
                    return Self::All;
                }
                Self::These(named.into_iter().flatten().collect())
            }
            // The first share on a connection is a greeting: a parent that reconnects has resolved nothing.
            Payload::ContextShare(share) if !told.greeting && is_resolved(&share.context) => {
                Self::All
            }
            _ => Self::Nothing,
        }
    }

    /// Whether it closes an escalation, given all open ones with the first of each.
    fn covers(&self, first: MessageId, open: &[(MessageId, MessageId)]) -> bool {
        match self {
            Self::Nothing => false,
            Self::All => true,
            Self::These(named) => named.iter().any(|named| {
                let of_named = open.iter().find(|(id, _)| id == named);
                of_named.map_or(*named, |(_, first)| *first) == first
            }),
        }
    }
}

/// Whether a context tells that the situation is resolved: a normal occasion and no emergency.
fn is_resolved(context: &str) -> bool {
    // Most shares say nothing of an occasion and need no closer look.
    if !context.contains(Dimension::Occasion.symbol()) {
        return false;
    }
    Context::parse(context)
        .is_ok_and(|context| context.has(Dimension::Occasion, "➖") && !context.has_emergency())
}

/// A message that may let its recipient go on, for each hosted one whose parent sent it.
pub(super) fn received(told: &Told<'_>, listeners: &[String], cx: &mut Cx<'_>) -> Result<(), Stop> {
    for listener in listeners {
        // Most senders are nobody's parent: what their messages would close need not be known.
        let Some(record) = hosted(cx, listener)? else {
            continue;
        };
        if record.parent.as_deref() != Some(told.sender) {
            continue;
        }
        let closes = Closes::of(told);
        if closes == Closes::Nothing {
            return Ok(());
        }
        let standing = Standing {
            agent: listener,
            record: &record,
        };
        let open: Vec<_> = standing
            .all(cx)?
            .iter()
            .map(|open| (open.id, open.first))
            .collect();
        let covered = |open_one: &super::open::Open| closes.covers(open_one.first, &open);
        standing.close(told.timestamp.instant, told.id, covered, cx)?;
    }
    Ok(())
}

/// A message that may let its recipient go on, for the hosted parent that sent it.
pub(super) fn sent(told: &Told<'_>, cx: &mut Cx<'_>) -> Result<(), Stop> {
    let (closes, Recipient::Directed(child)) = (Closes::of(told), told.recipient) else {
        return Ok(());
    };
    if closes == Closes::Nothing {
        return Ok(());
    }
    let mut view = view_of(told.sender, child.as_str(), cx)?;
    let open: Vec<_> = view
        .open
        .iter()
        .map(|open| (open.stamp.id, open.first))
        .collect();
    let closed = view.close(told.timestamp.instant, |one| {
        closes.covers(one.first, &open)
    });
    for id in &closed {
        evaluations::end(told.sender, *id, cx)?;
    }
    if !closed.is_empty() {
        put_view(told.sender, child.as_str(), &view, cx);
    }
    Ok(())
}

//! What a hosted parent holds its children to, and until when (VX-RUN-4, VX-RUN-7, VX-RUN-9).

use chancery_core::admin::RunState;
use chancery_core::decision::{Cx, Stop};
use chancery_core::rows::RowKey;
use chancery_core::time::Time;
use serde::{Deserialize, Serialize};
use std::time::Duration;

use super::direction::is_supervised_by;
use super::duties::stricter;
use crate::constraints::Stamp;
use crate::message_id::MessageId;

/// How many open escalations of a child are kept; beyond it the oldest is dropped.
pub const MAX_OPEN_OF_CHILD: usize = 256;
/// More emergencies of a child than this in a minute raise an alert (VX-RUN-9).
pub const EMERGENCIES_A_MINUTE: usize = 10;

/// A child as its parent sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildView {
    /// What the parent holds it to.
    pub state: RunState,
    /// Its grave escalations that the parent has not resolved.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub open: Vec<OpenOfChild>,
    /// When its latest emergencies came.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    emergencies: Vec<Time>,
}

/// A grave escalation of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenOfChild {
    /// Its message.
    #[serde(flatten)]
    pub stamp: Stamp,
    /// The escalation it repeats; itself when it is the first.
    pub first: MessageId,
    /// What it holds the child to.
    pub holds: RunState,
}

/// The row of a parent's view of a child.
pub fn child_key(parent: &str, child: &str) -> RowKey {
    RowKey::text("vx-child", &[parent, child])
}

/// The view that `parent` has of `child`.
pub(super) fn view_of(parent: &str, child: &str, cx: &Cx<'_>) -> Result<ChildView, Stop> {
    Ok(cx.row(&child_key(parent, child))?.unwrap_or_default())
}

/// Whether `parent` holds `child` suspended; one that is not its child any more is held by nobody.
pub(super) fn is_held_suspended(parent: &str, child: &str, cx: &Cx<'_>) -> Result<bool, Stop> {
    Ok(view_of(parent, child, cx)?.state == RunState::Suspended
        && is_supervised_by(child, parent, cx)?)
}

impl ChildView {
    /// Takes a grave escalation in.
    pub(super) fn hold(&mut self, open: OpenOfChild) {
        self.open.push(open);
        let surplus = self.open.len().saturating_sub(MAX_OPEN_OF_CHILD);
        self.open.drain(..surplus);
        self.state = stricter(self.state, open.holds);
    }

    /// Drops those that `closes` names and that are not newer than `at`; the state follows when any was. Gives the
    /// identifiers of those dropped.
    pub(super) fn close(
        &mut self,
        at: Time,
        closes: impl Fn(&OpenOfChild) -> bool,
    ) -> Vec<MessageId> {
        let mut closed = Vec::new();
        self.open.retain(|open| {
            let drop = open.stamp.at <= at && closes(open);
            if drop {
                closed.push(open.stamp.id);
            }
            !drop
        });
        if !closed.is_empty() {
            let holds = self.open.iter().map(|open| open.holds);
            self.state = holds.fold(RunState::Running, stricter);
        }
        closed
    }

    /// Counts an emergency; whether there were too many within a minute.
    pub(super) fn count_emergency(&mut self, now: Time) -> bool {
        let minute_ago = now.saturating_sub(Duration::from_secs(60));
        self.emergencies.retain(|at| *at > minute_ago);
        self.emergencies.push(now);
        let surplus = self
            .emergencies
            .len()
            .saturating_sub(EMERGENCIES_A_MINUTE + 1);
        self.emergencies.drain(..surplus);
        self.emergencies.len() > EMERGENCIES_A_MINUTE
    }

    /// Whether it says anything.
    pub(super) fn is_blank(&self) -> bool {
        *self == Self::default()
    }
}

/// Puts a view on record.
pub(super) fn put_view(parent: &str, child: &str, view: &ChildView, cx: &mut Cx<'_>) {
    let key = child_key(parent, child);
    if view.is_blank() {
        cx.remove(key);
    } else {
        cx.put(key, view);
    }
}

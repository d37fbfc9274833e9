//! What a hosted parent holds about its children, for refusing their traffic (VX-RUN-4).

use chancery_core::admin::RunState;
use chancery_core::decision::{Cx, Stop};
use chancery_core::rows::RowKey;
use serde::{Deserialize, Serialize};

/// A child as its parent sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChildView {
    /// What the parent holds it to.
    pub state: RunState,
}

/// The row of a parent's view of a child.
pub fn child_key(parent: &str, child: &str) -> RowKey {
    RowKey::text("vx-child", &[parent, child])
}

/// Whether `parent` holds `child` suspended.
pub(super) fn is_held_suspended(parent: &str, child: &str, cx: &Cx<'_>) -> Result<bool, Stop> {
    let view: Option<ChildView> = cx.row(&child_key(parent, child))?;
    Ok(view.is_some_and(|view| view.state == RunState::Suspended))
}

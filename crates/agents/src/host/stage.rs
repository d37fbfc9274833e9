//! The node's committed state as a turn reads it.

use chancery_core::inbox::InboxName;
use chancery_core::line::{Line, Seq};
use chancery_node::Office;
use chancery_store::StoreRows;

use crate::agent::Agent;
use crate::snapshot::{Lines, Snapshot};

/// Lines and inboxes of a node.
struct OfficeLines<'o>(&'o Office);

impl Lines for OfficeLines<'_> {
    fn line(&self, seq: Seq) -> Option<Line> {
        let lines = self.0.gate().store().lines(seq, 1).ok()?;
        chancery_journal::line::parse(lines.first()?).ok()
    }

    fn was_delivered(&self, name: &InboxName, seq: Seq) -> bool {
        self.0.inboxes().contains(name, seq).unwrap_or(false)
    }
}

/// Does something with what an agent may see right now. Reads may wait for the disk.
pub fn with_snapshot<T>(office: &Office, agent: &Agent, act: impl FnOnce(&Snapshot<'_>) -> T) -> T {
    let settings = office.gate().settings();
    let store = &**office.gate().store();
    act(&Snapshot {
        rows: &StoreRows(store),
        lines: &OfficeLines(office),
        settings: &settings.vibe,
        now: office.gate().clock().now(),
        agent,
    })
}

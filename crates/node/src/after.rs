//! What follows a commit: readers are woken, deliveries start, timers are set, things worth telling are told.

use std::sync::Arc;

use chancery_core::decision::{Aside, Unit};
use chancery_core::delivery::Delivery;
use chancery_core::line::Seq;
use chancery_core::protocol::Suite;
use chancery_core::rows::RowKey;

use crate::committer::AfterCommit;
use crate::gate::Gate;
use crate::inboxes::Inboxes;
use crate::leave::Suspended;
use crate::outbox::Outbox;
use crate::sidelogs::SideLogs;
use crate::timers::Timers;
use tokio::sync::watch;

/// Hands committed units on to whoever acts on them.
pub(crate) struct Follow<S: Suite> {
    pub(crate) gate: Gate<S>,
    pub(crate) inboxes: Arc<Inboxes>,
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) suspended: Arc<Suspended>,
    pub(crate) timers: Arc<Timers>,
    pub(crate) side_logs: Arc<SideLogs>,
    pub(crate) peers_changed: watch::Sender<()>,
    pub(crate) runtime: tokio::runtime::Handle,
}

impl<S: Suite> AfterCommit for Follow<S> {
    fn follows(&self, key: &RowKey) -> bool {
        self.timers.follows(key) || self.suspended.follows(key) || is_of_peer(key)
    }

    fn about_to_commit(&mut self, units: &[Unit]) {
        self.suspended.about_to_commit(units);
    }

    fn all_committed(&mut self, units: &[Unit]) {
        self.suspended.committed(units);
    }

    fn committed(&mut self, unit: &Unit) {
        let _runtime = self.runtime.enter();
        for (name, _) in &unit.inboxes {
            self.inboxes.arrived(name);
        }
        self.timers.follow(&unit.rows);
        if unit.rows.iter().any(|(key, _)| is_of_peer(key)) {
            self.peers_changed.send_replace(());
        }
        self.outbox.start(&self.gate, &unit.deliveries);
    }

    fn aside(&mut self, aside: Aside) {
        let _runtime = self.runtime.enter();
        for mut whisper in aside.whispers {
            if let Some(signer) = whisper.signer.take() {
                let mut sign = |message: &[u8]| self.gate.vault().sign(&signer, message);
                let suite = self.gate.suite();
                // Without its proof it would be rejected everywhere: then it is not said.
                match suite.seal(whisper.protocol, &whisper.bytes, &mut sign) {
                    Some(sealed) => whisper.bytes = sealed,
                    None => continue,
                }
            }
            self.outbox.whisper(whisper);
        }
        for event in aside.events {
            self.side_logs.event(&event);
        }
        for audit in aside.audits {
            self.side_logs.audit(&audit);
        }
    }

    fn repeat(&mut self, seq: Seq, delivery: Delivery) {
        let _runtime = self.runtime.enter();
        self.outbox.again(seq, delivery);
    }
}

/// Whether a row is the record of a hosted agent: whoever greets for AGH peers looks again.
fn is_of_peer(key: &RowKey) -> bool {
    key.is_in("agent")
}

//! What follows a commit: readers are woken, deliveries start, timers are set, things worth telling are told.

use std::sync::Arc;

use chancery_core::decision::{Aside, Unit};
use chancery_core::delivery::{Delivery, OUTBOX};
use chancery_core::inbox::is_open_page;
use chancery_core::line::Seq;
use chancery_core::protocol::Suite;
use chancery_core::rows::{RowChange, RowKey};

use crate::committer::AfterCommit;
use crate::duties::Duties;
use crate::gate::Gate;
use crate::inboxes::Inboxes;
use crate::leave::Suspended;
use crate::outbox::Outbox;
use crate::sidelogs::SideLogs;
use crate::timers::Timers;
use crate::trace::Trace;
use tokio::sync::watch;

/// Hands committed units on to whoever acts on them.
pub(crate) struct Follow<S: Suite> {
    pub(crate) gate: Gate<S>,
    pub(crate) inboxes: Arc<Inboxes>,
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) suspended: Arc<Suspended>,
    pub(crate) timers: Arc<Timers>,
    pub(crate) duties: Arc<Duties>,
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

    fn committed(&mut self, unit: &Unit, trace: Option<&Arc<Trace>>) {
        let _runtime = self.runtime.enter();
        for (name, _) in &unit.inboxes {
            self.inboxes.arrived(name);
        }
        if unit.rows.iter().any(|(key, _)| is_of_peer(key)) {
            self.peers_changed.send_replace(());
        }
        if self.duties.are_ours() {
            self.timers.follow(&unit.rows);
            self.outbox.start(&self.gate, &unit.deliveries, trace);
        }
    }

    fn minds(&self, key: &RowKey) -> bool {
        self.follows(key) || is_open_page(key) || key.is_in(OUTBOX)
    }

    fn others_committed(&mut self, rows: &[RowChange], void: &[Unit]) {
        let _runtime = self.runtime.enter();
        let states_changed = |(key, _): &RowChange| self.suspended.follows(key);
        let void_rows = void.iter().flat_map(|unit| &unit.rows);
        if (rows.iter().chain(void_rows).any(states_changed))
            && let Err(error) = self.suspended.read_anew(&**self.gate.store())
        {
            self.gate.fail(&error.to_string());
        }
        self.inboxes.others_arrived(rows);
        if rows.iter().any(|(key, _)| is_of_peer(key)) {
            self.peers_changed.send_replace(());
        }
        if self.duties.are_ours() {
            self.timers.follow(rows);
            self.outbox.start(&self.gate, &deliveries_in(rows), None);
        }
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

/// The deliveries that rows ask for.
fn deliveries_in(rows: &[RowChange]) -> Vec<(RowKey, Delivery)> {
    let rows = rows.iter().filter(|(key, _)| key.is_in(OUTBOX));
    let delivery = |(key, row): &RowChange| {
        let read = serde_json::from_slice(row.as_ref()?);
        match read {
            Ok(delivery) => Some((key.clone(), delivery)),
            Err(error) => {
                tracing::error!(%error, ?key, "a delivery cannot be read and is left alone");
                None
            }
        }
    };
    rows.filter_map(delivery).collect()
}

/// Whether a row is the record of a hosted agent: whoever greets for AGH peers looks again.
fn is_of_peer(key: &RowKey) -> bool {
    key.is_in("agent")
}

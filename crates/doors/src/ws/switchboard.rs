//! Which remote agents are behind which open connection (VX-WS-10).
//!
//! A connection is known to carry an agent from a message of that agent that was verified and was meant for an agent
//! here alone: a broadcast has the same bytes for everybody, so whoever got a copy could pass it on and be taken for its
//! sender. The latest connection counts.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use chancery_node::{Carried, Errand, Leave, Office, Word};
use hashbrown::HashMap;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::MissedTickBehavior;

use super::elsewhere::{Elsewhere, SAY_EVERY};
use crate::agh_ws::{Connected, see_them_out};

/// A message for the other side of a connection.
pub(crate) struct Outgoing {
    pub(crate) envelope: Bytes,
    pub(crate) id: String,
    pub(crate) leave: Leave,
    /// Told what came of it; gone when nobody waits any more.
    pub(crate) done: oneshot::Sender<Carried>,
}

/// An open connection, as senders see it.
#[derive(Clone)]
pub(crate) struct Line {
    pub(crate) number: u64,
    pub(crate) outgoing: mpsc::Sender<Outgoing>,
    /// Whether this node called: then every node of the journal has such a connection, and needs no other's.
    pub(crate) is_own_call: bool,
}

impl Line {
    /// Brings a message to the other side and waits until that has it.
    pub(crate) async fn carry(&self, envelope: Bytes, id: String, leave: Leave) -> Carried {
        let (done, told) = oneshot::channel();
        let outgoing = Outgoing {
            envelope,
            id,
            leave,
            done,
        };
        let failed = Carried::Failed { at_least: None };
        if self.outgoing.send(outgoing).await.is_err() {
            return failed;
        }
        told.await.unwrap_or(failed)
    }
}

/// Who is behind which connection.
#[derive(Default)]
pub struct Switchboard {
    lines: RwLock<HashMap<String, Line>>,
    next: AtomicU64,
    changed: watch::Sender<()>,
    /// Connected AGH peers.
    pub(crate) connected: Connected,
    /// Who is connected to other nodes of the journal.
    pub(crate) elsewhere: Arc<Elsewhere>,
}

impl Switchboard {
    /// A number for a new connection.
    pub(crate) fn number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// The agent is behind this connection. Says whether that is news.
    pub(crate) fn learn(&self, agent: &str, line: &Line) -> bool {
        if self
            .find(agent)
            .is_some_and(|known| known.number == line.number)
        {
            return false;
        }
        let mut lines = self.lines.write().unwrap_or_else(PoisonError::into_inner);
        lines.insert(agent.to_owned(), line.clone());
        drop(lines);
        if !line.is_own_call {
            self.elsewhere.came(agent, line.number);
        }
        self.changed.send_replace(());
        true
    }

    /// The connection is gone, and with it the way to these agents.
    pub(crate) fn forget<'a>(&self, number: u64, agents: impl Iterator<Item = &'a String>) {
        let mut lines = self.lines.write().unwrap_or_else(PoisonError::into_inner);
        for agent in agents {
            if lines.get(agent).is_some_and(|line| line.number == number) {
                lines.remove(agent);
            }
            self.elsewhere.went(agent, number);
        }
    }

    /// From here on other nodes of the journal reach who is connected here, and the other way round. Needs a runtime.
    pub fn join_others(self: &Arc<Self>, office: &Arc<Office>) {
        let others = office.others();
        if !others.may_be() {
            return;
        }
        let (switchboard, of) = (Arc::downgrade(self), Arc::downgrade(office));
        let runtime = Handle::current();
        others.listen(move |from, word| {
            let (Some(switchboard), Some(office)) = (switchboard.upgrade(), of.upgrade()) else {
                return;
            };
            for (agent, _) in switchboard.elsewhere.hear(from, word) {
                switchboard.moved_away(agent);
            }
            match word {
                Word::Carry(errand) if switchboard.elsewhere.is_own_name(&errand.node) => {
                    let (errand, from) = ((**errand).clone(), from.to_owned());
                    runtime.spawn(async move { switchboard.run(errand, from, &office).await });
                }
                Word::Whisper {
                    node,
                    subject,
                    text,
                } if switchboard.elsewhere.is_own_name(node) => {
                    let bytes = Bytes::copy_from_slice(text.as_bytes());
                    switchboard.connected.tell(subject, bytes);
                }
                _ => {}
            }
        });
        self.elsewhere.join(Arc::clone(others));
        tokio::spawn(see_them_out(Arc::downgrade(self), Arc::downgrade(office)));
        let elsewhere = Arc::downgrade(&self.elsewhere);
        tokio::spawn(async move {
            let mut say = tokio::time::interval(SAY_EVERY);
            say.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                say.tick().await;
                let Some(elsewhere) = elsewhere.upgrade() else {
                    return;
                };
                elsewhere.say_here();
            }
        });
    }

    /// The latest connection of an agent is one of another node.
    fn moved_away(&self, agent: &str) {
        let mut lines = self.lines.write().unwrap_or_else(PoisonError::into_inner);
        if lines.get(agent).is_some_and(|line| !line.is_own_call) {
            lines.remove(agent);
        }
    }

    /// Brings a message for another node.
    async fn run(&self, errand: Errand, from: String, office: &Office) {
        let failed = Carried::Failed { at_least: None };
        let carried = match self.find(&errand.to) {
            None => failed,
            Some(line) => {
                let leave = office.leave(&errand.from, errand.exempt);
                let within = Duration::from_millis(u64::from(errand.within_ms));
                let carry = line.carry(errand.envelope.into(), errand.id, leave.clone());
                tokio::select! {
                    biased;
                    () = leave.withdrawn() => failed,
                    carried = tokio::time::timeout(within, carry) => carried.unwrap_or(failed),
                }
            }
        };
        self.elsewhere.answer(from, errand.number, carried);
    }

    /// The open connection to an agent.
    pub(crate) fn find(&self, agent: &str) -> Option<Line> {
        let lines = self.lines.read().unwrap_or_else(PoisonError::into_inner);
        lines.get(agent).cloned()
    }

    /// The same, once there is one.
    pub(crate) async fn wait_for(&self, agent: &str) -> Line {
        let mut changed = self.changed.subscribe();
        loop {
            if let Some(line) = self.find(agent) {
                return line;
            }
            if changed.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// How many agents are reached over open connections.
    pub fn len(&self) -> usize {
        let lines = self.lines.read().unwrap_or_else(PoisonError::into_inner);
        lines.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

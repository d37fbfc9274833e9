//! Agents in a node: each listens to its inboxes and takes one turn for every envelope, in the journal's order.
//!
//! Guarantees: every envelope of a hosted agent gets one turn with a record, over restarts too; none is answered twice;
//! a turn that hangs or fails ends and is counted, and the agents beside it go on.

mod life;
pub mod progress;
mod stage;

use std::sync::Arc;

use chancery_node::{Office, ReconcileError};
use chancery_store::StoreError;
use tokio::sync::watch;
use tokio::task::JoinHandle;

pub use stage::with_snapshot;

use crate::agent::Agent;
use crate::behaviour::Behaviour;
use life::Life;

/// Turns that an agent takes in one session at most: two agents that answer each other for ever end here.
pub const MAX_SESSION_TURNS: u64 = 1_000;

/// An agent with what answers for it.
#[derive(Clone)]
pub struct Hosted {
    /// The agent.
    pub agent: Agent,
    /// Its behaviour.
    pub behaviour: Behaviour,
}

/// The agents of a node.
pub struct Agents {
    tasks: Vec<JoinHandle<()>>,
    turns: watch::Sender<u64>,
}

impl Agents {
    /// Puts the agents on record, in sorted order, and lets them live. Needs a tokio runtime.
    pub async fn start(
        office: &Arc<Office>,
        mut hosted: Vec<Hosted>,
    ) -> Result<Self, ReconcileError> {
        hosted.sort_by(|a, b| a.agent.name.cmp(&b.agent.name));
        let is_configured = |name: &str| hosted.iter().any(|one| one.agent.name == name);
        office.forget_vibe_agents(is_configured).await?;
        for one in &hosted {
            let agent = &one.agent;
            office
                .reconcile_vibe_agent(&agent.name, &agent.record)
                .await?;
        }
        let turns = watch::Sender::new(0);
        let mut tasks = Vec::with_capacity(hosted.len());
        for one in hosted {
            let life = Life::new(Arc::clone(office), one, turns.clone())?;
            tasks.push(tokio::spawn(life.live()));
        }
        Ok(Self { tasks, turns })
    }

    /// How many turns have ended since the start; told whenever one does.
    pub fn turns(&self) -> watch::Receiver<u64> {
        self.turns.subscribe()
    }

    /// Ends them. A turn under way is taken up at the next start.
    pub async fn stop(mut self) {
        for task in std::mem::take(&mut self.tasks) {
            task.abort();
            // Ended by the abort, which is no fault.
            let _ = task.await;
        }
    }
}

impl Drop for Agents {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// Runs what may wait for the disk on a thread of its own; none when it panicked.
async fn blocking<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(act).await.ok()
}

/// A store that cannot be read ends the agent's life; the node's own readers will tell.
fn told(error: &StoreError) {
    tracing::error!(%error, "a hosted agent cannot go on");
}

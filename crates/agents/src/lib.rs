//! Agents that live in the node: the turn loop and the behaviours.
//!
//! Guarantees: one envelope drives one turn, with bounded steps, one inference a step and at most one envelope out;
//! what an agent wants to say passes the same rules as everybody's before it becomes traffic; a turn that runs again
//! after a crash does not speak twice; memory belongs to one agent in one session and is on no log.
//!
//! Refuses: to run during replay, to show an agent what is not visible to it, to speak for one that is suspended, and
//! to let an agent answer the human gate.

pub mod agent;
pub mod behaviour;
pub mod budget;
pub mod context;
pub mod decision;
pub mod guide;
pub mod host;
pub mod market;
pub mod memory;
pub mod record;
pub mod skill;
pub mod snapshot;
pub mod turn;

pub use agent::{Agent, Inbound};
pub use memory::Memory;
pub use record::{Outcome, TurnRecord};
pub use skill::Skills;
pub use snapshot::{Lines, Outbound, Snapshot};
pub use turn::{Next, Turn, run};

//! What an agent is shown for one step, in the order of VC-TURN-10.

use serde::Serialize;
use serde_json::{Value, json};

use crate::agent::{Agent, Inbound};
use crate::memory::Memory;
use crate::skill::Skill;
use crate::snapshot::Snapshot;

/// What came of an earlier step of this turn that the agent has to know.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Observation {
    /// The step, from 1.
    pub step: u32,
    /// The code.
    pub code: &'static str,
    /// Where in the output or envelope.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

/// The context of one step.
pub struct Context<'c> {
    /// The turn.
    pub turn_id: &'c str,
    /// The step, from 1.
    pub step: u32,
    /// Who decides.
    pub agent: &'c Agent,
    /// The envelope that drives the turn.
    pub inbound: &'c Inbound,
    /// The thread and the world, looked up when they are asked for.
    pub snapshot: &'c Snapshot<'c>,
    /// What the agent has kept in this session.
    pub memory: &'c Memory,
    /// Skills loaded in this turn.
    pub skills: &'c [Skill],
    /// What came of the steps so far.
    pub observations: &'c [Observation],
}

impl Context<'_> {
    /// The parts of the context, named and in order.
    pub fn parts(&self) -> [(&'static str, Value); 7] {
        let skills = self.skills.iter().map(|skill| json!(skill.text));
        [
            ("instructions", json!(self.instructions())),
            ("inbound", self.inbound.envelope.clone()),
            ("thread", json!(self.snapshot.thread(self.inbound))),
            ("world", self.snapshot.world(self.inbound)),
            ("memory", json!(self.memory)),
            ("skills", skills.collect()),
            ("observations", json!(self.observations)),
        ]
    }

    /// What the role asks, and which skills there are.
    pub fn instructions(&self) -> String {
        let mut text = self.agent.instructions.clone();
        for skill in self.agent.skills.iter() {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&format!("Skill {}: {}", skill.name, skill.description));
        }
        text
    }
}

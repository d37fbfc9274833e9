//! What an agent in this process may do in its run state (VX-RUN-1, VX-RUN-3).
//!
//! An agent asks before it begins an operation and before it lets anything out. `paused` lets an operation that is
//! under way end and begin no other; `suspended` lets nothing out at all. Messages count as output, except those that a
//! suspended agent must still be able to send.

use chancery_core::admin::RunState;

use crate::code::{Code, Fault};
use crate::payload::Payload;

/// Something an agent wants to do.
#[derive(Clone, Copy, Debug)]
pub enum Command<'a> {
    /// Begin an operation that is done whole or not at all.
    BeginOperation,
    /// Let something out.
    Emit(Emission<'a>),
    /// End the operation that is under way.
    EndOperation,
}

/// Something that leaves an agent.
#[derive(Clone, Copy, Debug)]
pub enum Emission<'a> {
    /// Output of any kind.
    Output,
    /// A message.
    Message(&'a Payload),
}

/// The operations of one agent. Whoever runs the agent tells it the state on record before each command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Operations {
    under_way: bool,
}

/// Why a command is not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Forbidden {
    /// The agent is paused: it ends what it is doing and begins nothing.
    #[error("the agent is paused")]
    Paused,
    /// The agent is suspended: it does and says nothing.
    #[error("the agent is suspended")]
    Suspended,
    /// An operation is under way, and they do not nest.
    #[error("an operation is under way")]
    UnderWay,
    /// No operation is under way.
    #[error("no operation is under way")]
    NotUnderWay,
}

impl From<Forbidden> for Fault {
    fn from(forbidden: Forbidden) -> Self {
        Self::new(Code::SenderSuspended, forbidden.to_string()).under("VX-RUN-3")
    }
}

impl Operations {
    /// Carries a command out, or says why not.
    pub fn command(&mut self, command: Command<'_>, state: RunState) -> Result<(), Forbidden> {
        match (command, state) {
            (Command::BeginOperation, RunState::Suspended) => Err(Forbidden::Suspended),
            (Command::BeginOperation, RunState::Paused) => Err(Forbidden::Paused),
            (Command::BeginOperation, RunState::Running) if self.under_way => {
                Err(Forbidden::UnderWay)
            }
            (Command::BeginOperation, RunState::Running) => {
                self.under_way = true;
                Ok(())
            }
            (Command::Emit(emission), state) => may_emit(emission, state),
            (Command::EndOperation, _) if !self.under_way => Err(Forbidden::NotUnderWay),
            (Command::EndOperation, _) => {
                self.under_way = false;
                Ok(())
            }
        }
    }

    /// Whether an operation is under way.
    pub const fn is_under_way(self) -> bool {
        self.under_way
    }
}

/// Whether something may leave an agent in this state. The rules ask the same of every message (VX-RUN-3).
pub fn may_emit(emission: Emission<'_>, state: RunState) -> Result<(), Forbidden> {
    let exempt = matches!(emission, Emission::Message(payload) if payload.is_exempt());
    if state == RunState::Suspended && !exempt {
        return Err(Forbidden::Suspended);
    }
    Ok(())
}

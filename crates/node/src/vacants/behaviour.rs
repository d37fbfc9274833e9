//! What answers the calls of a vacant.

use chancery_vacant::payload::{Payload, Role};

use crate::respond::Responder;

/// What answers calls.
#[derive(Clone, Debug)]
pub enum Behaviour {
    /// Says what it hears (CH-CFG-3).
    Echo,
    /// Nothing in this process: calls wait in the inbox until the vacant's owner answers them.
    Inbox,
    /// Something that answers in words.
    Asks(Responder),
}

impl Behaviour {
    /// Whether running it twice does no harm (CH-JRN-16).
    pub fn is_pure(&self) -> bool {
        match self {
            Self::Echo => true,
            Self::Inbox => false,
            Self::Asks(responder) => responder.is_pure(),
        }
    }
}

/// What the echo behaviour answers (CH-CFG-3).
pub(super) fn echo(heard: &Payload) -> Payload {
    Payload::text(Role::Agent, format!("echo: {}", heard.joined()))
}

//! What answers the calls of a vacant.

use chancery_vacant::payload::{Payload, Role};

/// What answers calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// Says what it hears (CH-CFG-3).
    Echo,
    /// Nothing in this process: calls wait in the inbox until the vacant's owner answers them.
    Inbox,
}

impl Behaviour {
    /// The behaviour that a configuration names.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "echo" => Some(Self::Echo),
            "inbox" => Some(Self::Inbox),
            _ => None,
        }
    }

    /// Whether running it twice does no harm (CH-JRN-16).
    pub const fn is_pure(self) -> bool {
        matches!(self, Self::Echo)
    }
}

/// What the echo behaviour answers (CH-CFG-3).
pub(super) fn echo(heard: &Payload) -> Payload {
    Payload::text(Role::Agent, format!("echo: {}", heard.joined()))
}

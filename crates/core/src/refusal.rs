//! A refusal: why an envelope was not taken, in one shape for all protocols.
//!
//! Doors render it in their protocol's own error form. It never holds a value of the message it refuses.

use std::borrow::Cow;
use std::fmt;
use std::ops::{Deref, DerefMut};

/// Whose fault a refusal is: it decides the status class and whether an operator is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// The sender's: sending the same bytes again cannot help.
    Sender,
    /// Nobody's for long: a limit was reached, try again.
    Load,
    /// This node's.
    Node,
}

/// Why an envelope was refused. Boxed: refusals are rare, and results that may hold one stay small.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal(Box<Reasons>);

/// What a refusal says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reasons {
    /// The protocol's code.
    pub code: &'static str,
    /// The status an HTTP door answers with.
    pub status: u16,
    /// Whether the same bytes may be accepted later.
    pub retryable: bool,
    /// Whose fault it is.
    pub whose: Whose,
    /// The place of the fault, as the protocol writes places.
    pub path: Option<String>,
    /// The requirement that was not met.
    pub requirement: &'static str,
    /// One sentence for people, without values from the message.
    pub message: Cow<'static, str>,
    /// The message's identifier, when it could be read.
    pub message_id: Option<String>,
    /// After how many seconds to try again.
    pub retry_after_s: Option<u32>,
    /// The check that failed, by the name the protocol gives it.
    pub check: &'static str,
    /// Further facts as canonical JSON, for protocols whose errors carry them.
    pub details: Option<String>,
}

impl Refusal {
    /// A refusal with nothing but its code, status, requirement and sentence.
    pub fn new(
        code: &'static str,
        status: u16,
        requirement: &'static str,
        message: &'static str,
    ) -> Self {
        let whose = match status {
            429 | 503 => Whose::Load,
            500.. => Whose::Node,
            _ => Whose::Sender,
        };
        Self(Box::new(Reasons {
            code,
            status,
            retryable: whose != Whose::Sender,
            whose,
            path: None,
            requirement,
            message: Cow::Borrowed(message),
            message_id: None,
            retry_after_s: (whose == Whose::Load).then_some(1),
            check: "",
            details: None,
        }))
    }

    /// The same, naming the place.
    #[must_use]
    pub fn at(mut self, path: impl Into<String>) -> Self {
        self.path = Some(path.into());
        self
    }

    /// The same, naming the message.
    #[must_use]
    pub fn of_message(mut self, id: impl Into<String>) -> Self {
        self.message_id = Some(id.into());
        self
    }

    /// The same, naming the check.
    #[must_use]
    pub fn in_check(mut self, check: &'static str) -> Self {
        self.check = check;
        self
    }
}

impl Deref for Refusal {
    type Target = Reasons;

    fn deref(&self) -> &Reasons {
        &self.0
    }
}

impl DerefMut for Refusal {
    fn deref_mut(&mut self) -> &mut Reasons {
        &mut self.0
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)?;
        if let Some(path) = &self.path {
            write!(f, " (at {path})")?;
        }
        write!(f, " [{}]", self.requirement)
    }
}

impl std::error::Error for Refusal {}

//! What the outbox asks of a transport.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use chancery_core::delivery::{Delivery, Whisper};
use serde::{Deserialize, Serialize};

use crate::leave::Leave;

/// What came of one attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Carried {
    /// The recipient has it.
    Delivered,
    /// The recipient will never take it: further attempts are pointless.
    Refused,
    /// No answer, or one that a later attempt may better; `at_least` lengthens the pause.
    Failed {
        /// The shortest pause before the next attempt.
        at_least: Option<Duration>,
    },
}

impl Carried {
    /// The word for it.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Refused => "refused",
            Self::Failed { .. } => "failed",
        }
    }
}

/// A future of an attempt.
pub type Attempt = Pin<Box<dyn Future<Output = Carried> + Send>>;

/// Brings bytes to recipients: a transport.
pub trait Carrier: Send + Sync + 'static {
    /// One attempt to bring a line's envelope to the delivery's recipient.
    ///
    /// The sender may be suspended at any moment: the attempt is dropped then, and must send nothing after that. A
    /// carrier whose bytes wait anywhere on their way asks `leave` as it writes them.
    fn carry(&self, delivery: Delivery, envelope: Bytes, leave: Leave) -> Attempt;

    /// The place where a delivery's recipient is reached, when it is known: of one line, recipients at the same place
    /// get one copy (VX-BC-3).
    fn place(&self, delivery: &Delivery) -> Option<String> {
        let _ = delivery;
        None
    }

    /// Sends a soft message, once.
    fn whisper(&self, whisper: Whisper);
}

/// A carrier that reaches nobody: every attempt fails.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoCarrier;

impl Carrier for NoCarrier {
    fn carry(&self, _: Delivery, _: Bytes, _: Leave) -> Attempt {
        Box::pin(std::future::ready(Carried::Failed { at_least: None }))
    }

    fn whisper(&self, _: Whisper) {}
}

//! A message as its effects see it, whoever it came from: the parts that they depend on.

use bytes::Bytes;

use crate::constraints::Stamp;
use crate::message::{Payload, Recipient, Timestamp, Version};
use crate::message_id::MessageId;

/// A message that is being put on record.
#[derive(Clone, Copy)]
pub(super) struct Told<'a> {
    pub(super) id: MessageId,
    /// Tells copies of it from another message under the same identifier.
    pub(super) tag: u64,
    pub(super) version: Version,
    pub(super) sender: &'a str,
    pub(super) recipient: &'a Recipient,
    pub(super) timestamp: &'a Timestamp,
    pub(super) payload: &'a Payload,
    /// The envelope as its line holds it, perhaps without its signature.
    pub(super) envelope: &'a Bytes,
    /// Whether it is the first share on a connection (VX-WS-5).
    pub(super) greeting: bool,
}

impl Told<'_> {
    /// Its place in the order that counts.
    pub(super) fn stamp(&self) -> Stamp {
        Stamp {
            at: self.timestamp.instant,
            id: self.id,
        }
    }

    /// Whether it names its recipient.
    pub(super) fn is_directed(&self) -> bool {
        matches!(self.recipient, Recipient::Directed(_))
    }
}

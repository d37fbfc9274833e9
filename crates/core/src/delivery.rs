//! Deliveries: what leaves after a commit, at least once; and whispers, which leave at most once.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::line::{ProtocolName, Seq};
use crate::rows::RowKey;

/// The space of outbox rows.
pub const OUTBOX: &str = "outbox";

/// One line to be brought to one recipient, with the attempts its protocol allows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    /// Whose rules sent it.
    pub protocol: ProtocolName,
    /// The participant that sends: what a suspended one has in the outbox waits.
    pub from: String,
    /// The recipient, as the protocol names it.
    pub to: String,
    /// Whether it leaves although its sender is suspended. What is exempt also overtakes what is not.
    pub exempt: bool,
    /// The pauses before the second, third, … attempt. Their number limits the attempts.
    pub pauses_ms: Vec<u32>,
    /// How long one attempt may take.
    pub attempt_ms: u32,
    /// How long after its line was decided an attempt may still begin; then it counts as failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_ms: Option<u32>,
    /// What the rules want to be asked some time after the recipient has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then_ask: Option<Ask>,
}

/// A timer that runs from the moment of delivery, which only the host knows. It is on no log until it fires.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    /// How long after the delivery.
    pub after_ms: u32,
    /// The timer as its protocol writes it, in JSON.
    pub timer: String,
}

/// The row of a delivery: the line it belongs to and its number among that unit's deliveries.
pub fn outbox_key(seq: Seq, number: usize) -> RowKey {
    RowKey::new(
        OUTBOX,
        &[&seq.to_be_bytes(), &(number as u64).to_be_bytes()],
    )
}

/// The line and number that an outbox key holds.
pub fn parse_outbox_key(key: &RowKey) -> Option<(Seq, u64)> {
    let parts = key.parts();
    let [space, seq, number] = parts.as_slice() else {
        return None;
    };
    if space != OUTBOX.as_bytes() {
        return None;
    }
    let number_of = |part: &[u8]| part.try_into().ok().map(u64::from_be_bytes);
    Some((number_of(seq)?, number_of(number)?))
}

/// A soft message: sent once, on no log, lost without harm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Whisper {
    /// Whose rules sent it.
    pub protocol: ProtocolName,
    /// The recipient, as the protocol names it.
    pub to: String,
    /// The bytes to send.
    pub bytes: Bytes,
    /// Whose key signs them first, when they are not whole yet.
    pub signer: Option<String>,
}

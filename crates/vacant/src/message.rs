//! A decoded envelope as rules and lines need it.

use bytes::Bytes;
use chancery_core::canonical::{Dialect, canonical_cutting};
use chancery_core::json::Value;

use crate::envelope::{Envelope, Verified};
use crate::error::ProtocolError;
use crate::settings::Settings;
use crate::wire::{from_message, message_of, read_json};

/// An envelope that was received, or read back from a line.
#[derive(Clone, Debug)]
pub struct Message {
    /// What it says.
    pub envelope: Envelope,
    /// The A2A message object in the dialect of the log (CH-JRN-10).
    pub canonical: Bytes,
    /// The message object with its numbers as received, where the log's dialect rewrites one of them (CH-JRN-3). It is
    /// the message alone, never the frame it came in: what stood beside it must not be read back in its place.
    pub raw: Option<Bytes>,
    /// Under what it verified; none before it was.
    pub verified: Option<Verified>,
}

impl Message {
    /// The message of a JSON-RPC body, as received.
    pub fn of_body(body: &Value<'_>) -> Result<Self, ProtocolError> {
        Self::of(message_of(body)?)
    }

    /// A message object, whichever frame it came in.
    pub fn of(message: &Value<'_>) -> Result<Self, ProtocolError> {
        let envelope = from_message(message)?;
        let canonical = canonical_cutting(message, "", Dialect::Vibe);
        let raw = (!canonical.verbatim()).then(|| {
            let mut text = Vec::new();
            message.write_as_read(&mut text);
            Bytes::from(text)
        });
        Ok(Self {
            envelope,
            canonical: canonical.into_bytes(),
            raw,
            verified: None,
        })
    }

    /// A line's text back.
    pub fn of_record(received: &Bytes) -> Result<Self, ProtocolError> {
        Self::of(&read_json(received, usize::MAX)?)
    }

    /// The limits on what one envelope may hold (VA-SRV-14).
    pub fn check_limits(&self, settings: &Settings) -> Result<(), ProtocolError> {
        let payload = &self.envelope.payload;
        if payload.parts.len() > settings.max_parts {
            let reason = "the message has too many parts";
            return Err(ProtocolError::format_at("/params/message/parts", reason));
        }
        let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let held = [
            self.envelope.idempotency_key.len(),
            self.envelope.signature.len(),
            length(&payload.context_id),
            length(&payload.message_id),
        ];
        if held.iter().sum::<usize>() > settings.max_id_bytes {
            return Err(ProtocolError::format(
                "the identifiers and keys of the envelope are too long",
            ));
        }
        Ok(())
    }
}

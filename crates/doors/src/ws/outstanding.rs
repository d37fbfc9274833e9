//! Messages that were written to a connection and are not confirmed: by a Pong with their identifier, or by a status
//! frame where both sides speak `vcp.status.v1` (VX-WS-3, VX-WS-4).

use std::collections::VecDeque;

use chancery_node::Carried;
use chancery_value_context::attempts::{Answered, meaning};
use serde::Deserialize;
use serde::de::IgnoredAny;
use tokio::sync::oneshot;

/// In the order in which they were written.
#[derive(Default)]
pub(crate) struct Outstanding(VecDeque<(String, oneshot::Sender<Carried>)>);

/// What the other side says about one message.
#[derive(Deserialize)]
pub(crate) struct Status {
    status: String,
    message_id: Option<String>,
    error: Option<StatusError>,
    vcp_message: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct StatusError {
    retryable: bool,
}

impl Status {
    /// A text frame as a status; none when it is an envelope or anything else.
    pub(crate) fn read(text: &[u8]) -> Option<Self> {
        // An envelope is told from a status without reading it.
        if memchr::memmem::find(text, b"\"vcp_message\"").is_some() {
            return None;
        }
        let status: Self = serde_json::from_slice(text).ok()?;
        status.vcp_message.is_none().then_some(status)
    }

    fn carried(&self) -> Carried {
        let retryable = self.error.as_ref().map(|error| error.retryable);
        match meaning(&self.status, retryable) {
            Answered::Delivered => Carried::Delivered,
            Answered::Final => Carried::Refused,
            Answered::Again => Carried::Failed { at_least: None },
        }
    }
}

impl Outstanding {
    /// A message was written.
    pub(crate) fn add(&mut self, id: String, done: oneshot::Sender<Carried>) {
        self.0.retain(|(_, done)| !done.is_closed());
        self.0.push_back((id, done));
    }

    /// A Pong confirms a message, and all before it: the other side has read them in order.
    pub(crate) fn confirm(&mut self, id: &[u8]) {
        if let Some(place) = self.0.iter().position(|(known, _)| known.as_bytes() == id) {
            for (_, done) in self.0.drain(..=place) {
                let _ = done.send(Carried::Delivered);
            }
        }
    }

    /// A status says what became of a message.
    pub(crate) fn answer(&mut self, status: &Status) {
        let place = self
            .0
            .iter()
            .position(|(known, _)| status.message_id.as_ref() == Some(known));
        if let Some((_, done)) = place.and_then(|place| self.0.remove(place)) {
            let _ = done.send(status.carried());
        }
    }
}

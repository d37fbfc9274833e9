//! What a connection hears: each frame through the same gate as an HTTP body, and who is behind the connection.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use chancery_core::line::ProtocolName;
use chancery_core::protocol::Door;
use chancery_core::refusal::Refusal;
use chancery_node::Office;
use chancery_value_context::Answer;
use chancery_value_context::answer::{accepted, duplicate};
use chancery_value_context::code::Code;
use chancery_value_context::message::{Kind, Message, Recipient};
use hashbrown::HashSet;

use super::switchboard::{Line, Switchboard};
use crate::http::{at_the_door, is_before_authentication, rejection};

/// A frame that is being decided.
pub(crate) type Hearing = Pin<Box<dyn Future<Output = Heard> + Send>>;

/// Judges what comes before authentication: a source of failures may not have every frame read (VX-ERR-4).
pub(crate) trait Doorkeeper: Send + Sync {
    /// Whether this frame is read at all.
    fn lets_in(&self, frame: &[u8]) -> bool;
    /// A frame was refused before anybody was proven to have sent it.
    fn failed(&self);
}

/// What became of a frame.
pub(crate) struct Heard {
    result: Result<Answer, Refusal>,
    /// Whether the text was a JSON object at all.
    is_object: bool,
}

impl Heard {
    /// The body that HTTP would have answered (VX-WS-4).
    pub(crate) fn body(&self) -> Vec<u8> {
        match &self.result {
            Ok(Answer::Accepted(id)) => accepted(*id),
            Ok(Answer::Duplicate(id)) => duplicate(*id),
            Ok(_) => rejection(&at_the_door(Code::Internal, "the node could not answer")),
            Err(refusal) => rejection(refusal),
        }
    }

    /// Whether the text was no JSON object (VX-WS-9).
    pub(crate) fn is_no_object(&self) -> bool {
        let is_malformed = |refusal: &Refusal| refusal.code == Code::MalformedJson.as_str();
        !self.is_object || self.result.as_ref().is_err_and(is_malformed)
    }

    /// Whether the frame counts as dropped. What this node is at fault for, or too busy for, does not.
    pub(crate) fn counts_as_dropped(&self) -> bool {
        let ours = [Code::Overloaded.as_str(), Code::Internal.as_str()];
        self.result
            .as_ref()
            .is_err_and(|refusal| !ours.contains(&refusal.code))
    }
}

/// The ears of one connection.
pub(crate) struct Ears {
    pub(crate) office: Arc<Office>,
    pub(crate) switchboard: Arc<Switchboard>,
    pub(crate) line: Line,
    pub(crate) doorkeeper: Box<dyn Doorkeeper>,
    /// Whether a greeting is answered by one: the side that was called does (VX-WS-5).
    pub(crate) answers_greetings: bool,
    pub(crate) agents_at_most: usize,
    /// Agents that are known to be behind this connection.
    pub(crate) behind: HashSet<String>,
    /// Agents whose first share was heard.
    pub(crate) greeted: HashSet<String>,
}

impl Ears {
    /// Reads and proves a frame at once; what is left is to be decided. The error is what became of a frame that is
    /// not to be decided.
    pub(crate) fn hear(&mut self, frame: Bytes) -> Result<Hearing, Heard> {
        let is_object = frame
            .iter()
            .find(|byte| !byte.is_ascii_whitespace())
            .is_some_and(|first| *first == b'{');
        let heard = |refusal| Heard {
            result: Err(refusal),
            is_object,
        };
        if !self.doorkeeper.lets_in(&frame) {
            let refusal = at_the_door(
                Code::RateLimited,
                "too many refused messages from this address",
            );
            self.office
                .note_rejection(ProtocolName::ValueContext, &refusal);
            return Err(heard(refusal));
        }
        let proven = self.prove(frame).inspect_err(|refusal| {
            if is_before_authentication(refusal) {
                self.doorkeeper.failed();
            }
        });
        let (arrival, greeted) = proven.map_err(heard)?;
        let office = Arc::clone(&self.office);
        Ok(Box::pin(async move {
            let result = office.decide_value_context(arrival).await;
            if let (Ok(Answer::Accepted(_)), Some((ours, theirs))) = (&result, greeted) {
                tokio::spawn(async move { greet_back(&office, &ours, &theirs).await });
            }
            Heard {
                result,
                is_object: true,
            }
        }))
    }

    /// Gives the proven message, and who is to greet whom because of it.
    fn prove(
        &mut self,
        frame: Bytes,
    ) -> Result<(chancery_node::Arrival, Option<(String, String)>), Refusal> {
        let door = Door::WebSocket { greeting: false };
        let opened = self.office.open_value_context(frame, door)?;
        let message = &opened.message;
        let greeting = self.is_greeting(message);
        let sender = message.sender.as_str().to_owned();
        let recipient = match &message.recipient {
            Recipient::Directed(agent) => Some(agent.as_str().to_owned()),
            Recipient::Broadcast => None,
        };
        let door = Door::WebSocket { greeting };
        let arrival = self.office.admit_value_context(opened, door)?;
        if recipient.is_some() {
            self.learn(&sender);
        }
        if greeting && self.greeted.len() < self.agents_at_most {
            self.greeted.insert(sender.clone());
        }
        let greeted = recipient
            .filter(|_| greeting && self.answers_greetings)
            .map(|ours| (ours, sender));
        Ok((arrival, greeted))
    }

    /// The first share of an agent on a connection is its greeting (VX-WS-5, VX-RUN-6).
    fn is_greeting(&self, message: &Message) -> bool {
        message.kind() == Kind::ContextShare && !self.greeted.contains(message.sender.as_str())
    }

    /// A verified message tells that its sender is behind this connection (VX-WS-10).
    fn learn(&mut self, sender: &str) {
        if self.behind.contains(sender) {
            // It may have been learned elsewhere meanwhile: the latest counts.
            self.switchboard.learn(sender, &self.line);
        } else if self.behind.len() < self.agents_at_most {
            self.switchboard.learn(sender, &self.line);
            self.behind.insert(sender.to_owned());
        }
    }
}

impl Drop for Ears {
    fn drop(&mut self) {
        self.switchboard
            .forget(self.line.number, self.behind.iter());
    }
}

async fn greet_back(office: &Office, ours: &str, theirs: &str) {
    if let Err(refusal) = office.greet_value_context(ours, theirs).await {
        tracing::debug!(%refusal, "a greeting was not answered");
    }
}

//! What a sender is told.

use bytes::Bytes;
use chancery_core::line::Seq;
use chancery_core::refusal::Refusal;
use serde::Serialize;

use crate::body::State;
use crate::fault::{ErrorName, Fault, Stage};
use crate::lifecycle::Move;
use crate::revision::Revision;
use crate::soft::Seen;

/// An answer of the rules.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// What became of an envelope.
    Decided(Box<Outcome>),
    /// The same request was made before: its envelope is this line.
    SentBefore(Seq),
    /// A failed delivery is on record.
    Noted,
}

/// The three verdicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It counts.
    Accept,
    /// It changes nothing and nobody is told (AG-LIF-9).
    Ignore,
    /// It is refused.
    Reject,
}

impl Verdict {
    /// The word in answers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Ignore => "ignore",
            Self::Reject => "reject",
        }
    }
}

/// What became of an envelope.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Accepted, ignored or rejected.
    pub verdict: Verdict,
    /// The envelope's identifier.
    pub id: String,
    /// Which revision it was of.
    pub revision: Revision,
    /// Why it was not accepted.
    pub fault: Option<Fault>,
    /// Local peers whose inbox has it.
    pub deliver_to: Vec<String>,
    /// Receipts and answers that the node made.
    pub emitted: Vec<Bytes>,
    /// A sign of life for the node to remember.
    pub seen: Option<Seen>,
    /// The step that its interaction took.
    pub step: Option<Move>,
    /// The state of the interaction after it.
    pub state: Option<State>,
    /// Whether the sender's key was proven: `verified` or `unverified`; `rejected` when the proof failed (AG-CON-2).
    pub trust: &'static str,
    /// Whether the same request was made before, and this is what became of it then.
    pub sent_before: bool,
}

impl Outcome {
    /// An accepted envelope that changed nothing yet.
    pub fn new(verdict: Verdict, id: &str, revision: Revision) -> Self {
        Self {
            verdict,
            id: id.to_owned(),
            revision,
            fault: None,
            deliver_to: Vec::new(),
            emitted: Vec::new(),
            seen: None,
            step: None,
            state: None,
            trust: "unverified",
            sent_before: false,
        }
    }

    /// The number of the check at which it ended: delivery, when nothing was wrong.
    pub fn ended_at(&self) -> u8 {
        let stage = self
            .fault
            .as_ref()
            .map_or(Stage::Delivery, |fault| fault.stage);
        stage.step(self.revision)
    }

    /// The status of the HTTP door.
    pub fn status(&self) -> u16 {
        match (&self.fault, self.verdict) {
            (Some(fault), Verdict::Reject) => fault.status(),
            _ => 200,
        }
    }

    /// The answer's JSON; `sent` adds the identifier, for what a hosted peer sends.
    pub fn to_json(&self, sent: bool) -> Vec<u8> {
        let fault = self.fault.as_ref();
        let head = Head {
            verdict: self.verdict.as_str(),
            reason_code: fault.map(|fault| fault.reason().as_str()),
            error: fault.map(|fault| fault.error.as_str()),
            path: fault.and_then(|fault| fault.path.as_deref()),
            step: self.ended_at(),
            deliver_to: &self.deliver_to,
            revision: self.revision.as_str(),
            trust: self.trust,
            id: sent.then_some(self.id.as_str()),
        };
        whole(&head, &self.emitted)
    }
}

/// The members of an answer but `emitted`.
#[derive(Serialize)]
struct Head<'a> {
    verdict: &'static str,
    reason_code: Option<&'static str>,
    error: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<&'a str>,
    step: u8,
    deliver_to: &'a [String],
    revision: &'static str,
    trust: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
}

/// The answer to what a door or a rule refused before there was an outcome.
pub fn refused(refusal: &Refusal) -> Vec<u8> {
    let error = ErrorName::parse(refusal.code);
    let body = Head {
        verdict: Verdict::Reject.as_str(),
        reason_code: error.map(|error| error.reason().as_str()),
        error: Some(refusal.code),
        path: refusal.path.as_deref(),
        step: refusal.check.parse().unwrap_or_default(),
        deliver_to: &[],
        revision: Revision::A.as_str(),
        trust: "unverified",
        id: refusal.message_id.as_deref(),
    };
    whole(&body, &[])
}

/// The answer that a door gives by itself.
pub fn at_the_door(error: ErrorName) -> Vec<u8> {
    refused(&Fault::new(error, Stage::Parse).into_refusal(Revision::A))
}

/// An answer with what was emitted, which is JSON already and goes in as it stands.
fn whole(head: &Head<'_>, emitted: &[Bytes]) -> Vec<u8> {
    let mut body = serde_json::to_vec(head).expect("texts and numbers always have a JSON form");
    body.truncate(body.len() - 1);
    body.extend_from_slice(b",\"emitted\":[");
    body.extend_from_slice(&emitted.join(&b','));
    body.extend_from_slice(b"]}");
    body
}

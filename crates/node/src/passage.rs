//! The passage of one envelope, from when it came to what became of it. Here and nowhere else envelopes are counted,
//! and told in the process's log, whichever door they came by.

use std::time::Instant;

use chancery_core::decision::Event;
use chancery_core::line::{ProtocolName, Seq};
use chancery_core::protocol::Suite;
use chancery_core::refusal::Refusal;
use chancery_core::time::Time;
use chancery_value_context::code::Code;

use crate::gate::{Overloaded, Permit};
use crate::node::Node;
use crate::sequencer::Decided;

/// The lines of the process's log that tell decisions: `CHANCERY_LOG=warn,chancery::decision=info`.
const DECISION: &str = "chancery::decision";

/// The reason of what needs none.
const NO_REASON: &str = "none";

/// An envelope on its way.
#[derive(Debug)]
pub(crate) struct Passage {
    protocol: ProtocolName,
    began: Instant,
    /// Its line, once it has one.
    seq: Option<Seq>,
    /// Kept only where somebody wants to know.
    names: Option<Names>,
}

/// Who sent an envelope, and what it is called.
#[derive(Debug, Default)]
struct Names {
    sender: Option<String>,
    message_id: Option<String>,
}

impl Passage {
    /// An envelope has come.
    pub(crate) fn begin(protocol: ProtocolName) -> Self {
        let is_told = tracing::enabled!(target: DECISION, tracing::Level::INFO);
        Self {
            protocol,
            began: Instant::now(),
            seq: None,
            names: is_told.then(Names::default),
        }
    }

    /// Its sender and its identifier, as it names them itself.
    pub(crate) fn names(&mut self, names: impl FnOnce() -> (String, Option<String>)) {
        if let Some(kept) = &mut self.names {
            let (sender, message_id) = names();
            kept.sender = Some(sender);
            kept.message_id = message_id;
        }
    }

    /// Its identifier, where the node made that.
    pub(crate) fn is_called(&mut self, message_id: &str) {
        if let Some(kept) = &mut self.names {
            kept.message_id = Some(message_id.to_owned());
        }
    }
}

/// What became of an envelope.
#[derive(Clone, Copy)]
pub(crate) enum Verdict<'r> {
    /// It counts.
    Accepted,
    /// It counted before.
    Duplicate,
    /// It changes nothing, for a reason of the protocol's.
    Ignored(&'static str),
    /// It is refused.
    Rejected(&'r Refusal),
}

impl<'r> Verdict<'r> {
    /// What an answer comes to, where everything that is not refused counts.
    pub(crate) fn of<T>(result: &'r Result<T, Refusal>) -> Self {
        Self::with(result, |_| Self::Accepted)
    }

    /// The same where an answer tells more.
    pub(crate) fn with<T>(
        result: &'r Result<T, Refusal>,
        answered: impl FnOnce(&T) -> Self,
    ) -> Self {
        match result {
            Ok(answer) => answered(answer),
            Err(refusal) => Self::Rejected(refusal),
        }
    }

    fn labels(self) -> (&'static str, &'static str) {
        match self {
            Self::Accepted => ("accepted", NO_REASON),
            Self::Duplicate => ("duplicate", NO_REASON),
            Self::Ignored(reason) => ("ignored", reason),
            Self::Rejected(refusal) => ("rejected", refusal.code),
        }
    }
}

impl<S: Suite> Node<S> {
    /// Decides what a passage brought; the line of it is the passage's.
    pub(crate) async fn decide(
        &self,
        passage: &mut Passage,
        input: S::Input,
        received: Time,
        permit: Option<Permit>,
    ) -> Result<Decided<S::Answer>, Overloaded> {
        let decided = self.gate().submit(input, received, permit).await?;
        passage.seq = decided.seq;
        Ok(decided)
    }

    /// Counts and tells what became of an envelope; a refusal is noted in the side log too.
    pub(crate) fn conclude(&self, passage: &Passage, verdict: Verdict<'_>) {
        let protocol = passage.protocol.as_str();
        let (told, reason) = verdict.labels();
        metrics::counter!("chancery_envelopes_total", "protocol" => protocol, "verdict" => told, "reason" => reason)
            .increment(1);
        if let Some(names) = &passage.names {
            self.tell(passage, names, verdict);
        }
        if let Verdict::Rejected(refusal) = verdict {
            self.note_refused(passage.protocol, refusal);
        }
    }

    fn tell(&self, passage: &Passage, names: &Names, verdict: Verdict<'_>) {
        let (told, reason) = verdict.labels();
        let of_refusal = match verdict {
            Verdict::Rejected(refusal) => refusal.message_id.as_deref(),
            _ => None,
        };
        // Names of value-context agents leave hashed only (CH-JRN-11).
        let hashed = names.sender.as_deref().filter(|_| is_hashed(passage));
        let hashed = hashed.map(|sender| self.side_logs().hashed(sender));
        let sender = hashed.as_deref().or(names.sender.as_deref());
        tracing::info!(
            target: DECISION,
            protocol = passage.protocol.as_str(),
            verdict = told,
            reason,
            seq = passage.seq,
            sender,
            message_id = names.message_id.as_deref().or(of_refusal),
            micros = u64::try_from(passage.began.elapsed().as_micros()).unwrap_or(u64::MAX),
        );
    }

    /// A refusal of something that came to a door and went no further.
    pub fn note_rejection(&self, protocol: ProtocolName, refusal: &Refusal) {
        self.conclude(&Passage::begin(protocol), Verdict::Rejected(refusal));
    }

    fn note_refused(&self, protocol: ProtocolName, refusal: &Refusal) {
        if refusal.code == Code::KeyNotValid.as_str() {
            self.note_event(&Event {
                name: "key_alert",
                protocol,
                message_id: refusal.message_id.clone(),
            });
        }
        self.side_logs()
            .rejected(protocol, self.gate().clock().now(), refusal);
    }
}

fn is_hashed(passage: &Passage) -> bool {
    passage.protocol == ProtocolName::ValueContext
}

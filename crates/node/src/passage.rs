//! The passage of one envelope, from when it came to what became of it. Here and nowhere else envelopes are counted,
//! told in the process's log and traced, whichever door they came by.

use std::time::Instant;

use chancery_core::decision::Event;
use chancery_core::line::{ProtocolName, Seq};
use chancery_core::protocol::Suite;
use chancery_core::refusal::{Refusal, Whose};
use chancery_core::time::Time;
use chancery_value_context::code::Code;

use crate::gate::{Overloaded, Permit};
use crate::node::Node;
use crate::sequencer::Decided;
use crate::trace::{self, AttributeValue, Spans, Stage, TraceContext, Traced};

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
    /// Where its trace is recorded.
    traced: Option<Traced>,
}

/// Who sent an envelope, and what it is called.
#[derive(Debug, Default)]
struct Names {
    sender: Option<String>,
    message_id: Option<String>,
}

impl Passage {
    /// Its place in its trace, where that is recorded: what it causes elsewhere belongs below it.
    pub(crate) fn place(&self) -> Option<&TraceContext> {
        Some(self.traced.as_ref()?.trace.context())
    }

    /// A stage is over.
    pub(crate) fn ends(&mut self, stage: Stage) {
        if let Some(traced) = &mut self.traced {
            traced.ends(stage);
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
    /// An envelope has come.
    pub(crate) fn passage(&self, protocol: ProtocolName) -> Passage {
        self.passage_since(protocol, Instant::now())
    }

    /// The same of one that came a moment ago.
    pub(crate) fn passage_since(&self, protocol: ProtocolName, began: Instant) -> Passage {
        let is_told = tracing::enabled!(target: DECISION, tracing::Level::INFO);
        let trace = |spans| Spans::trace(spans, trace::here().as_ref());
        Passage {
            protocol,
            began,
            seq: None,
            names: is_told.then(Names::default),
            traced: self.spans().and_then(trace).map(|trace| Traced {
                trace,
                since: began,
            }),
        }
    }

    /// Puts a passage below the span that its envelope names, where no door named another.
    pub(crate) fn adopt(
        &self,
        passage: &mut Passage,
        caller: impl FnOnce() -> Option<TraceContext>,
    ) {
        let Some(spans) = self.spans() else {
            return;
        };
        if trace::here().is_none()
            && let Some(caller) = caller()
        {
            let since = passage.began;
            let trace = Spans::trace(spans, Some(&caller));
            passage.traced = trace.map(|trace| Traced { trace, since });
        }
    }

    /// Decides what a passage brought; the line of it is the passage's.
    pub(crate) async fn decide(
        &self,
        passage: &mut Passage,
        input: S::Input,
        received: Time,
        permit: Option<Permit>,
    ) -> Result<Decided<S::Answer>, Overloaded> {
        let traced = passage.traced.clone();
        let submitted = self.gate().submit_as(input, received, permit, traced);
        let decided = submitted.await?;
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
        if let Some(traced) = &passage.traced {
            end_trace(passage, traced, verdict);
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
        let sender = names.sender.as_deref();
        let sender = sender.map(|name| self.side_logs().in_process_log(passage.protocol, name));
        tracing::info!(
            target: DECISION,
            protocol = passage.protocol.as_str(),
            verdict = told,
            reason,
            seq = passage.seq,
            sender = sender.as_deref(),
            message_id = names.message_id.as_deref().or(of_refusal),
            micros = u64::try_from(passage.began.elapsed().as_micros()).unwrap_or(u64::MAX),
        );
    }

    /// A refusal of something that came to a door and went no further.
    pub fn note_rejection(&self, protocol: ProtocolName, refusal: &Refusal) {
        self.conclude(&self.passage(protocol), Verdict::Rejected(refusal));
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

fn end_trace(passage: &Passage, traced: &Traced, verdict: Verdict<'_>) {
    let (told, reason) = verdict.labels();
    let mut attributes = vec![
        (
            "chancery.protocol",
            AttributeValue::Text(passage.protocol.as_str()),
        ),
        ("chancery.verdict", AttributeValue::Text(told)),
        ("chancery.reason", AttributeValue::Text(reason)),
    ];
    let seq = passage.seq.and_then(|seq| i64::try_from(seq).ok());
    attributes.extend(seq.map(|seq| ("chancery.seq", AttributeValue::Number(seq))));
    let is_fault = matches!(verdict, Verdict::Rejected(refusal) if refusal.whose != Whose::Sender);
    traced.trace.concluded(passage.began, attributes, is_fault);
}

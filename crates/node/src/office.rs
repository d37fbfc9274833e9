//! The node as doors see it: one method a thing that a caller can ask for.

mod vibe;

pub use vibe::{VibeAnswered, turn_records_prefix, vibe_approver, vibe_reader};

use std::time::Duration;

use chancery_agh::Agh;
use chancery_core::admin::{Act, RunState, agent_key, run_state_key};
use chancery_core::inbox::InboxName;
use chancery_core::line::{ProtocolName, Seq};
use chancery_core::protocol::{Input, Protocol};
use chancery_core::refusal::Refusal;
use chancery_core::rows::RowKey;
use chancery_core::time::Time;
use chancery_store::StoreError;
use chancery_vacant::Vacant;
use chancery_value_context::code::{Code, Fault};
use chancery_value_context::message::Message;
use chancery_value_context::{Answer, ValueContext};
use serde::de::DeserializeOwned;

use crate::node::Node;
use crate::passage::{Passage, Verdict};
use crate::sequencer::Decided;
use crate::suite::{AnyAnswer, AnyInput, Chancery};
use crate::trace::Stage;

/// A node that serves this program's protocols.
pub type Office = Node<Chancery>;

/// How long after a start without memory old messages may be replays (VX-RPL-4).
const START_CAUTION: Duration = Duration::from_secs(330);
/// How much older than the start a message may be then.
const START_SLACK: Duration = Duration::from_secs(1);

/// What a hosted agent's request to send came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The answer as the protocol's door gives it.
    pub answer: Answer,
    /// The message's identifier.
    pub message_id: String,
}

impl Office {
    /// A value-context message of a hosted agent: the body of `POST /send/value-context`.
    pub async fn send_value_context(
        &self,
        body: &[u8],
        idempotency: Option<String>,
    ) -> Result<Sent, Refusal> {
        self.send(body, idempotency, false).await
    }

    /// The same; a greeting is the first share on a connection, and lets nobody go on (VX-RUN-6).
    pub(crate) async fn send(
        &self,
        body: &[u8],
        idempotency: Option<String>,
        greeting: bool,
    ) -> Result<Sent, Refusal> {
        let mut passage = self.passage(ProtocolName::ValueContext);
        let sent = self
            .send_as_agent(&mut passage, body, idempotency, greeting)
            .await;
        let verdict = Verdict::with(&sent, |sent| verdict_of(&sent.answer));
        self.conclude(&passage, verdict);
        sent
    }

    async fn send_as_agent(
        &self,
        passage: &mut Passage,
        body: &[u8],
        idempotency: Option<String>,
        greeting: bool,
    ) -> Result<Sent, Refusal> {
        let settings = self.gate().settings();
        let permit = self.gate().permit();
        let settings = &settings.value_context;
        let read = self.asked_to_send(body, settings);
        passage.ends(Stage::Decode);
        let mut outgoing = read?;
        outgoing.greeting = greeting;
        let sender = outgoing.sender.as_str().to_owned();
        passage.names(|| (sender.clone(), None));
        let input = Input::Outgoing {
            agent: sender,
            answers: None,
            idempotency,
            content: outgoing,
        };
        let permit = match permit {
            Err(_) if self.gate().suite().value_context().urgent(&input) => {
                self.gate().urgent_permit()
            }
            permit => permit,
        };
        let permit = permit.map_err(|_| overloaded(""))?;
        let received = self.gate().clock().now();
        let input = AnyInput::ValueContext(input);
        let decided = self.decide(passage, input, received, Some(permit)).await;
        let answer = value_context_answer(decided.map_err(|_| overloaded(""))?)?;
        let message_id = match &answer {
            Answer::Accepted(id) | Answer::Duplicate(id) => id.to_string(),
            Answer::SentBefore(seq) => self.message_id_of(*seq).map_err(|_| internal())?,
            Answer::Noted => return Err(internal()),
        };
        passage.is_called(&message_id);
        Ok(Sent { answer, message_id })
    }

    /// An act of administration, on record when this returns.
    pub async fn act(&self, mut act: Act) -> Result<Seq, Refusal> {
        self.say_who_signs(&mut act);
        let owner = self.signer_whose_key_changes(&act);
        let seq = self.submit_act(act).await?;
        if let Some(owner) = owner {
            self.follow_key(&owner).await;
        }
        Ok(seq)
    }

    pub(crate) async fn submit_act(&self, act: Act) -> Result<Seq, Refusal> {
        let refuse = || {
            Refusal::new(
                "overloaded",
                503,
                "CH-LIM-2",
                "the node takes no further requests at the moment",
            )
        };
        match self
            .submit(AnyInput::Act(act))
            .await
            .map_err(|_| refuse())?
            .result?
        {
            AnyAnswer::Act(seq) => Ok(seq),
            _ => Err(internal()),
        }
    }

    /// The run state of a participant on record.
    pub fn run_state(&self, participant: &str) -> Result<RunState, StoreError> {
        Ok(self.row(&run_state_key(participant))?.unwrap_or_default())
    }

    /// A committed row as a value.
    pub fn row<T: DeserializeOwned>(&self, key: &RowKey) -> Result<Option<T>, StoreError> {
        let Some(bytes) = self
            .gate()
            .store()
            .load(std::slice::from_ref(key))?
            .into_iter()
            .next()
            .flatten()
        else {
            return Ok(None);
        };
        serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|error| StoreError(format!("{key:?}: {error}")))
    }

    /// Whether an agent has an inbox here.
    pub fn hosts(&self, name: &InboxName) -> Result<bool, StoreError> {
        let key = agent_key(name.protocol, &name.agent);
        Ok(self
            .gate()
            .store()
            .load(&[key])?
            .into_iter()
            .flatten()
            .next()
            .is_some())
    }

    /// After a start without memory of identifiers, what was stamped before it may be a replay (VX-RPL-4).
    pub(crate) fn check_start(&self, message: &Message, received: Time) -> Result<(), Refusal> {
        let cautious = !self.gate().store().is_durable()
            && !self.gate().clock().is_fixed()
            && received < self.started().saturating_add(START_CAUTION);
        if !cautious || message.timestamp.instant >= self.started().saturating_sub(START_SLACK) {
            return Ok(());
        }
        let fault = Fault::new(
            Code::TimestampStale,
            "the message is older than this node's memory",
        )
        .under("VX-RPL-4");
        Err(fault
            .into_refusal("temporal")
            .of_message(message.message_id.to_string()))
    }

    fn message_id_of(&self, seq: Seq) -> Result<String, StoreError> {
        let line = self.gate().store().lines(seq, 1)?.pop();
        let line = line.ok_or_else(|| StoreError(format!("the log has no line {seq}")))?;
        let line =
            chancery_journal::line::parse(&line).map_err(|fault| StoreError(fault.to_string()))?;
        let envelope: serde_json::Value = serde_json::from_slice(&line.envelope)
            .map_err(|error| StoreError(error.to_string()))?;
        let id = envelope
            .get("message_id")
            .and_then(serde_json::Value::as_str);
        id.map(str::to_owned)
            .ok_or_else(|| StoreError(format!("line {seq} holds no message")))
    }
}

/// What an answer of value-context says became of a message.
pub(crate) fn verdict_of<'r>(answer: &Answer) -> Verdict<'r> {
    match answer {
        Answer::Accepted(_) | Answer::Noted => Verdict::Accepted,
        Answer::Duplicate(_) | Answer::SentBefore(_) => Verdict::Duplicate,
    }
}

pub(crate) fn value_context_answer(decided: Decided<AnyAnswer>) -> Result<Answer, Refusal> {
    match decided.result? {
        AnyAnswer::ValueContext(answer) => Ok(answer),
        _ => Err(internal()),
    }
}

pub(crate) fn overloaded(message_id: &str) -> Refusal {
    let refusal =
        Fault::new(Code::Overloaded, "the node is busy; try again").into_refusal("capacity");
    if message_id.is_empty() {
        refusal
    } else {
        refusal.of_message(message_id)
    }
}

/// A fault of the node itself.
pub(crate) fn internal() -> Refusal {
    Fault::new(Code::Internal, "the node could not answer").into_refusal("")
}

/// The protocol whose inboxes, states and sends a path names by its agents.
pub fn hosting_protocol(name: &str) -> Option<ProtocolName> {
    [ValueContext::NAME, Vacant::NAME, Agh::NAME]
        .into_iter()
        .find(|protocol| protocol.as_str() == name)
}

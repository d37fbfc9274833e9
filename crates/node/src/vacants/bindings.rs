//! What the bindings beside the native one need: acceptance and answer as two steps, an answer that fits an official
//! A2A message, calls that are withdrawn, and calls without an envelope.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use chancery_core::admin::{RunState, agent_key};
use chancery_core::digest::Sha256Digest;
use chancery_core::ids::v4;
use chancery_core::line::{ProtocolName, Seq};
use chancery_core::protocol::Failure;
use chancery_core::refusal::Refusal;
use chancery_vacant::agent::AgentRecord;
use chancery_vacant::answer::Accepted;
use chancery_vacant::error::ProtocolError;
use chancery_vacant::message::Message;
use chancery_vacant::native::OutOfTurn;
use chancery_vacant::payload::{Payload, Role};

use super::behaviour::{Behaviour, echo};
use super::{HostedVacant, Vacants, lock};
use crate::clock::Entropy;
use crate::passage::Passage;
use crate::respond::{Question, Slot};
use crate::trace::Stage;

/// How a call came in, and so how its answer has to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    /// The native path, or MCP: the answer is what the behaviour said.
    Native,
    /// An official A2A binding: an answer has identifiers, and one of two roles (VA-A2A-7).
    A2a,
}

/// A call that is on record as accepted; its behaviour has not run yet.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) at: Arc<HostedVacant>,
    pub(super) accepted: Accepted,
    pub(super) heard: Payload,
    pub(super) binding: Binding,
    /// Its place among those whose behaviour runs; one that is resumed waits for its place.
    pub(super) slot: Option<Slot>,
    /// What is told of it at its end; none where that is told elsewhere.
    pub(super) passage: Option<Passage>,
}

/// A call that is on record as accepted. Dropped without having been finished it is carried through all the same:
/// whoever asked may have hung up, and an accepted call has an outcome (CH-JRN-16).
pub struct OpenedCall {
    vacants: Arc<Vacants>,
    open: Option<Open>,
    withdrawal: Withdrawal,
}

impl OpenedCall {
    /// What it takes to withdraw the call while it has no outcome.
    #[must_use]
    pub fn withdrawal(&self) -> Withdrawal {
        self.withdrawal.clone()
    }
}

impl Drop for OpenedCall {
    fn drop(&mut self) {
        let runtime = tokio::runtime::Handle::try_current();
        if let (Some(open), Ok(runtime)) = (self.open.take(), runtime) {
            let vacants = Arc::clone(&self.vacants);
            runtime.spawn(async move { vacants.run(open).await });
        }
    }
}

/// Names a call that may be withdrawn.
#[derive(Clone, Debug)]
pub struct Withdrawal(Accepted);

impl Vacants {
    /// Checks 3 to 6 of VA-SRV-4 of a message that was read `since`: when this returns the call is on record and has to
    /// be finished.
    pub async fn accept(
        self: &Arc<Self>,
        at: &Arc<HostedVacant>,
        message: Message,
        binding: Binding,
        since: Instant,
    ) -> Result<OpenedCall, Refusal> {
        let mut passage = self.office.passage_since(ProtocolName::Vacant, since);
        passage.ends(Stage::Decode);
        let permit = self.office.gate().permit();
        let permit = permit.map_err(|_| self.turned_away(&passage, super::calls::busy()))?;
        let (vacants, at) = (Arc::clone(self), Arc::clone(at));
        let accepting = tokio::spawn(async move {
            let open = vacants.open(at, message, permit, binding, passage).await?;
            Ok(OpenedCall {
                withdrawal: Withdrawal(open.accepted.clone()),
                open: Some(open),
                vacants,
            })
        });
        accepting
            .await
            .unwrap_or_else(|_| Err(ProtocolError::BehaviourFailed.into()))
    }

    /// Checks 7 and 8: runs the behaviour and gives the recorded message of its answer.
    pub async fn finish(self: &Arc<Self>, mut call: OpenedCall) -> Result<Bytes, Refusal> {
        match call.open.take() {
            Some(open) => self.carry_through(open).await,
            None => Err(ProtocolError::BehaviourFailed.into()),
        }
    }

    /// Ends a call without an answer, if it has none yet. Whether it ended that way (VA-A2A-10).
    pub async fn withdraw(&self, call: &Withdrawal) -> bool {
        let accepted = &call.0;
        self.fail(accepted.call, &accepted.caller, Failure::Interrupted)
            .await;
        // Whoever waits for the owner waits no longer.
        lock(&self.waiting).remove(&accepted.call);
        self.answer_on_record(accepted).is_none()
    }

    /// The recorded answer that a caller lost who sent the same call again (VA-SRV-12).
    #[must_use]
    pub fn lost_answer(&self, refusal: &Refusal) -> Option<Bytes> {
        let lost = OutOfTurn::of(refusal).and_then(|place| place.answer);
        lost.and_then(|line| self.recorded(line))
    }

    /// A message without an envelope, where the node allows them: the state is checked and the behaviour runs; no
    /// chain is touched and nothing is on record (VA-A2A-5).
    pub async fn hear_anonymous(
        &self,
        at: &HostedVacant,
        heard: &Payload,
    ) -> Result<Payload, Refusal> {
        let failed = || Refusal::from(ProtocolError::BehaviourFailed);
        let key = agent_key(ProtocolName::Vacant, &at.name);
        let record: Option<AgentRecord> = self.office.row(&key).map_err(|_| failed())?;
        let state = record.ok_or_else(failed)?.state;
        if !state.can_be_called() {
            return Err(ProtocolError::TargetUnavailable(state).into());
        }
        let participant = at.participant.as_deref().unwrap_or(&at.name);
        let run_state = self.office.run_state(participant).map_err(|_| failed())?;
        if run_state == RunState::Suspended {
            return Err(ProtocolError::Suspended.into());
        }
        match &at.behaviour {
            Behaviour::Echo => Ok(self.dressed(echo(heard), heard, None)),
            Behaviour::Asks(responder) => {
                let slot = responder.slot().ok_or_else(super::calls::busy)?;
                let question = Question {
                    protocol: ProtocolName::Vacant,
                    seq: 0,
                    agent: at.name.clone(),
                    address: at.id.hex(),
                    from: String::new(),
                    text: heard.joined(),
                    marked: None,
                };
                let words = responder.ask(slot, question, self.timeout).await;
                let words = words.map_err(super::calls::refusal_of)?;
                let says = Payload::text(Role::Agent, words);
                Ok(self.dressed(says, heard, None))
            }
            Behaviour::Inbox => Err(Refusal::new(
                "UNSUPPORTED_OPERATION",
                400,
                "VA-A2A-5",
                "this vacant answers from its inbox, which takes signed calls only",
            )),
        }
    }

    /// An answer with identifiers: a fresh one of its own, and that of the conversation it belongs to (VA-A2A-7). With
    /// a seed they follow from the call's line, so that a run can be repeated (CH-CFG-8).
    pub(super) fn dressed(&self, mut says: Payload, heard: &Payload, call: Option<Seq>) -> Payload {
        if says.role == Role::Tool {
            says.role = Role::Agent;
        }
        let fresh = |what: &str| v4(self.bytes_for(what, call)).to_string();
        says.message_id.get_or_insert_with(|| fresh("message"));
        if says.context_id.is_none() {
            let of_call = heard.context_id.clone().filter(|id| !id.is_empty());
            says.context_id = Some(of_call.unwrap_or_else(|| fresh("context")));
        }
        says
    }

    fn bytes_for(&self, what: &str, call: Option<Seq>) -> [u8; 16] {
        let mut bytes = [0; 16];
        match (self.office.gate().entropy(), call) {
            (Entropy::Seed(seed), Some(call)) => {
                let material = format!("{seed} {what} {call}");
                bytes.copy_from_slice(&Sha256Digest::of(material.as_bytes()).0[..16]);
            }
            _ => getrandom::fill(&mut bytes)
                .expect("the machine's secure generator is there once the node runs"),
        }
        bytes
    }

    /// A fresh identifier that nobody can guess.
    #[must_use]
    pub fn unguessable_id(&self) -> String {
        v4(self.bytes_for("", None)).to_string()
    }
}

//! Calls: from the bytes of a request to the bytes of its answer.

use std::sync::Arc;

use bytes::Bytes;
use chancery_core::fault;
use chancery_core::line::{ProtocolName, Seq};
use chancery_core::protocol::{Caller, Door, Failure, Input, Protocol};
use chancery_core::refusal::Refusal;
use chancery_vacant::answer::{Accepted, Answer};
use chancery_vacant::error::ProtocolError;
use chancery_vacant::id::VacantId;
use chancery_vacant::message::Message;
use chancery_vacant::native;
use chancery_vacant::outgoing::{Call, Outgoing};
use chancery_vacant::payload::{Payload, Role};
use chancery_vacant::rules::chain::{Pair, pair_key};
use serde::Deserialize;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::behaviour::{Behaviour, echo};
use super::bindings::{Binding, Open};
use super::{HostedVacant, Vacants, lock};
use crate::gate::Permit;
use crate::passage::{Passage, Verdict};
use crate::respond::{Question, Responder, Slot, Unheard};
use crate::sequencer::Decided;
use crate::suite::{AnyAnswer, AnyInput};
use crate::trace::{Stage, within};

/// An answer on the native binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeReply {
    /// The HTTP status.
    pub status: u16,
    /// The body, JSON.
    pub body: Vec<u8>,
    /// After how many seconds to try again.
    pub retry_after_s: Option<u32>,
}

/// What a request to send means.
enum Meant {
    /// The answer to the call on this line.
    Answer(Seq),
    /// A call of this vacant, and where that is when it is not here.
    Call((VacantId, Option<String>)),
}

/// The answer to a call of a hosted vacant.
enum Called {
    /// To a call that was made now.
    Now(Bytes),
    /// To one that was made before, under the same key.
    Before(Bytes),
}

impl Called {
    const fn verdict(&self) -> Verdict<'static> {
        match self {
            Self::Now(_) => Verdict::Accepted,
            Self::Before(_) => Verdict::Duplicate,
        }
    }

    fn into_answer(self) -> Bytes {
        match self {
            Self::Now(answer) | Self::Before(answer) => answer,
        }
    }
}

/// What `POST /send/vacant` takes.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SendRequest {
    /// The name of the hosted vacant.
    from: String,
    /// The id of the vacant that is called.
    #[serde(default)]
    to: Option<String>,
    /// What whoever is called can do, instead: the registry says who that is.
    #[serde(default)]
    capability: Option<String>,
    /// The line of the call that is answered, instead.
    #[serde(default)]
    answers: Option<Seq>,
    /// What it says.
    text: String,
}

impl Vacants {
    /// A request on the native path of a vacant: all checks of VA-SRV-4, in their order.
    pub async fn call(self: &Arc<Self>, at: &Arc<HostedVacant>, body: Bytes) -> NativeReply {
        let gate = self.office.gate();
        let mut passage = self.office.passage(ProtocolName::Vacant);
        let permit = gate.permit();
        let (id, message) = native::read_request(&body, &gate.settings().vacant);
        passage.ends(Stage::Decode);
        let answered = match (message, permit) {
            (Ok(message), Ok(permit)) => self.serve(at, message, permit, passage).await,
            (Ok(_), Err(_)) => Err(self.turned_away(&passage, busy())),
            (Err(error), _) => Err(self.turned_away(&passage, error.into())),
        };
        self.reply(&id, answered)
    }

    /// Counts a call that goes no further.
    pub(super) fn turned_away(&self, passage: &Passage, refusal: Refusal) -> Refusal {
        self.office.conclude(passage, Verdict::Rejected(&refusal));
        refusal
    }

    /// The answer to a request that the door refused, in the same shape.
    pub fn refuse(&self, error: ProtocolError) -> NativeReply {
        let refusal = error.into();
        self.note_refused(&refusal);
        self.reply(&native::RpcId::default(), Err(refusal))
    }

    /// Counts and notes what a door refused.
    pub fn note_refused(&self, refusal: &Refusal) {
        self.office.note_rejection(ProtocolName::Vacant, refusal);
    }

    fn reply(&self, id: &native::RpcId, answered: Result<Bytes, Refusal>) -> NativeReply {
        match answered {
            Ok(message) => NativeReply {
                status: 200,
                body: native::answer(id, &message),
                retry_after_s: None,
            },
            Err(refusal) => {
                let response = self.lost_answer(&refusal);
                NativeReply {
                    status: refusal.status,
                    body: native::refusal(id, &refusal, response.as_deref()),
                    retry_after_s: refusal.retry_after_s,
                }
            }
        }
    }

    /// Checks 3 to 8: gives the recorded message of the answer. On a task of its own from the start: a caller that
    /// hangs up while its call is being accepted leaves no call open either.
    async fn serve(
        self: &Arc<Self>,
        at: &Arc<HostedVacant>,
        message: Message,
        permit: Permit,
        passage: Passage,
    ) -> Result<Bytes, Refusal> {
        let (vacants, at) = (Arc::clone(self), Arc::clone(at));
        let served = tokio::spawn(async move {
            let open = vacants.open(at, message, permit, Binding::Native, passage);
            vacants.run(open.await?).await
        });
        outcome(served).await
    }

    /// Checks 3 to 6: the call is on record when this returns, or counted as refused.
    pub(super) async fn open(
        &self,
        at: Arc<HostedVacant>,
        message: Message,
        permit: Permit,
        binding: Binding,
        mut passage: Passage,
    ) -> Result<Open, Refusal> {
        passage.names(|| {
            let envelope = &message.envelope;
            (envelope.from.hex(), envelope.payload.message_id.clone())
        });
        let heard = message.envelope.payload.clone();
        let taken_in = async {
            let slot = at.slot()?;
            let accepted = self.take_in(&mut passage, &at, message, permit).await?;
            Ok((slot, accepted))
        };
        match taken_in.await {
            Ok((slot, accepted)) => Ok(Open {
                at,
                accepted,
                heard,
                binding,
                slot,
                passage: Some(passage),
            }),
            Err(refusal) => Err(self.turned_away(&passage, refusal)),
        }
    }

    async fn take_in(
        &self,
        passage: &mut Passage,
        at: &HostedVacant,
        message: Message,
        permit: Permit,
    ) -> Result<Accepted, Refusal> {
        if message.envelope.to != at.id && fault::on("va-signature-before-address") {
            message.envelope.verify()?;
        }
        if message.envelope.to != at.id {
            return Err(ProtocolError::Misdirected.into());
        }
        let gate = self.office.gate();
        let received = gate.clock().now();
        let authentic = gate.suite().vacant().authenticate(
            message,
            Door::Http,
            &Caller::default(),
            &gate.keyring(),
            &gate.settings().vacant,
            received,
        );
        passage.ends(Stage::Authenticate);
        let input = AnyInput::Vacant(Input::Envelope(authentic?));
        let decided = self.office.decide(passage, input, received, Some(permit));
        match answer_of(decided.await.map_err(|_| busy())?)?.0 {
            Answer::Accepted(accepted) => Ok(accepted),
            _ => Err(ProtocolError::BehaviourFailed.into()),
        }
    }

    /// Runs a behaviour to its outcome on a task of its own: a caller that hangs up leaves no call open.
    pub(super) async fn carry_through(self: &Arc<Self>, call: Open) -> Result<Bytes, Refusal> {
        let vacants = Arc::clone(self);
        outcome(tokio::spawn(async move { vacants.run(call).await })).await
    }

    /// Runs a behaviour to its outcome.
    pub(super) async fn run(&self, mut call: Open) -> Result<Bytes, Refusal> {
        let passage = call.passage.take();
        // What answers may ask elsewhere, and the answer is an envelope as well: both belong below the call.
        let place = passage.as_ref().and_then(Passage::place).cloned();
        let answered = within(place, self.run_behaviour(call)).await;
        if let Some(passage) = passage {
            self.office.conclude(&passage, Verdict::of(&answered));
        }
        answered
    }

    async fn run_behaviour(&self, mut call: Open) -> Result<Bytes, Refusal> {
        let slot = call.slot.take();
        let mut says = match &call.at.behaviour {
            Behaviour::Echo => echo(&call.heard),
            Behaviour::Inbox => return self.wait_for_owner(&call.accepted).await,
            Behaviour::Asks(responder) => self.ask(responder, slot, &call).await?,
        };
        if call.binding == Binding::A2a {
            says = self.dressed(says, &call.heard, Some(call.accepted.call));
        }
        self.say(&call.at.id, &call.accepted, says).await
    }

    /// Asks what answers in words; a call without an answer ends as failed (VA-SRV-9).
    async fn ask(
        &self,
        responder: &Responder,
        slot: Option<Slot>,
        call: &Open,
    ) -> Result<Payload, Refusal> {
        let (at, accepted) = (&call.at, &call.accepted);
        let question = Question {
            protocol: ProtocolName::Vacant,
            seq: accepted.call,
            agent: at.name.clone(),
            address: at.id.hex(),
            from: accepted.caller.hex(),
            text: call.heard.joined(),
            marked: None,
        };
        let heard = async {
            let slot = match slot {
                Some(slot) => Some(slot),
                None => responder.wait_for_slot().await,
            };
            let slot = slot.ok_or(Unheard::Failed("no_place"))?;
            responder.ask(slot, question, self.timeout).await
        };
        let heard = tokio::select! {
            heard = heard => heard,
            () = self.stopped() => return Err(busy()),
        };
        let unheard = match heard {
            Ok(words) if words.len() <= self.office.gate().settings().vacant.max_bytes => {
                return Ok(Payload::text(Role::Agent, words));
            }
            Ok(_) => Unheard::Failed("too_large"),
            Err(unheard) => unheard,
        };
        let why = match unheard {
            Unheard::Timeout => Failure::BehaviourTimeout,
            Unheard::Failed(_) => Failure::BehaviourFailed,
        };
        self.fail(accepted.call, &accepted.caller, why).await;
        Err(refusal_of(unheard))
    }

    /// Puts an answer on record; one that is refused ends the call as failed.
    async fn say(
        &self,
        id: &VacantId,
        accepted: &Accepted,
        says: Payload,
    ) -> Result<Bytes, Refusal> {
        match self.answer(id, accepted.call, says).await {
            Ok(message) => Ok(message),
            Err(refusal) => {
                tracing::warn!(%refusal, call = accepted.call, "an answer was refused");
                self.fail(accepted.call, &accepted.caller, Failure::BehaviourFailed)
                    .await;
                Err(ProtocolError::BehaviourFailed.into())
            }
        }
    }

    /// Puts the answer to a call on record; gives its signed message.
    pub async fn answer(&self, id: &VacantId, call: Seq, says: Payload) -> Result<Bytes, Refusal> {
        let mut passage = self.office.passage(ProtocolName::Vacant);
        passage.names(|| (id.hex(), says.message_id.clone()));
        let answered = self.decide_answer(&mut passage, id, call, says).await;
        self.office.conclude(&passage, Verdict::of(&answered));
        answered
    }

    async fn decide_answer(
        &self,
        passage: &mut Passage,
        id: &VacantId,
        call: Seq,
        says: Payload,
    ) -> Result<Bytes, Refusal> {
        let input = Input::Outgoing {
            agent: id.hex(),
            answers: Some(call),
            idempotency: None,
            content: Outgoing::Answer(says),
        };
        let (input, received) = (AnyInput::Vacant(input), self.office.gate().clock().now());
        let decided = self.office.decide(passage, input, received, None).await;
        let (answer, sealed) = answer_of(decided.map_err(|_| busy())?)?;
        let Answer::Answered(line) = answer else {
            return Err(ProtocolError::BehaviourFailed.into());
        };
        let message = sealed.or_else(|| self.recorded(line));
        let message = message.ok_or(ProtocolError::BehaviourFailed)?;
        if let Some(waiting) = lock(&self.waiting).remove(&call) {
            // A caller that hung up changes nothing.
            let _ = waiting.send(message.clone());
        }
        Ok(message)
    }

    /// Waits until the vacant's owner has answered, for as long as a behaviour may take.
    async fn wait_for_owner(&self, accepted: &Accepted) -> Result<Bytes, Refusal> {
        let (told, answer) = oneshot::channel();
        lock(&self.waiting).insert(accepted.call, told);
        // The owner may have been faster than this task.
        if let Some(message) = self.answer_on_record(accepted) {
            lock(&self.waiting).remove(&accepted.call);
            return Ok(message);
        }
        if let Ok(Ok(message)) = tokio::time::timeout(self.timeout, answer).await {
            return Ok(message);
        }
        lock(&self.waiting).remove(&accepted.call);
        self.fail(accepted.call, &accepted.caller, Failure::BehaviourTimeout)
            .await;
        self.answer_on_record(accepted)
            .ok_or_else(|| ProtocolError::BehaviourTimeout.into())
    }

    /// The answer to a call that is the last of its pair, if it has one.
    pub(super) fn answer_on_record(&self, accepted: &Accepted) -> Option<Bytes> {
        let target = self.find(&accepted.name)?.id;
        let pair: Pair = self
            .office
            .row(&pair_key(&accepted.caller, &target))
            .ok()
            .flatten()?;
        let answer = pair.answer.filter(|_| pair.call == Some(accepted.call));
        self.recorded(answer?)
    }

    /// Ends a call without an answer.
    pub(super) async fn fail(&self, call: Seq, caller: &VacantId, why: Failure) {
        let input = Input::Failed {
            of: call,
            about: caller.hex(),
            why,
        };
        if self.office.submit(AnyInput::Vacant(input)).await.is_err() {
            tracing::warn!(
                call,
                "the failure of a call is not on record; a restart ends it"
            );
        }
    }

    /// The message on a line of the log.
    pub(super) fn recorded(&self, line: Seq) -> Option<Bytes> {
        let lines = self.office.gate().store().lines(line, 1).ok()?;
        let line = chancery_journal::line::parse(lines.first()?).ok()?;
        (line.protocol == ProtocolName::Vacant).then_some(line.envelope)
    }

    /// What the call on a line says.
    pub(super) fn heard_at(&self, line: Seq) -> Option<Payload> {
        let message = Message::of_record(&self.recorded(line)?).ok()?;
        Some(message.envelope.payload)
    }

    /// `POST /send/vacant`: a hosted vacant calls another one, or answers a call from its inbox. Who asks must be
    /// allowed to speak as the one that `allowed` is asked about; none when it is not.
    pub async fn send(
        self: &Arc<Self>,
        body: &[u8],
        idempotency: Option<String>,
        allowed: impl FnOnce(&str) -> bool,
    ) -> Option<NativeReply> {
        let id = native::RpcId::default();
        let request: SendRequest = match serde_json::from_slice(body) {
            Ok(request) => request,
            Err(_) => {
                let reason = "the body has from, text, and one of to, capability and answers";
                return Some(self.refuse(ProtocolError::format(reason)));
            }
        };
        if !allowed(&request.from) {
            return None;
        }
        let answered = self.send_as(request, idempotency).await;
        Some(self.reply(&id, answered))
    }

    async fn send_as(
        self: &Arc<Self>,
        request: SendRequest,
        idempotency: Option<String>,
    ) -> Result<Bytes, Refusal> {
        let meant = self.whom_it_means(&request).await;
        let (from, meant) = meant.inspect_err(|refusal| self.note_refused(refusal))?;
        match meant {
            Meant::Answer(call) => {
                // Whichever binding the call came by: an owner does not see it, and identifiers do no harm.
                let heard = self.heard_at(call).unwrap_or_default();
                let says = Payload::text(Role::Agent, request.text);
                let says = self.dressed(says, &heard, Some(call));
                self.answer(&from.id, call, says).await
            }
            Meant::Call(target) => {
                self.call_from(from, target, request.text, idempotency)
                    .await
            }
        }
    }

    async fn whom_it_means(
        &self,
        request: &SendRequest,
    ) -> Result<(Arc<HostedVacant>, Meant), Refusal> {
        let unknown = ProtocolError::NotFound("no such vacant is hosted here");
        let from = self.find(&request.from).cloned().ok_or(unknown)?;
        let meant = match (&request.to, &request.capability, request.answers) {
            (None, None, Some(call)) => Meant::Answer(call),
            (Some(to), None, None) => Meant::Call(self.whereabouts(to).await?),
            (None, Some(capability), None) => Meant::Call(self.best_for(capability).await?),
            _ => {
                let reason = "a request has one of to, capability and answers";
                return Err(ProtocolError::format(reason).into());
            }
        };
        Ok((from, meant))
    }

    async fn call_from(
        self: &Arc<Self>,
        from: Arc<HostedVacant>,
        target: (VacantId, Option<String>),
        text: String,
        idempotency: Option<String>,
    ) -> Result<Bytes, Refusal> {
        let (vacants, says) = (Arc::clone(self), Payload::text(Role::User, text));
        let mut passage = self.office.passage(ProtocolName::Vacant);
        passage.names(|| (from.id.hex(), None));
        outcome(tokio::spawn(async move {
            let called = vacants.call_as(&mut passage, &from, target, says, idempotency);
            let called = called.await;
            let verdict = Verdict::with(&called, |called| called.verdict());
            vacants.office.conclude(&passage, verdict);
            called.map(Called::into_answer)
        }))
        .await
    }

    /// A hosted vacant calls another one. Where that is hosted here too, one line has the effects of both sides
    /// (CH-JRN-10); else the outbox carries the call, and its answer comes back to whoever waits.
    async fn call_as(
        self: &Arc<Self>,
        passage: &mut Passage,
        from: &HostedVacant,
        (to, endpoint): (VacantId, Option<String>),
        says: Payload,
        idempotency: Option<String>,
    ) -> Result<Called, Refusal> {
        let permit = self.office.gate().permit().map_err(|_| busy())?;
        let target = self.hosted.iter().find(|vacant| vacant.id == to);
        let slot = target.map_or(Ok(None), |target| target.slot())?;
        let input = Input::Outgoing {
            agent: from.id.hex(),
            answers: None,
            idempotency,
            content: Outgoing::Call(Call {
                to,
                payload: says.clone(),
                endpoint,
                profile: None,
            }),
        };
        let (input, received) = (AnyInput::Vacant(input), self.office.gate().clock().now());
        let decided = self.office.decide(passage, input, received, Some(permit));
        match answer_of(decided.await.map_err(|_| busy())?)?.0 {
            Answer::Called {
                here: Some(accepted),
                ..
            } => {
                let target = self.find(&accepted.name).cloned();
                let target = target.ok_or(ProtocolError::BehaviourFailed)?;
                let call = Open {
                    at: target,
                    accepted,
                    heard: says,
                    binding: Binding::Native,
                    slot,
                    passage: None,
                };
                self.run(call).await.map(Called::Now)
            }
            Answer::Called { line, here: None } => {
                let answered = self.wait_abroad(line, &from.id, &to).await;
                answered.map(Called::Now)
            }
            Answer::SentBefore(line) => {
                let answered = self.answer_to_line(line, &from.id, &to);
                answered.map(Called::Before)
            }
            _ => Err(ProtocolError::BehaviourFailed.into()),
        }
    }

    /// The answer to a call that was made before under the same key, while it is the last of its pair.
    pub(super) fn answer_to_line(
        &self,
        line: Seq,
        from: &VacantId,
        to: &VacantId,
    ) -> Result<Bytes, Refusal> {
        let pair: Option<Pair> = self.office.row(&pair_key(from, to)).ok().flatten();
        let answer = pair.filter(|pair| pair.call == Some(line));
        let answer = answer.and_then(|pair| pair.answer);
        let answer = answer.and_then(|line| self.recorded(line));
        answer.ok_or_else(|| self.no_answer_of(line).into())
    }
}

pub(super) fn answer_of(decided: Decided<AnyAnswer>) -> Result<(Answer, Option<Bytes>), Refusal> {
    match decided.result? {
        AnyAnswer::Vacant(answer) => Ok((answer, decided.sealed)),
        _ => Err(ProtocolError::BehaviourFailed.into()),
    }
}

/// What came of a call on a task of its own; a panic of it is a failure.
async fn outcome(task: JoinHandle<Result<Bytes, Refusal>>) -> Result<Bytes, Refusal> {
    task.await
        .unwrap_or_else(|_| Err(ProtocolError::BehaviourFailed.into()))
}

/// What a caller is told when a behaviour gave no answer.
pub(super) fn refusal_of(unheard: Unheard) -> Refusal {
    match unheard {
        Unheard::Timeout => ProtocolError::BehaviourTimeout.into(),
        Unheard::Failed(_) => ProtocolError::BehaviourFailed.into(),
    }
}

pub(super) fn busy() -> Refusal {
    ProtocolError::Overloaded("the node is busy; try again").into()
}

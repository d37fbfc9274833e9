//! Calls of hosted vacants to vacants on other nodes: whom they mean, what their target said, and who waits for it.
//!
//! The call is on record before anything is sent, and the outbox carries it: the same bytes until the target has said
//! what became of them (VA-DSP-10). A verified answer is a line of its own; nothing here runs twice.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use chancery_core::line::{ProtocolName, Seq};
use chancery_core::protocol::{Caller, Door, Failure, Input, Protocol};
use chancery_core::refusal::Refusal;
use chancery_core::time::Time;
use chancery_vacant::answer::Answer;
use chancery_vacant::card::CapabilityCard;
use chancery_vacant::dispatch::{Judged, check_target, judge};
use chancery_vacant::error::ProtocolError;
use chancery_vacant::id::VacantId;
use chancery_vacant::message::Message;
use chancery_vacant::rules::chain::{Pair, pair_key};
use chancery_vacant::rules::{SentCall, open_call_key, sent_call_key};
use tokio::sync::oneshot;

use super::calls::{answer_of, busy};
use super::{Vacants, lock};
use crate::outbox::Carried;
use crate::passage::{Passage, Verdict};
use crate::suite::AnyInput;

/// A call of ours that waits for its target's word.
#[derive(Clone, Debug)]
pub struct Awaited {
    line: Seq,
    sent: SentCall,
    since: Time,
}

/// What a scout finds, on its way.
pub type Scouted<T> = Pin<Box<dyn Future<Output = Result<T, ProtocolError>> + Send>>;

/// Looks for vacants elsewhere: a transport. It goes nowhere that somebody else must not send this node.
pub trait Scout: Send + Sync {
    /// The card that an address tells.
    fn card(self: Arc<Self>, url: String) -> Scouted<CapabilityCard>;
    /// Whether an address may be called.
    fn check(self: Arc<Self>, endpoint: String) -> Scouted<()>;
}

impl Vacants {
    /// Whom a request to send means, and where it is when it is not hosted here: `to` is a vacant's id, or the address
    /// of its card. Nothing is on record yet (VA-DSP-5).
    pub(super) async fn whereabouts(
        &self,
        to: &str,
    ) -> Result<(VacantId, Option<String>), Refusal> {
        let is_address = to.starts_with("http://") || to.starts_with("https://");
        let card = if is_address {
            let scout = self.scout.clone().ok_or_else(unreachable)?;
            Some(scout.card(to.to_owned()).await?)
        } else {
            None
        };
        let id = match &card {
            Some(card) => card.vacant_id,
            None => VacantId::from_hex(to).map_err(|_| {
                ProtocolError::format_at("/to", "it is neither 64 hex nor an address")
            })?,
        };
        if self.find(&id.hex()).is_some() {
            return Ok((id, None));
        }
        let card = match card {
            Some(card) => card,
            None => self.registered(&id)?,
        };
        self.endpoint_of(&card).await
    }

    /// The vacant of a card, and where it is when it is not hosted here: a signed address that may be called.
    pub(super) async fn endpoint_of(
        &self,
        card: &CapabilityCard,
    ) -> Result<(VacantId, Option<String>), Refusal> {
        let endpoint = check_target(card)?.to_owned();
        if self.find(&card.vacant_id.hex()).is_some() {
            return Ok((card.vacant_id, None));
        }
        let scout = self.scout.clone().ok_or_else(unreachable)?;
        scout.check(endpoint.clone()).await?;
        Ok((card.vacant_id, Some(endpoint)))
    }

    /// The card of a vacant in this node's registry.
    fn registered(&self, id: &VacantId) -> Result<CapabilityCard, Refusal> {
        let entry = self.entry(id);
        let entry = entry.map_err(|_| ProtocolError::Transport("the registry is away".into()))?;
        let unknown = ProtocolError::TargetNotFound("the registry here has no card of it");
        Ok(entry.ok_or(unknown)?.found.card)
    }

    /// Waits for the answer to a call that is on its way, as long as a behaviour may take.
    pub(super) async fn wait_abroad(
        &self,
        line: Seq,
        from: &VacantId,
        to: &VacantId,
    ) -> Result<Bytes, Refusal> {
        let (told, answer) = oneshot::channel();
        lock(&self.asking).insert(line, told);
        // It may have been answered before anybody waited.
        if let Ok(message) = self.answer_to_line(line, from, to) {
            lock(&self.asking).remove(&line);
            return Ok(message);
        }
        if let Ok(Ok(answered)) = tokio::time::timeout(self.timeout, answer).await {
            return answered;
        }
        lock(&self.asking).remove(&line);
        self.answer_to_line(line, from, to)
    }

    /// Why a call has no answer: it waits for one, or it ended without.
    pub(super) fn no_answer_of(&self, line: Seq) -> ProtocolError {
        let sent: Option<SentCall> = self.office.row(&sent_call_key(line)).ok().flatten();
        let keys = [open_call_key(line)];
        let open = self.office.gate().store().load(&keys);
        let is_open = open.is_ok_and(|rows| rows.iter().any(Option::is_some));
        if sent.is_some() || is_open {
            ProtocolError::Overloaded("the call has no answer yet")
        } else {
            ProtocolError::Transport("the call has ended, and no answer to it is at hand".into())
        }
    }

    /// The call of ours that waits for its target's word; none when that is known already.
    pub fn awaited(&self, envelope: &Bytes) -> Option<Awaited> {
        let call = Message::of_record(envelope).ok()?.envelope;
        let pair: Pair = self
            .office
            .row(&pair_key(&call.from, &call.to))
            .ok()
            .flatten()?;
        let line = pair.pending?.line;
        let sent: SentCall = self.office.row(&sent_call_key(line)).ok().flatten()?;
        let is_it = call
            .verify()
            .is_ok_and(|verified| verified.hash == sent.hash);
        is_it.then_some(Awaited {
            line,
            sent,
            since: call.timestamp,
        })
    }

    /// Takes in what a target said about a call; what that makes of the delivery.
    pub async fn heard_from(&self, awaited: &Awaited, status: u16, body: &[u8]) -> Carried {
        let Awaited { line, sent, .. } = awaited;
        let max_bytes = self.office.gate().settings().vacant.max_bytes;
        match judge(status, body, &sent.hash, max_bytes) {
            Judged::Again => Carried::Failed { at_least: None },
            Judged::Taken if !self.is_overdue(awaited) => Carried::Failed { at_least: None },
            Judged::Taken => self.ended(awaited, Failure::BehaviourTimeout).await,
            Judged::Answered(message) => match self.take_answer(*line, *message).await {
                Ok(message) => self.tell_asker(*line, Ok(message), Carried::Delivered),
                Err(refusal) if refusal.retryable => Carried::Failed { at_least: None },
                // It took the call, and what it says counts for nothing.
                Err(refusal) => {
                    tracing::warn!(%refusal, line, "the answer to a call does not count");
                    self.fail(*line, &sent.from, Failure::BehaviourFailed).await;
                    self.tell_asker(*line, Err(refusal), Carried::Delivered)
                }
            },
            Judged::Ended(why) => self.ended(awaited, why).await,
            Judged::Refused(error) => self.call_refused(awaited, error).await,
        }
    }

    /// A call that is not taken, or goes nowhere that it may go.
    pub async fn call_refused(&self, awaited: &Awaited, error: ProtocolError) -> Carried {
        let Awaited { line, sent, .. } = awaited;
        self.fail(*line, &sent.from, Failure::CallRefused).await;
        self.tell_asker(*line, Err(error.into()), Carried::Refused)
    }

    /// A call that was taken and has no answer: its number is used up.
    async fn ended(&self, awaited: &Awaited, why: Failure) -> Carried {
        let Awaited { line, sent, .. } = awaited;
        self.fail(*line, &sent.from, why).await;
        let error = match why {
            Failure::BehaviourTimeout => ProtocolError::BehaviourTimeout,
            _ => ProtocolError::BehaviourFailed,
        };
        self.tell_asker(*line, Err(error.into()), Carried::Delivered)
    }

    /// Whether its target has had as long as a behaviour may take.
    fn is_overdue(&self, awaited: &Awaited) -> bool {
        let now = self.office.gate().clock().now();
        now.since(awaited.since)
            .is_some_and(|past| past >= self.timeout)
    }

    fn tell_asker(&self, line: Seq, what: Result<Bytes, Refusal>, carried: Carried) -> Carried {
        if let Some(asking) = lock(&self.asking).remove(&line) {
            // A caller that hung up changes nothing.
            let _ = asking.send(what);
        }
        carried
    }

    /// Puts a verified answer on record; gives its message (VA-DSP-6).
    async fn take_answer(&self, line: Seq, message: Message) -> Result<Bytes, Refusal> {
        let mut passage = self.office.passage(ProtocolName::Vacant);
        passage.names(|| {
            let envelope = &message.envelope;
            (envelope.from.hex(), envelope.payload.message_id.clone())
        });
        let answered = self.decide_reply(&mut passage, line, message).await;
        self.office.conclude(&passage, Verdict::of(&answered));
        answered
    }

    async fn decide_reply(
        &self,
        passage: &mut Passage,
        line: Seq,
        message: Message,
    ) -> Result<Bytes, Refusal> {
        let gate = self.office.gate();
        message.check_limits(&gate.settings().vacant)?;
        let received = gate.clock().now();
        let message = gate.suite().vacant().authenticate(
            message,
            Door::Http,
            &Caller::default(),
            &gate.keyring(),
            &gate.settings().vacant,
            received,
        )?;
        let input = AnyInput::Vacant(Input::Reply { to: line, message });
        let decided = self.office.decide(passage, input, received, None).await;
        match answer_of(decided.map_err(|_| busy())?)?.0 {
            Answer::Replied(reply) => {
                let message = self.recorded(reply);
                message.ok_or_else(|| ProtocolError::BehaviourFailed.into())
            }
            _ => Err(ProtocolError::BehaviourFailed.into()),
        }
    }
}

fn unreachable() -> ProtocolError {
    ProtocolError::TargetNotFound("this node calls no vacant elsewhere")
}

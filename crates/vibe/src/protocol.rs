//! The protocol as the spine sees it.

use bytes::Bytes;
use chancery_core::decision::{Cx, Stop, Verdict};
use chancery_core::json::Value;
use chancery_core::keys::Keyring;
use chancery_core::line::{Damage, Line, Origin, ProtocolName};
use chancery_core::protocol::{Authentic, Caller, Door, Input, Proof, Protocol, SignatureCheck};
use chancery_core::refusal::Refusal;
use chancery_core::rows::RowKey;
use chancery_core::time::Time;
use serde::{Deserialize, Serialize};

use crate::address::covers;
use crate::answer::Answer;
use crate::code::Code;
use crate::message::Message;
use crate::settings::Settings;
use crate::world::change::{self, Act};
use crate::{agent, rules, seal};

/// Vibe Commerce 1.0.
#[derive(Clone, Copy, Debug, Default)]
pub struct Vibe;

/// What this protocol has none of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Never {}

impl Protocol for Vibe {
    const NAME: ProtocolName = ProtocolName::Vibe;
    type Message = Message;
    type Outgoing = Message;
    type Timer = Never;
    type Act = Act;
    type Settings = Settings;
    type Answer = Answer;

    /// Steps 2 and 3. A door that has an `Idempotency-Key` header calls [`Message::check_header`] next.
    fn decode(&self, raw: Bytes, _: Door, settings: &Settings) -> Result<Message, Refusal> {
        if settings.world.is_none() {
            return Err(Code::NotConfigured.refuse());
        }
        Message::decode(&raw, settings)
    }

    /// Steps 4 to 9, but for freshness and what follows it in a signed scenario: those need the session's clock.
    fn authenticate(
        &self,
        message: Message,
        door: Door,
        caller: &Caller,
        keys: &Keyring,
        settings: &Settings,
        received: Time,
    ) -> Result<Authentic<Message>, Refusal> {
        let proof = prove(&message, caller, keys, settings, received)
            .map_err(|refusal| refusal.of_message(message.msg_id.clone()))?;
        Ok(Authentic {
            message,
            proof,
            door,
        })
    }

    fn urgent(&self, input: &Input<Self>) -> bool {
        matches!(input, Input::Act(_))
    }

    fn wants(&self, input: &Input<Self>, wants: &mut Vec<RowKey>) {
        match input {
            Input::Envelope(authentic) => {
                rules::wants(&authentic.message, rules::principal(authentic), wants);
            }
            Input::Outgoing { agent, content, .. } => rules::wants(content, Some(agent), wants),
            _ => {}
        }
    }

    fn decide(
        &self,
        input: &Input<Self>,
        settings: &Settings,
        cx: &mut Cx<'_>,
    ) -> Result<Verdict<Answer>, Stop> {
        match input {
            Input::Envelope(authentic) => rules::decide(authentic, settings, cx),
            Input::Act(act) => {
                let seq = change::decide(act, cx)?;
                Ok(Verdict::Record {
                    answer: Answer::Changed { seq },
                })
            }
            Input::Outgoing {
                agent,
                answers,
                content,
                ..
            } => rules::decide_outgoing(agent, *answers, content, settings, cx),
            Input::Timer(never) => match *never {},
            // Vibe calls nobody: an inbox is read, nothing is delivered that could fail or be answered.
            Input::Reply { .. } | Input::Failed { .. } => Err(Code::Internal.stop()),
        }
    }

    fn agent_changed(
        &self,
        agent: &str,
        _: Option<&serde_json::Value>,
        after: Option<&serde_json::Value>,
        cx: &mut Cx<'_>,
    ) -> Result<(), Stop> {
        agent::changed(agent, after, cx)
    }

    fn reread(&self, line: &Line, settings: &Settings) -> Result<Input<Self>, Damage> {
        let damage = |reason: String| Damage {
            seq: line.seq,
            reason,
        };
        if line.protocol == ProtocolName::Node {
            let act = serde_json::from_slice(&line.envelope)
                .map_err(|error| damage(format!("not a change of the world: {error}")))?;
            return Ok(Input::Act(act));
        }
        if line.origin == Origin::Runtime {
            return Err(damage("a derived line begins no unit".to_owned()));
        }
        let message = Message::decode_recorded(&line.envelope, settings)
            .map_err(|refusal| damage(refusal.to_string()))?;
        as_recorded(message, line)
    }

    fn check_and_reread(
        &self,
        line: &Line,
        envelope: Option<&Value<'_>>,
        keys: &Keyring,
        settings: Option<&Settings>,
    ) -> (SignatureCheck, Option<Input<Self>>) {
        let check = self.check_signature(line, keys);
        if line.origin == Origin::Runtime {
            return (check, None);
        }
        let input = envelope.zip(settings).and_then(|(envelope, settings)| {
            let message = Message::of_recorded(envelope, &line.envelope, settings)?;
            as_recorded(message, line).ok()
        });
        (check, input)
    }

    fn check_signature(&self, line: &Line, keys: &Keyring) -> SignatureCheck {
        seal::check_line(line, keys)
    }

    fn recorded_signature(&self, _: &Line) -> Option<[u8; 64]> {
        None
    }

    /// The runtime signs nothing (VC-SIG-6).
    fn seal(&self, _: &Bytes, _: &mut dyn FnMut(&[u8]) -> Option<[u8; 64]>) -> Option<Bytes> {
        None
    }
}

fn prove(
    message: &Message,
    caller: &Caller,
    keys: &Keyring,
    settings: &Settings,
    received: Time,
) -> Result<Proof, Refusal> {
    for address in [&message.from, &message.to] {
        if let Err(fault) = address {
            return Err(fault.clone().into_refusal("address"));
        }
    }
    let speaks = caller.speaks_as.as_ref().is_none_or(|addresses| {
        addresses
            .iter()
            .any(|entry| covers(entry, &message.from_text))
    });
    if !speaks {
        return Err(Code::SenderNotAuthorized.refuse().in_check("principal"));
    }
    let mut proof = Proof::Unverified;
    if settings.signed {
        let id = seal::verify(message, keys, received)
            .map_err(|code| code.refuse().in_check("signature"))?;
        proof = Proof::Key { id, form: None };
    } else {
        rules::check_static(message)?;
    }
    Ok(match &caller.principal {
        Some(principal) => Proof::Principal(principal.clone()),
        None => proof,
    })
}

/// The input that a recorded envelope was.
fn as_recorded(message: Message, line: &Line) -> Result<Input<Vibe>, Damage> {
    let damage = |reason: &str| Damage {
        seq: line.seq,
        reason: reason.to_owned(),
    };
    if message.from.is_err() || message.to.is_err() {
        return Err(damage("an address is not one"));
    }
    let principal = line.meta_text("principal");
    if line.origin == Origin::Agent {
        let answers = line.meta_json("answers").map(str::parse);
        return Ok(Input::Outgoing {
            agent: principal.ok_or_else(|| damage("no agent sent it"))?,
            answers: answers
                .transpose()
                .map_err(|_| damage("answers is no line"))?,
            idempotency: None,
            content: message,
        });
    }
    let proof = match principal {
        Some(principal) => Proof::Principal(principal),
        None => Proof::Unverified,
    };
    Ok(Input::Envelope(Authentic {
        message,
        proof,
        door: Door::Http,
    }))
}

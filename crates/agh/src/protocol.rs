//! The protocol as the spine sees it.

use bytes::Bytes;
use chancery_core::canonical::{Dialect, to_bytes};
use chancery_core::decision::{Cx, Stop, Verdict};
use chancery_core::json::{ReadRules, Value, read};
use chancery_core::keys::Keyring;
use chancery_core::keys::base64;
use chancery_core::line::{Damage, Line, Origin, ProtocolName};
use chancery_core::protocol::{Authentic, Caller, Door, Input, Proof, Protocol, SignatureCheck};
use chancery_core::refusal::Refusal;
use chancery_core::rows::RowKey;
use chancery_core::time::Time;
use serde::{Deserialize, Serialize};

use crate::answer::Answer;
use crate::fault::{ErrorName, Fault, Stage};
use crate::message::{Message, Undecodable};
use crate::outgoing::Outgoing;
use crate::settings::{Settings, Trust};
use crate::trust::{TrustState, put_signature, signed_bytes};
use crate::{peer, rules};

/// AGH Network v0.
#[derive(Clone, Copy, Debug, Default)]
pub struct Agh;

/// What this protocol has none of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Never {}

impl Protocol for Agh {
    const NAME: ProtocolName = ProtocolName::Agh;
    type Message = Message;
    type Outgoing = Outgoing;
    type Timer = Never;
    type Act = Never;
    type Settings = Settings;
    type Answer = Answer;

    fn decode(&self, raw: Bytes, _: Door, settings: &Settings) -> Result<Message, Refusal> {
        Message::decode(raw, settings, None).map_err(refusal)
    }

    fn authenticate(
        &self,
        message: Message,
        door: Door,
        _: &Caller,
        _: &Keyring,
        _: &Settings,
        _: Time,
    ) -> Result<Authentic<Message>, Refusal> {
        // A proof brings its own key, and one that fails ranks after freshness: decide raises it.
        let proof = match &message.trust {
            TrustState::Verified { key_id } => Proof::Key {
                id: key_id.clone(),
                form: None,
            },
            _ => Proof::Unverified,
        };
        Ok(Authentic {
            message,
            proof,
            door,
        })
    }

    fn urgent(&self, _: &Input<Self>) -> bool {
        false
    }

    fn wants(&self, input: &Input<Self>, wants: &mut Vec<RowKey>) {
        rules::wants(input, wants);
    }

    fn decide(
        &self,
        input: &Input<Self>,
        settings: &Settings,
        cx: &mut Cx<'_>,
    ) -> Result<Verdict<Answer>, Stop> {
        match input {
            Input::Envelope(authentic) => match authentic.door {
                Door::WebSocket { .. } => rules::relay(authentic, settings, cx),
                _ => rules::receive(authentic, settings, cx),
            },
            Input::Outgoing {
                idempotency,
                content,
                ..
            } => rules::send(content, idempotency.as_deref(), settings, cx),
            Input::Failed { of, about, why } => rules::note_failure(*of, about, *why, settings, cx),
            // Answers travel as envelopes of their own.
            Input::Reply { message, .. } => {
                let fault = Fault::new(ErrorName::NotTarget, Stage::Routing);
                Err(fault.into_refusal(message.message.revision).into())
            }
            Input::Timer(never) => match *never {},
            Input::Act(never) => match *never {},
        }
    }

    fn agent_changed(
        &self,
        id: &str,
        before: Option<&serde_json::Value>,
        after: Option<&serde_json::Value>,
        cx: &mut Cx<'_>,
    ) -> Result<(), Stop> {
        peer::changed(id, before, after, cx)
    }

    fn reread(&self, line: &Line, settings: &Settings) -> Result<Input<Self>, Damage> {
        let damage = |fault: Fault| Damage {
            seq: line.seq,
            reason: fault.to_string(),
        };
        if line.origin == Origin::Agent {
            let content = Outgoing::of_line(line).map_err(damage)?;
            let (workspace, channel, from) = content.place();
            return Ok(Input::Outgoing {
                agent: peer::address(workspace, channel, from),
                answers: None,
                idempotency: line.meta_text("idempotency"),
                content,
            });
        }
        let message = Message::decode(line.received().clone(), settings, None)
            .map_err(|undecodable| damage(undecodable.fault))?;
        let via = line.meta_text("via");
        let door = match via.as_deref() {
            Some("in_process") => Door::InProcess,
            Some(rules::VIA_CONNECTION) => Door::WebSocket { greeting: false },
            _ => Door::Http,
        };
        let proof = match line.meta_text("key") {
            Some(id) => Proof::Key { id, form: None },
            None => Proof::Unverified,
        };
        Ok(Input::Envelope(Authentic {
            message,
            proof,
            door,
        }))
    }

    fn check_signature(&self, line: &Line, _: &Keyring) -> SignatureCheck {
        let own = line.origin == Origin::Agent && line.meta_json("via").is_none();
        if line.meta_json("key").is_none() && !own {
            return SignatureCheck::NotSigned;
        }
        let settings = Settings {
            trust: Trust {
                enabled: true,
                ..Trust::default()
            },
            ..Settings::default()
        };
        match Message::decode(line.received().clone(), &settings, None) {
            Ok(Message {
                trust: TrustState::Verified { key_id },
                ..
            }) if line.meta_text("key").is_none_or(|key| key == key_id) => SignatureCheck::Valid,
            Ok(message) => {
                SignatureCheck::Invalid(format!("the proof is {}", message.trust.as_str()))
            }
            Err(undecodable) => SignatureCheck::Invalid(undecodable.fault.to_string()),
        }
    }

    fn recorded_signature(&self, line: &Line) -> Option<[u8; 64]> {
        let envelope = read(&line.envelope, &ReadRules::OWN).ok()?;
        let signature = envelope.get("proof")?.get("sig")?.as_str()?;
        base64::decode_url_array(signature).ok()
    }

    fn seal(
        &self,
        unsealed: &Bytes,
        sign: &mut dyn FnMut(&[u8]) -> Option<[u8; 64]>,
    ) -> Option<Bytes> {
        let mut envelope: Value<'_> = read(unsealed, &ReadRules::OWN).ok()?;
        let signature = sign(&signed_bytes(&envelope)?)?;
        put_signature(&mut envelope, &signature)?;
        Some(to_bytes(&envelope, Dialect::Vibe).into())
    }
}

fn refusal(undecodable: Undecodable) -> Refusal {
    let refusal = undecodable.fault.into_refusal(undecodable.revision);
    match undecodable.id {
        Some(id) => refusal.of_message(id),
        None => refusal,
    }
}

//! The protocol as the spine sees it.

use std::time::Duration;

use bytes::Bytes;
use chancery_core::canonical::{Dialect, to_bytes};
use chancery_core::decision::{Cx, Stop, Verdict};
use chancery_core::digest::hex;
use chancery_core::json::Value;
use chancery_core::keys::Keyring;
use chancery_core::line::{Damage, Line, Origin, ProtocolName, Seq};
use chancery_core::protocol::{Authentic, Caller, Door, Input, Proof, Protocol, SignatureCheck};
use chancery_core::refusal::Refusal;
use chancery_core::rows::RowKey;
use chancery_core::time::Time;
use serde::{Deserialize, Serialize};

use crate::act::Act;
use crate::agent;
use crate::answer::Answer;
use crate::envelope::Verified;
use crate::error::ProtocolError;
use crate::message::Message;
use crate::native::read_request;
use crate::outgoing::{Call, Outgoing};
use crate::payload::Profile;
use crate::rules;
use crate::settings::Settings;
use crate::wire::{METADATA_KEY, from_message, read_json};

/// Vacant: signed envelope chains.
#[derive(Clone, Copy, Debug, Default)]
pub struct Vacant;

/// What this protocol has none of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Never {}

impl Protocol for Vacant {
    const NAME: ProtocolName = ProtocolName::Vacant;
    type Message = Message;
    type Outgoing = Outgoing;
    type Timer = Never;
    type Act = Act;
    type Settings = Settings;
    type Answer = Answer;

    /// The body of a call on the native binding: checks 1 and 2 of VA-SRV-4.
    fn decode(&self, raw: Bytes, _: Door, settings: &Settings) -> Result<Message, Refusal> {
        Ok(read_request(&raw, settings).1?)
    }

    /// Check 4: the sender's key is its id, so no keyring is asked (VA-SRV-7).
    fn authenticate(
        &self,
        mut message: Message,
        door: Door,
        _: &Caller,
        _: &Keyring,
        settings: &Settings,
        received: Time,
    ) -> Result<Authentic<Message>, Refusal> {
        check_skew(message.envelope.timestamp, received, settings)?;
        let verified = message.envelope.verify()?;
        message.verified = Some(verified);
        Ok(authentic(message, verified, door))
    }

    fn urgent(&self, input: &Input<Self>) -> bool {
        // A call that was accepted is answered before another is taken.
        matches!(
            input,
            Input::Outgoing {
                answers: Some(_),
                ..
            } | Input::Reply { .. }
                | Input::Failed { .. }
                | Input::Act(_)
        )
    }

    fn wants(&self, input: &Input<Self>, wants: &mut Vec<RowKey>) {
        rules::wants(input, wants);
    }

    fn decide(
        &self,
        input: &Input<Self>,
        _: &Settings,
        cx: &mut Cx<'_>,
    ) -> Result<Verdict<Answer>, Stop> {
        match input {
            Input::Envelope(authentic) => rules::serve(authentic, cx),
            Input::Reply { to, message } => rules::reply(*to, message, cx),
            Input::Outgoing {
                agent,
                answers,
                idempotency,
                content,
            } => match (content, answers) {
                (Outgoing::Answer(payload), Some(line)) => rules::answer(agent, *line, payload, cx),
                (Outgoing::Call(call), None) => {
                    rules::call(agent, call, idempotency.as_deref(), cx)
                }
                _ => {
                    let reason = "an answer names the call it answers, and a call names none";
                    Err(Refusal::from(ProtocolError::format(reason)).into())
                }
            },
            Input::Failed { of, about, why } => rules::failed(*of, about, *why, cx),
            Input::Act(act) => rules::registry::act(act, cx),
            Input::Timer(never) => match *never {},
        }
    }

    fn agent_changed(
        &self,
        name: &str,
        before: Option<&serde_json::Value>,
        after: Option<&serde_json::Value>,
        cx: &mut Cx<'_>,
    ) -> Result<(), Stop> {
        agent::changed(name, before, after, cx)
    }

    fn reread(&self, line: &Line, _: &Settings) -> Result<Input<Self>, Damage> {
        let message = recorded(line)?;
        let profile = profile_of(line);
        let hash = message.envelope.hash(profile);
        input_of(message, Verified { profile, hash }, line)
    }

    fn check_signature(&self, line: &Line, keys: &Keyring) -> SignatureCheck {
        self.check_and_reread(line, None, keys, None).0
    }

    fn check_and_reread(
        &self,
        line: &Line,
        _: Option<&Value<'_>>,
        _: &Keyring,
        _: Option<&Settings>,
    ) -> (SignatureCheck, Option<Input<Self>>) {
        let message = match recorded(line) {
            Ok(message) => message,
            Err(damage) => return (SignatureCheck::Invalid(damage.reason), None),
        };
        let profile = profile_of(line);
        let id = message.envelope.from;
        match message.envelope.verified_in(&id, profile) {
            Some(verified) => {
                let input = input_of(message, verified, line).ok();
                (SignatureCheck::Valid, input)
            }
            None => {
                let reason = format!("it does not verify in the {} profile", profile.as_str());
                (SignatureCheck::Invalid(reason), None)
            }
        }
    }

    fn recorded_signature(&self, line: &Line) -> Option<[u8; 64]> {
        let message = recorded(line).ok()?;
        message.envelope.signature.try_into().ok()
    }

    fn seal(
        &self,
        unsealed: &Bytes,
        sign: &mut dyn FnMut(&[u8]) -> Option<[u8; 64]>,
    ) -> Option<Bytes> {
        let mut message = read_json(unsealed, usize::MAX).ok()?;
        let profile = Profile::parse(signature_of(&mut message)?.as_str()?)?;
        *signature_of(&mut message)? = Value::from("");
        let envelope = from_message(&message).ok()?;
        let signature = sign(envelope.signing_payload(profile).as_bytes())?;
        *signature_of(&mut message)? = Value::from(hex::encode(&signature));
        Some(to_bytes(&message, Dialect::Vibe).into())
    }
}

/// The place of the signature in a message object.
fn signature_of<'v, 'a>(message: &'v mut Value<'a>) -> Option<&'v mut Value<'a>> {
    let metadata = member_mut(message, "metadata")?;
    let vacant = member_mut(metadata, METADATA_KEY)?;
    member_mut(vacant, "caller_signature")
}

fn member_mut<'v, 'a>(value: &'v mut Value<'a>, name: &str) -> Option<&'v mut Value<'a>> {
    match value {
        Value::Object(members) => members.get_mut(name),
        _ => None,
    }
}

/// Order and freshness come from the chain; a window is asked for only where one is set (VA-TS-5).
fn check_skew(stamped: Time, received: Time, settings: &Settings) -> Result<(), ProtocolError> {
    let allowed = Duration::from_secs(settings.max_clock_skew_s);
    if allowed.is_zero() || stamped.distance(received) <= allowed {
        return Ok(());
    }
    Err(ProtocolError::format_at(
        "/params/message/metadata/urn:vacant:v1/timestamp",
        "it is too far from this node's time",
    ))
}

fn authentic(message: Message, verified: Verified, door: Door) -> Authentic<Message> {
    let proof = Proof::Key {
        id: message.envelope.from.hex(),
        form: verified.profile.form(),
    };
    Authentic {
        message,
        proof,
        door,
    }
}

fn recorded(line: &Line) -> Result<Message, Damage> {
    Message::of_record(line.received()).map_err(|error| Damage {
        seq: line.seq,
        reason: error.to_string(),
    })
}

/// The profile that a line names.
fn profile_of(line: &Line) -> Profile {
    let form = line.meta_text("form");
    form.and_then(|form| Profile::parse(&form))
        .unwrap_or_default()
}

/// The input that a line was.
fn input_of(
    mut message: Message,
    verified: Verified,
    line: &Line,
) -> Result<Input<Vacant>, Damage> {
    let answers: Option<Seq> = line.meta_json("answers").and_then(|text| text.parse().ok());
    match line.origin {
        Origin::External => {
            message.verified = Some(verified);
            let message = authentic(message, verified, Door::Http);
            Ok(match answers {
                Some(to) => Input::Reply { to, message },
                None => Input::Envelope(message),
            })
        }
        Origin::Agent => {
            let envelope = message.envelope;
            let agent = envelope.from.hex();
            let content = match answers {
                Some(_) => Outgoing::Answer(envelope.payload),
                None => Outgoing::Call(Call {
                    to: envelope.to,
                    payload: envelope.payload,
                    endpoint: line.meta_text("endpoint"),
                    profile: Some(verified.profile),
                }),
            };
            Ok(Input::Outgoing {
                agent,
                answers,
                idempotency: line.meta_text("idempotency"),
                content,
            })
        }
        Origin::Runtime => Err(Damage {
            seq: line.seq,
            reason: "a derived line of vacant".to_owned(),
        }),
    }
}

//! The protocol as the spine sees it.

use bytes::Bytes;
use chancery_core::canonical::{Dialect, to_bytes};
use chancery_core::decision::{Cx, Stop, Verdict};
use chancery_core::fault;
use chancery_core::json::Value;
use chancery_core::keys::Keyring;
use chancery_core::keys::ed25519::{Signature, encode_signature};
use chancery_core::line::{Damage, Line, Origin, ProtocolName, Seq};
use chancery_core::protocol::{Authentic, Caller, Door, Input, Proof, Protocol, SignatureCheck};
use chancery_core::refusal::Refusal;
use chancery_core::rows::RowKey;
use chancery_core::time::Time;
use serde::{Deserialize, Serialize};

use crate::code::Fault;
use crate::message::{Accept, MAX_MAX_BYTES, Message, decode_accepting, decode_plain, read_json};
use crate::message_id::MessageId;
use crate::outgoing::Outgoing;
use crate::settings::Settings;
use crate::signature::{Form, MEMBER, SignedForms};
use crate::{agent, rules, verify};

/// Value-Context messaging 1.2.
#[derive(Clone, Copy, Debug, Default)]
pub struct ValueContext;

/// What a sender is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The message is in the agent's queue, on record.
    Accepted(MessageId),
    /// It was there before.
    Duplicate(MessageId),
    /// The same request was made before: its message is this line.
    SentBefore(Seq),
    /// A failed delivery is on record.
    Noted,
}

/// What this protocol has none of yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Never {}

impl Protocol for ValueContext {
    const NAME: ProtocolName = ProtocolName::ValueContext;
    type Message = Message;
    type Outgoing = Outgoing;
    type Timer = rules::Timer;
    type Act = Never;
    type Settings = Settings;
    type Answer = Answer;

    fn decode(&self, raw: Bytes, _: Door, settings: &Settings) -> Result<Message, Refusal> {
        decode_accepting(raw, settings.accept()).map_err(|undecodable| {
            let refusal = undecodable.fault.into_refusal("schema");
            match undecodable.message_id {
                Some(id) => refusal.of_message(id.to_string()),
                None => refusal,
            }
        })
    }

    fn authenticate(
        &self,
        message: Message,
        door: Door,
        _: &Caller,
        keys: &Keyring,
        settings: &Settings,
        received: Time,
    ) -> Result<Authentic<Message>, Refusal> {
        let in_time = || {
            verify::check_window(message.timestamp.instant, received)
                .map_err(|fault| fault.into_refusal("temporal"))
        };
        let proof = if fault::on("vx-signature-before-time") {
            prove(&message, door, keys, settings, received)
                .and_then(|proof| in_time().map(|()| proof))
        } else {
            in_time().and_then(|()| prove(&message, door, keys, settings, received))
        };
        match proof {
            Ok(proof) => Ok(Authentic {
                message,
                proof,
                door,
            }),
            Err(refusal) => Err(refusal.of_message(message.message_id.to_string())),
        }
    }

    fn urgent(&self, input: &Input<Self>) -> bool {
        match input {
            Input::Envelope(authentic) => authentic.message.payload.is_exempt(),
            Input::Outgoing { content, .. } => content.content.is_exempt(),
            Input::Timer(_) => true,
            _ => false,
        }
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
            Input::Envelope(authentic) => rules::receive(authentic, settings, cx),
            Input::Outgoing {
                idempotency,
                content,
                ..
            } => rules::send(content, idempotency.as_deref(), settings, cx),
            Input::Failed { of, about, why } => rules::failed(*of, about, *why, settings, cx),
            Input::Reply { .. } => {
                Err(Fault::not_here("answers travel as messages of their own").into())
            }
            Input::Timer(timer) => rules::due(timer, settings, cx),
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
        agent::changed(id, before, after, cx)
    }

    fn reread(&self, line: &Line, _: &Settings) -> Result<Input<Self>, Damage> {
        let damage = |reason: String| Damage {
            seq: line.seq,
            reason,
        };
        if line.origin == Origin::Agent {
            let mut content =
                Outgoing::of_envelope(&line.envelope).map_err(|fault| damage(fault.to_string()))?;
            content.greeting = is_greeting(line);
            let agent = content.sender.as_str().to_owned();
            let idempotency = line.meta_text("idempotency");
            return Ok(Input::Outgoing {
                agent,
                answers: None,
                idempotency,
                content,
            });
        }
        let message = decode_accepting(line.received().clone(), Accept::RECORDED)
            .map_err(|fault| damage(fault.to_string()))?;
        Ok(Input::Envelope(as_recorded(message, line)))
    }

    fn check_signature(&self, line: &Line, keys: &Keyring) -> SignatureCheck {
        self.check_and_reread(line, None, keys, None).0
    }

    fn check_and_reread(
        &self,
        line: &Line,
        envelope: Option<&Value<'_>>,
        keys: &Keyring,
        _: Option<&Settings>,
    ) -> (SignatureCheck, Option<Input<Self>>) {
        let read = envelope
            .filter(|_| line.raw.is_none())
            .and_then(|envelope| decode_plain(envelope, &line.envelope, Accept::RECORDED));
        let decoded = match read {
            Some(message) => Ok(message),
            None => decode_accepting(line.received().clone(), Accept::RECORDED),
        };
        let message = match decoded {
            Ok(message) => message,
            Err(fault) => return (SignatureCheck::Invalid(fault.to_string()), None),
        };
        let check = check_recorded(&message, line, keys);
        // What a hosted agent sent is read as what it asked for, not as the message that became of it.
        let is_message = line.origin != Origin::Agent;
        let input = is_message.then(|| Input::Envelope(as_recorded(message, line)));
        (check, input)
    }

    fn recorded_signature(&self, line: &Line) -> Option<[u8; 64]> {
        let message = decode_accepting(line.envelope.clone(), Accept::RECORDED).ok()?;
        message.signature?.bytes().copied()
    }

    fn seal(
        &self,
        unsealed: &Bytes,
        sign: &mut dyn FnMut(&[u8]) -> Option<[u8; 64]>,
    ) -> Option<Bytes> {
        let mut envelope = read_json(unsealed, MAX_MAX_BYTES).ok()?;
        let signature: Signature = sign(SignedForms::of(&envelope).jcs())?;
        let Value::Object(members) = &mut envelope else {
            return None;
        };
        members.insert(MEMBER, encode_signature(&signature));
        Some(to_bytes(&envelope, Dialect::Vibe).into())
    }
}

/// Whether a line is the first share on a connection.
fn is_greeting(line: &Line) -> bool {
    line.meta_text("via").is_some_and(|via| via == "greeting")
}

/// A message with the proof that its line names.
fn as_recorded(message: Message, line: &Line) -> Authentic<Message> {
    let (proof, door) = match line.meta_text("key") {
        Some(id) => {
            let form = line.meta_text("form").map(|_| Form::Legacy.as_str());
            let door = if is_greeting(line) {
                Door::WebSocket { greeting: true }
            } else {
                Door::Http
            };
            (Proof::Key { id, form }, door)
        }
        None => (Proof::InProcess, Door::InProcess),
    };
    Authentic {
        message,
        proof,
        door,
    }
}

fn check_recorded(message: &Message, line: &Line, keys: &Keyring) -> SignatureCheck {
    if message.signature.is_none() && line.meta_text("via").is_some_and(|via| via == "in_process") {
        return SignatureCheck::NotSigned;
    }
    let Some(at) = line.eval_ts else {
        return SignatureCheck::Invalid("a message without a decision time".to_owned());
    };
    match verify::verify(message, keys, at, true) {
        Ok(verified)
            if line
                .meta_text("key")
                .is_none_or(|key| key == verified.key_id) =>
        {
            SignatureCheck::Valid
        }
        Ok(verified) => {
            SignatureCheck::Invalid(format!("it verifies under key {}", verified.key_id))
        }
        Err(fault) => SignatureCheck::Invalid(fault.to_string()),
    }
}

fn prove(
    message: &Message,
    door: Door,
    keys: &Keyring,
    settings: &Settings,
    received: Time,
) -> Result<Proof, Refusal> {
    // In process a signature may be left out; one that is there must be good if the sender has a key (VX-SIG-3).
    let has_key = keys.records(message.sender.as_str()).next().is_some();
    let may_be_unsigned = door == Door::InProcess
        || (fault::on("vx-unsigned-accepted") && message.signature.is_none());
    if may_be_unsigned && (message.signature.is_none() || !has_key) {
        return Ok(Proof::InProcess);
    }
    let verified = verify::verify(message, keys, received, settings.accept_legacy_canonical)
        .map_err(|fault| fault.into_refusal("signature"))?;
    let form = (verified.form == Form::Legacy).then(|| Form::Legacy.as_str());
    Ok(Proof::Key {
        id: verified.key_id.to_owned(),
        form,
    })
}

//! A value-context message on its way in, step by step: a door that has to know more than the answer takes the steps
//! itself (a WebSocket learns who is behind it), the others take them all at once.

use std::time::Instant;

use bytes::Bytes;
use chancery_core::admin::agent_key;
use chancery_core::json::{Object, Value};
use chancery_core::line::ProtocolName;
use chancery_core::protocol::{Caller, Door, Input, Protocol};
use chancery_core::refusal::Refusal;
use chancery_core::rows::Lookup;
use chancery_core::time::Time;
use chancery_value_context::agent::AgentRecord;
use chancery_value_context::agent_id::AgentId;
use chancery_value_context::code::Code;
use chancery_value_context::message::{Kind, Message, Recipient};
use chancery_value_context::message_id::MessageId;
use chancery_value_context::rules::{self, own_context_key};
use chancery_value_context::{Answer, ValueContext, sign, signature_help};
use serde_json::json;

use crate::gate::Permit;
use crate::office::{Office, Sent, overloaded, value_context_answer, verdict_of};
use crate::passage::{Passage, Verdict};
use crate::suite::AnyInput;
use crate::trace::Stage;

/// A message that could be read.
pub struct Opened {
    /// What was read.
    pub message: Message,
    passage: Passage,
}

/// A message that is proven to come from its sender and has a place among the requests under way.
pub struct Arrival {
    passage: Passage,
    admitted: Admitted,
}

struct Admitted {
    input: Input<ValueContext>,
    received: Time,
    id: String,
    permit: Permit,
}

/// A message of another agent in this process, as native values (VX-INP-1).
#[derive(Clone, Debug)]
pub struct InProcess {
    /// Which of the four it is.
    pub kind: Kind,
    /// Its identifier: what repeats are recognised by.
    pub message_id: MessageId,
    /// Who sends it.
    pub sender: AgentId,
    /// Whom it is for.
    pub recipient: Recipient,
    /// When it was made.
    pub timestamp: Time,
    /// What it carries.
    pub payload: Object<'static>,
}

impl Office {
    /// A value-context envelope from outside.
    pub async fn receive_value_context(&self, raw: Bytes, door: Door) -> Result<Answer, Refusal> {
        let message = self.open_value_context(raw, door)?;
        let arrival = self.admit_value_context(message, door)?;
        self.decide_value_context(arrival).await
    }

    /// A message handed over inside this process: the same checks, the same outcome, no signature (VX-INP-2).
    pub async fn receive_in_process(&self, message: InProcess) -> Result<Answer, Refusal> {
        let envelope = sign::envelope(
            message.kind,
            message.message_id,
            &message.sender,
            &message.recipient,
            message.timestamp,
            message.payload,
        );
        let envelope = Value::Object(envelope);
        let bytes =
            chancery_core::canonical::to_bytes(&envelope, chancery_core::canonical::Dialect::Vibe);
        self.receive_value_context(bytes.into(), Door::InProcess)
            .await
    }

    /// Reads an envelope: checks 1 to 3.
    pub fn open_value_context(&self, raw: Bytes, door: Door) -> Result<Opened, Refusal> {
        let mut passage = self.passage(ProtocolName::ValueContext);
        let settings = self.gate().settings();
        let protocol = self.gate().suite().value_context();
        let decoded = protocol.decode(raw.clone(), door, &settings.value_context);
        passage.ends(Stage::Decode);
        let message = decoded.map_err(|refusal| self.explained(&passage, refusal, &raw))?;
        passage.names(|| {
            let id = message.message_id.to_string();
            (message.sender.as_str().to_owned(), Some(id))
        });
        Ok(Opened { message, passage })
    }

    /// Proves who sent a message: checks 4 and 5. What comes out has a place among the requests under way.
    pub fn admit_value_context(&self, opened: Opened, door: Door) -> Result<Arrival, Refusal> {
        let Opened {
            message,
            mut passage,
        } = opened;
        let raw = message.received().clone();
        let admitted = self.admit(message, door);
        passage.ends(Stage::Authenticate);
        match admitted {
            Ok(admitted) => Ok(Arrival { passage, admitted }),
            Err(refusal) => Err(self.explained(&passage, refusal, &raw)),
        }
    }

    /// Says in what other dialect or encoding a signature would verify, as long as that is asked seldom, and notes the
    /// refusal.
    fn explained(&self, passage: &Passage, mut refusal: Refusal, raw: &[u8]) -> Refusal {
        if signature_help::applies(&refusal) && self.hints().take(Instant::now()) {
            let now = self.gate().clock().now();
            signature_help::add(&mut refusal, raw, &self.gate().keyring(), now);
        }
        self.conclude(passage, Verdict::Rejected(&refusal));
        refusal
    }

    fn admit(&self, message: Message, door: Door) -> Result<Admitted, Refusal> {
        let permit = self.gate().permit();
        let received = self.gate().clock().now();
        self.check_start(&message, received)?;
        let is_off = message.identifier_is_off();
        let id = message.message_id.to_string();
        let protocol = self.gate().suite().value_context();
        let authentic = protocol.authenticate(
            message,
            door,
            &Caller::default(),
            &self.gate().keyring(),
            &self.gate().settings().value_context,
            received,
        )?;
        if is_off {
            metrics::counter!("chancery_warnings_total", "warning" => "identifier_time")
                .increment(1);
        }
        let input = Input::Envelope(authentic);
        let permit = match permit {
            Ok(permit) => permit,
            Err(_) if protocol.urgent(&input) => {
                self.gate().urgent_permit().map_err(|_| overloaded(&id))?
            }
            Err(_) => return Err(overloaded(&id)),
        };
        Ok(Admitted {
            input,
            received,
            id,
            permit,
        })
    }

    /// Decides a message: checks 6 to 10. The answer comes when everything decided up to it is durable.
    pub async fn decide_value_context(&self, arrival: Arrival) -> Result<Answer, Refusal> {
        let Arrival {
            mut passage,
            admitted,
        } = arrival;
        let Admitted {
            input,
            received,
            id,
            permit,
        } = admitted;
        let may_be_held = self.may_be_held(&input);
        let input = AnyInput::ValueContext(input);
        // Whoever is suspended learns it at once, however many wait to be decided.
        let held = may_be_held.then(|| self.gate().refusal_on_record(&input, received));
        let result = match held.flatten() {
            Some(refusal) if refusal.code == Code::SenderSuspended.as_str() => Err(refusal),
            _ => {
                let decided = self.decide(&mut passage, input, received, Some(permit));
                decided
                    .await
                    .map_err(|_| overloaded(&id))
                    .and_then(value_context_answer)
            }
        };
        self.conclude(&passage, Verdict::with(&result, verdict_of));
        result
    }

    /// Whether anything on record is about suspending the sender of an envelope: of most there is nothing.
    fn may_be_held(&self, input: &Input<ValueContext>) -> bool {
        let Input::Envelope(authentic) = input else {
            return false;
        };
        let store = self.gate().store();
        rules::run_states(&authentic.message)
            .any(|key| matches!(store.peek(&key), Lookup::Found(_)))
    }

    /// Sends the share of a hosted agent that greets another one on a new connection (VX-WS-5). None when it has no
    /// context to share, or is not hosted here.
    pub async fn greet_value_context(&self, from: &str, to: &str) -> Result<Option<Sent>, Refusal> {
        let record: Option<AgentRecord> = self
            .row(&agent_key(ProtocolName::ValueContext, from))
            .ok()
            .flatten();
        let shared: Option<String> = self.row(&own_context_key(from)).ok().flatten();
        let Some((context, constitution)) =
            record.and_then(|record| Some((shared.or(record.context)?, record.constitution_ref?)))
        else {
            return Ok(None);
        };
        let share = json!({
            "sender": from,
            "recipient": to,
            "type": Kind::ContextShare.as_str(),
            "payload": {"context": context, "constitution_ref": constitution},
        })
        .to_string();
        self.send(share.as_bytes(), None, true).await.map(Some)
    }

    /// The hosted agents that know `agent`, sorted.
    pub fn acquaintances(&self, agent: &str) -> Vec<String> {
        let known_by = chancery_value_context::agent::known_by_key(agent);
        self.row(&known_by).ok().flatten().unwrap_or_default()
    }
}

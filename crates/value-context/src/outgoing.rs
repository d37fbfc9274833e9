//! What a hosted agent decides about a message it sends: the node adds identifier, time and signature.

use chancery_core::json::{Object, Place, Value};

use crate::agent_id::AgentId;
use crate::code::{Code, Fault};
use crate::members::{closed, object, required};
use crate::message::{
    Kind, Payload, Recipient, Undecodable, Version, check_enabled, read_json, read_kind,
    read_recipient, read_sender,
};
use crate::sign::normalize_numbers;

/// A message to be sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Outgoing {
    /// Who sends it.
    pub sender: AgentId,
    /// Whom it is for.
    pub recipient: Recipient,
    /// Which of the four it is.
    pub kind: Kind,
    /// Its payload, checked, with numbers normalised (VX-CAN-6).
    pub payload: Object<'static>,
    /// What it carries, typed.
    pub content: Payload,
    /// Whether this node holds the sender's key and signs (CH-JRN-10).
    pub signed: bool,
    /// Whether it is the first share on a connection, which resumes nobody (VX-WS-5).
    pub greeting: bool,
}

/// Whom the body of a send request speaks for, whatever else it asks for.
pub fn sender_of(body: &[u8], max_bytes: usize) -> Option<AgentId> {
    let value = read_json(body, max_bytes).ok()?;
    read_sender(value.get("sender")).ok()
}

impl Outgoing {
    /// Reads the body of a send request: `sender`, `recipient`, `type`, `payload`.
    pub fn decode(
        body: &[u8],
        max_bytes: usize,
        disabled: &[Kind],
        signed: bool,
    ) -> Result<Self, Undecodable> {
        let refuse = |fault| Undecodable {
            message_id: None,
            fault,
        };
        let value = read_json(body, max_bytes).map_err(refuse)?;
        Self::read(&value, disabled, signed).map_err(refuse)
    }

    /// The same from a body that is read already.
    pub fn read(value: &Value<'_>, disabled: &[Kind], signed: bool) -> Result<Self, Fault> {
        let [sender, recipient, kind, payload] = closed(
            value,
            &Place::ROOT,
            ["sender", "recipient", "type", "payload"],
        )?;
        let sender = read_sender(sender)?;
        let recipient = read_recipient(recipient)?;
        let kind = read_kind(kind)?;
        let place = Place::ROOT.child("payload");
        let payload = required(payload, &place)?;
        object(payload, &place)?;
        check_enabled(kind, disabled)?;
        let content = Payload::read(kind, Version::V1_2, payload, &place)?;
        if !is_fit_to_send(&content) {
            let message = "a sender gives all four scales, in whole numbers";
            return Err(Fault::schema(
                &place.child("personal_state"),
                message,
                "VX-PS-2",
            ));
        }
        let Value::Object(payload) = normalize_numbers(payload.clone().into_owned()) else {
            return Err(Fault::new(Code::Internal, "an object stays an object"));
        };
        Ok(Self {
            sender,
            recipient,
            kind,
            payload,
            content,
            signed,
            greeting: false,
        })
    }

    /// The same message again from the envelope that was made of it.
    pub fn of_envelope(envelope: &[u8]) -> Result<Self, Fault> {
        let value = read_json(envelope, crate::message::MAX_MAX_BYTES)?;
        let member = |name| value.get(name);
        let kind = read_kind(member("type"))?;
        let place = Place::ROOT.child("payload");
        let payload = required(member("payload"), &place)?;
        let version = match member("vcp_message").and_then(Value::as_str) {
            Some("2.0") => Version::V2_0,
            _ => Version::V1_2,
        };
        let content = Payload::read(kind, version, payload, &place)?;
        let Value::Object(payload) = payload.clone().into_owned() else {
            return Err(Fault::new(Code::SchemaInvalid, "payload is no object"));
        };
        Ok(Self {
            sender: read_sender(member("sender"))?,
            recipient: read_recipient(member("recipient"))?,
            kind,
            payload,
            content,
            signed: member("signature").is_some(),
            greeting: false,
        })
    }
}

/// A sender gives all of a personal state, in whole numbers; receivers ask for neither.
fn is_fit_to_send(content: &Payload) -> bool {
    match content {
        Payload::ContextShare(share) => share
            .personal_state
            .as_ref()
            .is_none_or(crate::personal_state::PersonalState::is_fit_to_send),
        _ => true,
    }
}

//! Messages and how one is read from bytes (sections 2 to 8).
//!
//! [`decode`] reads all syntax in one pass: what comes out is well formed and typed, and nothing later
//! looks at raw JSON. What it cannot judge are the window of time, the signature and the recipient.

use crate::agent_id::{AgentId, AgentIdFault, BROADCAST};
use crate::code::{Code, Fault};
use crate::context::{self, ContextFault};
use crate::creed::CreedRef;
use crate::members::{closed, object, required, required_text, text};
use crate::message_id::MessageId;
use crate::personal_state::PersonalState;
use crate::signature::{MEMBER, SignatureText, SignedForms};
use bytes::Bytes;
use chancery_core::canonical::{Canonical, Dialect, canonical_cutting, plain_cutting};
use chancery_core::json::{self, FaultKind, Place, ReadRules, Value};
use chancery_core::time::{Time, parse_value_context};

/// The version this crate speaks.
pub const VERSION: &str = "1.2";
/// Largest envelope in bytes unless configured otherwise (VX-ENV-7).
pub const DEFAULT_MAX_BYTES: usize = 65_536;
/// The most to which that limit can be raised (VX-ENV-7).
pub const MAX_MAX_BYTES: usize = 1_048_576;

const ENVELOPE: [&str; 8] = [
    "vcp_message",
    "type",
    "message_id",
    "sender",
    "recipient",
    "timestamp",
    "payload",
    "signature",
];

/// The four kinds of message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// The sender's current context.
    ContextShare,
    /// The sender's active constitution.
    ConstitutionAnnounce,
    /// Constraints from a parent to its child.
    ConstraintPropagate,
    /// A concern of a child, or its acknowledgement.
    Escalation,
}

impl Kind {
    /// All four.
    pub const ALL: [Self; 4] = [
        Self::ContextShare,
        Self::ConstitutionAnnounce,
        Self::ConstraintPropagate,
        Self::Escalation,
    ];

    /// The kind as `type` spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::ContextShare => "context_share",
            Self::ConstitutionAnnounce => "constitution_announce",
            Self::ConstraintPropagate => "constraint_propagate",
            Self::Escalation => "escalation",
        }
    }

    /// Whether this build reads the payload of this kind. The others are well-formed envelopes that are
    /// refused with `type_disabled`; a kind that is built is added here and nowhere else.
    const fn is_built(self) -> bool {
        matches!(self, Self::ContextShare)
    }
}

/// Whom a message is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recipient {
    /// One agent.
    Directed(AgentId),
    /// Every known peer of the sender.
    Broadcast,
}

impl Recipient {
    /// The recipient as the envelope spells it.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Directed(agent) => agent.as_str(),
            Self::Broadcast => BROADCAST,
        }
    }
}

/// When a message was made: the text that is signed and the instant that is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timestamp {
    /// As written.
    pub text: Box<str>,
    /// The same as an instant, to the nanosecond (VX-TS-2).
    pub instant: Time,
}

/// What a message carries.
#[derive(Clone, Debug, PartialEq)]
pub enum Payload {
    /// `context_share`
    ContextShare(ContextShare),
}

/// The payload of a `context_share` (VX-CS-1).
#[derive(Clone, Debug, PartialEq)]
pub struct ContextShare {
    /// The context string as written; [`context::validate`] holds.
    pub context: Box<str>,
    /// The active constitution as written; [`CreedRef::parse`] holds.
    pub constitution_ref: Box<str>,
    /// How the agent's owner is, when it is shared.
    pub personal_state: Option<PersonalState>,
}

/// A well-formed message.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Its identifier.
    pub message_id: MessageId,
    /// Who says it made the message; proven by the signature alone.
    pub sender: AgentId,
    /// Whom it is for.
    pub recipient: Recipient,
    /// When it was made.
    pub timestamp: Timestamp,
    /// What it carries.
    pub payload: Payload,
    /// The signature, when there is one.
    pub signature: Option<SignatureText>,
    /// The bytes that a signature covers.
    pub signed: SignedForms,
    journal: Canonical,
    received: Bytes,
}

impl Message {
    /// The version of the protocol it is written in.
    pub const fn version(&self) -> &'static str {
        VERSION
    }

    /// Which of the four it is.
    pub const fn kind(&self) -> Kind {
        match self.payload {
            Payload::ContextShare(_) => Kind::ContextShare,
        }
    }

    /// The envelope with its signature, in the form a journal line holds (CH-JRN-3).
    pub fn journal_bytes(&self) -> &Bytes {
        self.journal.shared()
    }

    /// The received text, when reading the journal's form back would not give the received values and
    /// signed bytes again (CH-JRN-3).
    pub fn raw_for_journal(&self) -> Option<&Bytes> {
        (!self.journal.verbatim()).then_some(&self.received)
    }

    /// The bytes as they came in (VX-ENV-8).
    pub const fn received(&self) -> &Bytes {
        &self.received
    }
}

/// A body that is no message, with its identifier if that much could be read (VX-ERR-2).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{fault}")]
pub struct Undecodable {
    /// The identifier to echo.
    pub message_id: Option<MessageId>,
    /// What is wrong.
    pub fault: Fault,
}

/// Reads one message of at most `max_bytes`, which counts up to [`MAX_MAX_BYTES`].
pub fn decode(received: Bytes, max_bytes: usize) -> Result<Message, Undecodable> {
    let (value, plain) = read_noting(&received, max_bytes).map_err(|fault| Undecodable {
        message_id: None,
        fault,
    })?;
    match read_envelope(&value) {
        Ok(parts) => Ok(parts.into_message(&value, plain, received.clone())),
        Err(fault) => Err(Undecodable {
            message_id: readable_id(&value),
            fault,
        }),
    }
}

/// What [`decode`] makes of plain text whose tree is at hand; none where it would refuse it.
pub(crate) fn decode_plain(value: &Value<'_>, text: &Bytes) -> Option<Message> {
    let rules = read_rules(MAX_MAX_BYTES);
    if !rules.admit(value, text.len()) {
        return None;
    }
    let parts = read_envelope(value).ok()?;
    Some(parts.into_message(value, true, text.clone()))
}

/// Reads JSON as this protocol allows it (VX-ENV-6, VX-ENV-7).
pub fn read_json(text: &[u8], max_bytes: usize) -> Result<Value<'_>, Fault> {
    read_noting(text, max_bytes).map(|(value, _)| value)
}

fn read_rules(max_bytes: usize) -> ReadRules {
    ReadRules {
        max_bytes: max_bytes.min(MAX_MAX_BYTES),
        ..ReadRules::VALUE_CONTEXT
    }
}

/// The same, and whether the text is plain ([`json::read_noting`]).
fn read_noting(text: &[u8], max_bytes: usize) -> Result<(Value<'_>, bool), Fault> {
    json::read_noting(text, &read_rules(max_bytes)).map_err(|fault| match fault.kind {
        FaultKind::TooLarge => Fault::new(Code::PayloadTooLarge, "envelope is larger than allowed"),
        kind => Fault::new(Code::MalformedJson, kind.to_string()),
    })
}

fn readable_id(value: &Value<'_>) -> Option<MessageId> {
    MessageId::parse(value.get("message_id")?.as_str()?)
}

/// The typed members of an envelope.
struct Parts {
    message_id: MessageId,
    sender: AgentId,
    recipient: Recipient,
    timestamp: Timestamp,
    payload: Payload,
    signature: Option<SignatureText>,
}

impl Parts {
    fn into_message(self, value: &Value<'_>, plain: bool, received: Bytes) -> Message {
        let journal = if plain {
            plain_cutting(value, MEMBER, received.clone())
        } else {
            canonical_cutting(value, MEMBER, Dialect::Vibe)
        };
        Message {
            message_id: self.message_id,
            sender: self.sender,
            recipient: self.recipient,
            timestamp: self.timestamp,
            payload: self.payload,
            signature: self.signature,
            signed: SignedForms::cut_from(&journal, value),
            journal,
            received,
        }
    }
}

fn read_envelope(value: &Value<'_>) -> Result<Parts, Fault> {
    // The version goes first: members of another version must not hide that it is another version.
    check_version(value)?;
    let [
        _,
        kind,
        message_id,
        sender,
        recipient,
        timestamp,
        payload,
        signature,
    ] = closed(value, &Place::ROOT, ENVELOPE)?;
    let kind = read_kind(kind)?;
    let message_id = read_message_id(message_id)?;
    let sender = read_sender(sender)?;
    let recipient = read_recipient(recipient)?;
    let timestamp = read_timestamp(timestamp)?;
    let signature = read_signature(signature)?;
    let place = Place::ROOT.child("payload");
    let payload = required(payload, &place)?;
    object(payload, &place)?;
    Ok(Parts {
        message_id,
        sender,
        recipient,
        timestamp,
        payload: read_payload(kind, payload, &place)?,
        signature,
    })
}

/// The payload of a message of this kind, as an object that was found at `place`.
pub(crate) fn read_payload(
    kind: Kind,
    payload: &Value<'_>,
    place: &Place<'_>,
) -> Result<Payload, Fault> {
    if !kind.is_built() {
        let fault = Fault::new(Code::TypeDisabled, "messages of this type are switched off");
        return Err(fault.at(&Place::ROOT.child("type")));
    }
    Ok(Payload::ContextShare(read_context_share(payload, place)?))
}

fn check_version(value: &Value<'_>) -> Result<(), Fault> {
    let Some(envelope) = value.as_object() else {
        let fault = Fault::new(Code::SchemaInvalid, "the body must be a JSON object");
        return Err(fault.under("VX-ENV-1"));
    };
    let place = Place::ROOT.child("vcp_message");
    let version = required_text(envelope.get("vcp_message"), &place)?;
    if version != VERSION {
        let fault = Fault::new(Code::UnsupportedVersion, "vcp_message must be 1.2");
        return Err(fault.at(&place));
    }
    Ok(())
}

pub(crate) fn read_kind(member: Option<&Value<'_>>) -> Result<Kind, Fault> {
    let place = Place::ROOT.child("type");
    let name = required_text(member, &place)?;
    Kind::ALL
        .into_iter()
        .find(|kind| kind.as_str() == name)
        .ok_or_else(|| Fault::schema(&place, "type is none of the four", "VX-ENV-1"))
}

fn read_message_id(member: Option<&Value<'_>>) -> Result<MessageId, Fault> {
    let place = Place::ROOT.child("message_id");
    MessageId::parse(required_text(member, &place)?)
        .ok_or_else(|| Fault::schema(&place, "must be a lower-case UUID version 7", "VX-ID-1"))
}

pub(crate) fn read_sender(member: Option<&Value<'_>>) -> Result<AgentId, Fault> {
    let place = Place::ROOT.child("sender");
    AgentId::parse(required_text(member, &place)?).map_err(|fault| agent_fault(fault, &place))
}

pub(crate) fn read_recipient(member: Option<&Value<'_>>) -> Result<Recipient, Fault> {
    let place = Place::ROOT.child("recipient");
    match required_text(member, &place)? {
        BROADCAST => Ok(Recipient::Broadcast),
        name => AgentId::parse(name)
            .map(Recipient::Directed)
            .map_err(|fault| agent_fault(fault, &place)),
    }
}

fn agent_fault(fault: AgentIdFault, place: &Place<'_>) -> Fault {
    Fault::schema(place, fault.to_string(), fault.requirement())
}

fn read_timestamp(member: Option<&Value<'_>>) -> Result<Timestamp, Fault> {
    let place = Place::ROOT.child("timestamp");
    let text = required_text(member, &place)?;
    // The reason of the time reader would repeat digits of the message.
    let instant = parse_value_context(text).map_err(|_| {
        let message = "must be YYYY-MM-DDTHH:MM:SS[.fraction]Z with a real date and time";
        Fault::schema(&place, message, "VX-TS-1")
    })?;
    Ok(Timestamp {
        text: text.into(),
        instant,
    })
}

fn read_signature(member: Option<&Value<'_>>) -> Result<Option<SignatureText>, Fault> {
    let place = Place::ROOT.child("signature");
    let Some(value) = member else { return Ok(None) };
    SignatureText::parse(text(value, &place)?)
        .map(Some)
        .ok_or_else(|| Fault::schema(&place, "must be base64: and base64 characters", "VX-SIG-5"))
}

fn read_context_share(value: &Value<'_>, place: &Place<'_>) -> Result<ContextShare, Fault> {
    const NAMES: [&str; 3] = ["context", "constitution_ref", "personal_state"];
    let [context, constitution_ref, personal_state] = closed(value, place, NAMES)?;
    let state_place = place.child("personal_state");
    Ok(ContextShare {
        context: read_context(context, &place.child("context"))?,
        constitution_ref: read_creed(constitution_ref, &place.child("constitution_ref"))?,
        personal_state: personal_state
            .map(|state| PersonalState::read(state, &state_place))
            .transpose()?,
    })
}

fn read_context(member: Option<&Value<'_>>, place: &Place<'_>) -> Result<Box<str>, Fault> {
    let text = required_text(member, place)?;
    match context::validate(text) {
        Ok(()) => Ok(text.into()),
        Err(ContextFault::Empty) => Err(Fault::schema(place, "context is empty", "VX-CTX-4")),
        Err(fault) => Err(Fault::new(Code::ContextInvalid, fault.to_string())
            .at(place)
            .under(fault.requirement())),
    }
}

fn read_creed(member: Option<&Value<'_>>, place: &Place<'_>) -> Result<Box<str>, Fault> {
    let text = required_text(member, place)?;
    match CreedRef::parse(text) {
        Ok(_) => Ok(text.into()),
        Err(fault) => Err(Fault::schema(place, fault.to_string(), fault.requirement())),
    }
}

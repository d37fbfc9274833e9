//! Messages and how one is read from bytes (sections 2 to 5).
//!
//! [`decode`] reads all syntax in one pass: what comes out is well formed and typed, and nothing later
//! looks at raw JSON. What it cannot judge are the window of time, the signature and the recipient.

use crate::agent_id::{AgentId, AgentIdFault, BROADCAST};
use crate::code::{Code, Fault};
use crate::members::{closed, object, required, required_text, text};
use crate::message_id::MessageId;
use crate::payload::{ConstitutionAnnounce, ConstraintPropagate, Escalation};
pub use crate::payload::{ContextShare, Payload};
use crate::signature::{MEMBER, SignatureText, SignedForms};
use bytes::Bytes;
use chancery_core::canonical::{Canonical, Dialect, canonical_cutting, plain_cutting};
use chancery_core::fault;
use chancery_core::json::{self, DuplicateNames, FaultKind, Place, ReadRules, Value};
use chancery_core::time::{Time, parse_value_context};
use serde::{Deserialize, Serialize};

/// The version this crate speaks.
pub const VERSION: &str = "1.2";
/// Largest envelope in bytes unless configured otherwise (VX-ENV-7).
pub const DEFAULT_MAX_BYTES: usize = 65_536;
/// The most to which that limit can be raised (VX-ENV-7).
pub const MAX_MAX_BYTES: usize = 1_048_576;

/// The members of an envelope; all but the last are required.
pub(crate) const ENVELOPE: [&str; 8] = [
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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

    /// The schema of the payload of this kind.
    pub(crate) fn payload_schema(
        self,
        schemas: &mut schemars::SchemaGenerator,
    ) -> schemars::Schema {
        match self {
            Self::ContextShare => schemas.subschema_for::<ContextShare>(),
            Self::ConstitutionAnnounce => schemas.subschema_for::<ConstitutionAnnounce>(),
            Self::ConstraintPropagate => schemas.subschema_for::<ConstraintPropagate>(),
            Self::Escalation => schemas.subschema_for::<Escalation>(),
        }
    }

    /// The kind that `type` spells so.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}

/// Which version a message is written in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// The protocol of this crate.
    #[default]
    V1_2,
    /// What an unmodified peer of the later SDK writes; taken where a setting allows it (VX-V2-1).
    V2_0,
}

impl Version {
    /// The version as `vcp_message` spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V1_2 => VERSION,
            Self::V2_0 => "2.0",
        }
    }

    /// Reads an identifier as this version has it.
    pub fn read_id(self, text: &str) -> Option<MessageId> {
        match self {
            Self::V1_2 => MessageId::parse(text),
            Self::V2_0 => MessageId::parse_any(text),
        }
    }
}

/// What a reader takes.
#[derive(Clone, Copy, Debug)]
pub struct Accept<'s> {
    /// Largest envelope in bytes, which counts up to [`MAX_MAX_BYTES`].
    pub max_bytes: usize,
    /// Whether version 2.0 is taken as well.
    pub vcp_2_0: bool,
    /// The kinds that are switched off.
    pub disabled: &'s [Kind],
}

impl Accept<'_> {
    /// Everything that can be on a journal.
    pub const RECORDED: Self = Self {
        max_bytes: MAX_MAX_BYTES,
        vcp_2_0: true,
        disabled: &[],
    };
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

/// A well-formed message.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// The version it is written in.
    pub version: Version,
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
    /// Whether identifier and timestamp are more than a day apart: a warning, never a reason to refuse (VX-ID-4).
    pub fn identifier_is_off(&self) -> bool {
        const DAY_MS: u64 = 86_400_000;
        let stamped = self.timestamp.instant.unix_millis();
        let made = self.message_id.unix_millis();
        made.is_some_and(|made| made.abs_diff(stamped) > DAY_MS)
    }

    /// Which of the four it is.
    pub const fn kind(&self) -> Kind {
        self.payload.kind()
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
    let accept = Accept {
        max_bytes,
        vcp_2_0: false,
        disabled: &[],
    };
    decode_accepting(received, accept)
}

/// Reads one message as far as `accept` goes.
pub fn decode_accepting(received: Bytes, accept: Accept<'_>) -> Result<Message, Undecodable> {
    let (value, plain) = read_noting(&received, accept.max_bytes).map_err(|fault| Undecodable {
        message_id: None,
        fault,
    })?;
    match read_envelope(&value, accept) {
        Ok(parts) => Ok(parts.into_message(&value, plain, received.clone())),
        Err(fault) => Err(Undecodable {
            message_id: readable_id(&value),
            fault,
        }),
    }
}

/// What [`decode_accepting`] makes of plain text whose tree is at hand; none where it would refuse it.
pub(crate) fn decode_plain(value: &Value<'_>, text: &Bytes, accept: Accept<'_>) -> Option<Message> {
    if !read_rules(accept.max_bytes).admit(value, text.len()) {
        return None;
    }
    let parts = read_envelope(value, accept).ok()?;
    Some(parts.into_message(value, true, text.clone()))
}

/// Reads JSON as this protocol allows it (VX-ENV-6, VX-ENV-7).
pub fn read_json(text: &[u8], max_bytes: usize) -> Result<Value<'_>, Fault> {
    read_noting(text, max_bytes).map(|(value, _)| value)
}

fn read_rules(max_bytes: usize) -> ReadRules {
    let mut rules = ReadRules {
        max_bytes: max_bytes.min(MAX_MAX_BYTES),
        ..ReadRules::VALUE_CONTEXT
    };
    if fault::on("vx-repeated-names") {
        rules.duplicate_names = DuplicateNames::LastWins;
    }
    rules
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
    version: Version,
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
            version: self.version,
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

fn read_envelope(value: &Value<'_>, accept: Accept<'_>) -> Result<Parts, Fault> {
    // The version goes first: members of another version must not hide that it is another version.
    let version = read_version(value, accept.vcp_2_0)?;
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
    let message_id = read_message_id(message_id, version)?;
    let sender = read_sender(sender)?;
    let recipient = read_recipient(recipient)?;
    let timestamp = read_timestamp(timestamp)?;
    let signature = read_signature(signature)?;
    let place = Place::ROOT.child("payload");
    let payload = required(payload, &place)?;
    object(payload, &place)?;
    check_enabled(kind, accept.disabled)?;
    Ok(Parts {
        version,
        message_id,
        sender,
        recipient,
        timestamp,
        payload: Payload::read(kind, version, payload, &place)?,
        signature,
    })
}

/// Refuses a kind that is switched off.
pub(crate) fn check_enabled(kind: Kind, disabled: &[Kind]) -> Result<(), Fault> {
    if !disabled.contains(&kind) {
        return Ok(());
    }
    let fault = Fault::new(Code::TypeDisabled, "messages of this type are switched off");
    Err(fault.at(&Place::ROOT.child("type")))
}

fn read_version(value: &Value<'_>, vcp_2_0: bool) -> Result<Version, Fault> {
    let Some(envelope) = value.as_object() else {
        let fault = Fault::new(Code::SchemaInvalid, "the body must be a JSON object");
        return Err(fault.under("VX-ENV-1"));
    };
    let place = Place::ROOT.child("vcp_message");
    match required_text(envelope.get("vcp_message"), &place)? {
        VERSION => Ok(Version::V1_2),
        "2.0" if vcp_2_0 => Ok(Version::V2_0),
        _ => {
            let fault = Fault::new(Code::UnsupportedVersion, "vcp_message must be 1.2");
            Err(fault.at(&place))
        }
    }
}

pub(crate) fn read_kind(member: Option<&Value<'_>>) -> Result<Kind, Fault> {
    let place = Place::ROOT.child("type");
    let name = required_text(member, &place)?;
    Kind::named(name).ok_or_else(|| Fault::schema(&place, "type is none of the four", "VX-ENV-1"))
}

fn read_message_id(member: Option<&Value<'_>>, version: Version) -> Result<MessageId, Fault> {
    let place = Place::ROOT.child("message_id");
    let version = if fault::on("vx-any-uuid") {
        Version::V2_0
    } else {
        version
    };
    version
        .read_id(required_text(member, &place)?)
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

//! An envelope, decoded: steps 2 and 3 of the pipeline, and all syntax of the later ones (section 1).
//!
//! A fault that the pipeline ranks after a check of sender, key or state rides inside the message and is raised at
//! its step, because the order of checks is observable (VC-PIPE-1). Nothing later looks at raw JSON.

use std::ops::Range;

use bytes::Bytes;
use chancery_core::canonical::{Dialect, write, write_string};
use chancery_core::digest::{Sha256, Sha256Digest};
use chancery_core::fault;
use chancery_core::ids::is_uuid4;
use chancery_core::json::{self, DuplicateNames, FaultKind, Object, Place, ReadRules, Value};
use chancery_core::refusal::Refusal;
use chancery_core::time::{Time, parse_vibe};

use crate::action::Action;
use crate::address::Address;
use crate::code::{Code, Fault};
use crate::guard::{self, Facts};
use crate::money;
use crate::payload::{self, Payload};
use crate::settings::Settings;

/// Longest idempotency key in characters (VC-ENV-10).
pub const MAX_KEY_CHARACTERS: usize = 255;
/// Longest identifier (VC-ENV-4).
pub const MAX_ID_BYTES: usize = 128;

/// The names that an envelope's top level and its action define.
const KNOWN: [&str; 11] = [
    "protocol",
    "version",
    "msg_id",
    "ts",
    "from",
    "to",
    "session_id",
    "in_reply_to",
    "idempotency_key",
    "signature",
    "action",
];

/// A decoded envelope.
#[derive(Clone, Debug)]
pub struct Message {
    /// Its canonical bytes.
    pub canonical: Bytes,
    /// Where the signature stands in them, with its comma.
    signature_at: Option<Range<usize>>,
    /// What tells a retry from another request, of mutations (VC-IDEM-3); not of what was read from the log.
    fingerprint: Option<Sha256Digest>,
    /// Its identifier.
    pub msg_id: String,
    /// When it was stamped, as written.
    pub ts_text: String,
    /// When it was stamped.
    pub ts: Time,
    /// The sender as written.
    pub from_text: String,
    /// The sender; a fault of step 4.
    pub from: Result<Address, Fault>,
    /// The receiver as written.
    pub to_text: String,
    /// The receiver; a fault of step 4.
    pub to: Result<Address, Fault>,
    /// Its session.
    pub session_id: String,
    /// The envelope it answers.
    pub in_reply_to: Option<String>,
    /// Its idempotency key.
    pub idempotency_key: Option<String>,
    /// Its signature.
    pub signature: Option<String>,
    /// Its action; none when it is not known, a fault of step 7.
    pub action: Option<Action>,
    /// Its payload; a fault of step 12.
    pub payload: Result<Payload, Fault>,
    /// What the guard looks at, in step 13.
    pub facts: Facts,
}

impl Message {
    /// Decodes an envelope.
    pub fn decode(raw: &[u8], settings: &Settings) -> Result<Self, Refusal> {
        let root = read(raw).map_err(|fault| fault.into_refusal("json"))?;
        Envelope::read(&root, settings)
            .map(|envelope| envelope.into_message(&root, settings, Written::of))
            .map_err(|fault| {
                let refusal = fault.into_refusal("envelope");
                match readable_id(&root) {
                    Some(id) => refusal.of_message(id),
                    None => refusal,
                }
            })
    }

    /// Decodes an envelope that is on record, in its canonical form: what was judged by itself is not judged again.
    pub fn decode_recorded(canonical: &Bytes, settings: &Settings) -> Result<Self, Refusal> {
        let root = read(canonical).map_err(|fault| fault.into_refusal("json"))?;
        Self::recorded(&root, canonical, settings).map_err(|fault| fault.into_refusal("envelope"))
    }

    /// What [`Message::decode_recorded`] gives of an envelope whose tree is at hand; none where it would refuse it.
    pub fn of_recorded(root: &Value<'_>, canonical: &Bytes, settings: &Settings) -> Option<Self> {
        if !ReadRules::VIBE.admit(root, canonical.len()) {
            return None;
        }
        Self::recorded(root, canonical, settings).ok()
    }

    fn recorded(root: &Value<'_>, canonical: &Bytes, settings: &Settings) -> Result<Self, Fault> {
        let envelope = Envelope::read_fields(root, settings, None)?;
        let written = Written {
            bytes: canonical.clone(),
            signature_at: None,
            fingerprint: None,
        };
        Ok(envelope.into_message(root, settings, |_, _| written))
    }

    /// What tells a retry from another request (VC-IDEM-3).
    pub fn fingerprint(&self) -> Sha256Digest {
        self.fingerprint.unwrap_or_else(|| {
            let root = read(&self.canonical).expect("canonical bytes are JSON");
            fingerprint_of(root.as_object().expect("an envelope is an object"))
        })
    }

    /// Where the number of that index stands in the envelope.
    pub fn place_of_fact(&self, index: usize) -> Option<String> {
        let root = read(&self.canonical).ok()?;
        let fields = root.as_object()?;
        let action = root.get("action")?.as_object()?;
        let payload = action.get("payload")?.as_object()?;
        guard::place_of(index, fields, action, payload, &KNOWN)
    }

    /// Compares an `Idempotency-Key` header with the field (VC-HTTP-3, VC-CLR-6); a part of step 3.
    pub fn check_header(&self, header: Option<&str>) -> Result<(), Refusal> {
        match header {
            Some(header) if self.idempotency_key.as_deref() != Some(header) => {
                Err(self.refuse(Code::IdempotencyKeyMismatch, "envelope"))
            }
            _ => Ok(()),
        }
    }

    /// The sender, once step 4 has passed.
    pub fn sender(&self) -> Address {
        *self
            .from
            .as_ref()
            .expect("step 4 refuses a sender that is no address")
    }

    /// The receiver, once step 4 has passed.
    pub fn receiver(&self) -> Address {
        *self
            .to
            .as_ref()
            .expect("step 4 refuses a receiver that is no address")
    }

    /// The bytes that a signature covers: the canonical envelope without it (VC-SIG-2).
    pub fn signed_bytes(&self) -> Vec<u8> {
        match &self.signature_at {
            Some(cut) => [&self.canonical[..cut.start], &self.canonical[cut.end..]].concat(),
            None => self.canonical.to_vec(),
        }
    }

    /// A refusal of this message.
    pub fn refuse(&self, code: Code, check: &'static str) -> Refusal {
        code.refuse()
            .in_check(check)
            .of_message(self.msg_id.clone())
    }
}

/// Reads JSON as an envelope may be written (VC-ENV-18): step 2, but for the range of integers.
pub fn read(raw: &[u8]) -> Result<Value<'_>, Fault> {
    let mut rules = ReadRules::VIBE;
    if fault::on("vc-repeated-names") {
        rules.duplicate_names = DuplicateNames::LastWins;
    }
    json::read(raw, &rules).map_err(|fault| match fault.kind {
        FaultKind::TooLarge => Fault::new(Code::TooLarge),
        _ => Fault::new(Code::MalformedJson),
    })
}

/// Where an envelope, as it is written, gives one of these values away (VC-PRIV-6), whoever sends it: for agents that
/// keep more to themselves than the log says (CH-JRN-11).
pub fn gives_away(raw: &[u8], store: &[guard::Private], currencies: &[String]) -> Option<String> {
    let root = read(raw).ok()?;
    let fields = root.as_object()?;
    let action = root.get("action")?.as_object()?;
    let payload = action.get("payload")?.as_object()?;
    let index = guard::facts(fields, action, payload, &KNOWN).leak(store, currencies)?;
    let place = guard::place_of(index, fields, action, payload, &KNOWN);
    Some(place.unwrap_or_else(|| "$".to_owned()))
}

/// Whether a text is an identifier (VC-ENV-4).
pub fn is_id(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() <= MAX_ID_BYTES
        && bytes.first().is_some_and(u8::is_ascii_alphanumeric)
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._:-".contains(byte))
}

fn readable_id(root: &Value<'_>) -> Option<String> {
    let id = root.get("msg_id")?.as_str()?;
    is_id(id).then(|| id.to_owned())
}

/// The fields of an envelope, checked one by one in the order of the table (VC-ENV-17, VC-CLR-6).
struct Envelope<'v> {
    msg_id: &'v str,
    ts_text: &'v str,
    ts: Time,
    from: &'v str,
    to: &'v str,
    session_id: &'v str,
    in_reply_to: Option<&'v str>,
    idempotency_key: Option<&'v str>,
    signature: Option<&'v str>,
    action: &'v Object<'v>,
    kind: &'v str,
    payload: &'v Object<'v>,
    /// A fault of the payload's money fields, for step 12.
    money: Option<Fault>,
}

impl<'v> Envelope<'v> {
    fn read(root: &'v Value<'v>, settings: &Settings) -> Result<Self, Fault> {
        let money = check_range(root)?;
        Self::read_fields(root, settings, money)
    }

    fn read_fields(
        root: &'v Value<'v>,
        settings: &Settings,
        money: Option<Fault>,
    ) -> Result<Self, Fault> {
        let at = Place::ROOT;
        let fields = root
            .as_object()
            .ok_or_else(|| Fault::at(Code::MalformedEnvelope, &at))?;
        check_protocol(text(fields, "protocol", &at)?)?;
        check_version(text(fields, "version", &at)?)?;
        let msg_id = id(fields, "msg_id", &at)?;
        if settings.strict_uuid && !is_uuid4(msg_id) {
            return Err(Fault::at(Code::MalformedEnvelope, &at.child("msg_id")));
        }
        let ts_text = text(fields, "ts", &at)?;
        let ts = parse_vibe(ts_text).map_err(|_| Fault::at(Code::InvalidTs, &at.child("ts")))?;
        let from = text(fields, "from", &at)?;
        let to = text(fields, "to", &at)?;
        let session_id = id(fields, "session_id", &at)?;
        let in_reply_to = nullable(fields, "in_reply_to", &at)?;
        let idempotency_key = nullable(fields, "idempotency_key", &at)?;
        check_key(idempotency_key, &at)?;
        let signature = nullable(fields, "signature", &at)?;
        if signature.is_some() && !settings.signed {
            return Err(Fault::at(Code::UnexpectedSignature, &at.child("signature")));
        }
        let action = object(fields, "action", &at)?;
        let at = at.child("action");
        let kind = text(action, "kind", &at)?;
        if !has_namespace_and_verb(kind) {
            return Err(Fault::at(Code::MalformedEnvelope, &at.child("kind")));
        }
        let payload = object(action, "payload", &at)?;
        Ok(Self {
            msg_id,
            ts_text,
            ts,
            from,
            to,
            session_id,
            in_reply_to,
            idempotency_key,
            signature,
            action,
            kind,
            payload,
            money,
        })
    }

    fn into_message(
        self,
        root: &Value<'_>,
        settings: &Settings,
        write: impl FnOnce(&Object<'_>, bool) -> Written,
    ) -> Message {
        let fields = root.as_object().expect("an envelope is an object");
        let action = Action::parse(self.kind);
        let is_mutation = action.is_some_and(Action::is_mutation);
        let written = write(fields, is_mutation);
        let address = |text: &str, read: fn(&str) -> Result<Address, Code>, name: &str| {
            read(text).map_err(|code| Fault::at(code, &Place::ROOT.child(name)))
        };
        let from = address(self.from, Address::sender, "from");
        let payload = match (self.money, action) {
            (Some(fault), _) => Err(fault),
            (None, Some(action)) => payload::read(
                action,
                self.payload,
                &payload::Around {
                    from: from.as_ref().ok().copied(),
                    idempotency_key: self.idempotency_key,
                    currency: &settings.currency,
                },
            ),
            (None, None) => Err(Fault::new(Code::UnknownAction)),
        };
        let scanned = action.is_some_and(|action| !action.is_delegate())
            && from.as_ref().is_ok_and(|from| guard::has_store(from.side));
        let facts = if scanned {
            guard::facts(fields, self.action, self.payload, &KNOWN)
        } else {
            Facts::default()
        };
        Message {
            canonical: written.bytes,
            signature_at: written.signature_at,
            fingerprint: written.fingerprint,
            msg_id: self.msg_id.to_owned(),
            ts_text: self.ts_text.to_owned(),
            ts: self.ts,
            from,
            from_text: self.from.to_owned(),
            to: address(self.to, Address::receiver, "to"),
            to_text: self.to.to_owned(),
            session_id: self.session_id.to_owned(),
            in_reply_to: self.in_reply_to.map(str::to_owned),
            idempotency_key: self.idempotency_key.map(str::to_owned),
            signature: self.signature.map(str::to_owned),
            action,
            payload,
            facts,
        }
    }
}

/// The range of integers: all but the money fields of the payload, whose fault is given back (VC-CLR-7).
fn check_range(root: &Value<'_>) -> Result<Option<Fault>, Fault> {
    let malformed = || Fault::new(Code::MalformedJson);
    let Some(fields) = root.as_object() else {
        return if money::out_of_range(root) {
            Err(malformed())
        } else {
            Ok(None)
        };
    };
    let mut found = None;
    for (name, value) in fields.iter() {
        match (name, value) {
            ("action", Value::Object(action)) => {
                for (name, value) in action.iter() {
                    match (name, value) {
                        ("payload", Value::Object(payload)) => {
                            let place = Place::ROOT.child("action");
                            let scan = money::scan(payload, &place.child("payload"));
                            if scan.out_of_range {
                                return Err(malformed());
                            }
                            found = scan.fault;
                        }
                        _ if money::out_of_range(value) => return Err(malformed()),
                        _ => {}
                    }
                }
            }
            _ if money::out_of_range(value) => return Err(malformed()),
            _ => {}
        }
    }
    Ok(found)
}

fn check_protocol(protocol: &str) -> Result<(), Fault> {
    if protocol == "vcp" {
        Ok(())
    } else {
        Err(Fault::at(
            Code::UnsupportedProtocol,
            &Place::ROOT.child("protocol"),
        ))
    }
}

fn check_version(version: &str) -> Result<(), Fault> {
    let place = Place::ROOT.child("version");
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match version.split_once('.') {
        Some((major, minor)) if digits(major) && digits(minor) => {
            if major == "1" {
                Ok(())
            } else {
                Err(Fault::at(Code::UnsupportedVersion, &place))
            }
        }
        _ => Err(Fault::at(Code::MalformedEnvelope, &place)),
    }
}

fn check_key(key: Option<&str>, place: &Place<'_>) -> Result<(), Fault> {
    let place = place.child("idempotency_key");
    match key {
        Some("") => Err(Fault::at(Code::MalformedEnvelope, &place)),
        Some(key) if key.chars().nth(MAX_KEY_CHARACTERS).is_some() => {
            Err(Fault::at(Code::IdempotencyKeyTooLong, &place))
        }
        _ => Ok(()),
    }
}

/// VC-ENV-13: the first dot parts them, and neither is empty.
fn has_namespace_and_verb(kind: &str) -> bool {
    kind.split_once('.')
        .is_some_and(|(namespace, verb)| !namespace.is_empty() && !verb.is_empty())
}

fn text<'v>(fields: &'v Object<'v>, name: &str, place: &Place<'_>) -> Result<&'v str, Fault> {
    fields
        .get(name)
        .and_then(Value::as_str)
        .ok_or_else(|| Fault::at(Code::MalformedEnvelope, &place.child(name)))
}

fn id<'v>(fields: &'v Object<'v>, name: &str, place: &Place<'_>) -> Result<&'v str, Fault> {
    let id = text(fields, name, place)?;
    if is_id(id) {
        Ok(id)
    } else {
        Err(Fault::at(Code::MalformedEnvelope, &place.child(name)))
    }
}

/// VC-ENV-15: absent means null.
fn nullable<'v>(
    fields: &'v Object<'v>,
    name: &str,
    place: &Place<'_>,
) -> Result<Option<&'v str>, Fault> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(Fault::at(Code::MalformedEnvelope, &place.child(name))),
    }
}

fn object<'v>(
    fields: &'v Object<'v>,
    name: &str,
    place: &Place<'_>,
) -> Result<&'v Object<'v>, Fault> {
    fields
        .get(name)
        .and_then(Value::as_object)
        .ok_or_else(|| Fault::at(Code::MalformedEnvelope, &place.child(name)))
}

/// The canonical bytes, and what is cut from them: one walk.
struct Written {
    bytes: Bytes,
    signature_at: Option<Range<usize>>,
    fingerprint: Option<Sha256Digest>,
}

impl Written {
    fn of(fields: &Object<'_>, with_fingerprint: bool) -> Self {
        let mut members: Vec<_> = fields.iter().collect();
        members.sort_unstable_by_key(|(name, _)| *name);
        let mut bytes = Vec::with_capacity(1_024);
        let mut spans = Vec::with_capacity(members.len());
        for (name, value) in &members {
            bytes.push(if spans.is_empty() { b'{' } else { b',' });
            let start = bytes.len();
            write_string(name, &mut bytes);
            bytes.push(b':');
            write(value, Dialect::Vibe, &mut bytes);
            spans.push((*name, start..bytes.len()));
        }
        bytes.push(b'}');
        let signature_at = spans
            .iter()
            .find(|(name, _)| *name == "signature")
            // An envelope has members before this one, so the comma before it goes with it.
            .map(|(_, span)| span.start - 1..span.end);
        let fingerprint = with_fingerprint.then(|| fingerprint(&bytes, &spans));
        Self {
            bytes: bytes.into(),
            signature_at,
            fingerprint,
        }
    }
}

/// SHA-256 of the canonical envelope without `msg_id`, `ts` and `signature`, absent nullable fields as null (VC-IDEM-3).
fn fingerprint(bytes: &[u8], spans: &[(&str, Range<usize>)]) -> Sha256Digest {
    const NULLABLE: [(&str, &[u8]); 2] = [
        ("idempotency_key", b"\"idempotency_key\":null"),
        ("in_reply_to", b"\"in_reply_to\":null"),
    ];
    let has = |wanted: &str| spans.iter().any(|(name, _)| *name == wanted);
    let mut members: Vec<(&str, &[u8])> = spans
        .iter()
        .filter(|(name, _)| !matches!(*name, "msg_id" | "ts" | "signature"))
        .map(|(name, span)| (*name, &bytes[span.clone()]))
        .collect();
    members.extend(NULLABLE.into_iter().filter(|(name, _)| !has(name)));
    members.sort_unstable_by_key(|(name, _)| *name);
    let mut hash = Sha256::new();
    for (index, (_, member)) in members.iter().enumerate() {
        hash.update(if index == 0 { b"{" } else { b"," });
        hash.update(member);
    }
    hash.update(b"}");
    hash.finish()
}

/// The fingerprint of an envelope that was read, whatever its action: for checking against published values.
pub fn fingerprint_of(fields: &Object<'_>) -> Sha256Digest {
    Written::of(fields, true)
        .fingerprint
        .unwrap_or(Sha256Digest::ZERO)
}

//! The envelope's members and their grammar: steps 1 and 2 (chapters 1, 2 and B1).

use chancery_core::fault;
use chancery_core::json::{DuplicateNames, FaultKind, Object, ReadRules, Value, read};

use crate::fault::{ErrorName, Fault, Stage};
use crate::grammar::{is_blank, is_channel, is_peer_id, is_workspace, split_handle};
use crate::integer::integer;
use crate::kind::Kind;
use crate::revision::{Mode, Revision};
use crate::settings::{Nulls, Settings};

/// The protocol string of both revisions.
pub const PROTOCOL: &str = "agh-network/v0";
/// The protocol string of signed envelopes on the public trust pages (AG-TRU-1).
pub const PROTOCOL_V1: &str = "agh-network/v1";

/// An envelope whose members are well formed. It borrows everything from the text.
#[derive(Clone, Debug)]
pub struct Envelope<'v> {
    /// Which revision it is of.
    pub revision: Revision,
    /// Whether it says `agh-network/v1`.
    pub v1: bool,
    /// Its identifier.
    pub id: &'v str,
    /// What it is for; none for a kind that is not known, which ranks before everything that follows.
    pub kind: Option<Kind>,
    /// Where it is said.
    pub channel: &'v str,
    /// Who says so.
    pub from: &'v str,
    /// Whom it is directed to.
    pub to: Option<&'v str>,
    /// The interaction it belongs to (revision A).
    pub interaction_id: Option<&'v str>,
    /// What it answers.
    pub reply_to: Option<&'v str>,
    /// End-to-end correlation.
    pub trace_id: Option<&'v str>,
    /// What caused it.
    pub causation_id: Option<&'v str>,
    /// When it was made, in Unix seconds.
    pub ts: u64,
    /// When it ends.
    pub expires_at: Option<u64>,
    /// What it says.
    pub body: &'v Object<'v>,
    /// Its proof.
    pub proof: Option<&'v Object<'v>>,
    /// Extensions.
    pub ext: Option<&'v Object<'v>>,
    /// The workspace (revision B).
    pub workspace_id: Option<&'v str>,
    /// `thread` or `direct`, as written (revision B).
    pub surface: Option<&'v str>,
    /// The thread, as written (revision B).
    pub thread_id: Option<&'v str>,
    /// The direct room, as written (revision B).
    pub direct_id: Option<&'v str>,
    /// The work, as written (revision B).
    pub work_id: Option<&'v str>,
}

impl<'v> Envelope<'v> {
    /// The unit of work it names: the interaction of revision A, the work of revision B.
    pub fn work(&self) -> Option<&'v str> {
        match self.revision {
            Revision::A => self.interaction_id,
            Revision::B => self.work_id,
        }
    }

    /// A known extension key's value (AG-EXT-6).
    pub fn extension(&self, key: &str) -> Option<&'v Value<'v>> {
        self.ext.and_then(|ext| ext.get(key))
    }
}

/// Reads the JSON layer: step 1 (AG-JSON-1 to AG-JSON-6).
pub fn parse<'a>(text: &'a [u8], max_payload: usize) -> Result<Value<'a>, Fault> {
    let mut rules = ReadRules {
        max_bytes: max_payload,
        ..ReadRules::AGH
    };
    if fault::on("ag-repeated-names") {
        rules.duplicate_names = DuplicateNames::LastWins;
    }
    let value = read(text, &rules).map_err(|fault| {
        let error = match fault.kind {
            FaultKind::TooLarge => ErrorName::TooLarge,
            FaultKind::DuplicateName => ErrorName::DuplicateKey,
            _ => ErrorName::NotJson,
        };
        Fault::new(error, Stage::Parse)
    })?;
    match value {
        Value::Object(_) => Ok(value),
        _ => Err(Fault::new(ErrorName::NotObject, Stage::Parse)),
    }
}

/// The members of an envelope by name, in the order in which faults are looked for.
#[derive(Default)]
struct Members<'v> {
    protocol: Option<&'v Value<'v>>,
    id: Option<&'v Value<'v>>,
    kind: Option<&'v Value<'v>>,
    channel: Option<&'v Value<'v>>,
    from: Option<&'v Value<'v>>,
    to: Option<&'v Value<'v>>,
    interaction_id: Option<&'v Value<'v>>,
    reply_to: Option<&'v Value<'v>>,
    trace_id: Option<&'v Value<'v>>,
    causation_id: Option<&'v Value<'v>>,
    ts: Option<&'v Value<'v>>,
    expires_at: Option<&'v Value<'v>>,
    body: Option<&'v Value<'v>>,
    proof: Option<&'v Value<'v>>,
    ext: Option<&'v Value<'v>>,
    workspace_id: Option<&'v Value<'v>>,
    surface: Option<&'v Value<'v>>,
    thread_id: Option<&'v Value<'v>>,
    direct_id: Option<&'v Value<'v>>,
    work_id: Option<&'v Value<'v>>,
    /// The first member of no known name.
    unknown: Option<&'v str>,
}

impl<'v> Members<'v> {
    fn of(envelope: &'v Object<'v>) -> Self {
        let mut members = Self::default();
        for (name, value) in envelope.iter() {
            let slot = match name {
                "protocol" => &mut members.protocol,
                "id" => &mut members.id,
                "kind" => &mut members.kind,
                "channel" => &mut members.channel,
                "from" => &mut members.from,
                "to" => &mut members.to,
                "interaction_id" => &mut members.interaction_id,
                "reply_to" => &mut members.reply_to,
                "trace_id" => &mut members.trace_id,
                "causation_id" => &mut members.causation_id,
                "ts" => &mut members.ts,
                "expires_at" => &mut members.expires_at,
                "body" => &mut members.body,
                "proof" => &mut members.proof,
                "ext" => &mut members.ext,
                "workspace_id" => &mut members.workspace_id,
                "surface" => &mut members.surface,
                "thread_id" => &mut members.thread_id,
                "direct_id" => &mut members.direct_id,
                "work_id" => &mut members.work_id,
                other => {
                    members.unknown.get_or_insert(other);
                    continue;
                }
            };
            *slot = Some(value);
        }
        members
    }

    fn marks_b(&self) -> Option<&'static str> {
        let marks = [
            ("workspace_id", self.workspace_id),
            ("surface", self.surface),
            ("thread_id", self.thread_id),
            ("direct_id", self.direct_id),
            ("work_id", self.work_id),
        ];
        marks
            .into_iter()
            .find_map(|(name, value)| value.map(|_| name))
    }

    fn marks_a(&self) -> bool {
        let is_direct = self
            .kind
            .is_some_and(|kind| kind.as_str() == Some(Kind::Direct.as_str()));
        self.interaction_id.is_some() || is_direct
    }

    /// Which revision the envelope is of (AG-B-41, AG-B-42).
    fn revision(&self, mode: Mode) -> Result<Revision, Fault> {
        match mode {
            Mode::A => match self.marks_b() {
                Some(name) => Err(Fault::member(ErrorName::UnknownField, name)),
                None => Ok(Revision::A),
            },
            Mode::B => match self.interaction_id {
                Some(_) => Err(Fault::member(
                    ErrorName::LegacyFieldRejected,
                    "interaction_id",
                )),
                None => Ok(Revision::B),
            },
            Mode::Dual => match (self.marks_a(), self.marks_b()) {
                (_, None) => Ok(Revision::A),
                (false, Some(_)) => Ok(Revision::B),
                (true, Some(_)) => Err(Fault::new(ErrorName::MixedRevision, Stage::Members)),
            },
        }
    }

    fn check_presence(&self, revision: Revision) -> Result<(), Fault> {
        let required = [
            ("protocol", self.protocol),
            ("id", self.id),
            ("kind", self.kind),
            ("channel", self.channel),
            ("from", self.from),
            ("ts", self.ts),
            ("body", self.body),
        ];
        for (name, value) in required {
            if value.is_none() {
                return Err(Fault::member(ErrorName::MissingField, name));
            }
        }
        if revision == Revision::B && self.workspace_id.is_none() {
            return Err(Fault::member(ErrorName::MissingField, "workspace_id"));
        }
        match self.unknown {
            Some(_) if fault::on("ag-unknown-member") => Ok(()),
            Some(name) => {
                Err(Fault::new(ErrorName::UnknownField, Stage::Members).at(shown_name(name)))
            }
            None => Ok(()),
        }
    }
}

/// A name of the sender's choosing, cut to what a log line can bear.
fn shown_name(name: &str) -> String {
    name.chars().take(64).collect()
}

/// Reads the members of a parsed envelope: step 2, in the order of AG-VAL-2.
pub fn read_members<'v>(
    envelope: &'v Object<'v>,
    settings: &Settings,
) -> Result<Envelope<'v>, Fault> {
    let members = Members::of(envelope);
    let revision = members.revision(settings.revision)?;
    members.check_presence(revision)?;
    let typed = Typed::of(&members, settings)?;
    let v1 = check_protocol(typed.protocol, settings)?;
    check_identifier(Some(typed.id), "id")?;
    let kind = Kind::parse(typed.kind).filter(|kind| kind.is_of(revision));
    typed
        .check_names(settings)
        .and_then(|()| typed.times())
        .map(|(ts, expires_at)| typed.into_envelope(revision, v1, kind, ts, expires_at))
        .map_err(|fault| match kind {
            Some(_) => fault,
            // An unknown kind ranks before the names, whatever they are.
            None => Fault::member(ErrorName::UnsupportedKind, "kind"),
        })
}

/// The members with their JSON types, not judged further.
struct Typed<'v> {
    protocol: &'v str,
    id: &'v str,
    kind: &'v str,
    channel: &'v str,
    from: &'v str,
    to: Option<&'v str>,
    interaction_id: Option<&'v str>,
    reply_to: Option<&'v str>,
    trace_id: Option<&'v str>,
    causation_id: Option<&'v str>,
    ts: &'v Value<'v>,
    expires_at: Option<&'v Value<'v>>,
    body: &'v Object<'v>,
    proof: Option<&'v Object<'v>>,
    ext: Option<&'v Object<'v>>,
    workspace_id: Option<&'v str>,
    surface: Option<&'v str>,
    thread_id: Option<&'v str>,
    direct_id: Option<&'v str>,
    work_id: Option<&'v str>,
}

impl<'v> Typed<'v> {
    fn of(members: &Members<'v>, settings: &Settings) -> Result<Self, Fault> {
        // With the trust profile every optional member of a signed envelope may be null (AG-TRU-1, AG-B-27).
        let says = |member: Option<&'v Value<'v>>| member.and_then(Value::as_str);
        let signed = says(members.protocol) == Some(PROTOCOL_V1)
            || says(members.from).is_some_and(|from| split_handle(from).is_some());
        let nullable = settings.null_optional == Nulls::Lenient
            || (settings.trust.enabled && signed)
            || fault::on("ag-null-is-absent");
        let absent =
            |value: Option<&'v Value<'v>>| value.filter(|value| !(nullable && value.is_null()));
        let or_null = |value: Option<&'v Value<'v>>| value.filter(|value| !value.is_null());
        Ok(Self {
            protocol: required_text(members.protocol, "protocol")?,
            id: required_text(members.id, "id")?,
            kind: required_text(members.kind, "kind")?,
            channel: required_text(members.channel, "channel")?,
            from: required_text(members.from, "from")?,
            to: text(or_null(members.to), "to")?,
            interaction_id: text(absent(members.interaction_id), "interaction_id")?,
            reply_to: text(absent(members.reply_to), "reply_to")?,
            trace_id: text(absent(members.trace_id), "trace_id")?,
            causation_id: text(absent(members.causation_id), "causation_id")?,
            ts: number(members.ts, "ts")?
                .ok_or_else(|| Fault::member(ErrorName::MissingField, "ts"))?,
            expires_at: number(absent(members.expires_at), "expires_at")?,
            body: object(members.body, "body")?
                .ok_or_else(|| Fault::member(ErrorName::MissingField, "body"))?,
            proof: object(or_null(members.proof), "proof")?,
            ext: object(absent(members.ext), "ext")?,
            workspace_id: text(members.workspace_id, "workspace_id")?,
            surface: text(or_null(members.surface), "surface")?,
            thread_id: text(or_null(members.thread_id), "thread_id")?,
            direct_id: text(or_null(members.direct_id), "direct_id")?,
            work_id: text(or_null(members.work_id), "work_id")?,
        })
    }

    fn check_names(&self, settings: &Settings) -> Result<(), Fault> {
        if !is_channel(self.channel) {
            return Err(Fault::member(ErrorName::InvalidChannel, "channel"));
        }
        check_peer(self.from, "from", settings)?;
        if let Some(to) = self.to {
            check_peer(to, "to", settings)?;
        }
        if self
            .workspace_id
            .is_some_and(|workspace| !is_workspace(workspace))
        {
            return Err(Fault::member(ErrorName::InvalidWorkspaceId, "workspace_id"));
        }
        check_identifier(self.interaction_id, "interaction_id")?;
        check_identifier(self.reply_to, "reply_to")?;
        check_identifier(self.trace_id, "trace_id")?;
        check_identifier(self.causation_id, "causation_id")
    }

    fn times(&self) -> Result<(u64, Option<u64>), Fault> {
        let seconds = |value: &Value<'_>, name| {
            let number = value
                .as_number()
                .ok_or_else(|| Fault::member(ErrorName::InvalidType, name))?;
            integer(number).map_err(|error| Fault::member(error, name))
        };
        let ts = seconds(self.ts, "ts")?;
        let expires_at = self
            .expires_at
            .map(|value| seconds(value, "expires_at"))
            .transpose()?;
        Ok((ts, expires_at))
    }

    fn into_envelope(
        self,
        revision: Revision,
        v1: bool,
        kind: Option<Kind>,
        ts: u64,
        expires_at: Option<u64>,
    ) -> Envelope<'v> {
        Envelope {
            revision,
            v1,
            id: self.id,
            kind,
            channel: self.channel,
            from: self.from,
            to: self.to,
            interaction_id: self.interaction_id,
            reply_to: self.reply_to,
            trace_id: self.trace_id,
            causation_id: self.causation_id,
            ts,
            expires_at,
            body: self.body,
            proof: self.proof,
            ext: self.ext,
            workspace_id: self.workspace_id,
            surface: self.surface,
            thread_id: self.thread_id,
            direct_id: self.direct_id,
            work_id: self.work_id,
        }
    }
}

fn required_text<'v>(member: Option<&'v Value<'v>>, name: &'static str) -> Result<&'v str, Fault> {
    text(member, name)?.ok_or_else(|| Fault::member(ErrorName::MissingField, name))
}

fn text<'v>(member: Option<&'v Value<'v>>, name: &'static str) -> Result<Option<&'v str>, Fault> {
    match member {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(Fault::member(ErrorName::InvalidType, name)),
    }
}

fn object<'v>(
    member: Option<&'v Value<'v>>,
    name: &'static str,
) -> Result<Option<&'v Object<'v>>, Fault> {
    match member {
        None => Ok(None),
        Some(Value::Object(object)) => Ok(Some(object)),
        Some(_) => Err(Fault::member(ErrorName::InvalidType, name)),
    }
}

fn number<'v>(
    member: Option<&'v Value<'v>>,
    name: &'static str,
) -> Result<Option<&'v Value<'v>>, Fault> {
    match member {
        None => Ok(None),
        Some(value @ Value::Number(_)) => Ok(Some(value)),
        Some(_) => Err(Fault::member(ErrorName::InvalidType, name)),
    }
}

/// Whether the protocol string is the v1 one; a version that is not spoken has a reason of its own (AG-VAL-5).
fn check_protocol(protocol: &str, settings: &Settings) -> Result<bool, Fault> {
    if protocol == PROTOCOL {
        return Ok(false);
    }
    if protocol == PROTOCOL_V1 && settings.trust.enabled {
        return Ok(true);
    }
    let is_version = protocol
        .strip_prefix("agh-network/v")
        .is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()));
    let error = if is_version && !fault::on("ag-version-is-malformed") {
        ErrorName::UnsupportedProtocol
    } else {
        ErrorName::InvalidProtocol
    };
    Err(Fault::member(error, "protocol"))
}

fn check_identifier(identifier: Option<&str>, name: &'static str) -> Result<(), Fault> {
    match identifier {
        Some(text) if is_blank(text) => Err(Fault::member(ErrorName::EmptyIdentifier, name)),
        _ => Ok(()),
    }
}

/// A Peer ID, or with the trust profile on a verified handle (AG-TRU-3).
pub(crate) fn is_peer(text: &str, settings: &Settings) -> bool {
    is_peer_id(text) || (settings.trust.enabled && split_handle(text).is_some())
}

fn check_peer(text: &str, name: &'static str, settings: &Settings) -> Result<(), Fault> {
    if is_peer(text, settings) {
        return Ok(());
    }
    Err(Fault::member(ErrorName::InvalidPeerId, name))
}

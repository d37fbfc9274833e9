//! What a local peer decides about an envelope it sends: the node adds protocol, identifier, time and proof
//! (AG-SND-1).

use chancery_core::digest::hex;
use chancery_core::json::{Object, ReadRules, Value, read};
use chancery_core::line::Line;

use crate::envelope::PROTOCOL;
use crate::fault::{ErrorName, Fault, Stage};
use crate::kind::Kind;
use crate::settings::Settings;
use crate::trust::unsigned_proof;

/// Members that the node sets; a caller may give `id` and nothing else of them.
const OF_THE_NODE: [&str; 3] = ["protocol", "ts", "proof"];

/// The members of `ext` that W3C trace context is in.
pub const TRACEPARENT: &str = "traceparent";
/// See [`TRACEPARENT`].
pub const TRACESTATE: &str = "tracestate";

/// An envelope to be sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Outgoing {
    members: Object<'static>,
    from: String,
    channel: String,
    workspace: Option<String>,
    /// Whether this node holds the sender's key and signs (AG-TRU-10).
    pub signed: bool,
}

impl Outgoing {
    /// Reads the body of a send request: an envelope without what the node sets.
    pub fn decode(body: &[u8], settings: &Settings) -> Result<Self, Fault> {
        let value = crate::envelope::parse(body, settings.max_payload)?;
        let Value::Object(members) = value else {
            return Err(Fault::new(ErrorName::NotObject, Stage::Parse));
        };
        for name in OF_THE_NODE {
            if members.contains(name) {
                return Err(Fault::member(ErrorName::UnknownField, name));
            }
        }
        Self::of(members.into_owned())
    }

    fn of(members: Object<'static>) -> Result<Self, Fault> {
        let from = required(&members, "from")?;
        let channel = required(&members, "channel")?;
        let workspace = match members.get("workspace_id") {
            None => None,
            Some(Value::String(workspace)) => Some(workspace.to_string()),
            Some(_) => return Err(Fault::member(ErrorName::InvalidType, "workspace_id")),
        };
        Ok(Self {
            members,
            from,
            channel,
            workspace,
            signed: false,
        })
    }

    /// Names the place in a trace that it is sent from, in `ext`, unless it names one itself. What is no map stays as it
    /// is: the rules say what is wrong with it.
    pub fn name_trace(&mut self, traceparent: &str, tracestate: Option<&str>) {
        let ext = self
            .members
            .get("ext")
            .map_or_else(|| Some(Object::default()), |ext| ext.as_object().cloned());
        let Some(mut ext) = ext.filter(|ext| !ext.contains(TRACEPARENT)) else {
            return;
        };
        ext.insert(TRACEPARENT, traceparent.to_owned());
        if let Some(state) = tracestate {
            ext.insert(TRACESTATE, state.to_owned());
        }
        self.members.insert("ext", Value::Object(ext));
    }

    /// Its kind, as far as it names one.
    pub fn kind(&self) -> Option<Kind> {
        let kind = self.members.get("kind").and_then(Value::as_str);
        kind.and_then(Kind::parse)
    }

    /// The same again from the line of the envelope that was made of it.
    pub(crate) fn of_line(line: &Line) -> Result<Self, Fault> {
        let not_json = |_| Fault::new(ErrorName::NotJson, Stage::Parse);
        let value = read(&line.envelope, &ReadRules::OWN).map_err(not_json)?;
        let Value::Object(members) = value else {
            return Err(Fault::new(ErrorName::NotObject, Stage::Parse));
        };
        let mut members = members.into_owned();
        let signed = members.get("proof").is_some_and(|proof| !proof.is_null());
        for name in OF_THE_NODE {
            members.remove(name);
        }
        // An identifier that the node made follows from the nonce again.
        if line.meta_json("nonce").is_some() {
            members.remove("id");
        }
        let mut outgoing = Self::of(members)?;
        outgoing.signed = signed;
        Ok(outgoing)
    }

    /// The workspace, channel and Peer ID that it is sent from.
    pub fn place(&self) -> (Option<&str>, &str, &str) {
        (self.workspace.as_deref(), &self.channel, &self.from)
    }

    /// The identifier, when the caller gave one.
    pub(crate) fn has_id(&self) -> bool {
        self.members.contains("id")
    }

    /// The whole envelope, unsealed when it is to be signed. Work that is asked for ends with the replay age unless
    /// the caller says otherwise (AG-FRS-7).
    pub(crate) fn envelope(
        &self,
        id: Option<String>,
        now: i64,
        public_key: Option<&str>,
        settings: &Settings,
    ) -> Option<Object<'static>> {
        let mut members = self.members.clone();
        members.insert("protocol", PROTOCOL);
        if let Some(id) = id {
            members.insert("id", id);
        }
        members.insert("ts", now);
        if !members.contains("to") {
            members.insert("to", Value::Null);
        }
        let proof = if self.signed {
            let public = hex::decode_array(public_key?).ok()?;
            Value::Object(unsigned_proof(&public))
        } else {
            Value::Null
        };
        members.insert("proof", proof);
        let is_direct = members.get("kind").and_then(Value::as_str) == Some(Kind::Direct.as_str());
        if is_direct && !members.contains("expires_at") {
            let age = i64::try_from(settings.max_replay_age_s).unwrap_or(i64::MAX);
            members.insert("expires_at", now.saturating_add(age));
        }
        Some(members)
    }
}

fn required(members: &Object<'_>, name: &'static str) -> Result<String, Fault> {
    match members.get(name) {
        None => Err(Fault::member(ErrorName::MissingField, name)),
        Some(Value::String(text)) => Ok(text.to_string()),
        Some(_) => Err(Fault::member(ErrorName::InvalidType, name)),
    }
}

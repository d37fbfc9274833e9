//! The native binding: `POST …/a2a/message/send` as bytes in and bytes out (section 10).
//!
//! The door moves bytes and the node decides; what a request is and how an answer looks is said here, once.

use bytes::Bytes;
use chancery_core::canonical::{Dialect, to_bytes};
use chancery_core::fault;
use chancery_core::json::{Object, Value};
use chancery_core::refusal::Refusal;

use crate::error::{Part, ProtocolError, rpc_code_of};
use crate::message::Message;
use crate::settings::Settings;
use crate::wire::{METADATA_KEY, METHOD, read_json};

/// The media type of every answer.
pub const MEDIA_TYPE: &str = "application/json";
/// What an error's details are, in the words of google.rpc.
const ERROR_INFO: &str = "type.googleapis.com/google.rpc.ErrorInfo";

/// The id of a JSON-RPC request as JSON text: it is echoed with its type (VA-WIRE-10).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RpcId(String);

impl Default for RpcId {
    fn default() -> Self {
        Self("null".to_owned())
    }
}

impl RpcId {
    /// The id of a request; null where there is none.
    #[must_use]
    pub fn of(body: &Value<'_>) -> Self {
        let id = body.get("id").unwrap_or(&Value::Null);
        Self(String::from_utf8_lossy(&to_bytes(id, Dialect::Python)).into_owned())
    }

    /// As JSON.
    #[must_use]
    pub fn as_json(&self) -> &str {
        &self.0
    }
}

/// Whether a request's media type is one that is read: JSON, or none at all (VA-SRV-2).
pub fn check_media_type(media_type: Option<&[u8]>) -> Result<(), ProtocolError> {
    let Some(media_type) = media_type else {
        return Ok(());
    };
    let essence = media_type.split(|byte| *byte == b';').next();
    let essence = essence.unwrap_or_default().trim_ascii();
    if essence.eq_ignore_ascii_case(MEDIA_TYPE.as_bytes()) || fault::on("va-any-media-type") {
        Ok(())
    } else {
        Err(ProtocolError::UnsupportedMedia)
    }
}

/// Reads a request: its id, and the message or why there is none (checks 1 and 2 of VA-SRV-4).
pub fn read_request(body: &Bytes, settings: &Settings) -> (RpcId, Result<Message, ProtocolError>) {
    let value = match read_json(body, settings.max_bytes) {
        Ok(value) => value,
        Err(error) => return (RpcId::default(), Err(error)),
    };
    let id = RpcId::of(&value);
    let message = check_frame(&value)
        .and_then(|()| Message::of_body(&value))
        .and_then(|message| message.check_limits(settings).map(|()| message));
    (id, message)
}

/// VA-SRV-3.
fn check_frame(body: &Value<'_>) -> Result<(), ProtocolError> {
    let frame = |reason: &'static str, part| ProtocolError::format(reason).of_part(part);
    let Some(body) = body.as_object() else {
        return Err(frame("the body is no object", Part::Frame));
    };
    let text = |name| body.get(name).and_then(Value::as_str);
    if text("jsonrpc") != Some("2.0") && !fault::on("va-any-frame") {
        return Err(frame("jsonrpc is not \"2.0\"", Part::Frame));
    }
    match text("method") {
        Some(METHOD) => Ok(()),
        Some(_) => Err(frame(
            "this path has the method message/send alone",
            Part::Method,
        )),
        None => Err(frame("method is missing", Part::Frame)),
    }
}

/// The body of an answer: `message` is the recorded message object (VA-WIRE-10).
#[must_use]
pub fn answer(id: &RpcId, message: &[u8]) -> Vec<u8> {
    let pieces: [&[u8]; 5] = [
        b"{\"jsonrpc\":\"2.0\",\"id\":",
        id.0.as_bytes(),
        b",\"result\":{\"message\":",
        message,
        b"}}",
    ];
    pieces.concat()
}

/// The body of a refusal (VA-SRV-10). `response` is the recorded answer to the last accepted request, for the sender
/// who sent that one again (VA-SRV-12).
#[must_use]
pub fn refusal(id: &RpcId, refusal: &Refusal, response: Option<&[u8]>) -> Vec<u8> {
    let detail = detail(refusal);
    let metadata = OutOfTurn::of(refusal).map_or_else(Object::new, |place| {
        Object::new()
            .with("last_sequence_no", place.last_sequence_no.to_string())
            .with("chain_tip", place.chain_tip)
    });
    let info = Object::with_capacity(4)
        .with("@type", ERROR_INFO)
        .with("reason", refusal.code)
        .with("domain", METADATA_KEY)
        .with("metadata", metadata);
    let error = Object::with_capacity(3)
        .with("code", i64::from(rpc_code_of(refusal)))
        .with("message", detail.as_str())
        .with("data", vec![Value::from(info)]);
    let mut out = b"{\"jsonrpc\":\"2.0\",\"id\":".to_vec();
    out.extend_from_slice(id.0.as_bytes());
    out.extend_from_slice(b",\"detail\":");
    chancery_core::canonical::write_string(&detail, &mut out);
    out.extend_from_slice(b",\"error\":");
    out.extend_from_slice(&to_bytes(&error.into(), Dialect::Python));
    if let Some(response) = response {
        out.pop();
        out.extend_from_slice(b",\"response\":");
        out.extend_from_slice(response);
        out.push(b'}');
    }
    out.push(b'}');
    out
}

fn detail(refusal: &Refusal) -> String {
    match &refusal.path {
        Some(path) => format!("{} (at {path})", refusal.message),
        None => refusal.message.to_string(),
    }
}

/// Where the sender's own chain stands, told to the one who sent out of turn (VA-SRV-11).
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct OutOfTurn {
    /// The line of the answer to the last accepted request, when that very request was sent again and its answer is
    /// on record (VA-SRV-12).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<u64>,
    /// The hash of the last accepted envelope.
    pub chain_tip: String,
    /// Its number.
    pub last_sequence_no: u64,
}

impl OutOfTurn {
    /// What a refusal tells about the chain.
    #[must_use]
    pub fn of(refusal: &Refusal) -> Option<Self> {
        serde_json::from_str(refusal.details.as_deref()?).ok()
    }

    /// The refusal of what came out of turn.
    #[must_use]
    pub fn refuse(&self, error: ProtocolError) -> Refusal {
        let mut refusal = Refusal::from(error);
        refusal.details = serde_json::to_string(self).ok();
        refusal
    }
}

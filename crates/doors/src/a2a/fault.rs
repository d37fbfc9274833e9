//! What went wrong, in the words of each binding.

use std::borrow::Cow;

use chancery_core::refusal::Refusal;
use chancery_vacant::error::rpc_code_of;
use chancery_vacant::native::OutOfTurn;
use chancery_vacant::wire::METADATA_KEY;
use serde_json::{Map, Value, json};

const ERROR_INFO: &str = "type.googleapis.com/google.rpc.ErrorInfo";
const A2A_DOMAIN: &str = "a2a-protocol.org";

/// The errors that A2A itself names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// No such task, or none that the caller may see.
    TaskNotFound,
    /// The task has ended.
    TaskNotCancelable,
    /// This agent notifies nobody.
    PushNotificationNotSupported,
    /// This agent does not do that.
    UnsupportedOperation,
    /// A kind of content that the agent does not read.
    ContentTypeNotSupported,
    /// There is no other card.
    ExtendedAgentCardNotConfigured,
    /// The agent asks for an extension that the message does not use.
    ExtensionSupportRequired,
    /// A version that is not spoken here.
    VersionNotSupported,
    /// The body is no JSON.
    Parse,
    /// The frame is wrong.
    InvalidRequest,
    /// No such method.
    MethodNotFound,
    /// A parameter is missing or wrong.
    InvalidParams,
    /// The agent failed.
    Internal,
}

impl Kind {
    /// Every one of them.
    pub(crate) const ALL: [Self; 13] = [
        Self::TaskNotFound,
        Self::TaskNotCancelable,
        Self::PushNotificationNotSupported,
        Self::UnsupportedOperation,
        Self::ContentTypeNotSupported,
        Self::ExtendedAgentCardNotConfigured,
        Self::ExtensionSupportRequired,
        Self::VersionNotSupported,
        Self::Parse,
        Self::InvalidRequest,
        Self::MethodNotFound,
        Self::InvalidParams,
        Self::Internal,
    ];

    /// Code, HTTP status, its name in google.rpc, and the reason (A2A 1.0, section 5.4).
    pub(crate) const fn row(self) -> (i32, u16, &'static str, &'static str) {
        match self {
            Self::TaskNotFound => (-32001, 404, "NOT_FOUND", "TASK_NOT_FOUND"),
            Self::TaskNotCancelable => (-32002, 409, "FAILED_PRECONDITION", "TASK_NOT_CANCELABLE"),
            Self::PushNotificationNotSupported => (
                -32003,
                400,
                "UNIMPLEMENTED",
                "PUSH_NOTIFICATION_NOT_SUPPORTED",
            ),
            Self::UnsupportedOperation => (-32004, 400, "UNIMPLEMENTED", "UNSUPPORTED_OPERATION"),
            Self::ContentTypeNotSupported => (
                -32005,
                415,
                "INVALID_ARGUMENT",
                "CONTENT_TYPE_NOT_SUPPORTED",
            ),
            Self::ExtendedAgentCardNotConfigured => (
                -32007,
                400,
                "FAILED_PRECONDITION",
                "EXTENDED_AGENT_CARD_NOT_CONFIGURED",
            ),
            Self::ExtensionSupportRequired => (
                -32008,
                400,
                "FAILED_PRECONDITION",
                "EXTENSION_SUPPORT_REQUIRED",
            ),
            Self::VersionNotSupported => (-32009, 400, "UNIMPLEMENTED", "VERSION_NOT_SUPPORTED"),
            Self::Parse => (-32700, 400, "INVALID_ARGUMENT", "PARSE_ERROR"),
            Self::InvalidRequest => (-32600, 400, "INVALID_ARGUMENT", "INVALID_REQUEST"),
            Self::MethodNotFound => (-32601, 404, "NOT_FOUND", "METHOD_NOT_FOUND"),
            Self::InvalidParams => (-32602, 400, "INVALID_ARGUMENT", "INVALID_PARAMS"),
            Self::Internal => (-32603, 500, "INTERNAL", "INTERNAL_ERROR"),
        }
    }
}

/// An error on its way to the caller.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    code: i32,
    status: u16,
    name: &'static str,
    reason: Cow<'static, str>,
    domain: &'static str,
    message: Cow<'static, str>,
    metadata: Map<String, Value>,
    response: Option<Value>,
    retry_after_s: Option<u32>,
}

impl Fault {
    /// One of A2A's own errors.
    pub fn new(kind: Kind, message: impl Into<Cow<'static, str>>) -> Self {
        let (code, status, name, reason) = kind.row();
        Self {
            code,
            status,
            name,
            reason: reason.into(),
            domain: A2A_DOMAIN,
            message: message.into(),
            metadata: Map::new(),
            response: None,
            retry_after_s: None,
        }
    }

    /// The agent asks for envelopes (VA-A2A-5).
    pub(crate) fn envelope_required() -> Self {
        let message = "a message has to carry an envelope in metadata[\"urn:vacant:v1\"]";
        Self {
            reason: "EXTENSION_REQUIRED".into(),
            domain: METADATA_KEY,
            ..Self::new(Kind::ExtensionSupportRequired, message)
        }
    }

    /// A bound was reached.
    pub(crate) fn overloaded(message: &'static str) -> Self {
        Self {
            code: -31503,
            status: 503,
            name: "UNAVAILABLE",
            reason: "OVERLOADED".into(),
            domain: METADATA_KEY,
            retry_after_s: Some(1),
            ..Self::new(Kind::Internal, message)
        }
    }

    /// What the node refused (VA-A2A-9); `response` is the answer that the caller lost (VA-SRV-12).
    pub(crate) fn of_refusal(refusal: &Refusal, response: Option<Value>) -> Self {
        let mut metadata = Map::new();
        if let Some(place) = OutOfTurn::of(refusal) {
            let last = place.last_sequence_no.to_string();
            metadata.insert("last_sequence_no".to_owned(), last.into());
            metadata.insert("chain_tip".to_owned(), place.chain_tip.into());
        }
        let message = match &refusal.path {
            Some(path) => format!("{} (at {path})", refusal.message).into(),
            None => refusal.message.clone(),
        };
        let code = match refusal.code {
            "UNSUPPORTED_OPERATION" => Kind::UnsupportedOperation.row().0,
            _ => rpc_code_of(refusal),
        };
        Self {
            code,
            status: refusal.status,
            name: name_of_status(refusal.status),
            reason: refusal.code.into(),
            domain: METADATA_KEY,
            message,
            metadata,
            response,
            retry_after_s: refusal.retry_after_s,
        }
    }

    /// The HTTP status, where the binding tells one.
    #[must_use]
    pub const fn status(&self) -> u16 {
        self.status
    }

    /// After how many seconds to try again.
    pub(crate) const fn retry_after_s(&self) -> Option<u32> {
        self.retry_after_s
    }

    fn info(&self) -> Value {
        json!({
            "@type": ERROR_INFO,
            "reason": self.reason,
            "domain": self.domain,
            "metadata": self.metadata,
        })
    }

    /// The error object of JSON-RPC.
    pub(crate) fn to_rpc(&self) -> Value {
        let mut error = json!({
            "code": self.code,
            "message": self.message,
            "data": [self.info()],
        });
        if let Some(response) = &self.response {
            error["response"] = response.clone();
        }
        error
    }

    /// The body on the HTTP+JSON binding (AIP-193). Clients there know an error of A2A by its reason alone, so the one
    /// that has another reason here is told in both words.
    pub(crate) fn to_rest(&self) -> Value {
        let required = Kind::ExtensionSupportRequired;
        let mut details = vec![self.info()];
        if self.code == required.row().0 && self.domain != A2A_DOMAIN {
            details.insert(0, Self::new(required, "").info());
        }
        let mut error = json!({
            "code": self.status,
            "status": self.name,
            "message": self.message,
            "details": details,
        });
        if let Some(response) = &self.response {
            error["response"] = response.clone();
        }
        json!({ "error": error })
    }
}

const fn name_of_status(status: u16) -> &'static str {
    match status {
        401 => "UNAUTHENTICATED",
        404 | 410 => "NOT_FOUND",
        409 => "ABORTED",
        421 | 423 => "FAILED_PRECONDITION",
        503 => "UNAVAILABLE",
        504 => "DEADLINE_EXCEEDED",
        500..=599 => "INTERNAL",
        _ => "INVALID_ARGUMENT",
    }
}

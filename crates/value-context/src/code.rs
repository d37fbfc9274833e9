//! The closed list of refusals (VX-ERR-2).
//!
//! A [`Fault`] says what is wrong, where, and under which requirement. Its message is for people, at most
//! 200 characters, and never repeats a value of the refused message.

use chancery_core::json::{Path, Place};
use chancery_core::refusal::Refusal;
use std::borrow::Cow;
use std::fmt;

/// Longest message of a fault in characters.
pub const MAX_MESSAGE_LENGTH: usize = 200;

/// Every way in which a message can be refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    /// The body is not I-JSON.
    MalformedJson,
    /// A structural or grammar fault.
    SchemaInvalid,
    /// Another protocol version.
    UnsupportedVersion,
    /// The context string is outside its grammar.
    ContextInvalid,
    /// The value of a known constraint type is wrong.
    ConstraintInvalid,
    /// Stamped too long ago.
    TimestampStale,
    /// Stamped too far ahead.
    TimestampFuture,
    /// No signature where one is required.
    SignatureMissing,
    /// The signature does not verify under any key of the sender.
    SignatureInvalid,
    /// The signature verifies only under a key that is not usable.
    KeyNotValid,
    /// No trust entry for the sender.
    SenderUnknown,
    /// The sender may not send this to the recipient.
    NotAuthorized,
    /// The recipient is not hosted here.
    RecipientUnknown,
    /// Another path.
    NotFound,
    /// Another method than POST.
    MethodNotAllowed,
    /// The body did not arrive in time.
    Timeout,
    /// The body is larger than the limit.
    PayloadTooLarge,
    /// Another media type than JSON.
    UnsupportedMediaType,
    /// The sender is held suspended.
    SenderSuspended,
    /// Too many messages.
    RateLimited,
    /// A fault of the node itself.
    Internal,
    /// The message type is switched off.
    TypeDisabled,
    /// Queue or memory full, or shutting down.
    Overloaded,
}

/// What the table says about one code: wire name, HTTP status, whether a retry can help, requirement.
struct Entry(&'static str, u16, bool, &'static str);

impl Code {
    /// All codes in the order of the specification's table.
    pub const ALL: [Self; 23] = [
        Self::MalformedJson,
        Self::SchemaInvalid,
        Self::UnsupportedVersion,
        Self::ContextInvalid,
        Self::ConstraintInvalid,
        Self::TimestampStale,
        Self::TimestampFuture,
        Self::SignatureMissing,
        Self::SignatureInvalid,
        Self::KeyNotValid,
        Self::SenderUnknown,
        Self::NotAuthorized,
        Self::RecipientUnknown,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::Timeout,
        Self::PayloadTooLarge,
        Self::UnsupportedMediaType,
        Self::SenderSuspended,
        Self::RateLimited,
        Self::Internal,
        Self::TypeDisabled,
        Self::Overloaded,
    ];

    const fn entry(self) -> Entry {
        match self {
            Self::MalformedJson => Entry("malformed_json", 400, false, "VX-ENV-6"),
            Self::SchemaInvalid => Entry("schema_invalid", 400, false, "VX-ENV-4"),
            Self::UnsupportedVersion => Entry("unsupported_version", 400, false, "VX-ENV-3"),
            Self::ContextInvalid => Entry("context_invalid", 400, false, "VX-CTX-8"),
            Self::ConstraintInvalid => Entry("constraint_invalid", 400, false, "VX-CP-2"),
            Self::TimestampStale => Entry("timestamp_stale", 400, false, "VX-RPL-1"),
            Self::TimestampFuture => Entry("timestamp_future", 400, true, "VX-RPL-1"),
            Self::SignatureMissing => Entry("signature_missing", 401, false, "VX-SIG-2"),
            Self::SignatureInvalid => Entry("signature_invalid", 401, false, "VX-SIG-4"),
            Self::KeyNotValid => Entry("key_not_valid", 401, false, "VX-KEY-5"),
            Self::SenderUnknown => Entry("sender_unknown", 403, false, "VX-ERR-2"),
            Self::NotAuthorized => Entry("not_authorized", 403, false, "VX-ERR-2"),
            Self::RecipientUnknown => Entry("recipient_unknown", 404, false, "VX-ERR-2"),
            Self::NotFound => Entry("not_found", 404, false, "VX-HTTP-2"),
            Self::MethodNotAllowed => Entry("method_not_allowed", 405, false, "VX-HTTP-1"),
            Self::Timeout => Entry("timeout", 408, true, "VX-ERR-2"),
            Self::PayloadTooLarge => Entry("payload_too_large", 413, false, "VX-ENV-7"),
            Self::UnsupportedMediaType => Entry("unsupported_media_type", 415, false, "VX-HTTP-3"),
            Self::SenderSuspended => Entry("sender_suspended", 423, false, "VX-RUN-4"),
            Self::RateLimited => Entry("rate_limited", 429, true, "VX-ERR-4"),
            Self::Internal => Entry("internal", 500, true, "VX-ERR-2"),
            Self::TypeDisabled => Entry("type_disabled", 501, false, "VX-ERR-2"),
            Self::Overloaded => Entry("overloaded", 503, true, "VX-ERR-2"),
        }
    }

    /// The code as it stands in an answer.
    pub const fn as_str(self) -> &'static str {
        self.entry().0
    }

    /// The HTTP status of an answer with this code.
    pub const fn status(self) -> u16 {
        self.entry().1
    }

    /// Whether sending the same message again can help.
    pub const fn retryable(self) -> bool {
        self.entry().2
    }

    /// The requirement behind the code, where no closer one is named.
    pub const fn requirement(self) -> &'static str {
        self.entry().3
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One refusal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct Fault {
    /// Which refusal it is.
    pub code: Code,
    /// The member at fault, when one is.
    pub path: Option<Path>,
    /// What is wrong, for people.
    pub message: Cow<'static, str>,
    /// The requirement that the message fails.
    pub requirement: &'static str,
}

impl Fault {
    /// A fault of the message as a whole.
    pub fn new(code: Code, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code,
            path: None,
            message: message.into(),
            requirement: code.requirement(),
        }
    }

    /// The same fault, of the member at `place`.
    #[must_use]
    pub fn at(mut self, place: &Place<'_>) -> Self {
        self.path = Some(place.to_path());
        self
    }

    /// The same fault under the requirement that it breaks most closely.
    #[must_use]
    pub const fn under(mut self, requirement: &'static str) -> Self {
        self.requirement = requirement;
        self
    }

    /// An input that this build has no use for.
    pub(crate) fn not_here(message: &'static str) -> Refusal {
        Self::new(Code::Internal, message).into_refusal("")
    }

    /// This fault as the spine carries it, found by `check`.
    pub fn into_refusal(self, check: &'static str) -> Refusal {
        let mut refusal =
            Refusal::new(self.code.as_str(), self.code.status(), self.requirement, "")
                .in_check(check);
        refusal.retryable = self.code.retryable();
        refusal.message = self.message;
        refusal.path = self.path.as_ref().map(Path::to_pointer);
        refusal
    }

    /// A structural fault of the member at `place`.
    pub(crate) fn schema(
        place: &Place<'_>,
        message: impl Into<Cow<'static, str>>,
        requirement: &'static str,
    ) -> Self {
        Self::new(Code::SchemaInvalid, message)
            .at(place)
            .under(requirement)
    }
}

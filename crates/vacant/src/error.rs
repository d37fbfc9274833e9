//! Everything that can be wrong with an envelope, a card or a call, in one list (VA-ERR-1, VA-ERR-2).
//!
//! A message of an error holds short ids, numbers and hashes, never a text of the payload or key material (VA-ERR-3).

use std::borrow::Cow;

use chancery_core::refusal::{Refusal, Whose};

use crate::state::State;

/// Which part of the format is at fault: bindings that speak JSON-RPC tell them apart (VA-A2A-9).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// The bytes are no JSON.
    Json,
    /// The JSON-RPC frame around the envelope.
    Frame,
    /// The method that the frame names.
    Method,
    /// A part of the payload that is no text.
    Content,
    /// The envelope itself.
    #[default]
    Envelope,
}

impl Part {
    const ALL: [Self; 5] = [
        Self::Json,
        Self::Frame,
        Self::Method,
        Self::Content,
        Self::Envelope,
    ];

    const fn check(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Frame => "frame",
            Self::Method => "method",
            Self::Content => "content",
            Self::Envelope => "parse",
        }
    }

    const fn rpc_code(self) -> i32 {
        match self {
            Self::Json => -32700,
            Self::Frame => -32600,
            Self::Method => -32601,
            Self::Content => -32005,
            Self::Envelope => -32602,
        }
    }
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// Wrong shape, missing or invalid field, bad card, bad result.
    #[error("{reason}{}", at(path.as_deref()))]
    EnvelopeFormat {
        /// What is wrong.
        reason: Cow<'static, str>,
        /// Where, as a JSON pointer.
        path: Option<String>,
        /// Which part of the format.
        part: Part,
    },
    /// A signature that does not verify for the claimed sender; a card that does not verify.
    #[error("{0}")]
    EnvelopeSignature(&'static str),
    /// A card of a version that this build does not know.
    #[error("halo_version {0} is outside the supported range 1 to 1")]
    UnsupportedHaloVersion(String),
    /// The number is not the one after the last.
    #[error("sequence_no is not the one after {last_sequence_no}")]
    ReplayDetected {
        /// The last accepted number of the pair.
        last_sequence_no: u64,
    },
    /// The number is right and the hash of the envelope before is not.
    #[error("prev_envelope_hash is not the hash of the envelope before")]
    ChainFork,
    /// Its participant is suspended (CH-ID-5).
    #[error("the vacant is suspended")]
    Suspended,
    /// The target takes no calls in its state.
    #[error("the vacant is {0} and takes no calls")]
    TargetUnavailable(State),
    /// No search, no match, or no endpoint.
    #[error("{0}")]
    TargetNotFound(&'static str),
    /// The envelope is for another vacant.
    #[error("to_vacant_id is not the vacant at this address")]
    Misdirected,
    /// The call did not get through, or its answer cannot be used.
    #[error("{0}")]
    Transport(Cow<'static, str>),
    /// The body is larger than the limit (CH-ID-4).
    #[error("the body is larger than the limit")]
    TooLarge,
    /// The body is not JSON by its media type (CH-ID-4).
    #[error("the media type has to be application/json")]
    UnsupportedMedia,
    /// Nothing is here (CH-ID-4).
    #[error("{0}")]
    NotFound(&'static str),
    /// The behaviour failed; the request stays accepted (VA-SRV-9).
    #[error("the behaviour failed; the request stays accepted")]
    BehaviourFailed,
    /// The behaviour took too long; the request stays accepted (VA-SRV-9).
    #[error("the behaviour took too long; the request stays accepted")]
    BehaviourTimeout,
    /// A limit was reached.
    #[error("{0}")]
    Overloaded(&'static str),
}

fn at(path: Option<&str>) -> String {
    path.map_or_else(String::new, |path| format!(" (at {path})"))
}

impl ProtocolError {
    /// A format error without a place.
    pub fn format(reason: impl Into<Cow<'static, str>>) -> Self {
        Self::EnvelopeFormat {
            reason: reason.into(),
            path: None,
            part: Part::Envelope,
        }
    }

    /// A format error at a place.
    pub fn format_at(path: impl Into<String>, reason: impl Into<Cow<'static, str>>) -> Self {
        Self::EnvelopeFormat {
            reason: reason.into(),
            path: Some(path.into()),
            part: Part::Envelope,
        }
    }

    /// The same format error, of another part.
    #[must_use]
    pub fn of_part(mut self, of: Part) -> Self {
        if let Self::EnvelopeFormat { part, .. } = &mut self {
            *part = of;
        }
        self
    }

    /// The stable code (VA-ERR-1, CH-ID-4).
    #[must_use]
    pub const fn code(&self) -> &'static str {
        match self {
            Self::EnvelopeFormat { .. } => "ENVELOPE_FORMAT",
            Self::EnvelopeSignature(_) => "ENVELOPE_SIGNATURE",
            Self::UnsupportedHaloVersion(_) => "UNSUPPORTED_HALO_VERSION",
            Self::ReplayDetected { .. } => "REPLAY_DETECTED",
            Self::ChainFork => "CHAIN_FORK",
            Self::TargetUnavailable(state) if state.is_gone() => "TARGET_GONE",
            Self::TargetUnavailable(_) | Self::Suspended => "TARGET_LOCKED",
            Self::TargetNotFound(_) => "TARGET_NOT_FOUND",
            Self::Misdirected => "MISDIRECTED",
            Self::Transport(_) => "TRANSPORT",
            Self::TooLarge => "TOO_LARGE",
            Self::UnsupportedMedia => "UNSUPPORTED_MEDIA",
            Self::NotFound(_) => "NOT_FOUND",
            Self::BehaviourFailed => "BEHAVIOUR_FAILED",
            Self::BehaviourTimeout => "BEHAVIOUR_TIMEOUT",
            Self::Overloaded(_) => "OVERLOADED",
        }
    }

    /// The name of the type in the seed's hierarchy; `ProtocolError` for those outside it.
    #[must_use]
    pub const fn type_name(&self) -> &'static str {
        match self {
            Self::EnvelopeFormat { .. } => "EnvelopeFormatError",
            Self::EnvelopeSignature(_) => "EnvelopeSignatureError",
            Self::UnsupportedHaloVersion(_) => "UnsupportedHaloVersionError",
            Self::ReplayDetected { .. } => "ReplayDetectedError",
            Self::ChainFork => "ChainForkError",
            Self::TargetUnavailable(_) | Self::Suspended => "TargetUnavailableError",
            Self::TargetNotFound(_) => "TargetNotFoundError",
            _ => "ProtocolError",
        }
    }

    /// The status on the native binding.
    #[must_use]
    pub const fn status(&self) -> u16 {
        match self {
            Self::EnvelopeFormat { .. } | Self::UnsupportedHaloVersion(_) => 400,
            Self::EnvelopeSignature(_) => 401,
            Self::ReplayDetected { .. } | Self::ChainFork => 409,
            Self::TargetUnavailable(state) => state.status(),
            Self::Suspended => 423,
            Self::TargetNotFound(_) | Self::NotFound(_) => 404,
            Self::Misdirected => 421,
            Self::Transport(_) => 502,
            Self::TooLarge => 413,
            Self::UnsupportedMedia => 415,
            Self::BehaviourFailed => 500,
            Self::BehaviourTimeout => 504,
            Self::Overloaded(_) => 503,
        }
    }

    /// The code in a JSON-RPC error object (VA-SRV-10, VA-A2A-9).
    #[must_use]
    pub const fn rpc_code(&self) -> i32 {
        match self {
            Self::EnvelopeFormat { part, .. } => part.rpc_code(),
            Self::UnsupportedHaloVersion(_) => Part::Envelope.rpc_code(),
            Self::EnvelopeSignature(_) => -31401,
            Self::ReplayDetected { .. } => -31409,
            Self::ChainFork => -31419,
            Self::TargetUnavailable(state) if state.is_gone() => -31410,
            Self::TargetUnavailable(_) | Self::Suspended => -31423,
            Self::TargetNotFound(_) | Self::NotFound(_) => -31404,
            Self::Misdirected => -31421,
            Self::Transport(_) => -31502,
            Self::TooLarge => -31413,
            Self::UnsupportedMedia => -31415,
            Self::BehaviourFailed | Self::BehaviourTimeout => -32603,
            Self::Overloaded(_) => -31503,
        }
    }

    /// The requirement behind it.
    #[must_use]
    pub const fn requirement(&self) -> &'static str {
        match self {
            Self::EnvelopeFormat { .. } => "VA-WIRE-4",
            Self::EnvelopeSignature(_) => "VA-ENV-8",
            Self::UnsupportedHaloVersion(_) => "VA-CARD-6",
            Self::ReplayDetected { .. } | Self::ChainFork => "VA-REP-3",
            Self::TargetUnavailable(_) => "VA-SRV-5",
            Self::Suspended => "CH-ID-5",
            Self::TargetNotFound(_) => "VA-DSP-3",
            Self::Misdirected => "VA-SRV-4",
            Self::Transport(_) => "VA-DSP-9",
            Self::TooLarge | Self::Overloaded(_) => "VA-SRV-14",
            Self::UnsupportedMedia => "VA-SRV-2",
            Self::NotFound(_) => "CH-ID-4",
            Self::BehaviourFailed | Self::BehaviourTimeout => "VA-SRV-9",
        }
    }

    /// The check of VA-SRV-4 that it belongs to.
    const fn check(&self) -> &'static str {
        match self {
            Self::TooLarge | Self::UnsupportedMedia => Part::Frame.check(),
            Self::EnvelopeFormat { part, .. } => part.check(),
            Self::UnsupportedHaloVersion(_) => Part::Envelope.check(),
            Self::Misdirected => "destination",
            Self::EnvelopeSignature(_) => "signature",
            Self::TargetUnavailable(_) | Self::Suspended => "state",
            Self::ReplayDetected { .. } | Self::ChainFork => "chain",
            Self::BehaviourFailed | Self::BehaviourTimeout => "behaviour",
            Self::Overloaded(_) => "capacity",
            Self::TargetNotFound(_) | Self::NotFound(_) | Self::Transport(_) => "dispatch",
        }
    }
}

impl From<ProtocolError> for Refusal {
    fn from(error: ProtocolError) -> Self {
        let mut refusal = Refusal::new(error.code(), error.status(), error.requirement(), "");
        refusal = refusal.in_check(error.check());
        match error {
            ProtocolError::EnvelopeFormat { reason, path, .. } => {
                refusal.message = reason;
                refusal.path = path;
            }
            // The request was accepted: sending the same bytes again is a replay.
            ProtocolError::BehaviourFailed | ProtocolError::BehaviourTimeout => {
                refusal.message = error.to_string().into();
                refusal.retryable = false;
                refusal.whose = Whose::Node;
            }
            other => refusal.message = other.to_string().into(),
        }
        refusal
    }
}

/// The code in a JSON-RPC error object for a refusal of this protocol (VA-SRV-10, VA-A2A-9).
#[must_use]
pub fn rpc_code_of(refusal: &Refusal) -> i32 {
    match refusal.code {
        "ENVELOPE_FORMAT" | "UNSUPPORTED_HALO_VERSION" => Part::ALL
            .into_iter()
            .find(|part| part.check() == refusal.check)
            .unwrap_or_default()
            .rpc_code(),
        "CHAIN_FORK" => -31419,
        "BEHAVIOUR_FAILED" | "BEHAVIOUR_TIMEOUT" => -32603,
        // The others mirror their status, outside the range that JSON-RPC keeps for itself.
        _ => -31000 - i32::from(refusal.status),
    }
}

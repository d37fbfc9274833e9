//! What can be wrong with an envelope: local error names, the wire reasons they map to, and where each check stands.

use std::borrow::Cow;
use std::fmt;

use chancery_core::refusal::Refusal;

use crate::revision::Revision;

/// Names with their text, in one place.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant,)* }

        impl $name {
            /// Every one of them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The word on the wire and in answers.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            /// The one of that word.
            pub fn parse(word: &str) -> Option<Self> {
                match word { $($text => Some(Self::$variant),)* _ => None }
            }
        }
    };
}
pub(crate) use words;

words! {
    /// A reason code of the registry (AG-RSN-1, AG-B-11).
    Reason {
        /// The shape failed.
        Malformed = "malformed",
        /// Not fresh.
        Expired = "expired",
        /// Processed before.
        Duplicate = "duplicate",
        /// A kind that is not known.
        UnsupportedKind = "unsupported_kind",
        /// A profile that is not known.
        UnsupportedProfile = "unsupported_profile",
        /// A digest or proof that does not hold.
        VerificationFailed = "verification_failed",
        /// Directed elsewhere.
        NotTarget = "not_target",
        /// A peer or object that is not known.
        NotFound = "not_found",
        /// Cannot take work now.
        Busy = "busy",
        /// An own error, or an impossible transition.
        Internal = "internal",
        /// The interaction has ended (revision A).
        InteractionClosed = "interaction_closed",
        /// A surface is missing or unknown (revision B).
        InvalidSurface = "invalid_surface",
        /// A conversation that is not known (revision B).
        ConversationNotFound = "conversation_not_found",
        /// The work has ended (revision B).
        WorkClosed = "work_closed",
        /// The work belongs to another container (revision B).
        WorkContainerMismatch = "work_container_mismatch",
        /// A member of revision A in revision B.
        LegacyFieldRejected = "legacy_field_rejected",
    }
}

impl Reason {
    /// Whether the registry of a revision has this code.
    pub const fn is_of(self, revision: Revision) -> bool {
        match self {
            Self::InteractionClosed => matches!(revision, Revision::A),
            Self::InvalidSurface
            | Self::ConversationNotFound
            | Self::WorkClosed
            | Self::WorkContainerMismatch
            | Self::LegacyFieldRejected => matches!(revision, Revision::B),
            _ => true,
        }
    }
}

words! {
    /// A local error name (AG-ERR-1, AG-B-48).
    ErrorName {
        /// No JSON text.
        NotJson = "not_json",
        /// JSON, but no object.
        NotObject = "not_object",
        /// A member name occurs twice.
        DuplicateKey = "duplicate_key",
        /// More bytes than allowed.
        TooLarge = "too_large",
        /// A required member is not there.
        MissingField = "missing_field",
        /// A member that the envelope does not have.
        UnknownField = "unknown_field",
        /// A member of another JSON type.
        InvalidType = "invalid_type",
        /// An integer outside 0 to 2^53 − 1.
        OutOfRange = "out_of_range",
        /// Not this protocol.
        InvalidProtocol = "invalid_protocol",
        /// This protocol in a version that is not spoken here.
        UnsupportedProtocol = "unsupported_protocol",
        /// Not a channel's name.
        InvalidChannel = "invalid_channel",
        /// Not a Peer ID.
        InvalidPeerId = "invalid_peer_id",
        /// An identifier without a visible character.
        EmptyIdentifier = "empty_identifier",
        /// A kind that is not known.
        UnsupportedKind = "unsupported_kind",
        /// Past its own end.
        Expired = "expired",
        /// Older than the replay age.
        TooOld = "too_old",
        /// From too far ahead.
        FromFuture = "from_future",
        /// The kind needs a target.
        ToRequired = "to_required",
        /// The kind has no target.
        ToForbidden = "to_forbidden",
        /// The kind needs an interaction.
        InteractionIdRequired = "interaction_id_required",
        /// The kind answers something.
        ReplyToRequired = "reply_to_required",
        /// A card of somebody else.
        PeerCardMismatch = "peer_card_mismatch",
        /// A body that does not fit the kind.
        InvalidBody = "invalid_body",
        /// The digest is not that of the capability.
        DigestMismatch = "digest_mismatch",
        /// The proof does not hold.
        ProofInvalid = "proof_invalid",
        /// A verified handle without its proof.
        ProofStripped = "proof_stripped",
        /// Directed to a peer that is not here.
        NotTarget = "not_target",
        /// A peer or object that is not known.
        NotFound = "not_found",
        /// Processed before.
        Duplicate = "duplicate",
        /// The interaction has ended.
        InteractionClosed = "interaction_closed",
        /// The interaction cannot go there.
        InvalidTransition = "invalid_transition",
        /// Cannot be taken now.
        Busy = "busy",
        /// Looks like a credential (AG-SND-4).
        SecretFound = "secret_found",
        /// The hosted sender is suspended.
        SenderSuspended = "sender_suspended",
        /// Not a workspace.
        InvalidWorkspaceId = "invalid_workspace_id",
        /// Not a thread's name.
        InvalidThreadId = "invalid_thread_id",
        /// Not a direct room's name.
        InvalidDirectId = "invalid_direct_id",
        /// Not a work's name.
        InvalidWorkId = "invalid_work_id",
        /// The kind needs a work.
        WorkIdRequired = "work_id_required",
        /// Two containers.
        ContainerConflict = "container_conflict",
        /// Not the room of these two.
        DirectRoomMismatch = "direct_room_mismatch",
        /// A conversation's member on a kind that has none.
        ConversationFieldForbidden = "conversation_field_forbidden",
        /// Members of both revisions.
        MixedRevision = "mixed_revision",
        /// A member of revision A where only B is spoken.
        LegacyFieldRejected = "legacy_field_rejected",
        /// No surface where one is needed.
        SurfaceRequired = "surface_required",
        /// A surface that is not known.
        InvalidSurface = "invalid_surface",
        /// The work has ended.
        WorkClosed = "work_closed",
        /// The work belongs to another container.
        WorkContainerMismatch = "work_container_mismatch",
        /// A task write for another channel than the one it came in by (AG-SEC-4).
        ChannelMismatch = "channel_mismatch",
        /// A task write in a channel that nobody here is in.
        StaleChannel = "stale_channel",
        /// A task write of a peer that does not claim `task.write`, or does not prove who it is.
        CapabilityDenied = "capability_denied",
        /// A task write of a peer that is not there.
        PeerNotFound = "peer_not_found",
        /// A task that is not on record.
        TaskNotFound = "task_not_found",
        /// A task write whose names are none.
        ValidationFailed = "validation_failed",
        /// A task of somebody else.
        PermissionDenied = "permission_denied",
        /// A task write that says nothing about itself.
        InvalidRequest = "invalid_request",
        /// Nobody here keeps tasks in that channel.
        TaskIngressUnavailable = "task_ingress_unavailable",
    }
}

impl ErrorName {
    /// The wire reason that the error maps to.
    pub const fn reason(self) -> Reason {
        match self {
            Self::UnsupportedProtocol => Reason::UnsupportedProfile,
            Self::UnsupportedKind => Reason::UnsupportedKind,
            Self::Expired | Self::TooOld | Self::FromFuture => Reason::Expired,
            Self::DigestMismatch
            | Self::ProofInvalid
            | Self::ProofStripped
            | Self::CapabilityDenied
            | Self::PermissionDenied => Reason::VerificationFailed,
            Self::NotTarget => Reason::NotTarget,
            Self::NotFound | Self::StaleChannel | Self::PeerNotFound | Self::TaskNotFound => {
                Reason::NotFound
            }
            Self::Duplicate => Reason::Duplicate,
            Self::InteractionClosed => Reason::InteractionClosed,
            Self::Busy | Self::SenderSuspended | Self::TaskIngressUnavailable => Reason::Busy,
            Self::InvalidTransition => Reason::Internal,
            Self::SurfaceRequired | Self::InvalidSurface => Reason::InvalidSurface,
            Self::WorkClosed => Reason::WorkClosed,
            Self::WorkContainerMismatch => Reason::WorkContainerMismatch,
            _ => Reason::Malformed,
        }
    }

    /// The requirement behind the check.
    pub const fn requirement(self) -> &'static str {
        match self {
            Self::NotJson => "AG-JSON-2",
            Self::NotObject => "AG-JSON-1",
            Self::DuplicateKey => "AG-JSON-3",
            Self::TooLarge => "AG-JSON-6",
            Self::MissingField | Self::UnknownField => "AG-ENV-16",
            Self::InvalidType => "AG-ENV-17",
            Self::OutOfRange => "AG-JSON-7",
            Self::InvalidProtocol => "AG-ENV-1",
            Self::UnsupportedProtocol => "AG-VAL-5",
            Self::InvalidChannel => "AG-ENV-4",
            Self::InvalidPeerId => "AG-ENV-5",
            Self::EmptyIdentifier => "AG-ENV-2",
            Self::UnsupportedKind => "AG-ENV-3",
            Self::Expired => "AG-FRS-2",
            Self::TooOld => "AG-FRS-4",
            Self::FromFuture => "AG-FRS-1",
            Self::ToRequired => "AG-DIR-1",
            Self::ToForbidden => "AG-SAY-2",
            Self::InteractionIdRequired => "AG-ENV-7",
            Self::ReplyToRequired => "AG-WHO-2",
            Self::PeerCardMismatch => "AG-CARD-1",
            Self::InvalidBody => "AG-KND-3",
            Self::DigestMismatch => "AG-CAP-5",
            Self::ProofInvalid => "AG-TRU-6",
            Self::ProofStripped => "AG-TRU-7",
            Self::NotTarget => "AG-RTE-1",
            Self::NotFound => "AG-PRS-7",
            Self::Duplicate => "AG-DUP-5",
            Self::InteractionClosed | Self::InvalidTransition => "AG-LIF-2",
            Self::Busy => "CH-LIM-2",
            Self::SecretFound => "AG-SND-4",
            Self::SenderSuspended => "CH-ID-5",
            Self::InvalidWorkspaceId => "AG-B-1",
            Self::InvalidThreadId => "AG-B-6",
            Self::InvalidDirectId => "AG-B-7",
            Self::InvalidWorkId | Self::WorkIdRequired => "AG-B-8",
            Self::ContainerConflict | Self::SurfaceRequired | Self::InvalidSurface => "AG-B-4",
            Self::DirectRoomMismatch => "AG-B-9",
            Self::ConversationFieldForbidden => "AG-B-5",
            Self::MixedRevision => "AG-B-41",
            Self::LegacyFieldRejected => "AG-B-42",
            Self::WorkClosed => "AG-B-22",
            Self::WorkContainerMismatch => "AG-B-21",
            Self::ChannelMismatch
            | Self::StaleChannel
            | Self::PeerNotFound
            | Self::TaskNotFound
            | Self::ValidationFailed
            | Self::PermissionDenied
            | Self::InvalidRequest
            | Self::TaskIngressUnavailable => "AG-SEC-4",
            Self::CapabilityDenied => "AG-CARD-12",
        }
    }

    /// One sentence for people.
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::NotJson => "the payload is not one JSON text",
            Self::NotObject => "the payload is not a JSON object",
            Self::DuplicateKey => "a member name occurs twice",
            Self::TooLarge => "the payload is larger than allowed",
            Self::MissingField => "a required member is missing",
            Self::UnknownField => "the envelope has no such member",
            Self::InvalidType => "the member has another JSON type",
            Self::OutOfRange => "the integer is outside 0 to 2^53 - 1",
            Self::InvalidProtocol => "protocol must be agh-network/v0",
            Self::UnsupportedProtocol => "this version of the protocol is not spoken here",
            Self::InvalidChannel => "not the name of a channel",
            Self::InvalidPeerId => "not a Peer ID",
            Self::EmptyIdentifier => "an identifier has at least one visible character",
            Self::UnsupportedKind => "this kind is not known",
            Self::Expired => "the envelope is past its own end",
            Self::TooOld => "the envelope is older than the replay age",
            Self::FromFuture => "the envelope is from too far ahead",
            Self::ToRequired => "this envelope needs a target",
            Self::ToForbidden => "this kind goes to the whole channel",
            Self::InteractionIdRequired => "this kind needs interaction_id",
            Self::ReplyToRequired => "a whois response names what it answers",
            Self::PeerCardMismatch => "the card is not that of the sender",
            Self::InvalidBody => "the body does not fit the kind",
            Self::DigestMismatch => "the digest is not that of the capability",
            Self::ProofInvalid => "the proof does not hold",
            Self::ProofStripped => "a verified handle came without its proof",
            Self::NotTarget => "the target is not a peer of this node in this channel",
            Self::NotFound => "not known here",
            Self::Duplicate => "this envelope was processed before",
            Self::InteractionClosed => "the interaction has ended",
            Self::InvalidTransition => "the interaction cannot take this step",
            Self::Busy => "the node is busy; try again",
            Self::SecretFound => "this looks like a credential",
            Self::SenderSuspended => "the sender is suspended",
            Self::InvalidWorkspaceId => "not a workspace",
            Self::InvalidThreadId => "not the name of a thread",
            Self::InvalidDirectId => "not the name of a direct room",
            Self::InvalidWorkId => "not the name of a work",
            Self::WorkIdRequired => "this kind needs work_id",
            Self::ContainerConflict => "the other container must be absent",
            Self::DirectRoomMismatch => "not the room of sender and target",
            Self::ConversationFieldForbidden => "this kind belongs to no conversation",
            Self::MixedRevision => "the envelope has members of both revisions",
            Self::LegacyFieldRejected => "interaction_id is not spoken here",
            Self::SurfaceRequired => "this kind needs a surface",
            Self::InvalidSurface => "surface is thread or direct",
            Self::WorkClosed => "the work has ended",
            Self::WorkContainerMismatch => "the work belongs to another conversation",
            Self::ChannelMismatch => "a task is written in the channel that it is for",
            Self::StaleChannel => "nobody here is in that channel",
            Self::CapabilityDenied => "the peer may not write tasks",
            Self::PeerNotFound => "the peer is not there",
            Self::TaskNotFound => "there is no such task",
            Self::ValidationFailed => "a name in the task is none",
            Self::PermissionDenied => "the task is somebody else's",
            Self::InvalidRequest => "ext agh.task has to be an object with request_id",
            Self::TaskIngressUnavailable => "nobody keeps tasks in that channel",
        }
    }
}

/// Where in the order of checks one stands; the step's number depends on the revision (AG-VAL-1, AG-B-20).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// JSON and a top-level object.
    Parse,
    /// Members, types, grammar.
    Members,
    /// Time.
    Freshness,
    /// Surface, container and work, of revision B.
    Conversation,
    /// The body, and what the kind asks of the envelope.
    Body,
    /// The trust profile, between body and routing (AG-VAL-6).
    Trust,
    /// Local peers and duplicates.
    Routing,
    /// The interaction.
    Lifecycle,
    /// Delivery.
    Delivery,
}

impl Stage {
    /// The number of the step in a revision.
    pub const fn step(self, revision: Revision) -> u8 {
        let in_a = match self {
            Self::Parse => 1,
            Self::Members => 2,
            Self::Freshness => 3,
            Self::Conversation | Self::Body | Self::Trust => 4,
            Self::Routing => 5,
            Self::Lifecycle => 6,
            Self::Delivery => 7,
        };
        let later = matches!(
            self,
            Self::Body | Self::Trust | Self::Routing | Self::Lifecycle | Self::Delivery
        );
        match revision {
            Revision::B if later => in_a + 1,
            _ => in_a,
        }
    }
}

/// What is wrong with an envelope, and where. It repeats no value of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Fault {
    /// Which error.
    pub error: ErrorName,
    /// At which check.
    pub stage: Stage,
    /// The member at fault, as `body.peer_card.peer_id`.
    pub path: Option<Cow<'static, str>>,
}

impl Fault {
    /// An error at a check.
    pub const fn new(error: ErrorName, stage: Stage) -> Self {
        Self {
            error,
            stage,
            path: None,
        }
    }

    /// The same, naming the member.
    #[must_use]
    pub fn at(mut self, path: impl Into<Cow<'static, str>>) -> Self {
        self.path = Some(path.into());
        self
    }

    /// A member of the envelope that is wrong.
    pub(crate) fn member(error: ErrorName, name: &'static str) -> Self {
        Self::new(error, Stage::Members).at(name)
    }

    /// A member of the body that is wrong.
    pub(crate) fn body(path: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ErrorName::InvalidBody, Stage::Body).at(path)
    }

    /// The wire reason.
    pub const fn reason(&self) -> Reason {
        self.error.reason()
    }

    /// The status that the HTTP door answers with (CH-NET-1).
    pub const fn status(&self) -> u16 {
        match self.error {
            ErrorName::TooLarge => 413,
            ErrorName::Busy => 503,
            ErrorName::SenderSuspended => 423,
            _ => 400,
        }
    }

    /// The fault that a refusal of this protocol's rules tells.
    pub fn of_refusal(refusal: &Refusal, revision: Revision) -> Option<Self> {
        let stages = [
            Stage::Parse,
            Stage::Members,
            Stage::Freshness,
            Stage::Body,
            Stage::Routing,
            Stage::Lifecycle,
        ];
        let is_at = |stage: &Stage| STEP_NAMES[usize::from(stage.step(revision))] == refusal.check;
        let stage = stages.into_iter().find(is_at).unwrap_or(Stage::Routing);
        let mut fault = Self::new(ErrorName::parse(refusal.code)?, stage);
        fault.path = refusal.path.clone().map(Cow::Owned);
        Some(fault)
    }

    /// The refusal that a door and the side log get.
    pub fn into_refusal(self, revision: Revision) -> Refusal {
        let mut refusal = Refusal::new(
            self.error.as_str(),
            self.status(),
            self.error.requirement(),
            self.error.sentence(),
        )
        .in_check(STEP_NAMES[usize::from(self.stage.step(revision))]);
        refusal.path = self.path.map(Cow::into_owned);
        refusal
    }
}

/// The steps by number, as side logs name them.
const STEP_NAMES: [&str; 9] = ["", "1", "2", "3", "4", "5", "6", "7", "8"];

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.error.as_str(), self.error.sentence())?;
        match &self.path {
            Some(path) => write!(f, " (at {path})"),
            None => Ok(()),
        }
    }
}

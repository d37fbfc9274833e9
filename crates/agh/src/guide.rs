//! What people are told of each error and each reason: when it comes and what to do.

use chancery_core::guide::{Guide, of_administration};

use crate::fault::{ErrorName, Reason};

/// Every error, every reason that goes over the wire, and that of a peer's record.
pub fn guides() -> Vec<Guide> {
    let errors = ERRORS.map(of_error).into_iter();
    let reasons = REASONS.map(of_reason);
    errors.chain(reasons).chain([peer_invalid()]).collect()
}

const fn peer_invalid() -> Guide {
    of_administration(
        "peer_invalid",
        400,
        "AG-ENV-5",
        "The record of a peer does not name a channel, a Peer ID and, in revision B, a workspace.",
        "The sentence of the refusal says what; compare `[[agh.peer]]` or the arguments of `chancery agent add`.",
    )
}

fn of_error((error, next): (ErrorName, &'static str)) -> Guide {
    Guide {
        group: "agh",
        code: error.as_str(),
        status: None,
        wire: Some(error.reason().as_str().to_owned()),
        again: error.reason() == Reason::Busy || error == ErrorName::FromFuture,
        requirement: error.requirement(),
        when: error.sentence(),
        next,
    }
}

fn of_reason(
    (reason, requirement, when, next): (Reason, &'static str, &'static str, &'static str),
) -> Guide {
    Guide {
        group: "agh reasons on the wire",
        code: reason.as_str(),
        status: None,
        wire: None,
        again: reason == Reason::Busy,
        requirement,
        when,
        next,
    }
}

/// What to do about each error.
static ERRORS: [(ErrorName, &str); ErrorName::ALL.len()] = [
    (
        ErrorName::NotJson,
        "Send one JSON object as a JSON library writes it.",
    ),
    (
        ErrorName::NotObject,
        "Send the envelope itself, not a list or a text that holds it.",
    ),
    (ErrorName::DuplicateKey, "Write every member once."),
    (
        ErrorName::TooLarge,
        "Send less, or put the large part elsewhere and name it; `agh.max_payload` is the limit.",
    ),
    (
        ErrorName::MissingField,
        "Add the member that the refusal names.",
    ),
    (
        ErrorName::UnknownField,
        "Leave the member out; what a sender adds of its own goes into `ext`.",
    ),
    (
        ErrorName::InvalidType,
        "Give the member that the refusal names the type of AG-ENV-17.",
    ),
    (ErrorName::OutOfRange, "Write integers from 0 to 2^53 - 1."),
    (
        ErrorName::InvalidProtocol,
        "Set `protocol` to `agh-network/v0`.",
    ),
    (
        ErrorName::UnsupportedProtocol,
        "Speak `agh-network/v0`; `[agh] revision` says which revisions this node takes.",
    ),
    (ErrorName::InvalidChannel, "Compare the name with AG-ENV-4."),
    (
        ErrorName::InvalidPeerId,
        "Compare the identifier with AG-ENV-5.",
    ),
    (
        ErrorName::EmptyIdentifier,
        "Give the identifier that the refusal names at least one visible character.",
    ),
    (ErrorName::UnsupportedKind, "Use a kind of AG-ENV-3."),
    (
        ErrorName::Expired,
        "Make a new envelope with a later `expires_at`, or with a clock that is right.",
    ),
    (
        ErrorName::TooOld,
        "Make a new envelope. If it happens to fresh ones, compare the clocks.",
    ),
    (
        ErrorName::FromFuture,
        "Compare the clocks; then make a new envelope.",
    ),
    (ErrorName::ToRequired, "Name the peer in `to`."),
    (
        ErrorName::ToForbidden,
        "Leave `to` out, or use a kind that has a target.",
    ),
    (
        ErrorName::InteractionIdRequired,
        "Name the interaction in `interaction_id`.",
    ),
    (
        ErrorName::ReplyToRequired,
        "Name the question in `reply_to`.",
    ),
    (
        ErrorName::PeerCardMismatch,
        "Send the card of the peer that `from` names.",
    ),
    (
        ErrorName::InvalidBody,
        "Give the body the members of its kind; the refusal names the first that does not fit.",
    ),
    (
        ErrorName::DigestMismatch,
        "Compute the digest over the canonical form of the capability that is sent (AG-CAP-5).",
    ),
    (
        ErrorName::ProofInvalid,
        "Sign the canonical form of this very envelope with the key of the handle (AG-TRU-6).",
    ),
    (
        ErrorName::ProofStripped,
        "Send a proof with every envelope of a verified handle, or use a name that is none.",
    ),
    (
        ErrorName::NotTarget,
        "Ask who is there: `chancery agh peers CHANNEL`, `chancery agh whois CHANNEL CAPABILITY`.",
    ),
    (
        ErrorName::NotFound,
        "See who and what is there: `chancery agh peers CHANNEL`, `chancery agh interactions CHANNEL`.",
    ),
    (
        ErrorName::Duplicate,
        "Nothing: the first one counts. A new envelope needs a new `id`.",
    ),
    (ErrorName::InteractionClosed, "Begin a new interaction."),
    (
        ErrorName::InvalidTransition,
        "See its state with `chancery agh interactions CHANNEL`, and the steps that lead from it in AG-LIF-2.",
    ),
    (ErrorName::Busy, "Wait a moment, then send the same bytes."),
    (
        ErrorName::SecretFound,
        "Take the credential out, and change it if it was a real one.",
    ),
    (
        ErrorName::SenderSuspended,
        "An administrator lets it go on: `chancery agent resume`.",
    ),
    (
        ErrorName::InvalidWorkspaceId,
        "Compare the identifier with AG-B-1.",
    ),
    (
        ErrorName::InvalidThreadId,
        "Compare the identifier with AG-B-6.",
    ),
    (
        ErrorName::InvalidDirectId,
        "Compute the identifier as AG-B-7 says.",
    ),
    (
        ErrorName::InvalidWorkId,
        "Compare the identifier with AG-B-8.",
    ),
    (ErrorName::WorkIdRequired, "Name the work in `work_id`."),
    (
        ErrorName::ContainerConflict,
        "Send `thread_id` on a thread and `direct_id` in a direct room, never both.",
    ),
    (
        ErrorName::DirectRoomMismatch,
        "Compute `direct_id` from sender and target (AG-B-9).",
    ),
    (
        ErrorName::ConversationFieldForbidden,
        "Leave surface, thread, room and work out of this kind.",
    ),
    (
        ErrorName::MixedRevision,
        "Use the members of one revision: `interaction_id` of A, or `work_id` and its container of B.",
    ),
    (
        ErrorName::LegacyFieldRejected,
        "Use `work_id`, or set `[agh] revision = \"dual\"` on the node.",
    ),
    (
        ErrorName::SurfaceRequired,
        "Set `surface` to `thread` or `direct`.",
    ),
    (
        ErrorName::InvalidSurface,
        "Set `surface` to `thread` or `direct`.",
    ),
    (ErrorName::WorkClosed, "Begin a new work."),
    (
        ErrorName::WorkContainerMismatch,
        "Send it in the thread or room that the work was begun in.",
    ),
    (
        ErrorName::ChannelMismatch,
        "Name the channel of the envelope in the task, or leave it out.",
    ),
    (
        ErrorName::StaleChannel,
        "Use a channel that a peer of the node is in.",
    ),
    (
        ErrorName::CapabilityDenied,
        "Claim `task.write` on the card of a verified handle, and sign.",
    ),
    (ErrorName::PeerNotFound, "Join the channel first."),
    (
        ErrorName::TaskNotFound,
        "Name the interaction of a task that is on record.",
    ),
    (
        ErrorName::ValidationFailed,
        "Compare the names in the task with AG-SEC-4.",
    ),
    (
        ErrorName::PermissionDenied,
        "Only the peer that began a task writes to it.",
    ),
    (
        ErrorName::InvalidRequest,
        "Give `ext[\"agh.task\"]` an object with `request_id`.",
    ),
    (
        ErrorName::TaskIngressUnavailable,
        "Name a peer of that channel in `[agh.tasks]`.",
    ),
];

/// Each reason, the requirement that lists it, when it comes, and what to do.
static REASONS: [(Reason, &str, &str, &str); Reason::ALL.len()] = [
    (
        Reason::Malformed,
        "AG-RSN-1",
        "The shape of an envelope failed.",
        "The local error beside it names the member; explain that one.",
    ),
    (
        Reason::Expired,
        "AG-RSN-1",
        "The envelope is not fresh.",
        "Make a new one; compare the clocks.",
    ),
    (
        Reason::Duplicate,
        "AG-RSN-1",
        "The envelope was processed before.",
        "Nothing: the first one counts.",
    ),
    (
        Reason::UnsupportedKind,
        "AG-RSN-1",
        "The kind is not known.",
        "Use a kind that the peer knows.",
    ),
    (
        Reason::UnsupportedProfile,
        "AG-RSN-1",
        "The version or profile is not known.",
        "Speak `agh-network/v0`.",
    ),
    (
        Reason::VerificationFailed,
        "AG-RSN-1",
        "A digest or a proof does not hold, or the sender may not do this.",
        "The local error beside it says which; explain that one.",
    ),
    (
        Reason::NotTarget,
        "AG-RSN-1",
        "The envelope is directed to a peer that is not here.",
        "Ask who is there: `chancery agh peers CHANNEL`.",
    ),
    (
        Reason::NotFound,
        "AG-RSN-1",
        "A peer or an object is not known.",
        "See what is there: `chancery agh interactions CHANNEL`.",
    ),
    (
        Reason::Busy,
        "AG-RSN-1",
        "The peer cannot take work now.",
        "Wait a moment, then try again.",
    ),
    (
        Reason::Internal,
        "AG-RSN-1",
        "An error of the peer itself, or an impossible transition.",
        "See the state with `chancery agh interactions CHANNEL`.",
    ),
    (
        Reason::InteractionClosed,
        "AG-RSN-1",
        "The interaction has ended (revision A).",
        "Begin a new one.",
    ),
    (
        Reason::InvalidSurface,
        "AG-B-11",
        "A surface is missing or unknown (revision B).",
        "Set `surface` to `thread` or `direct`.",
    ),
    (
        Reason::ConversationNotFound,
        "AG-B-11",
        "The conversation is not known (revision B).",
        "Begin it, or name another.",
    ),
    (
        Reason::WorkClosed,
        "AG-B-11",
        "The work has ended (revision B).",
        "Begin a new one.",
    ),
    (
        Reason::WorkContainerMismatch,
        "AG-B-11",
        "The work belongs to another conversation (revision B).",
        "Send it where the work was begun.",
    ),
    (
        Reason::LegacyFieldRejected,
        "AG-B-11",
        "A member of revision A came where only B is spoken.",
        "Use the members of revision B.",
    ),
];

//! What people are told of each refusal: what to do about it. When it comes, the code's own sentence says.

use chancery_core::guide::{Guide, of_administration};

use crate::code::Code;

/// Every code of this protocol, and that of a change to the world.
pub fn guides() -> Vec<Guide> {
    let codes = NEXT.iter().map(|(code, next)| guide(*code, next));
    codes.chain([world_change_refused()]).collect()
}

fn guide(code: Code, next: &'static str) -> Guide {
    Guide {
        group: "vibe",
        code: code.as_str(),
        status: Some(code.status()),
        wire: None,
        again: code.refuse().retryable || code == Code::IdempotencyInFlight,
        requirement: code.requirement(),
        when: code.message(),
        next,
    }
}

const fn world_change_refused() -> Guide {
    of_administration(
        "world_change_refused",
        409,
        "CH-JRN-1",
        "A change of catalog, stock, accounts or merchants contradicts what is there; nothing of it was done.",
        "The sentence of the refusal says what; mend that entry and apply the whole file again.",
    )
}

/// What to do about each code.
static NEXT: [(Code, &str); Code::ALL.len()] = [
    (
        Code::MalformedJson,
        "Send one JSON object as a JSON library writes it: no repeated members, UTF-8, numbers within range.",
    ),
    (
        Code::MalformedEnvelope,
        "Mend the field at the path that is named; section 1 of `docs/spec/vibe-commerce.md` lists them.",
    ),
    (Code::UnsupportedProtocol, "Set `protocol` to `vcp`."),
    (Code::UnsupportedVersion, "Set `version` to `1.0`."),
    (
        Code::InvalidTs,
        "Write the time as RFC 3339 with an offset, such as `2026-02-15T10:33:30Z`.",
    ),
    (
        Code::InvalidAddress,
        "Use an address of VC-ADR-1, such as `buyer:intent`.",
    ),
    (
        Code::ReservedAddress,
        "Use an address that is not reserved (VC-ADR-6).",
    ),
    (
        Code::UnknownAction,
        "Use an action of section 5 of `docs/spec/vibe-commerce.md`.",
    ),
    (
        Code::InReplyToRequired,
        "Set `in_reply_to` to the `msg_id` of the envelope that is answered.",
    ),
    (
        Code::IdempotencyKeyRequired,
        "Set `idempotency_key`, a new one for each new request.",
    ),
    (Code::IdempotencyKeyTooLong, "Use a shorter key."),
    (
        Code::IdempotencyKeyMismatch,
        "Send the same key in both places, or in one.",
    ),
    (
        Code::UnexpectedSignature,
        "Leave `signature` out, or set `vibe.signed = true` on the node.",
    ),
    (
        Code::MalformedPayload,
        "Mend the member at the path that is named; the action's own section lists them.",
    ),
    (
        Code::MoneyNotInteger,
        "Write amounts in minor units: 129.00 is 12900.",
    ),
    (Code::MoneyOverflow, "Write an amount from 0 to 2^53 - 1."),
    (
        Code::Unauthenticated,
        "Send `Authorization: Bearer TOKEN`; `chancery token new` issues one.",
    ),
    (
        Code::SignatureRequired,
        "Sign the envelope with the key that the world pins for its sender.",
    ),
    (
        Code::SignatureMalformed,
        "Write a detached JWS: header with `alg` ES256 and `kid`, an empty middle, the signature.",
    ),
    (
        Code::UnknownKey,
        "Name a key that the seed or `chancery key add` put on record.",
    ),
    (
        Code::KeyNotForSender,
        "Sign with a key of the sender itself.",
    ),
    (
        Code::SignatureInvalid,
        "Sign the canonical form of the envelope without `signature`; `chancery canon --dialect vibe` prints it.",
    ),
    (
        Code::StaleEnvelope,
        "Make a new envelope with the time of now; compare the clocks.",
    ),
    (
        Code::SenderNotAuthorized,
        "Use a token whose addresses have this sender, or send as one that it has.",
    ),
    (
        Code::PartitionDenied,
        "See the table of VC-PART: who sends this action, and to whom.",
    ),
    (
        Code::PrivateUtilityLeak,
        "Take out the value at the path that is named: a budget or a floor stays with its owner.",
    ),
    (
        Code::IdentityMismatch,
        "Act for the consumer or merchant that the token or the session names.",
    ),
    (
        Code::SessionNotFound,
        "Check `session_id`; a session begins with a mandate.",
    ),
    (
        Code::InReplyToNotFound,
        "Name an envelope that was accepted in this session: `chancery log explain SESSION` lists them.",
    ),
    (
        Code::OfferNotFound,
        "Check `offer_id`: `chancery log explain SESSION` lists the offers.",
    ),
    (
        Code::CertNotFound,
        "Check `cert_id`: `chancery approvals` lists those that wait.",
    ),
    (
        Code::OrderNotFound,
        "Check `order_id`, and that it is an order of this merchant or consumer.",
    ),
    (Code::ReturnNotFound, "Check `return_id`."),
    (
        Code::DisputeNotFound,
        "Check `dispute_id` and the session that it was opened in.",
    ),
    (
        Code::EvidenceNotFound,
        "Name envelopes by the `msg_id` under which they are on record.",
    ),
    (
        Code::SkuNotFound,
        "Search first: the catalog says what the merchant sells.",
    ),
    (
        Code::NotFound,
        "Check the path; what a caller may not see is not told apart from what is not there.",
    ),
    (Code::MethodNotAllowed, "Use the method that `Allow` names."),
    (Code::TooLarge, "Send less; a batch can be cut in two."),
    (
        Code::UnsupportedMediaType,
        "Set `Content-Type: application/json`.",
    ),
    (
        Code::DuplicateMsgId,
        "Give a new envelope a new `msg_id`. To repeat a request, repeat its idempotency key.",
    ),
    (
        Code::IdempotencyInFlight,
        "Wait for the first answer; then the same request gets it again.",
    ),
    (Code::DuplicateObject, "Choose another identifier."),
    (
        Code::SessionExists,
        "Go on in it, or choose another `session_id`.",
    ),
    (
        Code::SessionSettled,
        "Begin a new session for a new purchase.",
    ),
    (
        Code::MandateExists,
        "Use the mandate that the session has, or a new session.",
    ),
    (
        Code::MandateExpired,
        "Write a mandate whose `intent_expiry` is ahead.",
    ),
    (
        Code::MandateRequired,
        "Send `delegate.create_purchase_mandate` first.",
    ),
    (
        Code::MandateConsumed,
        "Write a new mandate in a new session.",
    ),
    (Code::OfferExpired, "Ask for a new offer."),
    (
        Code::OfferSuperseded,
        "Answer the newest offer of the thread.",
    ),
    (Code::OfferClosed, "Ask for a new offer."),
    (
        Code::OwnOffer,
        "Wait for the other side: nobody answers its own offer.",
    ),
    (
        Code::OfferOutsideMandate,
        "Offer within the merchant's own limits of price, quantity and terms.",
    ),
    (Code::OfferNotAccepted, "Accept the offer first."),
    (
        Code::SubstituteNotAllowed,
        "Keep to the item, or get a mandate with `can_accept_substitutes`.",
    ),
    (
        Code::AuthorityExceeded,
        "Take the offer as it is, or get a mandate with `can_negotiate`.",
    ),
    (Code::RoundLimit, "Accept or leave it."),
    (
        Code::ThreadMismatch,
        "Set `in_reply_to` to the newest envelope of this thread.",
    ),
    (
        Code::AlreadyRequested,
        "Wait for the result of the first request.",
    ),
    (
        Code::VerificationRequired,
        "Send `platform.verify_claims` first.",
    ),
    (
        Code::VerificationFailed,
        "`details` says which check; the offer or the mandate has to change.",
    ),
    (
        Code::VerificationMismatch,
        "Attest what the node finds: leave the result out, or compute it from the same offer.",
    ),
    (Code::CertExpired, "Have the match certified again."),
    (
        Code::CertConsumed,
        "Nothing is left to do with it: the purchase is settled.",
    ),
    (Code::AlreadyApproved, "Nothing: the first yes counts."),
    (
        Code::PurchaseRejected,
        "Nothing: a no is final for this certificate.",
    ),
    (
        Code::ApprovalRequired,
        "A person says yes: `chancery approve CERT`.",
    ),
    (
        Code::AlreadyAuthorized,
        "Settle it, or wait until the authorization lapses.",
    ),
    (
        Code::PaymentNotAuthorized,
        "Send `platform.authorize_payment` first.",
    ),
    (
        Code::PaymentDeclined,
        "Look at the account: it has too little, another currency, or is not the mandate's.",
    ),
    (Code::AmountMismatch, "Use the total of the certificate."),
    (
        Code::InsufficientInventory,
        "Order less, or wait for stock: `chancery world apply` changes it.",
    ),
    (
        Code::InvalidOrderState,
        "See the state with `chancery log explain SESSION`; VC-SM-3 says what leads where.",
    ),
    (
        Code::PartialDispatchUnsupported,
        "Dispatch all units at once.",
    ),
    (
        Code::NotRefundable,
        "The listing says so; a dispute is still open to the consumer.",
    ),
    (
        Code::RefundNotAuthorized,
        "Approve the return first (`commerce.respond_return`).",
    ),
    (
        Code::RefundExceedsTotal,
        "Refund at most what is left of the total.",
    ),
    (Code::DisputeExists, "Add evidence to the one that is open."),
    (Code::DisputeOpen, "Wait for the ruling."),
    (Code::DisputeClosed, "Nothing: a ruling is final."),
    (
        Code::OutsideTransaction,
        "Send the action that does this write, such as `platform.settle_payment`.",
    ),
    (
        Code::InvariantViolation,
        "`details` names the invariant; nothing was changed.",
    ),
    (Code::AlreadyAnswered, "Nothing: the first answer counts."),
    (
        Code::IdempotencyConflict,
        "Use a new key for a new request, or send the first request byte for byte.",
    ),
    (
        Code::Suspended,
        "An administrator lets it go on: `chancery agent resume`.",
    ),
    (
        Code::Internal,
        "Send it again; tell the operator if it stays. The node's log on stderr says what happened.",
    ),
    (
        Code::AuditUnavailable,
        "The operator looks at the disk: `chancery doctor`.",
    ),
    (Code::NotConfigured, "Name a world seed in `[vibe] world`."),
    (
        Code::Overloaded,
        "Wait as long as `Retry-After` says, then send the same bytes.",
    ),
];

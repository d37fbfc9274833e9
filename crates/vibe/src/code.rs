//! The closed list of refusals (VC-ERR-1), each with its status and the requirement behind it.

use std::borrow::Cow;

use chancery_core::decision::Stop;
use chancery_core::json::Place;
use chancery_core::refusal::Refusal;

/// What the table says about one code: wire name, status, requirement, sentence for people.
struct Entry(&'static str, u16, &'static str, &'static str);

/// Writes the enum and its table once.
macro_rules! codes {
    ($($variant:ident = $name:literal, $status:literal, $requirement:literal, $message:literal;)*) => {
        /// Every way in which an envelope or a request can be refused.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $(#[doc = $message] $variant,)*
        }

        impl Code {
            /// All codes, in the order of the specification.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            const fn entry(self) -> Entry {
                match self {
                    $(Self::$variant => Entry($name, $status, $requirement, $message),)*
                }
            }
        }
    };
}

codes! {
    MalformedJson = "malformed_json", 400, "VC-ENV-18", "the body is not one JSON value in the allowed form";
    MalformedEnvelope = "malformed_envelope", 400, "VC-ENV-17", "a field of the envelope is missing or of the wrong form";
    UnsupportedProtocol = "unsupported_protocol", 400, "VC-ENV-1", "the protocol is not vcp";
    UnsupportedVersion = "unsupported_version", 400, "VC-ENV-2", "the major version is not 1";
    InvalidTs = "invalid_ts", 400, "VC-ENV-5", "a time with an offset is wanted";
    InvalidAddress = "invalid_address", 400, "VC-ADR-6", "not an address";
    ReservedAddress = "reserved_address", 400, "VC-ADR-6", "the address is reserved";
    UnknownAction = "unknown_action", 400, "VC-ENV-13", "no such action";
    InReplyToRequired = "in_reply_to_required", 400, "VC-ENV-9", "this action answers an envelope and must name it";
    IdempotencyKeyRequired = "idempotency_key_required", 400, "VC-ENV-10", "this action changes state and needs an idempotency key";
    IdempotencyKeyTooLong = "idempotency_key_too_long", 400, "VC-ENV-11", "an idempotency key has at most 255 characters";
    IdempotencyKeyMismatch = "idempotency_key_mismatch", 400, "VC-HTTP-3", "the header names another idempotency key than the envelope";
    UnexpectedSignature = "unexpected_signature", 400, "VC-ENV-12", "envelopes are not signed here";
    MalformedPayload = "malformed_payload", 400, "VC-CLR-5", "the payload does not have the form of its action";
    MoneyNotInteger = "money_not_integer", 400, "VC-MON-1", "money is an integer of minor units";
    MoneyOverflow = "money_overflow", 400, "VC-MON-4", "the amount is out of range";
    Unauthenticated = "unauthenticated", 401, "VC-HTTP-6", "a bearer token is needed";
    SignatureRequired = "signature_required", 401, "VC-SIG-4", "envelopes are signed here";
    SignatureMalformed = "signature_malformed", 401, "VC-SIG-4", "not a detached ES256 signature with a header of alg and kid";
    UnknownKey = "unknown_key", 401, "VC-SIG-4", "no pinned key of that name";
    KeyNotForSender = "key_not_for_sender", 401, "VC-SIG-4", "the key does not speak for this sender";
    SignatureInvalid = "signature_invalid", 401, "VC-SIG-4", "the signature does not hold";
    StaleEnvelope = "stale_envelope", 401, "VC-SIG-5", "the envelope is outside the window of freshness";
    SenderNotAuthorized = "sender_not_authorized", 403, "VC-ADR-7", "the token does not speak for this sender";
    PartitionDenied = "partition_denied", 403, "VC-PART-4", "this sender may not send this action to this receiver";
    PrivateUtilityLeak = "private_utility_leak", 403, "VC-PRIV-1", "the payload gives a private value of the sender away";
    IdentityMismatch = "identity_mismatch", 403, "VC-ADR-8", "this belongs to somebody else";
    SessionNotFound = "session_not_found", 404, "VC-SM-1", "no such session for this action";
    InReplyToNotFound = "in_reply_to_not_found", 404, "VC-ENV-9", "the envelope answered is not on record in this session";
    OfferNotFound = "offer_not_found", 404, "VC-ACT-commerce.accept_offer-2", "no such offer in this session";
    CertNotFound = "cert_not_found", 404, "VC-ACT-delegate.approve_purchase-2", "no such certificate in this session";
    OrderNotFound = "order_not_found", 404, "VC-ACT-commerce.dispatch-3", "no such order here";
    ReturnNotFound = "return_not_found", 404, "VC-ACT-commerce.respond_return-1", "no such return here";
    DisputeNotFound = "dispute_not_found", 404, "VC-ACT-platform.request_evidence-1", "no such dispute in this session";
    EvidenceNotFound = "evidence_not_found", 404, "VC-ACT-platform.open_dispute-2", "evidence names an envelope that is not on record";
    SkuNotFound = "sku_not_found", 404, "VC-ACT-commerce.request_offer-2", "the merchant has no such sku";
    NotFound = "not_found", 404, "VC-HTTP-5", "there is nothing here";
    MethodNotAllowed = "method_not_allowed", 405, "VC-HTTP-6", "only POST is served here";
    TooLarge = "too_large", 413, "VC-ENV-18", "the body is larger than 262144 bytes";
    UnsupportedMediaType = "unsupported_media_type", 415, "VC-HTTP-1", "the body must be application/json";
    DuplicateMsgId = "duplicate_msg_id", 409, "VC-ENV-3", "the msg_id is used";
    IdempotencyInFlight = "idempotency_in_flight", 409, "VC-IDEM-6", "the same request is being carried out";
    DuplicateObject = "duplicate_object", 409, "VC-CLR-2", "the identifier is used";
    SessionExists = "session_exists", 409, "VC-CLR-8", "the session exists already";
    SessionSettled = "session_settled", 409, "VC-ACT-commerce.propose_offer-3", "the session is settled";
    MandateExists = "mandate_exists", 409, "VC-ACT-delegate.create_purchase_mandate-2", "the session has a mandate";
    MandateExpired = "mandate_expired", 409, "VC-ACT-delegate.create_purchase_mandate-3", "the mandate is expired";
    MandateRequired = "mandate_required", 409, "VC-ACT-platform.create_match_certificate-2", "the session has no mandate";
    MandateConsumed = "mandate_consumed", 409, "VC-OBJ-PurchaseMandate-2", "the mandate has been used";
    OfferExpired = "offer_expired", 409, "VC-PIPE-5", "the offer is expired";
    OfferSuperseded = "offer_superseded", 409, "VC-ACT-commerce.accept_offer-2", "the offer was countered";
    OfferClosed = "offer_closed", 409, "VC-ACT-commerce.accept_offer-2", "the offer is no longer open";
    OwnOffer = "own_offer", 409, "VC-ACT-commerce.accept_offer-2", "the offer is of the own side";
    OfferOutsideMandate = "offer_outside_mandate", 409, "VC-ACT-commerce.propose_offer-3", "the offer is outside what its merchant allows";
    OfferNotAccepted = "offer_not_accepted", 409, "VC-ACT-platform.verify_claims-2", "the offer is not in a state for this";
    SubstituteNotAllowed = "substitute_not_allowed", 409, "VC-ACT-commerce.counter_offer-2", "another item than the one offered";
    AuthorityExceeded = "authority_exceeded", 409, "VC-ACT-commerce.counter_offer-2", "the mandate does not allow to negotiate";
    RoundLimit = "round_limit", 409, "VC-ACT-commerce.counter_offer-2", "no more rounds are allowed";
    ThreadMismatch = "thread_mismatch", 409, "VC-ACT-commerce.accept_offer-2", "the envelope answered is not of this thread";
    AlreadyRequested = "already_requested", 409, "VC-ACT-commerce.accept_offer-4", "verification was asked for before";
    VerificationRequired = "verification_required", 409, "VC-ACT-platform.create_match_certificate-2", "the claims were not verified";
    VerificationFailed = "verification_failed", 409, "VC-ACT-platform.create_match_certificate-3", "a check of the match failed";
    VerificationMismatch = "verification_mismatch", 409, "VC-ACT-platform.create_match_certificate-3", "what is attested is not what the runtime finds";
    CertExpired = "cert_expired", 409, "VC-PIPE-5", "the certificate is expired";
    CertConsumed = "cert_consumed", 409, "VC-OBJ-MatchCertificate-4", "the certificate was used";
    AlreadyApproved = "already_approved", 409, "VC-ACT-delegate.approve_purchase-2", "the purchase was approved before";
    PurchaseRejected = "purchase_rejected", 409, "VC-ACT-delegate.approve_purchase-2", "the purchase was rejected";
    ApprovalRequired = "approval_required", 409, "VC-GATE-4", "the principal must approve first";
    AlreadyAuthorized = "already_authorized", 409, "VC-ACT-platform.authorize_payment-3", "the certificate has a live authorization";
    PaymentNotAuthorized = "payment_not_authorized", 409, "VC-ACT-platform.settle_payment-3", "there is no live authorization";
    PaymentDeclined = "payment_declined", 409, "VC-ACT-platform.authorize_payment-2", "the account cannot pay this";
    AmountMismatch = "amount_mismatch", 409, "VC-ACT-platform.authorize_payment-2", "the amounts do not agree";
    InsufficientInventory = "insufficient_inventory", 409, "VC-SET-5", "there is not enough stock";
    InvalidOrderState = "invalid_order_state", 409, "VC-SM-3", "the order is not in a state for this";
    PartialDispatchUnsupported = "partial_dispatch_unsupported", 409, "VC-ACT-commerce.dispatch-2", "an order is dispatched whole";
    NotRefundable = "not_refundable", 409, "VC-ACT-commerce.request_return-2", "the item is not refundable";
    RefundNotAuthorized = "refund_not_authorized", 409, "VC-ACT-platform.refund_payment-1", "no approved return covers this refund";
    RefundExceedsTotal = "refund_exceeds_total", 409, "VC-DSP-3", "more than what is left of the total";
    DisputeExists = "dispute_exists", 409, "VC-ACT-platform.open_dispute-2", "the order has an open dispute";
    DisputeOpen = "dispute_open", 409, "VC-DSP-4", "the order is in dispute";
    DisputeClosed = "dispute_closed", 409, "VC-ACT-platform.request_evidence-1", "the dispute is ruled";
    OutsideTransaction = "outside_transaction", 409, "VC-ACT-world-3", "this write happens only inside another action";
    InvariantViolation = "invariant_violation", 409, "VC-ACT-world-4", "the change would break an invariant of the world";
    AlreadyAnswered = "already_answered", 409, "CH-JRN-16", "this agent has answered that envelope";
    IdempotencyConflict = "idempotency_conflict", 422, "VC-ERR-2", "the idempotency key was used for another request";
    Suspended = "suspended", 423, "CH-ID-5", "the sender is suspended";
    Internal = "internal", 500, "VC-ERR-1", "a fault of this node";
    AuditUnavailable = "audit_unavailable", 503, "VC-AUD-4", "the log cannot be written";
    NotConfigured = "not_configured", 503, "CH-CFG-4", "this node has no world";
    Overloaded = "overloaded", 503, "CH-LIM-3", "the receiver has no room for more";
}

impl Code {
    /// The code as it stands in an answer.
    pub const fn as_str(self) -> &'static str {
        self.entry().0
    }

    /// The status of an answer with this code.
    pub const fn status(self) -> u16 {
        self.entry().1
    }

    /// The requirement behind the code, where no closer one is named.
    pub const fn requirement(self) -> &'static str {
        self.entry().2
    }

    /// One sentence for people.
    pub const fn message(self) -> &'static str {
        self.entry().3
    }

    /// A refusal with this code.
    pub fn refuse(self) -> Refusal {
        Refusal::new(
            self.as_str(),
            self.status(),
            self.requirement(),
            self.message(),
        )
    }

    /// A refusal with this code, as a rule stops with it.
    pub fn stop(self) -> Stop {
        Stop::Refused(self.refuse())
    }

    /// The code of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.as_str() == name)
    }
}

/// A fault found while decoding: raised at its step of the pipeline, which may be later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Which refusal it is.
    pub code: Code,
    /// JSONPath of the offender.
    pub param: Option<String>,
    /// What is wrong, for people, where the code's own sentence is too wide.
    pub message: Option<Cow<'static, str>>,
}

impl Fault {
    /// A fault of the whole.
    pub const fn new(code: Code) -> Self {
        Self {
            code,
            param: None,
            message: None,
        }
    }

    /// A fault of the member at `place`.
    pub fn at(code: Code, place: &Place<'_>) -> Self {
        Self {
            code,
            param: Some(place.to_path().to_jsonpath()),
            message: None,
        }
    }

    /// The same, with a sentence of its own.
    #[must_use]
    pub fn saying(mut self, message: &'static str) -> Self {
        self.message = Some(Cow::Borrowed(message));
        self
    }

    /// The fault as the spine carries it, found by the named step.
    pub fn into_refusal(self, check: &'static str) -> Refusal {
        let mut refusal = self.code.refuse().in_check(check);
        refusal.path = self.param;
        if let Some(message) = self.message {
            refusal.message = message;
        }
        refusal
    }
}

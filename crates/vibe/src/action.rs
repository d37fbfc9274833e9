//! The 34 actions and what is fixed about each (section 4).

use serde::{Deserialize, Serialize};

/// Writes the enum and its table once: variant, kind, whether it changes state.
macro_rules! actions {
    ($($variant:ident = $kind:literal, $mutation:literal;)*) => {
        /// An action by its kind.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Action {
            $(#[doc = $kind] #[serde(rename = $kind)] $variant,)*
        }

        impl Action {
            /// Every action, in the order of the specification.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// `<namespace>.<verb>`.
            pub const fn kind(self) -> &'static str {
                match self {
                    $(Self::$variant => $kind,)*
                }
            }

            /// Whether it changes state, so that an idempotency key is needed.
            pub const fn is_mutation(self) -> bool {
                match self {
                    $(Self::$variant => $mutation,)*
                }
            }

            /// The action of that kind.
            pub fn parse(kind: &str) -> Option<Self> {
                match kind {
                    $($kind => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

actions! {
    CreatePurchaseMandate = "delegate.create_purchase_mandate", true;
    ApprovePurchase = "delegate.approve_purchase", true;
    RejectPurchase = "delegate.reject_purchase", true;
    SetBusinessGoal = "delegate.set_business_goal", true;
    Search = "commerce.search", false;
    RequestOffer = "commerce.request_offer", false;
    ProposeOffer = "commerce.propose_offer", true;
    CounterOffer = "commerce.counter_offer", true;
    AcceptOffer = "commerce.accept_offer", true;
    RejectOffer = "commerce.reject_offer", true;
    CreateCart = "commerce.create_cart", true;
    Dispatch = "commerce.dispatch", true;
    RequestReturn = "commerce.request_return", true;
    RespondReturn = "commerce.respond_return", true;
    RespondInquiry = "commerce.respond_inquiry", false;
    RankOffers = "platform.rank_offers", false;
    VerifyClaims = "platform.verify_claims", true;
    CreateMatchCertificate = "platform.create_match_certificate", true;
    AuthorizePayment = "platform.authorize_payment", true;
    SettlePayment = "platform.settle_payment", true;
    RefundPayment = "platform.refund_payment", true;
    OpenDispute = "platform.open_dispute", true;
    RequestEvidence = "platform.request_evidence", true;
    SubmitEvidence = "platform.submit_evidence", true;
    RuleDispute = "platform.rule_dispute", true;
    CreateOrder = "world.create_order", true;
    ReserveInventory = "world.reserve_inventory", true;
    UpdateLedger = "world.update_ledger", true;
    UpdateInventory = "world.update_inventory", true;
    UpdateOrder = "world.update_order", true;
    RecordDispute = "world.record_dispute", true;
    UpdateDispute = "world.update_dispute", true;
    RecordRuling = "world.record_ruling", true;
    UpdateReputation = "world.update_reputation", true;
}

impl Action {
    /// Whether only the runtime makes it, inside another action (marked R).
    pub const fn is_runtime_only(self) -> bool {
        matches!(
            self,
            Self::CreateOrder
                | Self::ReserveInventory
                | Self::UpdateLedger
                | Self::UpdateInventory
                | Self::UpdateOrder
                | Self::RecordDispute
                | Self::UpdateDispute
                | Self::RecordRuling
        )
    }

    /// Whether it is an answer by meaning, so that `in_reply_to` must not be null (VC-ENV-9).
    pub const fn is_answer(self) -> bool {
        matches!(
            self,
            Self::CounterOffer
                | Self::AcceptOffer
                | Self::RejectOffer
                | Self::RespondInquiry
                | Self::RespondReturn
                | Self::SubmitEvidence
        )
    }

    /// Whether a principal hands things to its own agent by it: the guard lets it pass (VC-PRIV-4).
    pub const fn is_delegate(self) -> bool {
        matches!(
            self,
            Self::CreatePurchaseMandate
                | Self::ApprovePurchase
                | Self::RejectPurchase
                | Self::SetBusinessGoal
        )
    }
}

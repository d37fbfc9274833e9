//! Payloads: the form of each action's, checked in step 12 (sections 5 and 7).
//!
//! What is read is what rules need; unknown members stay in the envelope (VC-ENV-16). Actions that only the runtime
//! makes have no form here: they never come from outside.

mod commerce;
mod delegate;
mod fields;
mod platform;

use chancery_core::json::{Object, Place};

use crate::action::Action;
use crate::address::Address;
use crate::code::{Code, Fault};

pub use commerce::{Cart, Offer, Search};
pub use delegate::{Goal, Instrument, Mandate};
pub use fields::Stamp;
pub use platform::{Authorize, Certificate, Ruling, RulingKind};

use fields::Fields;

/// A payload of a known action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Payload {
    /// Of `create_purchase_mandate`.
    CreatePurchaseMandate(Box<Mandate>),
    /// Of `approve_purchase`.
    ApprovePurchase {
        /// The certificate.
        cert_id: String,
    },
    /// Of `reject_purchase`.
    RejectPurchase {
        /// The certificate.
        cert_id: String,
    },
    /// Of `set_business_goal`.
    SetBusinessGoal(Box<Goal>),
    /// Of `search`.
    Search(Box<Search>),
    /// Of `request_offer`.
    RequestOffer {
        /// The merchant.
        merchant_id: String,
        /// The sku.
        sku_id: String,
        /// Whether it asks a question.
        has_inquiry: bool,
    },
    /// Of `propose_offer`.
    ProposeOffer(Box<Offer>),
    /// Of `counter_offer`.
    CounterOffer(Box<Offer>),
    /// Of `accept_offer`.
    AcceptOffer {
        /// The offer.
        offer_id: String,
    },
    /// Of `reject_offer`.
    RejectOffer {
        /// The offer.
        offer_id: String,
    },
    /// Of `create_cart`.
    CreateCart(Box<Cart>),
    /// Of `dispatch`.
    Dispatch {
        /// The order.
        order_id: String,
        /// How many.
        qty: Option<i64>,
    },
    /// Of `request_return`.
    RequestReturn {
        /// The transaction.
        tx_id: String,
    },
    /// Of `respond_return`.
    RespondReturn {
        /// The return.
        return_id: String,
        /// What is given back.
        refund_amount: Option<u64>,
        /// Whether the items go back into stock.
        restock: bool,
    },
    /// Of `respond_inquiry`.
    RespondInquiry,
    /// Of `rank_offers`.
    RankOffers {
        /// The search that it answers.
        query_msg_id: String,
    },
    /// Of `verify_claims`.
    VerifyClaims {
        /// The offer.
        offer_id: String,
        /// The policy it was issued under.
        policy_version: String,
        /// Each claim, and whether it is grounded.
        results: Vec<(String, bool)>,
    },
    /// Of `create_match_certificate`.
    CreateMatchCertificate(Box<Certificate>),
    /// Of `authorize_payment`.
    AuthorizePayment(Box<Authorize>),
    /// Of `settle_payment`.
    SettlePayment {
        /// The certificate.
        cert_id: String,
        /// The authorization.
        auth_id: Option<String>,
    },
    /// Of `refund_payment`.
    RefundPayment {
        /// The transaction.
        tx_id: String,
        /// The amount.
        amount: u64,
        /// The return.
        return_id: String,
    },
    /// Of `open_dispute`.
    OpenDispute {
        /// The transaction.
        tx_id: String,
        /// Why.
        reason: String,
        /// Accepted envelopes that support it.
        evidence: Vec<String>,
    },
    /// Of `request_evidence`.
    RequestEvidence {
        /// The dispute.
        dispute_id: String,
    },
    /// Of `submit_evidence`.
    SubmitEvidence {
        /// The dispute.
        dispute_id: String,
        /// Accepted envelopes that support it.
        evidence: Vec<String>,
    },
    /// Of `rule_dispute`.
    RuleDispute(Box<Ruling>),
    /// Of `update_reputation`.
    UpdateReputation {
        /// The merchant.
        subject: String,
        /// By how much.
        delta: i64,
        /// Accepted envelopes that support it.
        evidence: Vec<String>,
    },
}

/// What of the envelope around it a payload is judged by.
pub struct Around<'a> {
    /// The sender, where it is an address.
    pub from: Option<Address>,
    /// The envelope's idempotency key.
    pub idempotency_key: Option<&'a str>,
    /// The world's currency.
    pub currency: &'a str,
}

/// Longest text where the specification names no other limit; the body's own limit is wider.
const ANY: usize = usize::MAX;

/// Reads the payload of an action. Its money fields have passed the money rule.
pub fn read(action: Action, payload: &Object<'_>, around: &Around<'_>) -> Result<Payload, Fault> {
    let root = Place::ROOT.child("action");
    let place = root.child("payload");
    let fields = Fields::new(payload, &place);
    match action {
        Action::CreatePurchaseMandate => delegate::mandate(fields, payload, around)
            .map(|mandate| Payload::CreatePurchaseMandate(Box::new(mandate))),
        Action::ApprovePurchase => delegate::approve(fields),
        Action::RejectPurchase => delegate::reject(fields),
        Action::SetBusinessGoal => {
            delegate::goal(fields).map(|goal| Payload::SetBusinessGoal(Box::new(goal)))
        }
        Action::Search => commerce::search(fields),
        Action::RequestOffer => commerce::request_offer(fields),
        Action::ProposeOffer => {
            commerce::offer(fields, around).map(|offer| Payload::ProposeOffer(Box::new(offer)))
        }
        Action::CounterOffer => {
            commerce::offer(fields, around).map(|offer| Payload::CounterOffer(Box::new(offer)))
        }
        Action::AcceptOffer => Ok(Payload::AcceptOffer {
            offer_id: fields.id("offer_id")?,
        }),
        Action::RejectOffer => commerce::reject_offer(fields),
        Action::CreateCart => commerce::cart(fields),
        Action::Dispatch => commerce::dispatch(fields),
        Action::RequestReturn => commerce::request_return(fields),
        Action::RespondReturn => commerce::respond_return(fields),
        Action::RespondInquiry => commerce::respond_inquiry(fields),
        Action::RankOffers => platform::rank(fields),
        Action::VerifyClaims => platform::verify(fields),
        Action::CreateMatchCertificate => platform::certificate(fields),
        Action::AuthorizePayment => platform::authorize(fields),
        Action::SettlePayment => platform::settle(fields),
        Action::RefundPayment => platform::refund(fields),
        Action::OpenDispute => platform::open_dispute(fields),
        Action::RequestEvidence => platform::request_evidence(fields),
        Action::SubmitEvidence => platform::submit_evidence(fields),
        Action::RuleDispute => platform::rule(fields),
        Action::UpdateReputation => platform::reputation(fields),
        Action::CreateOrder
        | Action::ReserveInventory
        | Action::UpdateLedger
        | Action::UpdateInventory
        | Action::UpdateOrder
        | Action::RecordDispute
        | Action::UpdateDispute
        | Action::RecordRuling => Err(Fault::new(Code::OutsideTransaction)),
    }
}

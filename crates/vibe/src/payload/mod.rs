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
#[expect(
    missing_docs,
    reason = "the members are those of the specification's tables"
)]
pub enum Payload {
    CreatePurchaseMandate(Box<Mandate>),
    ApprovePurchase {
        cert_id: String,
    },
    RejectPurchase {
        cert_id: String,
    },
    SetBusinessGoal(Box<Goal>),
    Search(Box<Search>),
    RequestOffer {
        merchant_id: String,
        sku_id: String,
        has_inquiry: bool,
    },
    ProposeOffer(Box<Offer>),
    CounterOffer(Box<Offer>),
    AcceptOffer {
        offer_id: String,
    },
    RejectOffer {
        offer_id: String,
    },
    CreateCart(Box<Cart>),
    Dispatch {
        order_id: String,
        qty: Option<i64>,
    },
    RequestReturn {
        tx_id: String,
    },
    RespondReturn {
        return_id: String,
        refund_amount: Option<u64>,
        restock: bool,
    },
    RespondInquiry,
    RankOffers {
        query_msg_id: String,
    },
    VerifyClaims {
        offer_id: String,
        policy_version: String,
        results: Vec<(String, bool)>,
    },
    CreateMatchCertificate(Box<Certificate>),
    AuthorizePayment(Box<Authorize>),
    SettlePayment {
        cert_id: String,
        auth_id: Option<String>,
    },
    RefundPayment {
        tx_id: String,
        amount: u64,
        return_id: String,
    },
    OpenDispute {
        tx_id: String,
        reason: String,
        evidence: Vec<String>,
    },
    RequestEvidence {
        dispute_id: String,
    },
    SubmitEvidence {
        dispute_id: String,
        evidence: Vec<String>,
    },
    RuleDispute(Box<Ruling>),
    UpdateReputation {
        subject: String,
        delta: i64,
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

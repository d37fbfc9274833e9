//! The rows that the rules keep beside the world's tables: sessions, mandates, goals, offers, certificates, and what
//! is known about each accepted envelope.

use chancery_core::rows::RowKey;
use chancery_core::time::Time;
use serde::{Deserialize, Serialize};

use crate::action::Action;
use crate::address::Side;
use crate::payload::Instrument;

/// What opened a session (VC-SM-1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SessionKind {
    /// A mandate or a search.
    BuyerJourney,
    /// A business goal.
    Merchant,
    /// A dispute.
    Dispute,
}

/// How far a session has come; it never goes back (VC-SM-1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Searching, without a mandate.
    Browsing,
    /// A mandate is stored.
    Mandated,
    /// There is an offer.
    Negotiating,
    /// An offer is accepted.
    Agreed,
    /// A certificate was issued on it.
    Certified,
    /// It was approved.
    Approved,
    /// The payment is authorized.
    Authorized,
    /// It was settled.
    Settled,
    /// It was dispatched.
    Fulfilled,
    /// It is over.
    Closed,
}

/// A private value of a buyer, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Secret {
    /// What it is.
    pub name: String,
    /// In minor units.
    pub value: u64,
}

/// A session.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// What opened it.
    pub kind: SessionKind,
    /// How far it has come.
    pub phase: Phase,
    /// The greatest decision time accepted in it (VC-PIPE-4).
    pub clock: Time,
    /// Whose journey it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub consumer_id: Option<String>,
    /// Whose goal opened it, for a merchant's session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merchant_id: Option<String>,
    /// Its mandate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mandate_id: Option<String>,
    /// What the buyer's side must not say, and in which currency (VC-PRIV-3).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub private: Vec<Secret>,
    /// The currency of the private values.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub currency: String,
    /// Its offers, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub offers: Vec<String>,
    /// Its certificates, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub certs: Vec<String>,
    /// Its orders.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub orders: Vec<String>,
}

impl Session {
    /// A session that nothing has happened in yet.
    pub fn new(kind: SessionKind, phase: Phase, clock: Time) -> Self {
        Self {
            kind,
            phase,
            clock,
            consumer_id: None,
            merchant_id: None,
            mandate_id: None,
            private: Vec::new(),
            currency: String::new(),
            offers: Vec::new(),
            certs: Vec::new(),
            orders: Vec::new(),
        }
    }

    /// Goes on to a phase, unless it is past it.
    pub fn reach(&mut self, phase: Phase) {
        self.phase = self.phase.max(phase);
    }
}

/// A purchase mandate on record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MandateRow {
    /// Its session.
    pub session_id: String,
    /// The consumer.
    pub consumer_id: String,
    /// Whether it has bought.
    pub consumed: bool,
    /// What is wanted, in words.
    pub goal: String,
    /// The merchants that count; none is any.
    pub merchants: Option<Vec<String>>,
    /// The skus that count; none is any.
    pub skus: Option<Vec<String>>,
    /// Whether it must be refundable.
    pub requires_refundability: bool,
    /// When the wish ends.
    pub intent_expiry: Time,
    /// Whether the gate can be skipped at all.
    pub can_buy_without_confirmation: bool,
    /// The ceiling under which it is skipped.
    pub max_spend_without_confirmation: u64,
    /// Whether the agent may counter.
    pub can_negotiate: bool,
    /// Whether another sku will do.
    pub can_accept_substitutes: bool,
    /// The most that is paid: private.
    pub budget: u64,
    /// The currency.
    pub currency: String,
    /// Days in which it must be there.
    pub delivery_days: Option<u64>,
    /// What it must have.
    pub must_have: Vec<String>,
    /// The score that the merchant needs.
    pub min_reputation: Option<i64>,
    /// How it is paid.
    pub payment_instrument: Option<Instrument>,
    /// The cart, by its identifier, and the SHA-256 of its contents.
    pub cart: Option<CartRow>,
}

/// A cart on record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CartRow {
    /// Its identifier.
    pub cart_id: String,
    /// Its canonical contents: the mandate's `ap2_cart_mandate`.
    pub contents: String,
    /// Their SHA-256, hex.
    pub hash: String,
}

/// A merchant's goal for one sku.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GoalRow {
    /// The goal.
    pub offer_mandate_id: String,
    /// The least that is taken: private.
    pub floor_price: u64,
    /// The currency of the floor.
    pub floor_currency: String,
    /// What may be claimed.
    pub permitted_claims: Vec<String>,
    /// Rounds of a thread at most.
    pub max_rounds: u64,
    /// Whether it can be given back.
    pub refundable: bool,
    /// When it ends to count.
    pub valid_until: Option<Time>,
}

impl GoalRow {
    /// Whether it counts at an instant (VC-OBJ-OfferMandate-1).
    pub fn in_force(&self, at: Time) -> bool {
        self.valid_until.is_none_or(|until| at < until)
    }
}

/// One side of a negotiation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Party {
    /// The buyer and its agent.
    Buyer,
    /// The merchant and its agent.
    Merchant,
}

/// The state of an offer on record; `expired` is seen, never written (VC-SM-2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OfferState {
    /// It can be answered.
    Open,
    /// It was countered.
    Superseded,
    /// It was accepted.
    Accepted,
    /// It was rejected.
    Rejected,
    /// A certificate was issued on it.
    Certified,
    /// It was settled.
    Settled,
    /// It is over.
    Closed,
}

/// What verification found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verification {
    /// Not asked for.
    None,
    /// Asked for.
    Requested,
    /// All claims are grounded.
    Passed,
    /// A claim is not grounded.
    Failed,
}

/// An offer on record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfferRow {
    /// Its session.
    pub session_id: String,
    /// The merchant.
    pub merchant_id: String,
    /// The sku.
    pub sku_id: String,
    /// How many.
    pub qty: u64,
    /// The price of one.
    pub unit_price: u64,
    /// The currency.
    pub currency: String,
    /// Days until it is there.
    pub eta_days: u64,
    /// The sum of all.
    pub total: u64,
    /// What the merchant claims.
    pub claims: Vec<String>,
    /// When it ends.
    pub expires_at: Time,
    /// Who made it.
    pub author: Party,
    /// Where it is in its life.
    pub state: OfferState,
    /// Its place in the thread.
    pub round: u64,
    /// The propose envelope that its thread began with.
    pub thread: String,
    /// What verification found.
    pub verification: Verification,
    /// Its latest certificate.
    pub cert_id: Option<String>,
}

/// The state of a certificate on record; `expired` is seen, never written (VC-OBJ-MatchCertificate-4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CertState {
    /// It waits, or needs no approval.
    Issued,
    /// It was approved.
    Approved,
    /// A settlement used it.
    Consumed,
    /// It was rejected.
    Rejected,
}

/// The state of a payment authorization on record; `expired` is seen, never written (VC-SM-5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuthState {
    /// It holds money.
    Live,
    /// A settlement took the money.
    Captured,
    /// It was withdrawn.
    Voided,
}

/// A payment authorization on record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuthRow {
    /// The authorization.
    pub auth_id: String,
    /// The account.
    pub account_id: String,
    /// When it ends.
    pub until: Time,
    /// Where it is in its life.
    pub state: AuthState,
}

impl AuthRow {
    /// Whether it holds money at an instant.
    pub fn is_live(&self, at: Time) -> bool {
        self.state == AuthState::Live && at < self.until
    }
}

/// A certificate on record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CertRow {
    /// Its session.
    pub session_id: String,
    /// The mandate.
    pub mandate_id: String,
    /// The offer.
    pub offer_id: String,
    /// The merchant.
    pub merchant_id: String,
    /// The sku.
    pub sku_id: String,
    /// How many.
    pub qty: u64,
    /// The price of one.
    pub unit_price: u64,
    /// The sum of all.
    pub total: u64,
    /// The currency.
    pub currency: String,
    /// The policy it was issued under.
    pub policy_version: String,
    /// When it was issued.
    pub issued_at: String,
    /// When it ends.
    pub expires_at: Time,
    /// When it ends, as written.
    pub expires_text: String,
    /// Where it is in its life.
    pub state: CertState,
    /// Its payment authorization.
    pub auth: Option<AuthRow>,
}

/// Money that authorizations hold on an account.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holds(pub Vec<Hold>);

/// One hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// The authorization.
    pub auth_id: String,
    /// The amount.
    pub amount: u64,
    /// When it ends.
    pub until: Time,
}

/// What is known about an order beside its row of the world.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderFile {
    /// Its session.
    pub session_id: String,
    /// The consumer.
    pub consumer_id: String,
    /// The return.
    pub return_id: Option<String>,
    /// Its dispute, while one is open.
    pub open_dispute: Option<String>,
}

/// The state of a return.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReturnState {
    /// Asked for.
    Requested,
    /// It was approved.
    Approved,
    /// It was denied.
    Denied,
    /// The money has moved.
    Paid,
}

/// A return on record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReturnRow {
    /// The order.
    pub order_id: String,
    /// Its session.
    pub session_id: String,
    /// Where it is in its life.
    pub state: ReturnState,
    /// What is given back.
    pub refund_amount: u64,
    /// Whether the items go back into stock.
    pub restock: bool,
}

/// What is known about a dispute beside its row of the world.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaseFile {
    /// Its session.
    pub session_id: String,
    /// The merchant.
    pub merchant_id: String,
    /// Evidence requests that wait for an answer.
    pub unanswered: Vec<String>,
}

/// What is known about an accepted envelope.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MsgRow {
    /// Its line.
    #[serde(rename = "q")]
    pub seq: u64,
    /// Its session.
    #[serde(rename = "s")]
    pub session_id: Box<str>,
    /// Its kind.
    #[serde(rename = "k")]
    pub kind: Action,
    /// The side it went to.
    #[serde(rename = "r")]
    pub to: Side,
    /// The propose envelope of its thread (VC-CLR-10).
    #[serde(rename = "t", default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<Box<str>>,
    /// The offer that it carries, or the merchant that it asks.
    #[serde(rename = "o", default, skip_serializing_if = "Option::is_none")]
    pub about: Option<Box<str>>,
    /// Whether it asks a question that can be answered.
    #[serde(rename = "i", default, skip_serializing_if = "std::ops::Not::not")]
    pub asks: bool,
}

/// The keys of these rows.
pub mod key {
    use super::RowKey;

    macro_rules! keys {
        ($($(#[$doc:meta])* $name:ident = $space:literal;)*) => {
            $($(#[$doc])* pub fn $name(id: &str) -> RowKey {
                RowKey::text($space, &[id])
            })*
        };
    }

    keys! {
        /// A session.
        session = "vibe-session";
        /// A purchase mandate.
        mandate = "vibe-mandate";
        /// An offer.
        offer = "vibe-offer";
        /// A certificate.
        cert = "vibe-cert";
        /// A certificate that waits for its principal.
        waiting = "vibe-waiting";
        /// The holds on an account.
        holds = "vibe-holds";
        /// What is known about an order.
        order_file = "vibe-order-file";
        /// The order of a transaction.
        transaction = "vibe-tx";
        /// A return.
        return_ = "vibe-return";
        /// What is known about a dispute.
        case_file = "vibe-case";
        /// An accepted envelope.
        msg = "vibe-msg";
        /// The floors of a merchant, by sku.
        floors = "vibe-floors";
    }

    /// A merchant's goal for a sku.
    pub fn goal(merchant_id: &str, sku_id: &str) -> RowKey {
        RowKey::text("vibe-goal", &[merchant_id, sku_id])
    }

    /// The skus that a merchant's goal named last.
    pub fn offer_mandate(merchant_id: &str, offer_mandate_id: &str) -> RowKey {
        RowKey::text("vibe-offer-mandate", &[merchant_id, offer_mandate_id])
    }

    /// That a hosted agent has answered the envelope on a line (CH-JRN-16).
    pub fn answered(agent: &str, line: u64) -> RowKey {
        RowKey::new("vibe-answered", &[agent.as_bytes(), &line.to_be_bytes()])
    }

    /// The answer that a key is bound to (VC-IDEM-2).
    pub fn idempotency(principal: Option<&str>, from: &str, key: &str) -> RowKey {
        RowKey::text("vibe-idem", &[principal.unwrap_or_default(), from, key])
    }

    /// A page of the queue of bound keys (VC-IDEM-7).
    pub fn bound_keys_page(number: u64) -> RowKey {
        RowKey::new("vibe-bound-keys", &[&number.to_be_bytes()])
    }

    /// The ends of that queue.
    pub fn bound_keys_ends() -> RowKey {
        RowKey::text("vibe-bound-keys-ends", &[])
    }

    /// All floors of all merchants.
    pub fn all_floors() -> RowKey {
        RowKey::text("vibe-floors", &[])
    }

    /// All certificates that wait.
    pub fn all_waiting() -> RowKey {
        RowKey::text("vibe-waiting", &[])
    }
}

impl CertRow {
    /// The certificate as section 7.4 writes it. One that exists has four true checks.
    pub fn to_json(&self, cert_id: &str) -> serde_json::Value {
        serde_json::json!({
            "cert_id": cert_id,
            "checks": {
                "claim_grounding": true,
                "constraint_fit": true,
                "inventory_availability": true,
                "reputation_threshold": true,
            },
            "currency": self.currency,
            "expires_at": self.expires_text,
            "issued_at": self.issued_at,
            "mandate_id": self.mandate_id,
            "merchant_id": self.merchant_id,
            "offer_id": self.offer_id,
            "policy_version": self.policy_version,
            "qty": self.qty,
            "sku_id": self.sku_id,
            "total": self.total,
            "unit_price": self.unit_price,
        })
    }
}

//! The rows that the rules keep beside the world's tables: sessions, mandates, goals, offers, certificates, and what
//! is known about each accepted envelope.

use chancery_core::rows::RowKey;
use chancery_core::time::Time;
use serde::{Deserialize, Serialize};

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
#[expect(
    missing_docs,
    reason = "the phases are those of the specification's table"
)]
pub enum Phase {
    Browsing,
    Mandated,
    Negotiating,
    Agreed,
    Certified,
    Approved,
    Authorized,
    Settled,
    Fulfilled,
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
#[expect(missing_docs, reason = "the fields are those of section 7.1")]
pub struct MandateRow {
    pub session_id: String,
    pub consumer_id: String,
    pub consumed: bool,
    pub goal: String,
    pub merchants: Option<Vec<String>>,
    pub skus: Option<Vec<String>>,
    pub requires_refundability: bool,
    pub intent_expiry: Time,
    pub can_buy_without_confirmation: bool,
    pub max_spend_without_confirmation: u64,
    pub can_negotiate: bool,
    pub can_accept_substitutes: bool,
    pub budget: u64,
    pub currency: String,
    pub delivery_days: Option<u64>,
    pub must_have: Vec<String>,
    pub min_reputation: Option<i64>,
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
#[expect(missing_docs, reason = "the fields are those of section 7.2")]
pub struct GoalRow {
    pub offer_mandate_id: String,
    pub floor_price: u64,
    pub floor_currency: String,
    pub permitted_claims: Vec<String>,
    pub max_rounds: u64,
    pub refundable: bool,
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
#[expect(missing_docs, reason = "the names say it")]
pub enum Party {
    Buyer,
    Merchant,
}

/// The state of an offer on record; `expired` is seen, never written (VC-SM-2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(
    missing_docs,
    reason = "the states are those of the specification's table"
)]
pub enum OfferState {
    Open,
    Superseded,
    Accepted,
    Rejected,
    Certified,
    Settled,
    Closed,
}

/// What verification found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Verification {
    None,
    Requested,
    Passed,
    Failed,
}

/// An offer on record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(
    missing_docs,
    reason = "the fields are those of section 7.3 and of its state"
)]
pub struct OfferRow {
    pub session_id: String,
    pub merchant_id: String,
    pub sku_id: String,
    pub qty: u64,
    pub unit_price: u64,
    pub currency: String,
    pub eta_days: u64,
    pub total: u64,
    pub claims: Vec<String>,
    pub expires_at: Time,
    pub author: Party,
    pub state: OfferState,
    pub round: u64,
    /// The propose envelope that its thread began with.
    pub thread: String,
    pub verification: Verification,
    /// Its latest certificate.
    pub cert_id: Option<String>,
}

/// The state of a certificate on record; `expired` is seen, never written (VC-OBJ-MatchCertificate-4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the states are those of the specification")]
pub enum CertState {
    Issued,
    Approved,
    Consumed,
    Rejected,
}

/// The state of a payment authorization on record; `expired` is seen, never written (VC-SM-5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the states are those of the specification")]
pub enum AuthState {
    Live,
    Captured,
    Voided,
}

/// A payment authorization on record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct AuthRow {
    pub auth_id: String,
    pub account_id: String,
    pub until: Time,
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
#[expect(
    missing_docs,
    reason = "the fields are those of section 7.4 and of its state"
)]
pub struct CertRow {
    pub session_id: String,
    pub mandate_id: String,
    pub offer_id: String,
    pub merchant_id: String,
    pub sku_id: String,
    pub qty: u64,
    pub unit_price: u64,
    pub total: u64,
    pub currency: String,
    pub policy_version: String,
    pub issued_at: String,
    pub expires_at: Time,
    pub expires_text: String,
    pub state: CertState,
    pub auth: Option<AuthRow>,
}

/// Money that authorizations hold on an account.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holds(pub Vec<Hold>);

/// One hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Hold {
    pub auth_id: String,
    pub amount: u64,
    pub until: Time,
}

/// What is known about an order beside its row of the world.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct OrderFile {
    pub session_id: String,
    pub consumer_id: String,
    pub return_id: Option<String>,
    pub open_dispute: Option<String>,
}

/// The state of a return.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names say it")]
pub enum ReturnState {
    Requested,
    Approved,
    Denied,
    Paid,
}

/// A return on record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct ReturnRow {
    pub order_id: String,
    pub session_id: String,
    pub state: ReturnState,
    pub refund_amount: u64,
    pub restock: bool,
}

/// What is known about a dispute beside its row of the world.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct CaseFile {
    pub session_id: String,
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
    pub session_id: String,
    /// Its kind.
    #[serde(rename = "k")]
    pub kind: String,
    /// The side it went to.
    #[serde(rename = "r")]
    pub to: String,
    /// The propose envelope of its thread (VC-CLR-10).
    #[serde(rename = "t", default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
    /// The offer that it carries, or the merchant that it asks.
    #[serde(rename = "o", default, skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
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

    /// The answer that a key is bound to (VC-IDEM-2).
    pub fn idempotency(principal: Option<&str>, from: &str, key: &str) -> RowKey {
        RowKey::text("vibe-idem", &[principal.unwrap_or_default(), from, key])
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

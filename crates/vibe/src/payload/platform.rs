//! What the platform says and does, and what is asked of it (sections 5.3, 5.4, 7.4).

use chancery_core::json::{Place, Value};

use super::delegate::{Instrument, instrument};
use super::fields::{Fields, Stamp, malformed};
use super::{ANY, Payload};
use crate::code::Fault;
use crate::money;

/// A MatchCertificate as it is attested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The certificate.
    pub cert_id: String,
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
    /// constraint_fit, claim_grounding, inventory_availability, reputation_threshold.
    pub checks: [bool; 4],
    /// The policy it was issued under.
    pub policy_version: String,
    /// When it was issued.
    pub issued_at: Stamp,
    /// When it ends.
    pub expires_at: Stamp,
}

/// A payment authorization.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authorize {
    /// The certificate.
    pub cert_id: String,
    /// How it is paid.
    pub instrument: Instrument,
    /// The currency.
    pub currency: String,
    /// The amount.
    pub amount: u64,
    /// The merchant that is paid.
    pub merchant_agent: String,
    /// The SHA-256 of the cart.
    pub cart_mandate_hash: Option<String>,
}

/// How a dispute is ruled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RulingKind {
    /// All that is left is given back.
    RefundFull,
    /// A part is given back.
    RefundPartial,
    /// Nothing is given back.
    Deny,
}

impl RulingKind {
    /// The word in a payload.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::RefundFull => "refund_full",
            Self::RefundPartial => "refund_partial",
            Self::Deny => "deny",
        }
    }

    /// What the merchant's reputation changes by where the ruling does not say.
    pub const fn default_delta(self) -> i64 {
        match self {
            Self::RefundFull => -100,
            Self::RefundPartial => -50,
            Self::Deny => 0,
        }
    }
}

/// A ruling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ruling {
    /// The dispute.
    pub dispute_id: String,
    /// How it is ruled.
    pub kind: RulingKind,
    /// What is given back.
    pub refund_amount: Option<u64>,
    /// What the merchant's score changes by.
    pub reputation_delta: i64,
    /// Accepted envelopes that support it.
    pub evidence: Vec<String>,
}

pub(super) fn rank(fields: Fields<'_>) -> Result<Payload, Fault> {
    let root = Place::ROOT.child("action");
    let root = root.child("payload");
    fields.text("policy_version", 0, ANY)?;
    let query_msg_id = fields.id("query_msg_id")?;
    let place = root.child("candidates");
    for (index, candidate) in fields.array("candidates")?.iter().enumerate() {
        let place = place.item(index);
        let object = candidate.as_object().ok_or_else(|| malformed(&place))?;
        let candidate = Fields::new(object, &place);
        let rank = index as u64 + 1;
        candidate.count("rank", rank, rank)?;
        candidate.id("merchant_id")?;
        candidate.id("sku_id")?;
        candidate.text("title", 0, ANY)?;
        candidate.money("list_price", 0)?;
        candidate.integer("eta_days", i64::MIN, i64::MAX)?;
        candidate.bool("in_stock")?;
        candidate.integer("reputation", i64::MIN, i64::MAX)?;
        candidate.integer("score", i64::MIN, i64::MAX)?;
    }
    Ok(Payload::RankOffers { query_msg_id })
}

pub(super) fn verify(fields: Fields<'_>) -> Result<Payload, Fault> {
    let root = Place::ROOT.child("action");
    let root = root.child("payload");
    let offer_id = fields.id("offer_id")?;
    let policy_version = fields.text("policy_version", 0, ANY)?;
    let place = root.child("results");
    let read = |(index, result): (usize, &Value<'_>)| {
        let place = place.item(index);
        let object = result.as_object().ok_or_else(|| malformed(&place))?;
        let result = Fields::new(object, &place);
        Ok((result.text("claim", 0, ANY)?, result.bool("grounded")?))
    };
    let results = fields.array("results")?.iter().enumerate().map(read);
    Ok(Payload::VerifyClaims {
        offer_id,
        policy_version,
        results: results.collect::<Result<_, Fault>>()?,
    })
}

pub(super) fn certificate(fields: Fields<'_>) -> Result<Payload, Fault> {
    let root = Place::ROOT.child("action");
    let root = root.child("payload");
    let cert_id = fields.id("cert_id")?;
    let mandate_id = fields.id("mandate_id")?;
    let offer_id = fields.id("offer_id")?;
    let merchant_id = fields.id("merchant_id")?;
    let sku_id = fields.id("sku_id")?;
    let qty = fields.count("qty", 0, money::MAX)?;
    let unit_price = fields.money("unit_price", 0)?;
    let total = fields.money("total", 0)?;
    let currency = fields.text("currency", 0, ANY)?;
    let place = root.child("checks");
    let checks = Fields::new(fields.object("checks")?, &place);
    let checks = [
        checks.bool("constraint_fit")?,
        checks.bool("claim_grounding")?,
        checks.bool("inventory_availability")?,
        checks.bool("reputation_threshold")?,
    ];
    Ok(Payload::CreateMatchCertificate(Box::new(Certificate {
        cert_id,
        mandate_id,
        offer_id,
        merchant_id,
        sku_id,
        qty,
        unit_price,
        total,
        currency,
        checks,
        policy_version: fields.text("policy_version", 0, ANY)?,
        issued_at: fields.stamp("issued_at")?,
        expires_at: fields.stamp("expires_at")?,
    })))
}

pub(super) fn authorize(fields: Fields<'_>) -> Result<Payload, Fault> {
    let root = Place::ROOT.child("action");
    let root = root.child("payload");
    let cert_id = fields.id("cert_id")?;
    let place = root.child("payment_instrument");
    let instrument = instrument(Fields::new(fields.object("payment_instrument")?, &place))?;
    let place = root.child("payment_mandate");
    let mandate = Fields::new(fields.object("payment_mandate")?, &place);
    mandate.id("payment_mandate_id")?;
    mandate.id("payment_details_id")?;
    let total_place = place.child("payment_details_total");
    let total = Fields::new(mandate.object("payment_details_total")?, &total_place);
    let currency = total.text("currency", 0, ANY)?;
    let amount = total.money("amount", 0)?;
    let merchant_agent = mandate.id("merchant_agent")?;
    mandate.stamp("timestamp")?;
    let cart_mandate_hash = mandate.optional_text("cart_mandate_hash", ANY)?;
    Ok(Payload::AuthorizePayment(Box::new(Authorize {
        cert_id,
        instrument,
        currency,
        amount,
        merchant_agent,
        cart_mandate_hash,
    })))
}

pub(super) fn settle(fields: Fields<'_>) -> Result<Payload, Fault> {
    Ok(Payload::SettlePayment {
        cert_id: fields.id("cert_id")?,
        auth_id: fields.optional_id("auth_id")?,
    })
}

pub(super) fn refund(fields: Fields<'_>) -> Result<Payload, Fault> {
    let root = Place::ROOT.child("action");
    let root = root.child("payload");
    let place = root.child("basis");
    Ok(Payload::RefundPayment {
        tx_id: fields.id("tx_id")?,
        amount: fields.money("amount", 1)?,
        return_id: Fields::new(fields.object("basis")?, &place).id("return_id")?,
    })
}

pub(super) fn open_dispute(fields: Fields<'_>) -> Result<Payload, Fault> {
    const REQUESTS: [(&str, ()); 3] = [("refund_full", ()), ("refund_partial", ()), ("other", ())];
    let tx_id = fields.id("tx_id")?;
    let reason = fields.text("reason", 1, 2_000)?;
    let evidence = fields.optional_ids("evidence")?.unwrap_or_default();
    fields.optional_word("requested", &REQUESTS)?;
    Ok(Payload::OpenDispute {
        tx_id,
        reason,
        evidence,
    })
}

pub(super) fn request_evidence(fields: Fields<'_>) -> Result<Payload, Fault> {
    let dispute_id = fields.id("dispute_id")?;
    fields.text("question", 0, ANY)?;
    fields.optional_stamp("due")?;
    Ok(Payload::RequestEvidence { dispute_id })
}

pub(super) fn submit_evidence(fields: Fields<'_>) -> Result<Payload, Fault> {
    let dispute_id = fields.id("dispute_id")?;
    let evidence = fields.ids("evidence", 1)?;
    fields.optional_text("statement", 4_000)?;
    Ok(Payload::SubmitEvidence {
        dispute_id,
        evidence,
    })
}

pub(super) fn rule(fields: Fields<'_>) -> Result<Payload, Fault> {
    const KINDS: [(&str, RulingKind); 3] = [
        ("refund_full", RulingKind::RefundFull),
        ("refund_partial", RulingKind::RefundPartial),
        ("deny", RulingKind::Deny),
    ];
    let dispute_id = fields.id("dispute_id")?;
    let kind = fields.word("ruling", &KINDS)?;
    let refund_amount = fields.optional_money("refund_amount")?;
    let fits = match kind {
        RulingKind::RefundFull => true,
        RulingKind::RefundPartial => refund_amount.is_some(),
        RulingKind::Deny => refund_amount.is_none(),
    };
    if !fits {
        return Err(fields.wrong("refund_amount"));
    }
    let delta = fields.optional_integer("reputation_delta", -1_000, 1_000)?;
    let evidence = fields.ids("evidence", 1)?;
    fields.text("rationale", 0, ANY)?;
    Ok(Payload::RuleDispute(Box::new(Ruling {
        dispute_id,
        kind,
        refund_amount,
        reputation_delta: delta.unwrap_or_else(|| kind.default_delta()),
        evidence,
    })))
}

pub(super) fn reputation(fields: Fields<'_>) -> Result<Payload, Fault> {
    let subject = fields.id("subject")?;
    let delta = fields.integer("delta", i64::MIN, i64::MAX)?;
    fields.text("reason", 0, ANY)?;
    Ok(Payload::UpdateReputation {
        subject,
        delta,
        evidence: fields.ids("evidence", 1)?,
    })
}

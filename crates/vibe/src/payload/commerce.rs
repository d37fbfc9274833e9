//! What agents say to each other: searches, offers, carts, deliveries, returns (sections 5.2, 7.3).

use std::collections::BTreeSet;

use chancery_core::canonical::{Dialect, to_bytes};
use chancery_core::digest::Sha256Digest;
use chancery_core::json::{Object, Place, Value};

use super::fields::{Fields, Stamp, malformed};
use super::{ANY, Around, Payload};
use crate::address::Side;
use crate::code::{Code, Fault};
use crate::money;

/// A search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Search {
    /// What is looked for.
    pub query: String,
    /// Days in which it must be there.
    pub delivery_days: Option<u64>,
    /// What it must have.
    pub must_have: Vec<String>,
    /// The merchants that count; none is any.
    pub merchants: Option<Vec<String>>,
    /// The list price at most.
    pub max_price: Option<u64>,
    /// Candidates at most.
    pub limit: usize,
}

/// A GroundedOffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
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
    /// The currency.
    pub currency: String,
    /// Days until it is there.
    pub eta_days: u64,
    /// What the delivery costs.
    pub fee: u64,
    /// The sum of all.
    pub total: u64,
    /// What the merchant claims.
    pub claims: Vec<String>,
    /// When it ends.
    pub expires_at: Stamp,
}

/// A cart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cart {
    /// Its identifier.
    pub cart_id: String,
    /// The offer it is about.
    pub offer_id: String,
    /// The total's currency and value.
    pub total: (String, u64),
    /// The sum of what is displayed, with one currency; none where they differ or it overflows.
    pub displayed: Option<u64>,
    /// The canonical contents.
    pub contents: String,
    /// Their SHA-256 (VC-AP2-2, VC-CLR-20).
    pub hash: Sha256Digest,
}

pub(super) fn search(fields: Fields<'_>) -> Result<Payload, Fault> {
    let root = Place::ROOT.child("action");
    let root = root.child("payload");
    let place = root.child("constraints");
    let query = fields.text("query", 1, 1_000)?;
    let empty = Object::new();
    let constraints = fields.optional_object("constraints")?.unwrap_or(&empty);
    let constraints = Fields::new(constraints, &place);
    let delivery_days = constraints.optional_count("delivery_days", 0, money::MAX)?;
    let must_have = constraints.texts_or_none("must_have")?;
    let merchants = match constraints.get("merchants") {
        None => None,
        Some(_) => Some(constraints.texts("merchants")?),
    };
    let max_price = constraints.optional_money("max_price")?;
    let limit = constraints.optional_count("limit", 1, 100)?.unwrap_or(20);
    Ok(Payload::Search(Box::new(Search {
        query,
        delivery_days,
        must_have,
        merchants,
        max_price,
        limit: limit as usize,
    })))
}

pub(super) fn request_offer(fields: Fields<'_>) -> Result<Payload, Fault> {
    let sku_id = fields.id("sku_id")?;
    let merchant_id = fields.id("merchant_id")?;
    fields.optional_count("qty", 1, money::MAX)?;
    let inquiry = fields.optional_text("inquiry", 2_000)?;
    Ok(Payload::RequestOffer {
        merchant_id,
        sku_id,
        has_inquiry: inquiry.is_some(),
    })
}

pub(super) fn offer(fields: Fields<'_>, around: &Around<'_>) -> Result<Offer, Fault> {
    let root = Place::ROOT.child("action");
    let root = root.child("payload");
    let offer_id = fields.id("offer_id")?;
    let merchant_id = fields.id("merchant_id")?;
    let sku_id = fields.id("sku_id")?;
    let qty = fields.count("qty", 1, 1_000_000)?;
    let unit_price = fields.money("unit_price", 0)?;
    let currency = fields.currency_or("currency", around.currency)?;
    let place = root.child("fulfillment");
    let fulfillment = Fields::new(fields.object("fulfillment")?, &place);
    fulfillment.text("method", 0, ANY)?;
    let eta_days = fulfillment.count("eta_days", 0, 3_650)?;
    let fee = fulfillment.optional_money("fee")?.unwrap_or(0);
    let claims = fields.texts("claims")?;
    check_claims(
        &claims,
        around.from.map(|from| from.side),
        &root.child("claims"),
    )?;
    let expires_at = fields.stamp("expires_at")?;
    let copy = fields.optional_text("idempotency_key", ANY)?;
    if copy.is_some() && copy.as_deref() != around.idempotency_key {
        return Err(fields.wrong("idempotency_key"));
    }
    let total = money::total(qty, unit_price, fee)
        .ok_or_else(|| Fault::at(Code::MoneyOverflow, &root.child("unit_price")))?;
    Ok(Offer {
        offer_id,
        merchant_id,
        sku_id,
        qty,
        unit_price,
        currency,
        eta_days,
        fee,
        total,
        claims,
        expires_at,
    })
}

/// A bid asserts nothing; a merchant's claims are said once each and say something (VC-CLR-5, VC-OBJ-GroundedOffer-2).
fn check_claims(claims: &[String], side: Option<Side>, place: &Place<'_>) -> Result<(), Fault> {
    if side == Some(Side::Buyer) && !claims.is_empty() {
        return Err(malformed(place));
    }
    let mut known = BTreeSet::new();
    for (index, claim) in claims.iter().enumerate() {
        if claim.is_empty() || !known.insert(claim) {
            return Err(malformed(&place.item(index)));
        }
    }
    Ok(())
}

pub(super) fn reject_offer(fields: Fields<'_>) -> Result<Payload, Fault> {
    let offer_id = fields.id("offer_id")?;
    fields.optional_text("reason", ANY)?;
    Ok(Payload::RejectOffer { offer_id })
}

pub(super) fn cart(fields: Fields<'_>) -> Result<Payload, Fault> {
    let root = Place::ROOT.child("action");
    let root = root.child("payload");
    let cart_id = fields.id("cart_id")?;
    let offer_id = fields.id("offer_id")?;
    let contents = fields.object("contents")?;
    let place = root.child("contents");
    let parts = Fields::new(contents, &place);
    parts.id("id")?;
    parts.bool("user_cart_confirmation_required")?;
    let request_place = place.child("payment_request");
    let request = Fields::new(parts.object("payment_request")?, &request_place);
    let details_place = request_place.child("details");
    let details = Fields::new(request.object("details")?, &details_place);
    details.id("id")?;
    let items_place = details_place.child("display_items");
    let mut items = Vec::new();
    for (index, item) in details.array("display_items")?.iter().enumerate() {
        items.push(priced(Some(item), &items_place.item(index))?);
    }
    let total = priced(details.get("total"), &details_place.child("total"))?;
    parts.stamp("cart_expiry")?;
    parts.text("merchant_name", 0, ANY)?;
    let displayed = items.iter().try_fold(0_u64, |sum, (currency, value)| {
        (*currency == total.0)
            .then(|| sum.checked_add(*value))
            .flatten()
    });
    let bytes = to_bytes(&Value::Object(contents.clone()), Dialect::Vibe);
    let hash = Sha256Digest::of(&bytes);
    Ok(Payload::CreateCart(Box::new(Cart {
        cart_id,
        offer_id,
        total,
        displayed,
        contents: String::from_utf8(bytes).expect("canonical JSON is UTF-8"),
        hash,
    })))
}

/// A label and an amount.
fn priced(value: Option<&Value<'_>>, place: &Place<'_>) -> Result<(String, u64), Fault> {
    let object = value
        .and_then(Value::as_object)
        .ok_or_else(|| malformed(place))?;
    let fields = Fields::new(object, place);
    fields.text("label", 0, ANY)?;
    let place = place.child("amount");
    let amount = Fields::new(fields.object("amount")?, &place);
    Ok((amount.currency("currency")?, amount.money("value", 0)?))
}

pub(super) fn dispatch(fields: Fields<'_>) -> Result<Payload, Fault> {
    let order_id = fields.id("order_id")?;
    fields.optional_text("carrier", ANY)?;
    fields.optional_text("tracking", ANY)?;
    let qty = fields.optional_integer("qty", i64::MIN, i64::MAX)?;
    Ok(Payload::Dispatch { order_id, qty })
}

pub(super) fn request_return(fields: Fields<'_>) -> Result<Payload, Fault> {
    let tx_id = fields.id("tx_id")?;
    fields.text("reason", 0, ANY)?;
    Ok(Payload::RequestReturn { tx_id })
}

pub(super) fn respond_return(fields: Fields<'_>) -> Result<Payload, Fault> {
    let return_id = fields.id("return_id")?;
    let approved = fields.word("decision", &[("approve", true), ("deny", false)])?;
    let refund_amount = fields.optional_money("refund_amount")?;
    if approved != refund_amount.is_some() {
        return Err(fields.wrong("refund_amount"));
    }
    let restock = fields.bool_or("restock", false)?;
    fields.optional_text("reason", ANY)?;
    Ok(Payload::RespondReturn {
        return_id,
        refund_amount,
        restock,
    })
}

pub(super) fn respond_inquiry(fields: Fields<'_>) -> Result<Payload, Fault> {
    fields.text("answer", 1, 4_000)?;
    fields.texts_or_none("claims")?;
    Ok(Payload::RespondInquiry)
}

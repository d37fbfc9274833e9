//! What principals hand to their agents: mandates, goals, approvals (sections 5.1, 7.1, 7.2).

use chancery_core::json::{Object, Place, Value};

use super::fields::{Fields, Stamp};
use super::{ANY, Around, Payload};
use crate::code::Fault;

/// A PurchaseMandate, as far as rules read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mandate {
    /// The mandate.
    pub mandate_id: String,
    /// The consumer.
    pub consumer_id: Option<String>,
    /// What is wanted, in words.
    pub goal: String,
    /// The merchants that count; none is any.
    pub merchants: Option<Vec<String>>,
    /// The skus that count; none is any.
    pub skus: Option<Vec<String>>,
    /// Whether it must be refundable.
    pub requires_refundability: bool,
    /// When the wish ends.
    pub intent_expiry: Stamp,
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
    /// What the buyer's side must never say: names with their values, zeros left out (VC-PRIV-3).
    pub private: Vec<(String, u64)>,
}

/// How a buyer pays.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Instrument {
    /// The account that is charged.
    pub account_id: String,
    /// What it is.
    pub r#type: String,
}

/// An OfferMandate, as far as rules read it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Goal {
    /// The goal.
    pub offer_mandate_id: String,
    /// The merchant.
    pub merchant_id: String,
    /// The skus that count; none is any.
    pub skus: Vec<String>,
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
    pub valid_until: Option<Stamp>,
}

pub(super) fn approve(fields: Fields<'_>) -> Result<Payload, Fault> {
    let cert_id = fields.id("cert_id")?;
    fields.optional_text("note", ANY)?;
    Ok(Payload::ApprovePurchase { cert_id })
}

pub(super) fn reject(fields: Fields<'_>) -> Result<Payload, Fault> {
    let cert_id = fields.id("cert_id")?;
    fields.text("reason", 1, 2_000)?;
    Ok(Payload::RejectPurchase { cert_id })
}

/// What the authority block says.
struct Authority {
    can_buy_without_confirmation: bool,
    max_spend_without_confirmation: u64,
    can_negotiate: bool,
    can_accept_substitutes: bool,
    must_not_share: Vec<String>,
}

pub(super) fn mandate(
    fields: Fields<'_>,
    payload: &Object<'_>,
    around: &Around<'_>,
) -> Result<Mandate, Fault> {
    let root = Place::ROOT.child("action");
    let root = root.child("payload");
    let mandate_id = fields.id("mandate_id")?;
    let consumer_id = fields.optional_id("consumer_id")?;
    let place = root.child("ap2_intent_mandate");
    let intent = Fields::new(fields.object("ap2_intent_mandate")?, &place);
    let goal = intent.text("goal", 1, 2_000)?;
    let merchants = intent.nullable_ids("merchants")?;
    let skus = intent.nullable_ids("skus")?;
    let requires_refundability = intent.bool_or("requires_refundability", false)?;
    let intent_expiry = intent.stamp("intent_expiry")?;
    // VC-CLR-20: a cart comes later, by create_cart.
    if fields
        .get("ap2_cart_mandate")
        .is_some_and(|cart| !cart.is_null())
    {
        return Err(fields.wrong("ap2_cart_mandate"));
    }
    let place = root.child("authority");
    let authority = authority(Fields::new(fields.object("authority")?, &place))?;
    let place = root.child("hard_constraints");
    let limits = Fields::new(fields.object("hard_constraints")?, &place);
    let budget = limits.money("budget", 1)?;
    let currency = limits.currency_or("currency", around.currency)?;
    let delivery_days = limits.optional_count("delivery_days", 0, crate::money::MAX)?;
    let must_have = limits.texts_or_none("must_have")?;
    let min_reputation = limits.optional_integer("min_reputation", 0, 1_000)?;
    fields.optional_object("soft_preferences")?;
    fields.optional_object("taste")?;
    let place = root.child("payment_instrument");
    let payment_instrument = fields
        .optional_object("payment_instrument")?
        .map(|object| instrument(Fields::new(object, &place)))
        .transpose()?;
    let mut private = vec![("max_budget".to_owned(), budget)];
    collect_private(payload, &authority.must_not_share, &mut private);
    Ok(Mandate {
        mandate_id,
        consumer_id,
        goal,
        merchants,
        skus,
        requires_refundability,
        intent_expiry,
        can_buy_without_confirmation: authority.can_buy_without_confirmation,
        max_spend_without_confirmation: authority.max_spend_without_confirmation,
        can_negotiate: authority.can_negotiate,
        can_accept_substitutes: authority.can_accept_substitutes,
        budget,
        currency,
        delivery_days,
        must_have,
        min_reputation,
        payment_instrument,
        private,
    })
}

fn authority(fields: Fields<'_>) -> Result<Authority, Fault> {
    let can_buy_without_confirmation = fields.bool("can_buy_without_confirmation")?;
    let max_spend_without_confirmation = fields.money("max_spend_without_confirmation", 0)?;
    let can_negotiate = fields.bool("can_negotiate")?;
    let can_accept_substitutes = fields.bool("can_accept_substitutes")?;
    let can_share = fields.texts("can_share_with_merchant")?;
    let must_not_share = fields.texts("must_not_share_with_merchant")?;
    if must_not_share.iter().any(|name| can_share.contains(name)) {
        return Err(fields.wrong("must_not_share_with_merchant"));
    }
    Ok(Authority {
        can_buy_without_confirmation,
        max_spend_without_confirmation,
        can_negotiate,
        can_accept_substitutes,
        must_not_share,
    })
}

pub(super) fn instrument(fields: Fields<'_>) -> Result<Instrument, Fault> {
    Ok(Instrument {
        r#type: fields.text("type", 0, ANY)?,
        account_id: fields.id("account_id")?,
    })
}

/// Every integer of the mandate whose key is listed, zeros left out (VC-PRIV-3).
fn collect_private(object: &Object<'_>, names: &[String], private: &mut Vec<(String, u64)>) {
    for (name, value) in object.iter() {
        collect_of(name, value, names, private);
    }
}

/// The same of one member; what stands in an array has the array's key.
fn collect_of(name: &str, value: &Value<'_>, names: &[String], private: &mut Vec<(String, u64)>) {
    match value {
        Value::Number(number) if names.iter().any(|listed| listed == name) => {
            let value = number.is_integer_token().then(|| number.as_u64()).flatten();
            let said = value.filter(|value| *value > 0);
            private.extend(said.map(|value| (name.to_owned(), value)));
        }
        Value::Object(inner) => collect_private(inner, names, private),
        Value::Array(items) => {
            for item in items {
                collect_of(name, item, names, private);
            }
        }
        _ => {}
    }
}

pub(super) fn goal(fields: Fields<'_>) -> Result<Goal, Fault> {
    let root = Place::ROOT.child("action");
    let root = root.child("payload");
    let offer_mandate_id = fields.id("offer_mandate_id")?;
    let merchant_id = fields.id("merchant_id")?;
    fields.text("goal", 0, ANY)?;
    let skus = fields.ids("skus", 1)?;
    let place = root.child("pricing");
    let pricing = Fields::new(fields.object("pricing")?, &place);
    let list_price = pricing.money("list_price", 0)?;
    let floor_price = pricing.money("floor_price", 0)?;
    if floor_price > list_price {
        return Err(pricing.wrong("floor_price"));
    }
    let floor_currency = pricing.currency("floor_currency")?;
    let permitted_claims = fields.texts("permitted_claims")?;
    let max_rounds = match fields.optional_object("negotiation")? {
        None => None,
        Some(object) => {
            let place = root.child("negotiation");
            let negotiation = Fields::new(object, &place);
            negotiation.bool_or("can_negotiate", true)?;
            negotiation.optional_count("max_rounds", 1, 100)?
        }
    };
    let place = root.child("fulfillment");
    Fields::new(fields.object("fulfillment")?, &place).texts("methods")?;
    let refundable = match fields.optional_object("returns")? {
        None => true,
        Some(object) => Fields::new(object, &root.child("returns")).bool_or("refundable", true)?,
    };
    let valid_until = match fields.get("valid_until") {
        Some(Value::Null) => None,
        _ => fields.optional_stamp("valid_until")?,
    };
    Ok(Goal {
        offer_mandate_id,
        merchant_id,
        skus,
        floor_price,
        floor_currency,
        permitted_claims,
        max_rounds: max_rounds.unwrap_or(20),
        refundable,
        valid_until,
    })
}

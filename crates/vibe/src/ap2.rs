//! The projection to AP2 and back, without loss (VC-AP2-1).
//!
//! What AP2 has a name for goes under that name; the rest of a mandate travels beside it as `vcp`. AP2 writes amounts as
//! decimals, this protocol as integers of minor units: the currency's exponent leads from one to the other, exactly.

use chancery_core::canonical::{Dialect, write, write_string};
use chancery_core::json::{Number, Object, Value};

use crate::money::{MAX, exponent};

/// Members of an intent that have the same name on both sides.
const SAME: [&str; 4] = [
    "merchants",
    "skus",
    "requires_refundability",
    "intent_expiry",
];
const INTENT: &str = "ap2_intent_mandate";
const CART: &str = "ap2_cart_mandate";
const CART_OF_AP2: &str = "cart_mandate";
const CONFIRM: &str = "user_cart_confirmation_required";
const DESCRIPTION: &str = "natural_language_description";
/// The label of a total that this protocol has no label for. One that is called so itself gets a blank more on the way out,
/// and loses it on the way in: nothing is lost (VC-AP2-1).
const TOTAL: &str = "Total";

/// Why something cannot be projected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {expected}")]
pub struct Ap2Fault {
    /// JSONPath of the member.
    pub path: String,
    /// What belongs there.
    pub expected: &'static str,
}

fn fault(path: &str, expected: &'static str) -> Ap2Fault {
    Ap2Fault {
        path: path.to_owned(),
        expected,
    }
}

/// A purchase mandate as AP2 writes it: `intent_mandate`, `cart_mandate` where there is a cart, and `vcp`.
///
/// # Errors
/// A member that the projection needs is missing or of another form.
pub fn export(mandate: &Value<'_>) -> Result<Vec<u8>, Ap2Fault> {
    let mandate = object(Some(mandate), "$")?;
    let mut rest = mandate.clone();
    let mut from = object(mandate.get(INTENT), "$.ap2_intent_mandate")?.clone();
    let mut intent = Object::default();
    let goal = from
        .remove("goal")
        .ok_or_else(|| fault("$.ap2_intent_mandate.goal", "a text"))?;
    intent.insert(DESCRIPTION, goal);
    for name in SAME {
        if let Some(value) = from.remove(name) {
            intent.insert(name, value);
        }
    }
    let mut authority = object(mandate.get("authority"), "$.authority")?.clone();
    let path = "$.authority.can_buy_without_confirmation";
    let alone = authority
        .remove("can_buy_without_confirmation")
        .and_then(|value| value.as_bool())
        .ok_or_else(|| fault(path, "true or false"))?;
    intent.insert(CONFIRM, !alone);
    rest.insert(INTENT, from);
    rest.insert("authority", authority);
    let mut ap2 = Object::default();
    ap2.insert("intent_mandate", intent);
    if let Some(Value::Object(cart)) = mandate.get(CART) {
        rest.remove(CART);
        let contents = decimal(Value::Object(cart.clone()), "$.ap2_cart_mandate")?;
        ap2.insert(CART_OF_AP2, Object::default().with("contents", contents));
    }
    ap2.insert("vcp", rest);
    Ok(written(&Value::Object(ap2)))
}

/// A purchase mandate from what AP2 writes.
///
/// # Errors
/// A member that the projection needs is missing or of another form.
pub fn import(ap2: &Value<'_>) -> Result<Vec<u8>, Ap2Fault> {
    let ap2 = object(Some(ap2), "$")?;
    only(ap2, &["intent_mandate", CART_OF_AP2, "vcp"], "$")?;
    let mut intent = object(ap2.get("intent_mandate"), "$.intent_mandate")?.clone();
    let mut mandate = object(ap2.get("vcp"), "$.vcp")?.clone();
    let mut own = match mandate.get(INTENT) {
        Some(value) => object(Some(value), "$.vcp.ap2_intent_mandate")?.clone(),
        None => Object::default(),
    };
    let goal = intent
        .remove(DESCRIPTION)
        .ok_or_else(|| fault("$.intent_mandate.natural_language_description", "a text"))?;
    own.insert("goal", goal);
    // AP2 asks the user unless told otherwise.
    let confirm = match intent.remove(CONFIRM) {
        None => true,
        Some(value) => value.as_bool().ok_or_else(|| {
            let path = "$.intent_mandate.user_cart_confirmation_required";
            fault(path, "true or false")
        })?,
    };
    only(&intent, &SAME, "$.intent_mandate")?;
    for (name, value) in intent.iter() {
        own.insert(name.to_owned(), value.clone());
    }
    let mut authority = object(mandate.get("authority"), "$.vcp.authority")?.clone();
    authority.insert("can_buy_without_confirmation", !confirm);
    mandate.insert(INTENT, own);
    mandate.insert("authority", authority);
    if let Some(cart) = ap2.get(CART_OF_AP2) {
        let cart = object(Some(cart), "$.cart_mandate")?;
        only(cart, &["contents"], "$.cart_mandate")?;
        let contents = object(cart.get("contents"), "$.cart_mandate.contents")?.clone();
        let contents = minor(Value::Object(contents), "$.cart_mandate.contents")?;
        mandate.insert(CART, contents);
    }
    Ok(written(&Value::Object(mandate)))
}

/// The `payment_mandate` of an `authorize_payment` as AP2's payment mandate contents.
///
/// # Errors
/// The total is missing or of another form.
pub fn export_payment(payment: &Value<'_>) -> Result<Vec<u8>, Ap2Fault> {
    let path = "$.payment_details_total";
    let mut payment = object(Some(payment), "$")?.clone();
    let mut total = object(payment.get("payment_details_total"), path)?.clone();
    let amount = total
        .remove("amount")
        .ok_or_else(|| fault(path, "an amount"))?;
    let currency = total
        .remove("currency")
        .ok_or_else(|| fault(path, "a currency"))?;
    let money = Object::default()
        .with("currency", currency)
        .with("value", amount);
    total.insert("amount", money);
    match total.get("label").and_then(Value::as_str) {
        Some(own) if is_total(own) => {
            let longer = [own, " "].concat();
            total.insert("label", longer);
        }
        None if !total.contains("label") => {
            total.insert("label", TOTAL);
        }
        _ => {}
    }
    payment.insert(
        "payment_details_total",
        decimal(Value::Object(total), path)?,
    );
    Ok(written(&Value::Object(payment)))
}

/// The `payment_mandate` of an `authorize_payment` from AP2's payment mandate contents.
///
/// # Errors
/// The total is missing or of another form.
pub fn import_payment(contents: &Value<'_>) -> Result<Vec<u8>, Ap2Fault> {
    let path = "$.payment_details_total";
    let mut payment = object(Some(contents), "$")?.clone();
    let total = object(payment.get("payment_details_total"), path)?.clone();
    let total = minor(Value::Object(total), path)?;
    let mut total = object(Some(&total), path)?.clone();
    let money = total.remove("amount");
    let mut money = object(money.as_ref(), "$.payment_details_total.amount")?.clone();
    let label = total.get("label").and_then(Value::as_str);
    if let Some(label) = label.filter(|label| is_total(label)).map(str::to_owned) {
        match label.strip_suffix(' ') {
            Some(own) => drop(total.insert("label", own.to_owned())),
            None => drop(total.remove("label")),
        }
    }
    for (name, here) in [("currency", "currency"), ("value", "amount")] {
        let value = money.remove(name);
        let value =
            value.ok_or_else(|| fault("$.payment_details_total.amount", "currency and value"))?;
        total.insert(here, value);
    }
    only(&money, &[], "$.payment_details_total.amount")?;
    payment.insert("payment_details_total", total);
    Ok(written(&Value::Object(payment)))
}

/// Whether a label is that of a total without one, with any number of blanks behind it.
fn is_total(label: &str) -> bool {
    label.trim_end_matches(' ') == TOTAL
}

fn object<'v, 'a>(value: Option<&'v Value<'a>>, path: &str) -> Result<&'v Object<'a>, Ap2Fault> {
    value
        .and_then(Value::as_object)
        .ok_or_else(|| fault(path, "an object"))
}

/// Refuses what this protocol has no member for, so that nothing from AP2 is lost.
fn only(object: &Object<'_>, names: &[&str], path: &str) -> Result<(), Ap2Fault> {
    match object.iter().find(|(name, _)| !names.contains(name)) {
        None => Ok(()),
        Some((name, _)) => Err(fault(
            &format!("{path}.{name}"),
            "nothing: this protocol has no such member",
        )),
    }
}

type Change = fn(&Number<'_>, &str) -> Option<String>;

/// Amounts as decimals.
fn decimal<'a>(value: Value<'a>, path: &str) -> Result<Value<'a>, Ap2Fault> {
    amounts(value, path, to_decimal, "an integer of minor units")
}

/// Amounts as integers of minor units.
fn minor<'a>(value: Value<'a>, path: &str) -> Result<Value<'a>, Ap2Fault> {
    amounts(
        value,
        path,
        to_minor,
        "a decimal that the currency can express",
    )
}

/// Changes the `value` of every `amount` with a currency, at any depth.
fn amounts<'a>(
    value: Value<'a>,
    path: &str,
    change: Change,
    expected: &'static str,
) -> Result<Value<'a>, Ap2Fault> {
    match value {
        Value::Array(items) => {
            let changed = items
                .into_iter()
                .enumerate()
                .map(|(index, item)| amounts(item, &format!("{path}[{index}]"), change, expected));
            Ok(Value::Array(changed.collect::<Result<_, _>>()?))
        }
        Value::Object(object) => {
            let mut changed = Object::with_capacity(object.len());
            for (name, member) in object.iter() {
                let at = format!("{path}.{name}");
                let member = match (name, member) {
                    ("amount", Value::Object(money)) => {
                        Value::Object(changed_money(money, &at, change, expected)?)
                    }
                    _ => amounts(member.clone(), &at, change, expected)?,
                };
                changed.insert(name.to_owned(), member);
            }
            Ok(Value::Object(changed))
        }
        scalar => Ok(scalar),
    }
}

fn changed_money<'a>(
    money: &Object<'a>,
    path: &str,
    change: Change,
    expected: &'static str,
) -> Result<Object<'a>, Ap2Fault> {
    let mut money = money.clone();
    let currency = money.get("currency").and_then(Value::as_str);
    let currency = currency.ok_or_else(|| fault(path, "a currency"))?;
    let value = money.get("value").and_then(Value::as_number);
    let token = value
        .and_then(|value| change(value, currency))
        .and_then(Number::from_token)
        .ok_or_else(|| fault(&format!("{path}.value"), expected))?;
    money.insert("value", token);
    Ok(money)
}

fn to_decimal(minor: &Number<'_>, currency: &str) -> Option<String> {
    let minor = minor.as_u64().filter(|minor| *minor <= MAX)?;
    let digits = exponent(currency);
    if digits == 0 {
        return Some(minor.to_string());
    }
    let unit = 10_u64.pow(digits);
    let width = digits as usize;
    Some(format!("{}.{:0width$}", minor / unit, minor % unit))
}

fn to_minor(decimal: &Number<'_>, currency: &str) -> Option<String> {
    let digits = exponent(currency) as usize;
    let token = decimal.token();
    let (whole, part) = token.split_once('.').unwrap_or((token, ""));
    // Zeros beyond what the currency can express say nothing.
    let part = match part.len() > digits {
        true => part.trim_end_matches('0'),
        false => part,
    };
    let plain = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !plain(whole) || !plain(part) || part.len() > digits {
        return None;
    }
    let all = format!("{whole}{part:0<digits$}");
    let minor: u64 = all.parse().ok()?;
    (minor <= MAX).then(|| minor.to_string())
}

/// Canonical JSON, but for the value of an amount: its decimals stand as the currency has them.
fn written(value: &Value<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(1_024);
    put(value, false, &mut out);
    out
}

fn put(value: &Value<'_>, in_amount: bool, out: &mut Vec<u8>) {
    match value {
        Value::Object(object) => {
            let mut members: Vec<_> = object.iter().collect();
            members.sort_unstable_by_key(|(name, _)| *name);
            out.push(b'{');
            for (index, (name, value)) in members.into_iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_string(name, out);
                out.push(b':');
                match value {
                    Value::Number(number) if in_amount && name == "value" => {
                        out.extend_from_slice(number.token().as_bytes());
                    }
                    value => put(value, name == "amount", out),
                }
            }
            out.push(b'}');
        }
        Value::Array(items) => {
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                put(item, false, out);
            }
            out.push(b']');
        }
        scalar => write(scalar, Dialect::Vibe, out),
    }
}

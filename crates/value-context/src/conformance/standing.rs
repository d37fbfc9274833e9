//! Cases about what an announced constitution applies to and what constraints come to.

use std::collections::BTreeMap;

use chancery_core::json::Place;
use chancery_core::time::parse_value_context;

use super::{Run, expect};
use crate::constraints::{Constraints, Held, Stamp, combine};
use crate::message::{DEFAULT_MAX_BYTES, Kind, Payload, Version, read_json};
use crate::message_id::MessageId;
use crate::payload::{ConstraintPropagate, ConstraintType, Deployment, Scope};
use chancery_core::conformance::Case;

/// More messages than this are tried in some arrival orders alone.
const ALL_ORDERS_UP_TO: usize = 6;

/// A scope and a deployment.
pub(super) fn scope(case: &mut Case, _: &Run<'_>) -> Result<(), String> {
    let text = case.take("scope")?.to_string();
    let value = read_json(text.as_bytes(), DEFAULT_MAX_BYTES).map_err(|fault| fault.to_string())?;
    let scope = Scope::read(&value, Version::V1_2, &Place::ROOT)
        .map_err(|fault| format!("the scope is refused: {fault}"))?;
    let mut context = case.case("context")?;
    let (model, purpose) = (context.text("model")?, context.text("purpose")?);
    let environment = context.text("environment")?;
    context.finish()?;
    let deployment = Deployment {
        model: &model,
        purpose: &purpose,
        environment: &environment,
    };
    expect(
        "applies",
        scope.applies_to(&deployment),
        case.bool("applies")?,
    )
}

/// A message of a parent, as its child keeps it.
struct FromParent {
    stamp: Stamp,
    payload: ConstraintPropagate,
}

/// Messages of a parent in every order of arrival, and what they come to.
pub(super) fn constraints(case: &mut Case, _: &Run<'_>) -> Result<(), String> {
    let operator = operator_constraints(case)?;
    let messages = case
        .cases("messages_in_arrival_order")?
        .into_iter()
        .map(from_parent)
        .collect::<Result<Vec<_>, _>>()?;
    let expected = case.object("effective")?;
    let expected: BTreeMap<String, serde_json::Value> = expected
        .into_iter()
        .map(|(kind, value)| (kind, with_plain_numbers(value)))
        .collect();
    for order in orders(messages.len()) {
        let in_order: Vec<&FromParent> = order.iter().map(|index| &messages[*index]).collect();
        let what = format!("effective in arrival order {order:?}");
        expect(&what, effective(&operator, &in_order), expected.clone())?;
    }
    Ok(())
}

fn operator_constraints(case: &mut Case) -> Result<BTreeMap<String, Vec<Held>>, String> {
    let mut by_type = BTreeMap::<String, Vec<Held>>::new();
    if case.peek("operator_constraints").is_none() {
        return Ok(by_type);
    }
    for mut constraint in case.cases("operator_constraints")? {
        let kind = constraint.text("type")?;
        let text = constraint.take("value")?.to_string();
        constraint.optional("source_constitution_ref");
        constraint.finish()?;
        let value =
            read_json(text.as_bytes(), DEFAULT_MAX_BYTES).map_err(|fault| fault.to_string())?;
        let held = Held::of(ConstraintType::named(&kind), &value);
        by_type.entry(kind).or_default().push(held);
    }
    Ok(by_type)
}

fn from_parent(mut message: Case) -> Result<FromParent, String> {
    let id = message.text("message_id")?;
    let at = message.text("timestamp")?;
    let stamp = Stamp {
        at: parse_value_context(&at).map_err(|error| error.to_string())?,
        id: MessageId::parse(&id).ok_or("message_id is none")?,
    };
    let payload = message.take("payload")?.to_string();
    message.finish()?;
    let value =
        read_json(payload.as_bytes(), DEFAULT_MAX_BYTES).map_err(|fault| fault.to_string())?;
    let kind = Kind::ConstraintPropagate;
    match Payload::read(kind, Version::V1_2, &value, &Place::ROOT) {
        Ok(Payload::ConstraintPropagate(payload)) => Ok(FromParent { stamp, payload }),
        Ok(_) => Err("a payload of another kind".to_owned()),
        Err(fault) => Err(format!("the payload is refused: {fault}")),
    }
}

fn effective(
    operator: &BTreeMap<String, Vec<Held>>,
    messages: &[&FromParent],
) -> BTreeMap<String, serde_json::Value> {
    let mut by_type: BTreeMap<String, Constraints> = BTreeMap::new();
    for message in messages {
        let mut values = BTreeMap::<&str, Vec<Held>>::new();
        for constraint in message.payload.kept() {
            let kind = ConstraintType::named(&constraint.kind);
            let held = Held::of(kind, &constraint.value);
            values.entry(&constraint.kind).or_default().push(held);
        }
        for (name, values) in values {
            let (kind, mode) = (ConstraintType::named(name), message.payload.mode);
            let constraints = by_type.entry(name.to_owned()).or_default();
            constraints.apply(kind, message.stamp, mode, values, message.stamp.at);
        }
    }
    let names: std::collections::BTreeSet<&String> =
        by_type.keys().chain(operator.keys()).collect();
    let combined = |name: &String| {
        let floor = operator.get(name).into_iter().flatten();
        let kept = by_type.get(name).into_iter().flat_map(Constraints::values);
        let effective = combine(ConstraintType::named(name), floor.chain(kept))?;
        Some((name.clone(), with_plain_numbers(effective.to_json())))
    };
    names.into_iter().filter_map(combined).collect()
}

/// `1.0` is `1`: numbers are compared as values.
fn with_plain_numbers(value: serde_json::Value) -> serde_json::Value {
    use serde_json::Value;
    match value {
        Value::Number(number) => {
            let plain = number.as_f64().filter(|number| number.fract() == 0.0);
            #[expect(clippy::cast_possible_truncation, reason = "both sides are cut alike")]
            plain.map_or(Value::Number(number), |number| Value::from(number as i64))
        }
        Value::Array(items) => items.into_iter().map(with_plain_numbers).collect(),
        Value::Object(members) => members
            .into_iter()
            .map(|(name, member)| (name, with_plain_numbers(member)))
            .collect(),
        other => other,
    }
}

/// Every order of so many messages; of many, the given one and its rotations both ways.
fn orders(count: usize) -> Vec<Vec<usize>> {
    let given: Vec<usize> = (0..count).collect();
    if count > ALL_ORDERS_UP_TO {
        let rotated = |by: usize| {
            let mut order = given.clone();
            order.rotate_left(by);
            order
        };
        let backwards = given.iter().rev().copied().collect();
        return (0..count).map(rotated).chain([backwards]).collect();
    }
    let mut orders = vec![Vec::new()];
    for next in given {
        let insert = |order: &Vec<usize>| {
            let order = order.clone();
            (0..=order.len()).map(move |place| {
                let mut longer = order.clone();
                longer.insert(place, next);
                longer
            })
        };
        orders = orders.iter().flat_map(insert).collect();
    }
    orders
}

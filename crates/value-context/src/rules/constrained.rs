//! Constraints that reach a hosted child: kept per type, and what its parent is told about them (VX-CP-3 to 9).

use std::collections::BTreeMap;

use chancery_core::decision::{Cx, Stop};
use chancery_core::json::{Value, read};
use chancery_core::rows::{Row, RowKey, RowsDamaged};

use super::runtime::Runtime;
use super::told::Told;
use crate::agent::{AgentRecord, ConstraintRecord, hosted};
use crate::code::{Code, Fault};
use crate::constraints::{Constraints, Effective, Held, combine};
use crate::payload::{ConstraintPropagate, ConstraintType, Severity};

/// How many types an agent is under constraints of, at most.
pub const MAX_TYPES: usize = 256;
/// How many bytes the values of one type may take.
pub const MAX_TYPE_BYTES: usize = 262_144;

/// The row of an agent's constraints of one type.
pub fn constraints_key(agent: &str, kind: &str) -> RowKey {
    RowKey::text("vx-constraint", &[agent, kind])
}

/// The prefix of all constraints of an agent.
pub fn constraints_prefix(agent: &str) -> RowKey {
    RowKey::text("vx-constraint", &[agent])
}

/// Applies a message to each listener that is a child of its sender; the others ignore it (VX-CP-9).
pub(super) fn apply(
    told: &Told<'_>,
    propagate: &ConstraintPropagate,
    listeners: &[String],
    runtime: &mut Runtime<'_>,
    cx: &mut Cx<'_>,
) -> Result<(), Stop> {
    for listener in listeners {
        let Some(record) = hosted(cx, listener)? else {
            continue;
        };
        if record.parent.as_deref() == Some(told.sender) {
            apply_to(listener, &record, told, propagate, runtime, cx)?;
        }
    }
    Ok(())
}

fn apply_to(
    child: &str,
    record: &AgentRecord,
    told: &Told<'_>,
    propagate: &ConstraintPropagate,
    runtime: &mut Runtime<'_>,
    cx: &mut Cx<'_>,
) -> Result<(), Stop> {
    let mut by_type = BTreeMap::<&str, Vec<Held>>::new();
    for constraint in propagate.kept() {
        let kind = ConstraintType::named(&constraint.kind);
        let value = Held::of(kind, &constraint.value);
        by_type.entry(&constraint.kind).or_default().push(value);
    }
    let mut on_record = read_types(child, by_type.keys().copied(), cx)?;
    let mut changed = false;
    for (name, values) in by_type {
        let kind = ConstraintType::named(name);
        let key = constraints_key(child, name);
        let mut constraints = on_record.remove(name).unwrap_or_default();
        let floor = operator_values(record, name);
        let was_nobody = is_nobody(kind, &floor, &constraints);
        changed |= constraints.apply(kind, told.stamp(), propagate.mode, values, cx.now());
        if constraints.bytes() > MAX_TYPE_BYTES {
            return Err(full("the constraints of this type are too many"));
        }
        let tells = kind == ConstraintType::Unknown && !constraints.told;
        constraints.told |= tells;
        cx.put(key, &constraints);
        if tells {
            let reason = format!("constraint type {name} is not known here and cannot be enforced");
            runtime.escalate(child, record, told.sender, Severity::Warning, &reason, cx)?;
        }
        if !was_nobody && is_nobody(kind, &floor, &constraints) {
            let reason = "the constraints leave no audience that may be served";
            runtime.escalate(child, record, told.sender, Severity::Warning, reason, cx)?;
        }
    }
    if changed {
        runtime.event("constraints_changed", told.id, cx);
    }
    Ok(())
}

fn is_nobody(kind: ConstraintType, floor: &[Held], constraints: &Constraints) -> bool {
    combine(kind, floor.iter().chain(constraints.values()))
        .is_some_and(|effective| effective.is_nobody(kind))
}

/// What is on record of some types, fetched together; refuses when there is no room for those that are new.
fn read_types<'n>(
    child: &str,
    names: impl Iterator<Item = &'n str>,
    cx: &Cx<'_>,
) -> Result<BTreeMap<&'n str, Constraints>, Stop> {
    let (mut found, mut missing, mut new) = (BTreeMap::new(), Vec::new(), 0);
    for name in names {
        match cx.row(&constraints_key(child, name)) {
            Ok(Some(constraints)) => {
                found.insert(name, constraints);
            }
            Ok(None) => new += 1,
            Err(Stop::Missing(keys)) => missing.extend(keys),
            Err(stop) => return Err(stop),
        }
    }
    if !missing.is_empty() {
        return Err(Stop::Missing(missing));
    }
    if new > 0 && cx.scan(&constraints_prefix(child))?.len() + new > MAX_TYPES {
        return Err(full("the agent is under constraints of too many types"));
    }
    Ok(found)
}

fn full(message: &'static str) -> Stop {
    Fault::new(Code::Overloaded, message)
        .under("VX-CP-4")
        .into_refusal("capacity")
        .into()
}

/// What the operator sets for a type; no message removes it (VX-CP-8).
fn operator_values(record: &AgentRecord, name: &str) -> Vec<Held> {
    let kind = ConstraintType::named(name);
    let of_type = record
        .operator_constraints
        .iter()
        .filter(|constraint| constraint.kind == name);
    of_type
        .map(|constraint| Held::of(kind, &value_of(constraint)))
        .collect()
}

fn value_of(constraint: &ConstraintRecord) -> Value<'static> {
    let text = serde_json::to_vec(&constraint.value).unwrap_or_default();
    read(&text, &chancery_core::json::ReadRules::OWN)
        .map(Value::into_owned)
        .unwrap_or(Value::Null)
}

/// All that an agent is under, by type: what its parent set and what its operator sets (VX-CP-8).
pub fn effective(
    record: &AgentRecord,
    rows: &[(RowKey, Row)],
) -> Result<BTreeMap<String, Effective>, RowsDamaged> {
    let mut by_type = BTreeMap::<String, Vec<Held>>::new();
    for constraint in &record.operator_constraints {
        by_type
            .entry(constraint.kind.clone())
            .or_insert_with(|| operator_values(record, &constraint.kind));
    }
    for (key, bytes) in rows {
        let damaged = |reason: String| RowsDamaged(format!("{key:?}: {reason}"));
        let name = key.parts().pop().unwrap_or_default();
        let name = String::from_utf8(name).map_err(|error| damaged(error.to_string()))?;
        let constraints: Constraints =
            serde_json::from_slice(bytes).map_err(|error| damaged(error.to_string()))?;
        let values = constraints.values().cloned();
        by_type.entry(name).or_default().extend(values);
    }
    let combined = |(name, values): (String, Vec<Held>)| {
        let effective = combine(ConstraintType::named(&name), values.iter())?;
        Some((name, effective))
    };
    Ok(by_type.into_iter().filter_map(combined).collect())
}

//! Tables: canonical form, identifiers, the guard, the money rule, the permission table.

use chancery_core::canonical::{Dialect, to_bytes};
use chancery_core::digest::{Sha256Digest, hex};
use chancery_core::ids::{ObjectKind, child_id, object_id};
use chancery_core::json::{self, Object, Place, ReadRules, Value};

use super::case::{Case, Outcome, expect, verbatim};
use crate::action::Action;
use crate::address::Address;
use crate::guard::{self, Private};
use crate::message::{self, fingerprint_of};
use crate::money as money_rule;
use crate::partition::TABLE;

/// `vibe/canonical`: text to canonical bytes, or the refusal of step 2.
pub(super) fn canonical(case: &mut Case<'_>) -> Outcome {
    let input = case.text("input")?;
    let read = message::read(input.as_bytes());
    let in_range = read
        .as_ref()
        .is_ok_and(|value| !money_rule::out_of_range(value));
    if let Some(error) = case.optional("error") {
        expect("error", error.as_str(), Some("malformed_json"))?;
        return expect("accepted", in_range, false);
    }
    let value = read.map_err(|fault| fault.code.as_str())?;
    expect("accepted", in_range, true)?;
    let bytes = to_bytes(&value, Dialect::Vibe);
    if let Some(expected) = case.optional("canonical_hex") {
        expect(
            "canonical",
            Some(hex::encode(&bytes).as_str()),
            expected.as_str(),
        )?;
    }
    let digest = Sha256Digest::of(&bytes).hex();
    expect("sha256", digest.as_str(), case.text("sha256")?)?;
    if let Some(length) = case.optional("length") {
        let length = length.as_number().and_then(|number| number.as_u64());
        expect("length", Some(bytes.len() as u64), length)?;
    }
    if let Some(expected) = case.optional("fingerprint") {
        let fields = value.as_object().ok_or("no envelope")?;
        let found = fingerprint_of(fields).hex();
        expect("fingerprint", Some(found.as_str()), expected.as_str())?;
    }
    Ok(())
}

/// `vibe/ids`: derived identifiers.
pub(super) fn ids(case: &mut Case<'_>) -> Outcome {
    if let Some(parent) = case.optional("parent") {
        let parent = parent.as_str().ok_or("parent is no string")?;
        let found = child_id(parent, case.number("index")?).to_string();
        return expect("child_id", found.as_str(), case.text("child_id")?);
    }
    let name = case.text("kind")?;
    let kind = ObjectKind::ALL
        .into_iter()
        .find(|kind| kind.name() == name)
        .ok_or_else(|| format!("no kind {name}"))?;
    let cause = case.text("msg_id")?;
    let found = object_id(kind, cause);
    expect("object_id", found.as_str(), case.text("id")?)
}

/// A payload that the case gives as a value or as text.
fn payload_text(case: &mut Case<'_>) -> Result<Vec<u8>, String> {
    if let Some(text) = case.optional("payload_json") {
        let text = text.as_str().ok_or("payload_json is no string")?;
        return Ok(text.as_bytes().to_vec());
    }
    let mut text = Vec::new();
    verbatim(case.take("payload")?, &mut text);
    Ok(text)
}

/// `vibe/guard`: does a payload give a private value away, and where first.
pub(super) fn guard(case: &mut Case<'_>) -> Outcome {
    let store = [Private {
        value: case.number("private")?,
        currency: case.text("currency")?.to_owned(),
    }];
    let currencies: Vec<String> = case
        .texts("known_currencies")?
        .into_iter()
        .map(str::to_owned)
        .collect();
    let text = payload_text(case)?;
    let value = json::read(&text, &ReadRules::VIBE).map_err(|fault| fault.to_string())?;
    let payload = value.as_object().ok_or("the payload is no object")?;
    let action = Object::new().with("payload", value.clone());
    let fields = Object::new();
    let facts = guard::facts(&fields, &action, payload, &[]);
    let leak = facts.leak(&store, &currencies);
    expect("leak", leak.is_some(), case.bool("leak")?)?;
    if let Some(param) = case.optional("param") {
        let place = leak.and_then(|index| guard::place_of(index, &fields, &action, payload, &[]));
        expect("param", place.as_deref(), param.as_str())?;
    }
    Ok(())
}

/// `vibe/money`: the money rule on a payload alone.
pub(super) fn money(case: &mut Case<'_>) -> Outcome {
    let text = payload_text(case)?;
    let value = json::read(&text, &ReadRules::VIBE).map_err(|fault| fault.to_string())?;
    let payload = value.as_object().ok_or("the payload is no object")?;
    let action = Place::ROOT.child("action");
    let found = money_rule::scan(payload, &action.child("payload")).fault;
    expect("ok", found.is_none(), case.bool("ok")?)?;
    if let Some(code) = case.optional("code") {
        let found = found.as_ref().map(|fault| fault.code.as_str());
        expect("code", found, code.as_str())?;
    }
    if let Some(param) = case.optional("param") {
        let found = found.as_ref().and_then(|fault| fault.param.as_deref());
        expect("param", found, param.as_str())?;
    }
    Ok(())
}

/// `vibe/partition`: for every kind and every pair of addresses, what the table says.
pub(super) fn partition(file: &mut Case<'_>) -> Result<Vec<(String, Outcome)>, String> {
    file.optional("requirements");
    file.text("about")?;
    let addresses = file.texts("addresses")?;
    let mut outcomes = Vec::new();
    for value in file.array("cases")? {
        let mut case = Case::of(value)?;
        let kind = case.text("kind")?;
        let outcome = partition_of(kind, &mut case, &addresses).and_then(|()| case.finish());
        outcomes.push((kind.to_owned(), outcome));
    }
    Ok(outcomes)
}

fn partition_of(kind: &str, case: &mut Case<'_>, addresses: &[&str]) -> Outcome {
    let action = Action::parse(kind).ok_or_else(|| format!("no action {kind}"))?;
    expect("mutation", action.is_mutation(), case.bool("mutation")?)?;
    let verdict = case.text("verdict")?;
    let pairs = case.take("pairs")?;
    for from in addresses {
        for to in addresses.iter().chain(&["world"]) {
            let listed = pairs
                .get(from)
                .and_then(Value::as_array)
                .is_some_and(|receivers| receivers.iter().any(|one| one.as_str() == Some(*to)));
            let expected = if listed { verdict } else { "deny" };
            let sender = Address::sender(from).map_err(|code| code.as_str())?;
            let receiver = Address::receiver(to).map_err(|code| code.as_str())?;
            let found = match TABLE.check(action, sender, receiver) {
                Err(_) => "deny",
                Ok(()) if action.is_runtime_only() => "outside_transaction",
                Ok(()) => "allow",
            };
            expect(&format!("{from} to {to}"), found, expected)?;
        }
    }
    Ok(())
}

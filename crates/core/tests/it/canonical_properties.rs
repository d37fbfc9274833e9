//! What holds of canonical bytes for every value.

use std::collections::BTreeMap;

use chancery_core::canonical::{Dialect, canonical_cutting, to_bytes, write_without_member};
use chancery_core::json::{Object, Value};
use proptest::prelude::*;

use crate::canonical_support::{any_value, by_serde, permissive};

const DIALECTS: [Dialect; 3] = [Dialect::Rfc8785, Dialect::Python, Dialect::Vibe];

/// A value as its meaning: members in no order, numbers as exact integers or as doubles.
#[derive(Debug, PartialEq)]
enum Meaning {
    Null,
    Bool(bool),
    Integer(String),
    Double(f64),
    Text(String),
    Items(Vec<Meaning>),
    Members(BTreeMap<String, Meaning>),
}

fn meaning(value: &Value<'_>, dialect: Dialect) -> Meaning {
    match value {
        Value::Null => Meaning::Null,
        Value::Bool(value) => Meaning::Bool(*value),
        Value::Number(number) => match (dialect, number.is_integer_token()) {
            (Dialect::Python, true) if number.token() == "-0" => Meaning::Integer("0".to_owned()),
            (Dialect::Python, true) => Meaning::Integer(number.token().to_owned()),
            _ => Meaning::Double(number.as_f64()),
        },
        Value::String(text) => Meaning::Text(text.to_string()),
        Value::Array(items) => {
            Meaning::Items(items.iter().map(|item| meaning(item, dialect)).collect())
        }
        Value::Object(object) => {
            let member =
                |(name, value): (&str, &Value<'_>)| (name.to_owned(), meaning(value, dialect));
            Meaning::Members(object.iter().map(member).collect())
        }
    }
}

/// The same value with the members of every object in reverse, or turned by some places.
fn reordered(value: &Value<'static>, turn: usize) -> Value<'static> {
    match value {
        Value::Array(items) => {
            Value::Array(items.iter().map(|item| reordered(item, turn)).collect())
        }
        Value::Object(object) => {
            let member = |(name, value): (&str, _)| (name.to_owned(), reordered(value, turn));
            let mut members: Vec<(String, Value<'static>)> = object.iter().map(member).collect();
            members.reverse();
            let places = turn % members.len().max(1);
            members.rotate_left(places);
            Value::Object(members.into_iter().collect::<Object<'_>>())
        }
        other => other.clone(),
    }
}

fn whole_in_double(value: &Value<'_>) -> bool {
    match value {
        Value::Number(number) => !number.is_integer_token() || number.is_safe_integer(),
        Value::Array(items) => items.iter().all(whole_in_double),
        Value::Object(object) => object.iter().all(|(_, value)| whole_in_double(value)),
        _ => true,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, failure_persistence: None, ..ProptestConfig::default() })]

    // VX-TST-2
    #[test]
    fn the_form_is_a_fixed_point_and_means_the_same(value in any_value()) {
        for dialect in DIALECTS {
            let bytes = to_bytes(&value, dialect);
            let back = permissive(&bytes);
            prop_assert_eq!(meaning(&back, dialect), meaning(&value, dialect));
            prop_assert_eq!(to_bytes(&back, dialect), bytes);
        }
    }

    // VX-CAN-8, VA-CJ-1, VC-CAN-1
    #[test]
    fn the_order_of_members_changes_nothing(value in any_value(), turn in any::<usize>()) {
        let other = reordered(&value, turn);
        for dialect in DIALECTS {
            prop_assert_eq!(to_bytes(&other, dialect), to_bytes(&value, dialect));
        }
    }

    #[test]
    fn agreement_is_exact_and_cuts_are_clean(value in any_value(), first in any_value(), name in "[a-c]?") {
        let value = Value::Object(Object::new().with("b", first).with("a", value).with("", true));
        let forms = DIALECTS.map(|dialect| to_bytes(&value, dialect));
        let all_same = forms.iter().all(|form| *form == forms[0]);
        for (dialect, form) in DIALECTS.into_iter().zip(&forms) {
            let canonical = canonical_cutting(&value, &name, dialect);
            prop_assert_eq!(canonical.bytes(), form);
            prop_assert_eq!(canonical.agree(), all_same);
            let mut without = Vec::new();
            write_without_member(&value, &name, dialect, &mut without);
            prop_assert_eq!(canonical.signed_bytes(), &without[..]);
            let Value::Object(mut object) = value.clone() else { unreachable!() };
            object.remove(&name);
            prop_assert_eq!(to_bytes(&Value::Object(object), dialect), without);
        }
    }

    // VX-CAN-1 to VX-CAN-4. Integers beyond 2^53 are no doubles to the oracle, and RFC 8785 leaves them open.
    #[test]
    fn rfc_8785_is_what_the_oracle_writes(value in any_value().prop_filter("safe", whole_in_double)) {
        let theirs = by_serde(&to_bytes(&value, Dialect::Vibe)).unwrap();
        let theirs = serde_json_canonicalizer::to_vec(&theirs).unwrap();
        prop_assert_eq!(to_bytes(&value, Dialect::Rfc8785), theirs);
    }
}

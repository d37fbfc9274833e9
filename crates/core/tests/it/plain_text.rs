//! Plain text is its own canonical form: what is not written out again must be what writing gives.

use bytes::Bytes;
use chancery_core::canonical::{Dialect, canonical_cutting, plain_cutting, plain_len, to_bytes};
use chancery_core::json::{MAX_DEPTH, Object, ReadRules, Value, read, read_noting};
use proptest::prelude::*;

use crate::canonical_support::any_value;

const DIALECTS: [Dialect; 3] = [Dialect::Rfc8785, Dialect::Python, Dialect::Vibe];

fn is_plain(text: &str) -> bool {
    read_noting(text.as_bytes(), &ReadRules::OWN).unwrap().1
}

#[test]
fn what_every_dialect_writes_alike_is_plain() {
    for text in [
        "null",
        "{}",
        "[]",
        "\"é 😀 \u{2028}\"",
        "0",
        "-7",
        "9007199254740991",
        r#"{"a":[1,true,false,null],"b":{"c":"x"},"ba":""}"#,
        r#"[{"b":1},{"a":1},{"a":{"z":0},"b":{"a":0}}]"#,
    ] {
        assert!(is_plain(text), "{text}");
    }
}

#[test]
fn what_some_dialect_writes_otherwise_is_not_plain() {
    for text in [
        " 1",
        "1 ",
        "[ ]",
        "[1, 2]",
        r#"{"a" :1}"#,
        r#"{"b":1,"a":2}"#,
        r#"{"a":{"b":1,"a":2}}"#,
        r#"[{"b":{"x":1},"a":2}]"#,
        r#""\n""#,
        r#""\u0061""#,
        r#"{"\u0061":1}"#,
        "-0",
        "1.5",
        "1e3",
        "9007199254740992",
    ] {
        assert!(!is_plain(text), "{text}");
    }
}

#[test]
fn repeated_names_are_found_in_sorted_and_unsorted_objects() {
    for text in [
        r#"{"a":1,"a":2}"#,
        r#"{"a":1,"b":2,"a":3}"#,
        r#"{"b":1,"a":2,"b":3}"#,
        r#"{"a":{"x":1,"y":2},"b":{"x":1,"x":2}}"#,
    ] {
        assert!(read(text.as_bytes(), &ReadRules::OWN).is_err(), "{text}");
    }
    // More than the reader compares one by one, the fault far behind the sorted part.
    let mut names: Vec<String> = (0..100).map(|n| format!("\"n{n:03}\":0")).collect();
    let sorted = format!("{{{}}}", names.join(","));
    assert!(is_plain(&sorted));
    names.push("\"n007\":0".to_owned());
    let repeated = format!("{{{}}}", names.join(","));
    assert!(read(repeated.as_bytes(), &ReadRules::OWN).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn plain_text_is_the_canonical_form_in_every_dialect(value in any_value(), other in any_value(), name in "[a-c]?") {
        let value = Value::Object(Object::new().with("b", other).with("a", value).with("", true));
        for dialect in DIALECTS {
            let text = Bytes::from(to_bytes(&value, dialect));
            let (read, plain) = read_noting(&text, &ReadRules::OWN).unwrap();
            if !plain {
                continue;
            }
            prop_assert_eq!(plain_len(&read), text.len());
            for dialect in DIALECTS {
                let written = canonical_cutting(&read, &name, dialect);
                prop_assert_eq!(plain_cutting(&read, &name, text.clone()), written);
            }
        }
    }

    #[test]
    fn rules_admit_what_they_would_have_read(value in any_value(), levels in 0..6usize, room in 0..80usize) {
        let text = to_bytes(&value, Dialect::Vibe);
        let value = read(&text, &ReadRules::OWN).unwrap();
        for rules in [ReadRules::VALUE_CONTEXT, ReadRules::VIBE, ReadRules::VACANT, ReadRules::AGH] {
            let rules = ReadRules { max_depth: levels, max_bytes: text.len().max(40) - 40 + room, ..rules };
            prop_assert_eq!(rules.admit(&value, text.len()), read(&text, &rules).is_ok());
        }
    }
}

#[test]
fn rules_admit_no_more_levels_than_any_reader() {
    let rules = ReadRules {
        max_depth: usize::MAX,
        ..ReadRules::OWN
    };
    let nested =
        |levels: usize| (0..levels).fold(Value::Null, |value, _| Value::Array(vec![value]));
    assert!(rules.admit(&nested(MAX_DEPTH), 0));
    assert!(!rules.admit(&nested(MAX_DEPTH + 1), 0));
}

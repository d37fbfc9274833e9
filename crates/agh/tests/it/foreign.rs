//! Other people's data: the examples and schemas that the protocol's pages print.

use std::path::PathBuf;

use chancery_agh::body::Card;
use chancery_agh::revision::Mode;
use chancery_agh::settings::{Settings, Trust};
use chancery_agh::trust::evaluate;
use chancery_agh::validate::{members, validate};
use chancery_core::json::{ReadRules, read};
use serde_json::Value;

/// The folder of the foreign data; none when it is not named, and then the test says what it leaves out.
fn folder(cases: usize) -> Option<PathBuf> {
    let folder = std::env::var_os("CHANCERY_FOREIGN_VECTORS").map(PathBuf::from);
    if folder.is_none() {
        use std::io::Write as _;
        let _ = writeln!(
            std::io::stderr(),
            "CHANCERY_FOREIGN_VECTORS is not set: {cases} cases were left out"
        );
    }
    folder.map(|folder| folder.join("agh"))
}

fn json(path: &std::path::Path) -> Value {
    let text = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&text).unwrap()
}

/// What the specification says about a printed example.
fn expected(id: &str, envelope: &Value) -> &'static str {
    let kind = envelope["kind"].as_str().unwrap_or_default();
    if id.starts_with("ed25519-jcs") {
        // Signed examples need the trust profile (AG-TRU-1): without it null is a wrong type (AG-ENV-17), which ranks
        // before the protocol's version (AG-VAL-2), and a handle is no Peer ID.
        return "malformed";
    }
    // Rooms in prose are placeholders like digests: none is that of its two members (AG-B-9).
    if envelope["surface"] == "direct" {
        return "malformed";
    }
    match kind {
        // Digests in prose are placeholders (AG-DIG-2).
        "capability" => "verification_failed",
        _ => "accept",
    }
}

// AG-CON-4, AG-DIG-2, AG-B-8, AG-B-9, AG-TRU-1
#[test]
fn the_examples_that_the_pages_print() {
    const CASES: usize = 76;
    let Some(folder) = folder(CASES) else { return };
    let (mut envelopes, mut fragments) = (0, 0);
    for (file, mode) in [("rev-a", Mode::A), ("rev-b", Mode::B)] {
        let file = json(&folder.join(format!("public-examples-{file}.json")));
        for case in file["cases"].as_array().unwrap() {
            let id = case["id"].as_str().unwrap();
            let Some(envelope) = case.get("envelope") else {
                check_fragment(&case["fragment"]);
                fragments += 1;
                continue;
            };
            let now = case["now"].as_i64().unwrap();
            for mode in [mode, Mode::Dual] {
                let settings = Settings {
                    revision: mode,
                    ..Settings::default()
                };
                let text = envelope.to_string();
                let found = match validate(text.as_bytes(), now, &settings) {
                    Ok(_) => "accept",
                    Err(fault) => fault.reason().as_str(),
                };
                assert_eq!(found, expected(id, envelope), "{id} in {mode:?}");
            }
            envelopes += 1;
        }
    }
    assert_eq!(envelopes + fragments, CASES);
    assert_eq!(fragments, 10);
}

/// A card or a list of capabilities; reports about other programs are none of our business.
fn check_fragment(fragment: &Value) {
    if fragment.get("peer_id").is_none() {
        return;
    }
    let text = fragment.to_string();
    let value = read(text.as_bytes(), &ReadRules::AGH).unwrap();
    let settings = Settings {
        trust: Trust {
            enabled: true,
            ..Trust::default()
        },
        ..Settings::default()
    };
    Card::read(value.as_object().unwrap(), &settings).unwrap();
}

// AG-TRU-6, AG-TRU-7, AG-B-27
#[test]
fn the_signed_examples_under_the_trust_profile() {
    const CASES: usize = 6;
    let Some(folder) = folder(CASES) else { return };
    let settings = Settings {
        trust: Trust {
            enabled: true,
            ..Trust::default()
        },
        ..Settings::default()
    };
    let mut judged = 0;
    for file in ["rev-a", "rev-b"] {
        let file = json(&folder.join(format!("public-examples-{file}.json")));
        for case in file["cases"].as_array().unwrap() {
            let id = case["id"].as_str().unwrap();
            let Some(envelope) = case
                .get("envelope")
                .filter(|_| id.starts_with("ed25519-jcs"))
            else {
                continue;
            };
            let text = envelope.to_string();
            let value = read(text.as_bytes(), &ReadRules::AGH).unwrap();
            let read = members(&value, &settings).unwrap();
            let state = evaluate(&value, &read, &settings);
            // An example without its signature is one before signing.
            let has_signature = envelope["proof"].get("sig").is_some();
            let is_state = if has_signature {
                ["verified", "rejected"]
            } else {
                ["rejected", "rejected"]
            };
            assert!(is_state.contains(&state.as_str()), "{id}: {state:?}");
            judged += 1;
        }
    }
    assert_eq!(judged, CASES);
}

// AG-ENV-16, AG-ENV-17, AG-ENV-18
#[test]
fn what_we_accept_the_public_schemas_accept() {
    const CASES: usize = 199;
    let Some(folder) = folder(CASES) else { return };
    let vectors = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/agh/");
    let mut judged = 0;
    for (file, schema, mode) in [
        ("envelopes.json", "rev-a", Mode::A),
        ("rev-b-envelopes.json", "rev-b", Mode::B),
    ] {
        let schema = json(&folder.join(format!("envelope.schema.{schema}.json")));
        let file = json(&PathBuf::from(vectors).join(file));
        for case in file["cases"].as_array().unwrap() {
            let Some(envelope) = case.get("envelope") else {
                judged += 1;
                continue;
            };
            let settings = Settings {
                revision: mode,
                ..Settings::default()
            };
            let text = envelope.to_string();
            let accepted =
                validate(text.as_bytes(), case["now"].as_i64().unwrap(), &settings).is_ok();
            let valid = schema::is_valid(&schema, envelope);
            assert!(!accepted || valid, "{}: the schema refuses it", case["id"]);
            judged += 1;
        }
    }
    assert_eq!(judged, CASES);
}

/// As much of JSON Schema as the two schemas use.
mod schema {
    use serde_json::Value;

    pub fn is_valid(schema: &Value, value: &Value) -> bool {
        let rules = schema.as_object().unwrap();
        rules.iter().all(|(rule, argument)| match rule.as_str() {
            "$schema" | "$id" | "title" | "properties" => true,
            "type" => is_of_type(argument, value),
            "const" => value == argument,
            "enum" => argument.as_array().unwrap().contains(value),
            "required" => {
                let names = argument.as_array().unwrap();
                names
                    .iter()
                    .all(|name| value.get(name.as_str().unwrap()).is_some())
            }
            "minLength" => value
                .as_str()
                .is_none_or(|text| text.chars().count() as u64 >= argument.as_u64().unwrap()),
            "minimum" => value
                .as_f64()
                .is_none_or(|number| number >= argument.as_f64().unwrap()),
            "pattern" => value
                .as_str()
                .is_none_or(|text| matches(argument.as_str().unwrap(), text)),
            "additionalProperties" => true,
            other => panic!("the schemas use {other}"),
        }) && members_are_valid(schema, value)
    }

    fn members_are_valid(schema: &Value, value: &Value) -> bool {
        let (Some(properties), Some(members)) = (schema.get("properties"), value.as_object())
        else {
            return true;
        };
        let closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
        members
            .iter()
            .all(|(name, member)| match properties.get(name) {
                Some(rules) => is_valid(rules, member),
                None => !closed,
            })
    }

    fn is_of_type(wanted: &Value, value: &Value) -> bool {
        let is = |name: &str| match name {
            "object" => value.is_object(),
            "string" => value.is_string(),
            "null" => value.is_null(),
            "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
            other => panic!("the schemas use type {other}"),
        };
        match wanted {
            Value::Array(names) => names.iter().any(|name| is(name.as_str().unwrap())),
            name => is(name.as_str().unwrap()),
        }
    }

    /// `^`, literal text, classes with an optional `{m,n}` or `{n}`, `$`.
    fn matches(pattern: &str, text: &str) -> bool {
        let mut rest = text.as_bytes();
        let mut pattern = pattern
            .strip_prefix('^')
            .unwrap()
            .strip_suffix('$')
            .unwrap();
        while !pattern.is_empty() {
            let Some(class) = pattern.strip_prefix('[') else {
                let (first, left) = pattern.split_at(1);
                let Some(after) = rest.strip_prefix(first.as_bytes()) else {
                    return false;
                };
                (rest, pattern) = (after, left);
                continue;
            };
            let (class, mut left) = class.split_once(']').unwrap();
            let (mut least, mut most) = (1, 1);
            if let Some(times) = left.strip_prefix('{') {
                let (times, after) = times.split_once('}').unwrap();
                let (low, high) = times.split_once(',').unwrap_or((times, times));
                (least, most) = (low.parse().unwrap(), high.parse().unwrap());
                left = after;
            }
            let run = rest
                .iter()
                .take(most)
                .take_while(|byte| is_in(class, **byte))
                .count();
            if run < least {
                return false;
            }
            (rest, pattern) = (&rest[run..], left);
        }
        rest.is_empty()
    }

    fn is_in(class: &str, byte: u8) -> bool {
        let class = class.as_bytes();
        let mut at = 0;
        while at < class.len() {
            if at + 2 < class.len() && class[at + 1] == b'-' {
                if (class[at]..=class[at + 2]).contains(&byte) {
                    return true;
                }
                at += 3;
            } else {
                if class[at] == byte {
                    return true;
                }
                at += 1;
            }
        }
        false
    }
}

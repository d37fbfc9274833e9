//! What the tests of JSON and its canonical form share: test data, and values to try.

use std::path::{Path, PathBuf};

use chancery_core::json::{
    DuplicateNames, Integers, Number, Object, Overflow, ReadRules, Value, read,
};
use proptest::prelude::*;

/// Accepts all that is JSON: what it refuses is refused by everyone.
pub const PERMISSIVE: ReadRules = ReadRules {
    max_bytes: usize::MAX,
    max_depth: 1024,
    duplicate_names: DuplicateNames::LastWins,
    integers: Integers::Any,
    overflow: Overflow::Keep,
};

/// A file of this project's own test data.
pub fn vectors(file: &str) -> serde_json::Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../vectors")
        .join(file);
    let text = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&text).unwrap()
}

/// A folder of other people's test data, when it is there. Where the variable is set a missing folder fails.
pub fn foreign(folder: &str, left_out: &str) -> Option<PathBuf> {
    let Some(root) = std::env::var_os("CHANCERY_FOREIGN_VECTORS") else {
        eprintln!("left out {left_out}: CHANCERY_FOREIGN_VECTORS names no folder");
        return None;
    };
    let path = PathBuf::from(root).join(folder);
    assert!(path.is_dir(), "{} is missing", path.display());
    Some(path)
}

pub fn permissive(text: &[u8]) -> Value<'_> {
    read(text, &PERMISSIVE)
        .unwrap_or_else(|fault| panic!("{fault}: {}", String::from_utf8_lossy(text)))
}

pub fn unhex(hex: &str) -> Vec<u8> {
    let digits = |i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(digits).collect()
}

/// Text with the characters that tell the dialects and the escapes apart.
pub fn any_text() -> impl Strategy<Value = String> {
    let telling = proptest::sample::select(vec![
        'a',
        'B',
        '0',
        '"',
        '\\',
        '/',
        '\0',
        '\u{8}',
        '\n',
        '\u{1f}',
        '\u{7f}',
        'é',
        '\u{2028}',
        '\u{d7ff}',
        '\u{e000}',
        '\u{feff}',
        '\u{ffff}',
        '\u{10000}',
        '😀',
        '\u{10ffff}',
    ]);
    let c = prop_oneof![3 => telling, 1 => any::<char>()];
    proptest::collection::vec(c, 0..6).prop_map(|chars| chars.into_iter().collect())
}

/// Number tokens: small and large integers, doubles in several spellings.
pub fn any_token() -> impl Strategy<Value = String> {
    let finite = any::<u64>()
        .prop_map(f64::from_bits)
        .prop_filter("finite", |x| x.is_finite());
    prop_oneof![
        any::<i16>().prop_map(|n| n.to_string()),
        any::<i64>().prop_map(|n| n.to_string()),
        any::<i128>().prop_map(|n| n.to_string()),
        Just("-0".to_owned()),
        finite.clone().prop_map(|x| format!("{x:e}")),
        finite.prop_map(|x| format!("{x:E}").replace("E", "E+").replace("E+-", "E-")),
        (any::<i32>(), 0_u32..100_000).prop_map(|(a, b)| format!("{a}.{b:05}")),
        (-99_i32..99, 0_u32..10_000, -30_i32..30).prop_map(|(a, b, e)| format!("{a}.{b}e{e}")),
    ]
}

/// A value, some levels deep.
pub fn any_value() -> impl Strategy<Value = Value<'static>> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any_token().prop_map(|token| Value::Number(Number::from_token(token).unwrap())),
        any_text().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 48, 6, |inner| {
        let members = proptest::collection::vec((any_text(), inner.clone()), 0..6);
        prop_oneof![
            proptest::collection::vec(inner, 0..6).prop_map(Value::Array),
            members.prop_map(|members| Value::Object(members.into_iter().collect::<Object<'_>>())),
        ]
    })
}

/// The same document by another reader.
pub fn by_serde(text: &[u8]) -> Option<serde_json::Value> {
    serde_json::from_slice(text).ok()
}

/// Whether two readers saw the same: numbers by their double, members by name.
pub fn same(ours: &Value<'_>, theirs: &serde_json::Value) -> bool {
    match (ours, theirs) {
        (Value::Null, serde_json::Value::Null) => true,
        (Value::Bool(a), serde_json::Value::Bool(b)) => a == b,
        (Value::Number(a), serde_json::Value::Number(b)) => b.as_f64() == Some(a.as_f64()),
        (Value::String(a), serde_json::Value::String(b)) => a == b,
        (Value::Array(a), serde_json::Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Object(a), serde_json::Value::Object(b)) => {
            a.len() == b.len()
                && a.iter()
                    .all(|(name, a)| b.get(name).is_some_and(|b| same(a, b)))
        }
        _ => false,
    }
}

//! Reading the vector files of this project.

use std::path::Path;

use serde_json::Value;

/// `vectors/<name>` of the workspace, parsed.
pub fn vectors(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../vectors")
        .join(name);
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The array `member` of a vector file; an empty one would prove nothing.
pub fn cases(name: &str, member: &str) -> Vec<Value> {
    let cases = vectors(name)[member].as_array().unwrap().clone();
    assert!(!cases.is_empty(), "{name} has no {member}");
    cases
}

/// The string `member` of a case.
pub fn text<'a>(case: &'a Value, member: &str) -> &'a str {
    case[member]
        .as_str()
        .unwrap_or_else(|| panic!("{member} of {case}"))
}

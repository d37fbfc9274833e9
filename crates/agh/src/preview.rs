//! A short text for people about an envelope (AG-DLV-7).

use chancery_core::json::Value;

use crate::kind::Kind;

/// Characters of a preview.
const CHARACTERS: usize = 160;

/// The preview of an envelope that was accepted.
pub fn of(envelope: &Value<'_>) -> String {
    let kind = envelope.get("kind").and_then(Value::as_str);
    let body = |name: &str| text(envelope.get("body")?.get(name)?);
    let capability = |name: &str| text(envelope.get("body")?.get("capability")?.get(name)?);
    let shown = match kind.and_then(Kind::parse) {
        Some(Kind::Greet) => body("summary"),
        Some(Kind::Whois) => body("query"),
        Some(Kind::Say | Kind::Direct) => body("text"),
        Some(Kind::Capability) => capability("summary")
            .or_else(|| capability("outcome"))
            .or_else(|| capability("id")),
        Some(Kind::Receipt) => body("detail"),
        Some(Kind::Trace) => body("message"),
        None => None,
    };
    shown.unwrap_or_default().chars().take(CHARACTERS).collect()
}

fn text<'v>(value: &'v Value<'_>) -> Option<&'v str> {
    value.as_str().filter(|text| !text.trim().is_empty())
}

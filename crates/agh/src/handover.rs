//! A message as it is handed to whoever thinks for a peer: marked as not to be trusted, so that its words cannot pass for
//! those of the operator (AG-DLV-5).

use chancery_core::canonical::{Dialect, to_bytes};
use chancery_core::json::Value;
use chancery_core::keys::base64;

use crate::preview;

/// The members that become attributes, where an envelope has them.
const ATTRIBUTES: [&str; 12] = [
    "id",
    "kind",
    "workspace_id",
    "channel",
    "from",
    "to",
    "interaction_id",
    "work_id",
    "thread_id",
    "direct_id",
    "reply_to",
    "trace_id",
];

/// The marked form of an envelope: its metadata as attributes, a short preview, and its body as base64 of the JSON.
pub fn marked(envelope: &Value<'_>) -> String {
    let mut out = String::from("<agh_message trust=\"untrusted\"");
    for name in ATTRIBUTES {
        if let Some(text) = envelope.get(name).and_then(Value::as_str) {
            attribute(name, text, &mut out);
        }
    }
    attribute("preview", &preview::of(envelope), &mut out);
    out.push_str(" body=\"base64\">");
    if let Some(body) = envelope.get("body") {
        out.push_str(&base64::encode(&to_bytes(body, Dialect::Rfc8785)));
    }
    out.push_str("</agh_message>");
    out
}

/// Nothing that is written here ends the attribute or begins a mark: what is not plain is written as its number.
fn attribute(name: &str, text: &str, out: &mut String) {
    out.push(' ');
    out.push_str(name);
    out.push_str("=\"");
    for c in text.chars() {
        match c {
            '"' | '&' | '<' | '>' | '\'' => out.push_str(&format!("&#{};", u32::from(c))),
            c if c.is_control() => out.push_str(&format!("&#{};", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

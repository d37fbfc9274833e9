//! A body read as far as its `type`, and no further (CH-LIM-3): a source of failures still gets its escalations in.

use std::fmt;

use chancery_value_context::message::Kind;
use serde::de::{Deserializer as _, IgnoredAny, MapAccess, Visitor};

/// Whether a body says of itself that it is an escalation.
pub(crate) fn says_escalation(body: &[u8]) -> bool {
    let mut kind = None;
    // The end is an error: whatever comes after `type` is not looked at.
    let _ = serde_json::Deserializer::from_slice(body).deserialize_map(UntilType(&mut kind));
    kind.is_some_and(|kind| kind == Kind::Escalation.as_str())
}

struct UntilType<'k>(&'k mut Option<String>);

impl<'de> Visitor<'de> for UntilType<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with a type")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        while let Some(name) = members.next_key::<String>()? {
            if name == "type" {
                *self.0 = members.next_value()?;
                return Ok(());
            }
            members.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // CH-LIM-3
    #[test]
    fn a_body_is_read_as_far_as_its_type() {
        for escalation in [
            r#"{"type":"escalation","#,
            r#"{"a":{"type":"x"},"type":"escalation"} rest that is no JSON"#,
        ] {
            assert!(says_escalation(escalation.as_bytes()), "{escalation}");
        }
        for other in [
            "",
            "[]",
            r#"{"type":7,"type":"escalation"}"#,
            r#"{"type":"context_share","type":"escalation"}"#,
            r#"{"a": oops, "type":"escalation"}"#,
        ] {
            assert!(!says_escalation(other.as_bytes()), "{other}");
        }
    }
}

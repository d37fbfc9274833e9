//! Members of a vector file, taken one by one so that none is overlooked.

use chancery_core::canonical::{Dialect, to_bytes, write_string};
pub(super) use chancery_core::conformance::expect;
use chancery_core::json::Value;

/// How a case went.
pub(super) type Outcome = Result<(), String>;

/// An object of a vector file.
pub(super) struct Case<'v> {
    members: Vec<(&'v str, &'v Value<'v>)>,
}

impl<'v> Case<'v> {
    pub(super) fn of(value: &'v Value<'v>) -> Result<Self, String> {
        let object = value.as_object().ok_or("not an object")?;
        Ok(Self {
            members: object.iter().collect(),
        })
    }

    pub(super) fn optional(&mut self, name: &str) -> Option<&'v Value<'v>> {
        let at = self.members.iter().position(|(known, _)| *known == name)?;
        Some(self.members.swap_remove(at).1)
    }

    pub(super) fn take(&mut self, name: &str) -> Result<&'v Value<'v>, String> {
        self.optional(name)
            .ok_or_else(|| format!("member {name} is missing"))
    }

    pub(super) fn text(&mut self, name: &str) -> Result<&'v str, String> {
        self.take(name)?
            .as_str()
            .ok_or_else(|| format!("member {name} is no string"))
    }

    pub(super) fn bool(&mut self, name: &str) -> Result<bool, String> {
        self.take(name)?
            .as_bool()
            .ok_or_else(|| format!("member {name} is no boolean"))
    }

    pub(super) fn number(&mut self, name: &str) -> Result<u64, String> {
        self.take(name)?
            .as_number()
            .and_then(|number| number.as_u64())
            .ok_or_else(|| format!("member {name} is no natural number"))
    }

    pub(super) fn array(&mut self, name: &str) -> Result<&'v [Value<'v>], String> {
        self.take(name)?
            .as_array()
            .ok_or_else(|| format!("member {name} is no array"))
    }

    pub(super) fn texts(&mut self, name: &str) -> Result<Vec<&'v str>, String> {
        self.array(name)?
            .iter()
            .map(|item| {
                item.as_str()
                    .ok_or_else(|| format!("{name} holds no strings"))
            })
            .collect()
    }

    /// Fails if a member was not looked at.
    pub(super) fn finish(self) -> Outcome {
        match self.members.first() {
            Some((name, _)) => Err(format!("no check knows member {name}")),
            None => Ok(()),
        }
    }
}

/// Writes a value with its members in order and its numbers as they were read.
pub fn verbatim(value: &Value<'_>, out: &mut Vec<u8>) {
    match value {
        Value::Number(number) => out.extend_from_slice(number.token().as_bytes()),
        Value::Array(items) => {
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                verbatim(item, out);
            }
            out.push(b']');
        }
        Value::Object(object) => {
            out.push(b'{');
            for (index, (name, value)) in object.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                write_string(name, out);
                out.push(b':');
                verbatim(value, out);
            }
            out.push(b'}');
        }
        scalar => out.extend_from_slice(&to_bytes(scalar, Dialect::Vibe)),
    }
}

/// The canonical text of a value, for comparing and for telling.
pub(super) fn canonical(value: &Value<'_>) -> String {
    String::from_utf8_lossy(&to_bytes(value, Dialect::Vibe)).into_owned()
}

/// Compares an object by the members that the file names, everything else by value.
pub(super) fn expect_partly(
    what: &str,
    found: Option<&Value<'_>>,
    expected: &Value<'_>,
) -> Outcome {
    let Some(found) = found else {
        return Err(format!("{what} is missing"));
    };
    match (found, expected) {
        (Value::Object(found), Value::Object(expected)) => {
            for (name, expected) in expected.iter() {
                expect_partly(&format!("{what}.{name}"), found.get(name), expected)?;
            }
            Ok(())
        }
        (Value::Array(found), Value::Array(expected)) if found.len() == expected.len() => {
            for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
                expect_partly(&format!("{what}[{index}]"), Some(found), expected)?;
            }
            Ok(())
        }
        _ => expect(what, canonical(found), canonical(expected)),
    }
}

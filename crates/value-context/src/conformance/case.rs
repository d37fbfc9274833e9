//! One case of a vector file: members are taken out as they are checked, and none may be left.

use chancery_core::digest::hex;
use serde_json::{Map, Value};

/// The members of a case that have not been looked at yet.
pub(super) struct Case {
    members: Map<String, Value>,
}

impl Case {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        Self::from_value(value)
    }

    fn from_value(value: Value) -> Result<Self, String> {
        match value {
            Value::Object(members) => Ok(Self { members }),
            _ => Err("not an object".to_owned()),
        }
    }

    pub(super) fn optional(&mut self, name: &str) -> Option<Value> {
        self.members.remove(name)
    }

    pub(super) fn take(&mut self, name: &str) -> Result<Value, String> {
        self.optional(name)
            .ok_or_else(|| format!("member {name} is missing"))
    }

    pub(super) fn text(&mut self, name: &str) -> Result<String, String> {
        into_text(self.take(name)?, name)
    }

    pub(super) fn optional_text(&mut self, name: &str) -> Result<Option<String>, String> {
        self.optional(name)
            .map(|value| into_text(value, name))
            .transpose()
    }

    /// A text that may be `null` but must be there.
    pub(super) fn text_or_null(&mut self, name: &str) -> Result<Option<String>, String> {
        match self.take(name)? {
            Value::Null => Ok(None),
            value => into_text(value, name).map(Some),
        }
    }

    pub(super) fn bool(&mut self, name: &str) -> Result<bool, String> {
        self.take(name)?
            .as_bool()
            .ok_or_else(|| format!("member {name} is no boolean"))
    }

    pub(super) fn number(&mut self, name: &str) -> Result<u64, String> {
        self.take(name)?
            .as_u64()
            .ok_or_else(|| format!("member {name} is no natural number"))
    }

    pub(super) fn bytes(&mut self, name: &str) -> Result<Vec<u8>, String> {
        hex::decode(&self.text(name)?).map_err(|error| format!("member {name}: {error}"))
    }

    pub(super) fn array<const N: usize>(&mut self, name: &str) -> Result<[u8; N], String> {
        self.bytes(name)?
            .try_into()
            .map_err(|_| format!("member {name} has not {N} bytes"))
    }

    pub(super) fn texts(&mut self, name: &str) -> Result<Vec<String>, String> {
        into_texts(self.take(name)?, name)
    }

    pub(super) fn object(&mut self, name: &str) -> Result<Map<String, Value>, String> {
        match self.take(name)? {
            Value::Object(members) => Ok(members),
            _ => Err(format!("member {name} is no object")),
        }
    }

    /// A member that is an object, as a case of its own.
    pub(super) fn case(&mut self, name: &str) -> Result<Self, String> {
        self.object(name).map(|members| Self { members })
    }

    /// A member, left where it is.
    pub(super) fn peek(&self, name: &str) -> Option<&Value> {
        self.members.get(name)
    }

    pub(super) fn cases(&mut self, name: &str) -> Result<Vec<Self>, String> {
        match self.take(name)? {
            Value::Array(items) => items.into_iter().map(Self::from_value).collect(),
            _ => Err(format!("member {name} is no array")),
        }
    }

    /// Fails if a member was not looked at.
    pub(super) fn finish(self) -> Result<(), String> {
        match self.members.keys().next() {
            Some(name) => Err(format!("no check knows member {name}")),
            None => Ok(()),
        }
    }
}

fn into_text(value: Value, name: &str) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text),
        _ => Err(format!("member {name} is no string")),
    }
}

pub(super) fn into_texts(value: Value, name: &str) -> Result<Vec<String>, String> {
    match value {
        Value::Array(items) => items
            .into_iter()
            .map(|item| into_text(item, name))
            .collect(),
        _ => Err(format!("member {name} is no array")),
    }
}

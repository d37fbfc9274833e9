//! One case of a vector file: members are taken out as they are checked, and none may be left.

use crate::digest::hex;
use serde_json::{Map, Value};

/// The members of a case that have not been looked at yet.
#[derive(Debug)]
pub struct Case {
    members: Map<String, Value>,
}

impl Case {
    /// The object that a text holds.
    pub fn parse(text: &str) -> Result<Self, String> {
        let value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        Self::from_value(value)
    }

    /// The members of an object.
    pub fn from_value(value: Value) -> Result<Self, String> {
        match value {
            Value::Object(members) => Ok(Self { members }),
            _ => Err("not an object".to_owned()),
        }
    }

    /// A member that may be missing.
    pub fn optional(&mut self, name: &str) -> Option<Value> {
        self.members.remove(name)
    }

    /// A member.
    pub fn take(&mut self, name: &str) -> Result<Value, String> {
        self.optional(name)
            .ok_or_else(|| format!("member {name} is missing"))
    }

    /// A text.
    pub fn text(&mut self, name: &str) -> Result<String, String> {
        into_text(self.take(name)?, name)
    }

    /// A text that may be missing.
    pub fn optional_text(&mut self, name: &str) -> Result<Option<String>, String> {
        self.optional(name)
            .map(|value| into_text(value, name))
            .transpose()
    }

    /// A text that may be `null` but must be there.
    pub fn text_or_null(&mut self, name: &str) -> Result<Option<String>, String> {
        match self.take(name)? {
            Value::Null => Ok(None),
            value => into_text(value, name).map(Some),
        }
    }

    /// A boolean.
    pub fn bool(&mut self, name: &str) -> Result<bool, String> {
        self.take(name)?
            .as_bool()
            .ok_or_else(|| format!("member {name} is no boolean"))
    }

    /// A natural number.
    pub fn number(&mut self, name: &str) -> Result<u64, String> {
        self.take(name)?
            .as_u64()
            .ok_or_else(|| format!("member {name} is no natural number"))
    }

    /// Bytes in hexadecimal.
    pub fn bytes(&mut self, name: &str) -> Result<Vec<u8>, String> {
        hex::decode(&self.text(name)?).map_err(|error| format!("member {name}: {error}"))
    }

    /// So many bytes in hexadecimal.
    pub fn array<const N: usize>(&mut self, name: &str) -> Result<[u8; N], String> {
        self.bytes(name)?
            .try_into()
            .map_err(|_| format!("member {name} has not {N} bytes"))
    }

    /// Texts.
    pub fn texts(&mut self, name: &str) -> Result<Vec<String>, String> {
        into_texts(self.take(name)?, name)
    }

    /// A member that is an object.
    pub fn object(&mut self, name: &str) -> Result<Map<String, Value>, String> {
        match self.take(name)? {
            Value::Object(members) => Ok(members),
            _ => Err(format!("member {name} is no object")),
        }
    }

    /// A member that is an object, as a case of its own.
    pub fn case(&mut self, name: &str) -> Result<Self, String> {
        self.object(name).map(|members| Self { members })
    }

    /// A member, left where it is.
    pub fn peek(&self, name: &str) -> Option<&Value> {
        self.members.get(name)
    }

    /// A list of objects, each a case of its own.
    pub fn cases(&mut self, name: &str) -> Result<Vec<Self>, String> {
        match self.take(name)? {
            Value::Array(items) => items.into_iter().map(Self::from_value).collect(),
            _ => Err(format!("member {name} is no array")),
        }
    }

    /// A text that may be missing or `null`.
    pub fn text_if_any(&mut self, name: &str) -> Result<Option<String>, String> {
        match self.optional(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => into_text(value, name).map(Some),
        }
    }

    /// An integer.
    pub fn integer(&mut self, name: &str) -> Result<i64, String> {
        self.take(name)?
            .as_i64()
            .ok_or_else(|| format!("member {name} is no integer"))
    }

    /// Texts, or `null`.
    pub fn texts_or_null(&mut self, name: &str) -> Result<Option<Vec<String>>, String> {
        match self.take(name)? {
            Value::Null => Ok(None),
            value => into_texts(value, name).map(Some),
        }
    }

    /// Everything that is left, as an object.
    pub fn rest(&mut self) -> Map<String, Value> {
        std::mem::take(&mut self.members)
    }

    /// Fails if a member was not looked at.
    pub fn finish(self) -> Result<(), String> {
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

/// A value that has to be a list of texts.
pub fn into_texts(value: Value, name: &str) -> Result<Vec<String>, String> {
    match value {
        Value::Array(items) => items
            .into_iter()
            .map(|item| into_text(item, name))
            .collect(),
        _ => Err(format!("member {name} is no array")),
    }
}

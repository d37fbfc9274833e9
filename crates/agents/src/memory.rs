//! An agent's private memory in one session: typed, bounded, on no log (VC-TURN-2, VC-TURN-9).

use std::collections::BTreeMap;

use chancery_core::json::Value;
use chancery_vibe::guard::Private;
use serde::{Deserialize, Serialize};

/// The tag of a value that must not be said (VC-PRIV-3).
pub const PRIVATE_UTILITY: &str = "PRIVATE_UTILITY";
/// Values that a memory holds at most.
pub const MAX_KEYS: usize = 256;
/// Bytes that its names and values take at most.
pub const MAX_BYTES: usize = 65_536;
/// Characters of a name at most.
const MAX_NAME: usize = 128;

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Type {
    /// An integer that every reader keeps exact.
    Int,
    /// A text.
    String,
    /// A truth value.
    Bool,
    /// Any JSON.
    Json,
}

impl Type {
    /// The type of that word.
    pub fn parse(word: &str) -> Option<Self> {
        match word {
            "int" => Some(Self::Int),
            "string" => Some(Self::String),
            "bool" => Some(Self::Bool),
            "json" => Some(Self::Json),
            _ => None,
        }
    }
}

/// A value in memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The value.
    pub value: serde_json::Value,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: Type,
    /// Whether it must not be said.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub private: bool,
}

impl Entry {
    /// A value, if it is of that type. A private one is an amount in minor units: the guard compares numbers.
    pub fn read(value: &Value<'_>, kind: Type, private: bool) -> Option<Self> {
        let fits = match (kind, value) {
            (Type::Int, Value::Number(number)) => number.is_safe_integer(),
            (Type::String, Value::String(_)) | (Type::Bool, Value::Bool(_)) | (Type::Json, _) => {
                true
            }
            _ => false,
        };
        let mut text = Vec::new();
        value.write_as_read(&mut text);
        let value: serde_json::Value = serde_json::from_slice(&text).ok()?;
        let is_amount = kind == Type::Int && value.as_u64().is_some();
        (fits && (!private || is_amount)).then_some(Self {
            value,
            kind,
            private,
        })
    }

    fn len(&self, key: &str) -> usize {
        key.len() + self.value.to_string().len()
    }
}

/// What one agent keeps in one session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Memory(BTreeMap<String, Entry>);

/// A memory has no room for a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl Memory {
    /// Keeps a value under a name, in place of the one before.
    pub fn put(&mut self, key: String, entry: Entry) -> Result<(), Full> {
        let others = self.0.iter().filter(|(name, _)| **name != key);
        let (count, bytes) = others.fold((0, 0), |(count, bytes), (name, entry)| {
            (count + 1, bytes + entry.len(name))
        });
        if count >= MAX_KEYS || bytes + entry.len(&key) > MAX_BYTES {
            return Err(Full);
        }
        self.0.insert(key, entry);
        Ok(())
    }

    /// A value.
    pub fn get(&self, key: &str) -> Option<&serde_json::Value> {
        self.0.get(key).map(|entry| &entry.value)
    }

    /// A value that is an integer of zero or more.
    pub fn amount(&self, key: &str) -> Option<u64> {
        self.get(key)?.as_u64()
    }

    /// A value that is a text.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.get(key)?.as_str()
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The values that must not be said, as the guard compares them. Zero says nothing (VC-PRIV-3).
    pub fn privates(&self, currency: &str) -> Vec<Private> {
        let private = self.0.values().filter(|entry| entry.private);
        let amounts = private.filter_map(|entry| entry.value.as_u64());
        amounts
            .filter(|value| *value > 0)
            .map(|value| Private {
                value,
                currency: currency.to_owned(),
            })
            .collect()
    }
}

/// Whether a text can name a value.
pub fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().count() <= MAX_NAME && !text.chars().any(char::is_control)
}

//! One case of a vector file: members are taken out as they are checked, and none may be left.
//!
//! Numbers keep their tokens, because this protocol tells `1` from `1.0` and keeps integers of any size.

use chancery_core::digest::hex;
use chancery_core::json::{DuplicateNames, Object, ReadRules, Value, read};

/// The members of a case that have not been looked at yet.
pub(super) struct Case {
    members: Object<'static>,
}

impl Case {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let rules = ReadRules {
            duplicate_names: DuplicateNames::LastWins,
            ..ReadRules::OWN
        };
        let value = read(text.as_bytes(), &rules).map_err(|fault| fault.to_string())?;
        Self::of(value.into_owned())
    }

    pub(super) fn of(value: Value<'static>) -> Result<Self, String> {
        match value {
            Value::Object(members) => Ok(Self { members }),
            _ => Err("not an object".to_owned()),
        }
    }

    pub(super) fn optional(&mut self, name: &str) -> Option<Value<'static>> {
        self.members.remove(name)
    }

    pub(super) fn take(&mut self, name: &str) -> Result<Value<'static>, String> {
        self.optional(name)
            .ok_or_else(|| format!("member {name} is missing"))
    }

    pub(super) fn text(&mut self, name: &str) -> Result<String, String> {
        text_of(&self.take(name)?, name)
    }

    pub(super) fn optional_text(&mut self, name: &str) -> Result<Option<String>, String> {
        match self.optional(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => text_of(&value, name).map(Some),
        }
    }

    pub(super) fn bool(&mut self, name: &str) -> Result<bool, String> {
        self.take(name)?
            .as_bool()
            .ok_or_else(|| format!("member {name} is no boolean"))
    }

    pub(super) fn number(&mut self, name: &str) -> Result<u64, String> {
        let value = self.take(name)?;
        let number = value.as_number().and_then(|number| number.as_u64());
        number.ok_or_else(|| format!("member {name} is no natural number"))
    }

    pub(super) fn float(&mut self, name: &str) -> Result<f64, String> {
        let value = self.take(name)?;
        let number = value.as_number().map(|number| number.as_f64());
        number.ok_or_else(|| format!("member {name} is no number"))
    }

    pub(super) fn bytes(&mut self, name: &str) -> Result<Vec<u8>, String> {
        hex::decode(&self.text(name)?).map_err(|error| format!("member {name}: {error}"))
    }

    pub(super) fn array<const N: usize>(&mut self, name: &str) -> Result<[u8; N], String> {
        self.bytes(name)?
            .try_into()
            .map_err(|_| format!("member {name} has not {N} bytes"))
    }

    pub(super) fn object(&mut self, name: &str) -> Result<Self, String> {
        Self::of(self.take(name)?).map_err(|reason| format!("member {name}: {reason}"))
    }

    pub(super) fn list(&mut self, name: &str) -> Result<Vec<Value<'static>>, String> {
        match self.take(name)? {
            Value::Array(items) => Ok(items),
            _ => Err(format!("member {name} is no array")),
        }
    }

    pub(super) fn cases(&mut self, name: &str) -> Result<Vec<Self>, String> {
        self.list(name)?.into_iter().map(Self::of).collect()
    }

    pub(super) fn texts(&mut self, name: &str) -> Result<Vec<String>, String> {
        let items = self.list(name)?;
        items.iter().map(|item| text_of(item, name)).collect()
    }

    /// What is left of an object whose names are data.
    pub(super) fn into_members(self) -> Object<'static> {
        self.members
    }

    pub(super) fn finish(&self) -> Result<(), String> {
        match self.members.iter().next() {
            None => Ok(()),
            Some((name, _)) => Err(format!("member {name} is not known to the runner")),
        }
    }
}

fn text_of(value: &Value<'_>, name: &str) -> Result<String, String> {
    value
        .as_str()
        .map(str::to_owned)
        .ok_or_else(|| format!("member {name} is no text"))
}

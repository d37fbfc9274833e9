//! Reading the fields of a payload: the first fault names its path (section 5).

use chancery_core::json::{Object, Place, Value};
use chancery_core::time::{Time, parse_vibe};

use crate::code::{Code, Fault};
use crate::message::is_id;
use crate::money::is_currency;

/// A time, as written and as an instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// As written.
    pub text: String,
    /// The instant.
    pub at: Time,
}

/// A part of a payload: an object and where it stands.
#[derive(Clone, Copy)]
pub(super) struct Fields<'p> {
    object: &'p Object<'p>,
    place: &'p Place<'p>,
}

/// A fault of the payload's form.
pub(super) fn malformed(place: &Place<'_>) -> Fault {
    Fault::at(Code::MalformedPayload, place)
}

impl<'p> Fields<'p> {
    pub(super) const fn new(object: &'p Object<'p>, place: &'p Place<'p>) -> Self {
        Self { object, place }
    }

    /// A fault of the member `name`.
    pub(super) fn wrong(&self, name: &str) -> Fault {
        malformed(&self.place.child(name))
    }

    pub(super) fn get(&self, name: &str) -> Option<&'p Value<'p>> {
        self.object.get(name)
    }

    fn need<T>(
        &self,
        name: &str,
        read: impl FnOnce(&'p Value<'p>) -> Option<T>,
    ) -> Result<T, Fault> {
        self.get(name)
            .and_then(read)
            .ok_or_else(|| self.wrong(name))
    }

    fn may<T>(
        &self,
        name: &str,
        read: impl FnOnce(&'p Value<'p>) -> Option<T>,
    ) -> Result<Option<T>, Fault> {
        match self.get(name) {
            None => Ok(None),
            Some(value) => read(value).map(Some).ok_or_else(|| self.wrong(name)),
        }
    }

    pub(super) fn id(&self, name: &str) -> Result<String, Fault> {
        self.need(name, as_id)
    }

    pub(super) fn optional_id(&self, name: &str) -> Result<Option<String>, Fault> {
        self.may(name, as_id)
    }

    /// A text of `least` to `most` characters.
    pub(super) fn text(&self, name: &str, least: usize, most: usize) -> Result<String, Fault> {
        self.need(name, |value| as_text(value, least, most))
    }

    pub(super) fn optional_text(&self, name: &str, most: usize) -> Result<Option<String>, Fault> {
        self.may(name, |value| as_text(value, 0, most))
    }

    pub(super) fn bool(&self, name: &str) -> Result<bool, Fault> {
        self.need(name, Value::as_bool)
    }

    pub(super) fn bool_or(&self, name: &str, default: bool) -> Result<bool, Fault> {
        Ok(self.may(name, Value::as_bool)?.unwrap_or(default))
    }

    pub(super) fn integer(&self, name: &str, least: i64, most: i64) -> Result<i64, Fault> {
        self.need(name, |value| as_integer(value, least, most))
    }

    pub(super) fn optional_integer(
        &self,
        name: &str,
        least: i64,
        most: i64,
    ) -> Result<Option<i64>, Fault> {
        self.may(name, |value| as_integer(value, least, most))
    }

    /// A count: an integer that is not negative.
    pub(super) fn count(&self, name: &str, least: u64, most: u64) -> Result<u64, Fault> {
        self.need(name, |value| as_count(value, least, most))
    }

    pub(super) fn optional_count(
        &self,
        name: &str,
        least: u64,
        most: u64,
    ) -> Result<Option<u64>, Fault> {
        self.may(name, |value| as_count(value, least, most))
    }

    /// An amount; the money scan has judged its literal and range before.
    pub(super) fn money(&self, name: &str, least: u64) -> Result<u64, Fault> {
        self.count(name, least, crate::money::MAX)
    }

    pub(super) fn optional_money(&self, name: &str) -> Result<Option<u64>, Fault> {
        self.optional_count(name, 0, crate::money::MAX)
    }

    pub(super) fn currency(&self, name: &str) -> Result<String, Fault> {
        self.need(name, as_currency)
    }

    pub(super) fn currency_or(&self, name: &str, default: &str) -> Result<String, Fault> {
        Ok(self
            .may(name, as_currency)?
            .unwrap_or_else(|| default.to_owned()))
    }

    pub(super) fn stamp(&self, name: &str) -> Result<Stamp, Fault> {
        self.need(name, as_stamp)
    }

    pub(super) fn optional_stamp(&self, name: &str) -> Result<Option<Stamp>, Fault> {
        self.may(name, as_stamp)
    }

    /// A word of a closed list.
    pub(super) fn word<T: Copy>(&self, name: &str, words: &[(&str, T)]) -> Result<T, Fault> {
        self.need(name, |value| as_word(value, words))
    }

    pub(super) fn optional_word<T: Copy>(
        &self,
        name: &str,
        words: &[(&str, T)],
    ) -> Result<Option<T>, Fault> {
        self.may(name, |value| as_word(value, words))
    }

    pub(super) fn object(&self, name: &str) -> Result<&'p Object<'p>, Fault> {
        self.need(name, Value::as_object)
    }

    pub(super) fn optional_object(&self, name: &str) -> Result<Option<&'p Object<'p>>, Fault> {
        self.may(name, Value::as_object)
    }

    pub(super) fn array(&self, name: &str) -> Result<&'p [Value<'p>], Fault> {
        self.need(name, Value::as_array)
    }

    /// A list of identifiers, with at least `least` of them.
    pub(super) fn ids(&self, name: &str, least: usize) -> Result<Vec<String>, Fault> {
        let items = self.array(name)?;
        self.all(name, items, least, as_id)
    }

    pub(super) fn optional_ids(&self, name: &str) -> Result<Option<Vec<String>>, Fault> {
        match self.get(name) {
            None => Ok(None),
            Some(_) => self.ids(name, 0).map(Some),
        }
    }

    /// A list of identifiers that may be null or absent.
    pub(super) fn nullable_ids(&self, name: &str) -> Result<Option<Vec<String>>, Fault> {
        match self.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(_) => self.ids(name, 0).map(Some),
        }
    }

    pub(super) fn texts(&self, name: &str) -> Result<Vec<String>, Fault> {
        let items = self.array(name)?;
        self.all(name, items, 0, |item| item.as_str().map(str::to_owned))
    }

    pub(super) fn texts_or_none(&self, name: &str) -> Result<Vec<String>, Fault> {
        match self.get(name) {
            None => Ok(Vec::new()),
            Some(_) => self.texts(name),
        }
    }

    fn all<T>(
        &self,
        name: &str,
        items: &'p [Value<'p>],
        least: usize,
        read: impl Fn(&'p Value<'p>) -> Option<T>,
    ) -> Result<Vec<T>, Fault> {
        if items.len() < least {
            return Err(self.wrong(name));
        }
        let place = self.place.child(name);
        items
            .iter()
            .enumerate()
            .map(|(index, item)| read(item).ok_or_else(|| malformed(&place.item(index))))
            .collect()
    }
}

fn as_id(value: &Value<'_>) -> Option<String> {
    let text = value.as_str()?;
    is_id(text).then(|| text.to_owned())
}

fn as_text(value: &Value<'_>, least: usize, most: usize) -> Option<String> {
    let text = value.as_str()?;
    let long_enough = least == 0 || text.chars().nth(least - 1).is_some();
    let short_enough = text.len() <= most || text.chars().nth(most).is_none();
    (long_enough && short_enough).then(|| text.to_owned())
}

fn as_integer(value: &Value<'_>, least: i64, most: i64) -> Option<i64> {
    let number = value.as_number()?;
    let number = number.is_integer_token().then(|| number.as_i64())??;
    (least..=most).contains(&number).then_some(number)
}

fn as_count(value: &Value<'_>, least: u64, most: u64) -> Option<u64> {
    let number = value.as_number()?;
    let number = number.is_integer_token().then(|| number.as_u64())??;
    (least..=most).contains(&number).then_some(number)
}

fn as_currency(value: &Value<'_>) -> Option<String> {
    let text = value.as_str()?;
    is_currency(text).then(|| text.to_owned())
}

fn as_stamp(value: &Value<'_>) -> Option<Stamp> {
    let text = value.as_str()?;
    Some(Stamp {
        at: parse_vibe(text).ok()?,
        text: text.to_owned(),
    })
}

fn as_word<T: Copy>(value: &Value<'_>, words: &[(&str, T)]) -> Option<T> {
    let text = value.as_str()?;
    words
        .iter()
        .find(|(word, _)| *word == text)
        .map(|(_, meaning)| *meaning)
}

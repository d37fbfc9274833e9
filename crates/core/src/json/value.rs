//! The tree that was read, or that rules build.

use std::borrow::Cow;

use super::Number;

/// A JSON value. Equality is that of the tree as written: number tokens and member order count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number, as its token.
    Number(Number<'a>),
    /// A string, unescaped.
    String(Cow<'a, str>),
    /// An array.
    Array(Vec<Value<'a>>),
    /// An object.
    Object(Object<'a>),
}

impl<'a> Value<'a> {
    /// Whether this is `null`.
    #[must_use]
    pub const fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// The truth value, if this is one.
    #[must_use]
    pub const fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    /// The number, if this is one.
    #[must_use]
    pub const fn as_number(&self) -> Option<&Number<'a>> {
        match self {
            Self::Number(number) => Some(number),
            _ => None,
        }
    }

    /// The text, if this is a string.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The items, if this is an array.
    #[must_use]
    pub fn as_array(&self) -> Option<&[Value<'a>]> {
        match self {
            Self::Array(items) => Some(items),
            _ => None,
        }
    }

    /// The object, if this is one.
    #[must_use]
    pub const fn as_object(&self) -> Option<&Object<'a>> {
        match self {
            Self::Object(object) => Some(object),
            _ => None,
        }
    }

    /// The member `name`, if this is an object that has it.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value<'a>> {
        self.as_object()?.get(name)
    }

    /// The same value, borrowing nothing.
    #[must_use]
    pub fn into_owned(self) -> Value<'static> {
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(value),
            Self::Number(number) => Value::Number(number.into_owned()),
            Self::String(text) => Value::String(Cow::Owned(text.into_owned())),
            Self::Array(items) => Value::Array(items.into_iter().map(Value::into_owned).collect()),
            Self::Object(object) => Value::Object(object.into_owned()),
        }
    }
}

impl From<bool> for Value<'_> {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Value<'_> {
    fn from(value: i64) -> Self {
        Self::Number(value.into())
    }
}

impl From<u64> for Value<'_> {
    fn from(value: u64) -> Self {
        Self::Number(value.into())
    }
}

impl<'a> From<Number<'a>> for Value<'a> {
    fn from(number: Number<'a>) -> Self {
        Self::Number(number)
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::String(Cow::Borrowed(text))
    }
}

impl From<String> for Value<'_> {
    fn from(text: String) -> Self {
        Self::String(Cow::Owned(text))
    }
}

impl<'a> From<Cow<'a, str>> for Value<'a> {
    fn from(text: Cow<'a, str>) -> Self {
        Self::String(text)
    }
}

impl<'a> From<Vec<Value<'a>>> for Value<'a> {
    fn from(items: Vec<Value<'a>>) -> Self {
        Self::Array(items)
    }
}

impl<'a> From<Object<'a>> for Value<'a> {
    fn from(object: Object<'a>) -> Self {
        Self::Object(object)
    }
}

/// The members of an object in the order they were written. No name occurs twice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Object<'a>(Vec<(Cow<'a, str>, Value<'a>)>);

impl<'a> Object<'a> {
    /// An object without members.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// An object without members, with room for some.
    #[must_use]
    pub fn with_capacity(members: usize) -> Self {
        Self(Vec::with_capacity(members))
    }

    /// The reader has seen to it that no name occurs twice.
    pub(super) const fn from_distinct(members: Vec<(Cow<'a, str>, Value<'a>)>) -> Self {
        Self(members)
    }

    /// The value of the member `name`. Looks at each member in turn: fit for asking after a few names.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Value<'a>> {
        self.iter()
            .find_map(|(n, value)| (n == name).then_some(value))
    }

    /// The value of the member `name`, to be changed in place.
    pub fn get_mut(&mut self, name: &str) -> Option<&mut Value<'a>> {
        let found = self.0.iter_mut().find(|(n, _)| n == name);
        found.map(|(_, value)| value)
    }

    /// Whether there is a member `name`.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Sets a member: in place when the name is there, at the end otherwise. Gives back the value it had.
    pub fn insert(
        &mut self,
        name: impl Into<Cow<'a, str>>,
        value: impl Into<Value<'a>>,
    ) -> Option<Value<'a>> {
        let (name, value) = (name.into(), value.into());
        if let Some((_, held)) = self.0.iter_mut().find(|(n, _)| *n == name) {
            return Some(std::mem::replace(held, value));
        }
        self.0.push((name, value));
        None
    }

    /// The same object with a member set, for building one in one expression.
    #[must_use]
    pub fn with(mut self, name: impl Into<Cow<'a, str>>, value: impl Into<Value<'a>>) -> Self {
        self.insert(name, value);
        self
    }

    /// Takes a member out; the others keep their order.
    pub fn remove(&mut self, name: &str) -> Option<Value<'a>> {
        let index = self.0.iter().position(|(n, _)| n == name)?;
        Some(self.0.remove(index).1)
    }

    /// The members in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Value<'a>)> {
        self.0.iter().map(|(name, value)| (name.as_ref(), value))
    }

    /// How many members there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no members.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The same object, borrowing nothing.
    #[must_use]
    pub fn into_owned(self) -> Object<'static> {
        let own = |(name, value): (Cow<'a, str>, Value<'a>)| {
            (Cow::Owned(name.into_owned()), value.into_owned())
        };
        Object(self.0.into_iter().map(own).collect())
    }
}

impl<'a> IntoIterator for Object<'a> {
    type Item = (Cow<'a, str>, Value<'a>);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a, N: Into<Cow<'a, str>>, V: Into<Value<'a>>> FromIterator<(N, V)> for Object<'a> {
    /// A repeated name takes the last value, at the place of the first. Meant for the few members that rules
    /// write: each is looked for among those before it.
    fn from_iter<I: IntoIterator<Item = (N, V)>>(members: I) -> Self {
        let mut object = Self::new();
        for (name, value) in members {
            object.insert(name, value);
        }
        object
    }
}

//! Where in a document something is.

use std::fmt;

/// One step down into a value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// To the member of this name.
    Name(String),
    /// To the item at this index.
    Index(usize),
}

/// A place in a document, from its root. [`fmt::Display`] gives the JSONPath form.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Path(Vec<Step>);

impl Path {
    /// The document itself.
    #[must_use]
    pub fn root() -> Self {
        Self::default()
    }

    /// The member `name` of the object here.
    #[must_use]
    pub fn child(mut self, name: impl Into<String>) -> Self {
        self.0.push(Step::Name(name.into()));
        self
    }

    /// The item `index` of the array here.
    #[must_use]
    pub fn item(mut self, index: usize) -> Self {
        self.0.push(Step::Index(index));
        self
    }

    /// The steps from the root.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.0
    }

    /// The RFC 6901 pointer: `/a/b/0`, empty for the root.
    #[must_use]
    pub fn to_pointer(&self) -> String {
        let mut pointer = String::new();
        for step in &self.0 {
            pointer.push('/');
            match step {
                Step::Name(name) => pointer.push_str(&name.replace('~', "~0").replace('/', "~1")),
                Step::Index(index) => pointer.push_str(&index.to_string()),
            }
        }
        pointer
    }

    /// The JSONPath form: `$.a.b[0]`. A name that is no plain word is written in brackets as RFC 9535
    /// normalizes it.
    #[must_use]
    pub fn to_jsonpath(&self) -> String {
        let mut path = String::from("$");
        for step in &self.0 {
            match step {
                Step::Name(name) if is_plain_word(name) => {
                    path.push('.');
                    path.push_str(name);
                }
                Step::Name(name) => push_quoted(name, &mut path),
                Step::Index(index) => path.push_str(&format!("[{index}]")),
            }
        }
        path
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_jsonpath())
    }
}

fn is_plain_word(name: &str) -> bool {
    let starts_well = name
        .chars()
        .next()
        .is_some_and(|first| first == '_' || first.is_ascii_alphabetic());
    starts_well && name.bytes().all(|b| b == b'_' || b.is_ascii_alphanumeric())
}

fn push_quoted(name: &str, path: &mut String) {
    path.push_str("['");
    for c in name.chars() {
        match c {
            '\'' => path.push_str("\\'"),
            '\\' => path.push_str("\\\\"),
            '\u{8}' => path.push_str("\\b"),
            '\t' => path.push_str("\\t"),
            '\n' => path.push_str("\\n"),
            '\u{c}' => path.push_str("\\f"),
            '\r' => path.push_str("\\r"),
            c if c < ' ' => path.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => path.push(c),
        }
    }
    path.push_str("']");
}

/// A place on the way down, borrowed from the stack: it costs nothing until a fault needs its [`Path`].
#[derive(Clone, Copy, Debug)]
pub struct Place<'p>(Option<(&'p Place<'p>, Turn<'p>)>);

#[derive(Clone, Copy, Debug)]
enum Turn<'p> {
    Name(&'p str),
    Index(usize),
}

impl<'p> Place<'p> {
    /// The document itself.
    pub const ROOT: Place<'static> = Place(None);

    /// The member `name` of the object here.
    #[must_use]
    pub const fn child(&'p self, name: &'p str) -> Self {
        Self(Some((self, Turn::Name(name))))
    }

    /// The item `index` of the array here.
    #[must_use]
    pub const fn item(&'p self, index: usize) -> Self {
        Self(Some((self, Turn::Index(index))))
    }

    /// The whole way from the root.
    #[must_use]
    pub fn to_path(&self) -> Path {
        let mut steps = Vec::new();
        let mut place = self;
        while let Some((parent, turn)) = &place.0 {
            steps.push(match turn {
                Turn::Name(name) => Step::Name((*name).to_owned()),
                Turn::Index(index) => Step::Index(*index),
            });
            place = parent;
        }
        steps.reverse();
        Path(steps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_written_as_pointer_and_as_jsonpath() {
        let path = Path::root().child("a").child("b").item(0);
        assert_eq!(path.to_pointer(), "/a/b/0");
        assert_eq!(path.to_jsonpath(), "$.a.b[0]");
        assert_eq!(Path::root().to_pointer(), "");
        assert_eq!(Path::root().to_jsonpath(), "$");
    }

    #[test]
    fn names_that_are_no_plain_words_are_escaped() {
        let path = Path::root().child("m~n/o").child("it's\n\u{1}").child("");
        assert_eq!(path.to_pointer(), "/m~0n~1o/it's\n\u{1}/");
        assert_eq!(path.to_jsonpath(), "$['m~n/o']['it\\'s\\n\\u0001']['']");
        assert_eq!(Path::root().child("0a").to_jsonpath(), "$['0a']");
    }

    #[test]
    fn a_borrowed_place_gives_the_same_path() {
        let payload = Place::ROOT.child("payload");
        let entries = payload.child("entries");
        assert_eq!(
            entries.item(3).to_path(),
            Path::root().child("payload").child("entries").item(3)
        );
    }
}

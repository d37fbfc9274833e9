//! Every key of the configuration, once.
//!
//! The file that `init` writes, the names of environment variables, the reading of the file and the reference page are
//! all made from this table: a key that is not here does not exist.

pub use super::keys::KEYS;
pub use super::lists::{AGH, LISTS, NAMED};

/// What a key holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Free text that something else reads more closely.
    Text,
    /// A file or directory, relative to the configuration file; empty for none.
    Path,
    /// `true` or `false`.
    Switch,
    /// An integer of at least `min`.
    Integer {
        /// The least that makes sense.
        min: u64,
    },
    /// Any number of texts; only tables below `[agh]` have them.
    Texts,
}

impl Kind {
    /// The word for people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Path => "path",
            Self::Switch => "true or false",
            Self::Integer { .. } => "integer",
            Self::Texts => "list of texts",
        }
    }
}

/// One key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// Its name, with its section and a dot where it has one.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// The default, as TOML.
    pub default: &'static str,
    /// One line for people.
    pub comment: &'static str,
    /// The flag that sets it, without its dashes.
    pub flag: Option<&'static str>,
}

impl Key {
    /// The section and the name in it.
    pub fn parts(&self) -> (Option<&'static str>, &'static str) {
        match self.name.split_once('.') {
            Some((section, name)) => (Some(section), name),
            None => (None, self.name),
        }
    }

    /// The environment variable that sets it.
    pub fn variable(&self) -> String {
        format!("CHANCERY_{}", self.name.replace('.', "_").to_uppercase())
    }
}

/// A key that no flag sets.
pub(super) const fn key(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    comment: &'static str,
) -> Key {
    Key {
        name,
        kind,
        default,
        comment,
        flag: None,
    }
}

/// A key that a flag of its name sets too.
pub(super) const fn flagged(key: Key) -> Key {
    Key {
        flag: Some(key.name),
        ..key
    }
}

/// How a table stands in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `[[section.name]]`, any number of times.
    Listed,
    /// `[name.NAME]`, any number of times.
    Named,
    /// `[section.name]`, once.
    Once,
}

/// A table that has keys of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct List {
    /// Its section and name.
    pub name: &'static str,
    /// How it stands in a file.
    pub form: Form,
    /// One line for people.
    pub comment: &'static str,
    /// The keys of one table; their names are those inside it.
    pub keys: &'static [Key],
}

impl List {
    /// The line that begins it.
    pub fn head(&self) -> String {
        let name = self.name;
        match self.form {
            Form::Listed => format!("[[{name}]]"),
            Form::Named => format!("[{name}.NAME]"),
            Form::Once => format!("[{name}]"),
        }
    }
}

/// All tables that have keys of their own.
pub fn lists() -> impl Iterator<Item = &'static List> {
    LISTS.iter().chain(NAMED).chain(AGH)
}

/// The list of a name.
pub fn find_list(name: &str) -> Option<&'static List> {
    LISTS.iter().find(|list| list.name == name)
}

/// The key of a name.
pub fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

/// The sections, in the order of the table.
pub fn sections() -> Vec<&'static str> {
    let mut sections = Vec::new();
    for section in KEYS.iter().filter_map(|key| key.parts().0) {
        if !sections.contains(&section) {
            sections.push(section);
        }
    }
    sections
}

/// The name among `names` that `wrong` was most likely meant to be: one it begins, else the one with the fewest changes.
pub fn nearest<'n>(wrong: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    names.min_by_key(|name| {
        (
            !name.starts_with(wrong),
            strsim::damerau_levenshtein(wrong, name),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_variables_are_distinct() {
        // CH-CFG-1
        for (index, key) in KEYS.iter().enumerate() {
            let others = &KEYS[index + 1..];
            assert!(others.iter().all(|other| other.name != key.name));
            assert!(
                others
                    .iter()
                    .all(|other| other.variable() != key.variable())
            );
        }
    }

    #[test]
    fn top_level_keys_come_first() {
        // A key after the first section header of a TOML file would belong to that section.
        assert!(KEYS.iter().is_sorted_by_key(|key| key.parts().0.is_some()));
    }

    #[test]
    fn comments_are_one_short_line() {
        let tables = lists().flat_map(|list| list.keys);
        for key in KEYS.iter().chain(tables) {
            assert!(
                key.comment.len() <= 100 && !key.comment.contains('\n'),
                "{}",
                key.name
            );
        }
    }
}

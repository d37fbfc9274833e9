//! Values by key, each with the place it was set.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use super::agents::ModelEntry;
use super::agh::AghTables;
use super::database::without_password;
use super::table::{KEYS, Key, Kind, List};
use crate::exit::Failure;

/// Where a value was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Nowhere.
    Default,
    /// In the file, at this line.
    File {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// By an environment variable.
    Environment,
    /// By a flag.
    Flag,
}

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Text(String),
    Path(Option<PathBuf>),
    Switch(bool),
    Integer(u64),
}

/// A key with its value and the place it was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The key.
    pub key: &'static Key,
    /// Where it was set.
    pub source: Source,
    pub(super) value: Value,
}

impl Setting {
    /// The place, as people would name it.
    pub fn place(&self) -> String {
        match &self.source {
            Source::Default => "default".to_owned(),
            Source::File { path, line } => format!("{}:{line}", path.display()),
            Source::Environment => self.key.variable(),
            Source::Flag => format!("--{}", self.key.flag.unwrap_or(self.key.name)),
        }
    }

    /// The value as JSON.
    pub fn json(&self) -> serde_json::Value {
        match &self.value {
            Value::Text(text) => without_password(text).into(),
            Value::Path(path) => path
                .as_ref()
                .map_or_else(String::new, |path| path.display().to_string())
                .into(),
            Value::Switch(on) => (*on).into(),
            Value::Integer(number) => (*number).into(),
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {}", self.key.name, self.json())
    }
}

/// All keys with their values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    by_name: BTreeMap<&'static str, Setting>,
    /// The tables of each list, in the order of the file.
    lists: BTreeMap<&'static str, Vec<Settings>>,
    /// The tables of AGH: `[[agh.peer]]`, `[agh.bridge]`, `[agh.tasks]`.
    pub(super) agh: AghTables,
    /// The models of `[model.NAME]`.
    pub(super) models: BTreeMap<String, ModelEntry>,
}

impl Settings {
    /// Every key at its default.
    pub(super) fn defaults() -> Self {
        Self::of_keys(KEYS)
    }

    /// These keys at their defaults.
    fn of_keys(keys: &'static [Key]) -> Self {
        let mut settings = Self {
            by_name: BTreeMap::new(),
            lists: BTreeMap::new(),
            agh: AghTables::default(),
            models: BTreeMap::new(),
        };
        for key in keys {
            let text = key.default.trim_matches('"');
            settings
                .set_text(key, text, Source::Default)
                .expect("the defaults of the table are values of their kind");
        }
        settings
    }

    /// Begins the next table of a list, with its keys at their defaults.
    pub(super) fn begin_table(&mut self, list: &'static List) -> &mut Self {
        let tables = self.lists.entry(list.name).or_default();
        tables.push(Self::of_keys(list.keys));
        tables.last_mut().expect("it was just put in")
    }

    /// The tables of a list, in the order of the file.
    pub(super) fn tables(&self, list: &str) -> &[Self] {
        self.lists.get(list).map_or(&[], Vec::as_slice)
    }

    /// All of them, in the order of the table.
    pub fn iter(&self) -> impl Iterator<Item = &Setting> {
        KEYS.iter().filter_map(|key| self.by_name.get(key.name))
    }

    /// One of them.
    pub(super) fn get(&self, name: &'static str) -> &Setting {
        self.by_name
            .get(name)
            .expect("every key of the table has a setting")
    }

    /// What is set otherwise than in `other`, wherever that was: keys, and the names of tables.
    pub fn differences(&self, other: &Self) -> Vec<String> {
        let of_keys = self.iter().filter(|setting| {
            let theirs = other.by_name.get(setting.key.name);
            theirs.is_none_or(|theirs| theirs.value != setting.value)
        });
        let mut names: Vec<String> = of_keys.map(|setting| setting.key.name.to_owned()).collect();
        for list in super::table::LISTS {
            let (ours, theirs) = (self.tables(list.name), other.tables(list.name));
            let same = |(ours, theirs): (&Self, &Self)| ours.values().eq(theirs.values());
            if ours.len() != theirs.len() || !ours.iter().zip(theirs).all(same) {
                names.push(format!("[[{}]]", list.name));
            }
        }
        if self.agh != other.agh {
            names.push("[agh.…]".to_owned());
        }
        if self.models != other.models {
            names.push("[model.…]".to_owned());
        }
        names
    }

    fn values(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        self.by_name
            .iter()
            .map(|(name, setting)| (*name, &setting.value))
    }

    /// Sets a key from text, as the environment and flags give it.
    pub(super) fn set_text(
        &mut self,
        key: &'static Key,
        text: &str,
        source: Source,
    ) -> Result<(), Failure> {
        let raw = match key.kind {
            Kind::Text | Kind::Path | Kind::Texts => Raw::Text(text),
            Kind::Switch => match text {
                "true" => Raw::Switch(true),
                "false" => Raw::Switch(false),
                _ => Raw::Text(text),
            },
            Kind::Integer { .. } => text.parse().map_or(Raw::Text(text), Raw::Integer),
        };
        self.set(key, raw, source)
    }

    /// Sets a key; a value of another kind than the key's is refused.
    pub(super) fn set(
        &mut self,
        key: &'static Key,
        raw: Raw<'_>,
        source: Source,
    ) -> Result<(), Failure> {
        let value = match (key.kind, raw) {
            (Kind::Text, Raw::Text(text)) => Some(Value::Text(text.to_owned())),
            (Kind::Path, Raw::Text(text)) => Some(Value::Path(path_of(text, &source))),
            (Kind::Switch, Raw::Switch(on)) => Some(Value::Switch(on)),
            (Kind::Integer { min }, Raw::Integer(number)) => u64::try_from(number)
                .ok()
                .filter(|number| *number >= min)
                .map(Value::Integer),
            _ => None,
        };
        let setting = Setting {
            key,
            source,
            value: value.clone().unwrap_or(Value::Switch(false)),
        };
        if value.is_none() {
            return Err(wrong_kind(&setting));
        }
        self.by_name.insert(key.name, setting);
        Ok(())
    }
}

/// A value as a source gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Raw<'r> {
    Text(&'r str),
    Switch(bool),
    Integer(i64),
    Other,
}

/// Paths in a file are relative to that file, others to where the program runs.
fn path_of(text: &str, source: &Source) -> Option<PathBuf> {
    if text.is_empty() {
        return None;
    }
    let path = Path::new(text);
    match source {
        Source::File { path: file, .. } => Some(
            file.parent()
                .map_or_else(|| path.to_owned(), |folder| folder.join(path)),
        ),
        _ => Some(path.to_owned()),
    }
}

fn wrong_kind(setting: &Setting) -> Failure {
    let key = setting.key;
    let wanted = match key.kind {
        Kind::Integer { min } => format!("an integer of at least {min}"),
        Kind::Switch => "true or false".to_owned(),
        Kind::Text | Kind::Path => "a text in quotes".to_owned(),
        Kind::Texts => "a list of texts".to_owned(),
    };
    Failure::usage(format!(
        "{}: {} must be {wanted}",
        setting.place(),
        key.name
    ))
    .next(format!("{}; the default is {}", key.comment, key.default))
}

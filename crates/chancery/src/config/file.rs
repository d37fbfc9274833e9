//! Reading the TOML file.

use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::settings::{Raw, Settings, Source};
use super::table::{self, KEYS, List};
use super::{agents, agh};
use crate::exit::Failure;

/// Reads the text of a file into the settings.
pub(super) fn read(text: &str, path: &Path, settings: &mut Settings) -> Result<(), Failure> {
    let tree = DeTable::parse(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_at(text, span.start));
        Failure::usage(format!(
            "{}:{line}: not TOML: {}",
            path.display(),
            error.message()
        ))
        .next("the form of every key: chancery config reference")
    })?;
    let mut reader = Reader {
        text,
        path,
        settings,
    };
    reader.table(tree.get_ref(), None)
}

/// The line of a byte offset, from 1.
pub(super) fn line_at(text: &str, offset: usize) -> usize {
    let before = text.as_bytes().get(..offset).unwrap_or(text.as_bytes());
    before.iter().filter(|byte| **byte == b'\n').count() + 1
}

struct Reader<'r> {
    text: &'r str,
    path: &'r Path,
    settings: &'r mut Settings,
}

impl Reader<'_> {
    fn table(&mut self, table: &DeTable<'_>, section: Option<&str>) -> Result<(), Failure> {
        for (name, value) in table {
            self.member(section, name.get_ref(), name.span().start, value)?;
        }
        Ok(())
    }

    fn member(
        &mut self,
        section: Option<&str>,
        name: &str,
        offset: usize,
        value: &Spanned<DeValue<'_>>,
    ) -> Result<(), Failure> {
        if section.is_none()
            && table::sections().contains(&name)
            && let Some(table) = value.get_ref().as_table()
        {
            return self.table(table, Some(name));
        }
        if section.is_none() && name == "model" {
            self.settings.models = agents::models_of(self.text, self.path)?;
            return Ok(());
        }
        let full = section.map_or_else(|| name.to_owned(), |section| format!("{section}.{name}"));
        if let Some(list) = table::AGH.iter().find(|list| list.name == full) {
            self.names_of(list, value.get_ref())?;
            self.settings.agh = agh::section_of(self.text, self.path)?;
            return Ok(());
        }
        if let (Some(list), DeValue::Array(tables)) = (table::find_list(&full), value.get_ref()) {
            return self.list(list, tables.iter(), offset);
        }
        let key = table::find(&full).ok_or_else(|| self.unknown(&full, offset))?;
        let source = self.source(offset);
        self.settings.set(key, raw(value.get_ref()), source)
    }

    /// The tables of a list, one after the other.
    fn list<'v, 't: 'v>(
        &mut self,
        list: &'static List,
        tables: impl Iterator<Item = &'v Spanned<DeValue<'t>>>,
        offset: usize,
    ) -> Result<(), Failure> {
        for value in tables {
            let Some(members) = value.get_ref().as_table() else {
                return Err(self.unknown(list.name, offset));
            };
            let mut found = Vec::new();
            for (name, value) in members {
                let at = name.span().start;
                let key = list.keys.iter().find(|key| key.name == name.get_ref());
                let key = key.ok_or_else(|| self.unknown_in(list, name.get_ref(), at))?;
                found.push((key, raw(value.get_ref()), self.source(at)));
            }
            let table = self.settings.begin_table(list);
            for (key, value, source) in found {
                table.set(key, value, source)?;
            }
        }
        Ok(())
    }

    /// Refuses members that no table of this kind has; what they hold is read elsewhere.
    fn names_of(&self, list: &List, value: &DeValue<'_>) -> Result<(), Failure> {
        let tables = match value {
            DeValue::Array(tables) => tables.iter().map(Spanned::get_ref).collect(),
            one => vec![one],
        };
        for name in tables
            .into_iter()
            .filter_map(DeValue::as_table)
            .flat_map(|table| table.keys())
        {
            if !list.keys.iter().any(|key| key.name == name.get_ref()) {
                return Err(self.unknown_in(list, name.get_ref(), name.span().start));
            }
        }
        Ok(())
    }

    fn source(&self, offset: usize) -> Source {
        Source::File {
            path: self.path.to_owned(),
            line: line_at(self.text, offset),
        }
    }

    fn unknown_in(&self, list: &List, name: &str, offset: usize) -> Failure {
        let place = self.place(offset);
        let failure = Failure::usage(format!("{place}: unknown key {}.{name}", list.name));
        let names = list.keys.iter().map(|key| key.name);
        match table::nearest(name, names) {
            Some(nearest) => failure.next(format!("the nearest known key is {nearest}")),
            None => failure,
        }
    }

    fn place(&self, offset: usize) -> String {
        format!("{}:{}", self.path.display(), line_at(self.text, offset))
    }

    fn unknown(&self, name: &str, offset: usize) -> Failure {
        let lists = table::lists().map(|list| list.name);
        let names = KEYS.iter().map(|key| key.name).chain(table::sections());
        let names = names.chain(lists);
        let failure = Failure::usage(format!("{}: unknown key {name}", self.place(offset)));
        match table::nearest(name, names) {
            Some(nearest) => failure.next(format!("the nearest known key is {nearest}")),
            None => failure,
        }
    }
}

fn raw<'v>(value: &'v DeValue<'_>) -> Raw<'v> {
    match value {
        DeValue::String(text) => Raw::Text(text),
        DeValue::Boolean(on) => Raw::Switch(*on),
        DeValue::Integer(integer) => {
            i64::from_str_radix(integer.as_str(), integer.radix()).map_or(Raw::Other, Raw::Integer)
        }
        _ => Raw::Other,
    }
}

//! Changes of rows as a statement takes them.

use std::collections::BTreeMap;

use chancery_core::rows::{Row, RowChange, RowKey};

use super::bytea::Bytea;

/// Of a row that is changed several times the last change, in the order of keys: so no two batches block each other.
pub(super) struct LastChanges {
    pub(super) keys: Vec<Bytea>,
    pub(super) values: Vec<Bytea>,
    pub(super) removed: Vec<Bytea>,
}

impl LastChanges {
    pub(super) fn of<'c>(changes: impl Iterator<Item = &'c RowChange>) -> Self {
        let changes = changes.map(|(key, value)| (key, value.as_ref()));
        let last: BTreeMap<&RowKey, Option<&Row>> = changes.collect();
        let (mut keys, mut values, mut removed) = (Vec::new(), Vec::new(), Vec::new());
        for (key, value) in last {
            let key = Bytea::Key(key.clone());
            match value {
                Some(row) => {
                    keys.push(key);
                    values.push(Bytea::Row(row.clone()));
                }
                None => removed.push(key),
            }
        }
        Self {
            keys,
            values,
            removed,
        }
    }
}

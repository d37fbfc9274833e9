//! Changes of rows as a statement takes them.

use std::collections::BTreeMap;

use chancery_core::rows::{Row, RowChange, RowKey};

/// Of a row that is changed several times the last change, in the order of keys: so no two batches block each other.
pub(super) struct LastChanges {
    pub(super) keys: Vec<Vec<u8>>,
    pub(super) values: Vec<Vec<u8>>,
    pub(super) removed: Vec<Vec<u8>>,
}

impl LastChanges {
    pub(super) fn of<'c>(changes: impl Iterator<Item = &'c RowChange>) -> Self {
        let changes = changes.map(|(key, value)| (key, value.as_ref()));
        let last: BTreeMap<&RowKey, Option<&Row>> = changes.collect();
        let (mut keys, mut values, mut removed) = (Vec::new(), Vec::new(), Vec::new());
        for (key, value) in last {
            match value {
                Some(row) => {
                    keys.push(key.as_bytes().to_vec());
                    values.push(row.to_vec());
                }
                None => removed.push(key.as_bytes().to_vec()),
            }
        }
        Self {
            keys,
            values,
            removed,
        }
    }
}

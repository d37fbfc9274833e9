//! Rows in memory: for replay, tests and the memory store. Everything is always loaded.
//!
//! A decision reads single rows, by hash. Scans are rare and need order: the keys of a space are kept in order from the
//! first scan of it on, so that a replay of a million lines does not sort what nobody scans.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::{Lookup, Row, RowChange, RowKey, Rows, RowsDamaged};

/// Rows in memory.
#[derive(Debug, Default)]
pub struct MapRows {
    rows: HashTable<Kept>,
    scanned: Mutex<Vec<Space>>,
}

/// A row and its key. There may be millions, so that a place in the table is small, and growing it reads no key.
#[derive(Clone, Debug)]
struct Kept {
    hash: u64,
    key: Box<[u8]>,
    row: Row,
}

impl Kept {
    fn is_of(&self, key: &RowKey) -> bool {
        self.hash == key.hash && *self.key == *key.as_bytes()
    }
}

/// A space that was scanned: all its keys in order.
#[derive(Clone, Debug)]
struct Space {
    prefix: RowKey,
    keys: BTreeSet<RowKey>,
}

/// The space that a key belongs to, if it was scanned.
fn space_of<'s>(key: &RowKey, scanned: &'s mut [Space]) -> Option<&'s mut Space> {
    scanned
        .iter_mut()
        .find(|space| key.starts_with(&space.prefix))
}

impl MapRows {
    /// Applies changes.
    pub fn apply(&mut self, changes: impl IntoIterator<Item = RowChange>) {
        let scanned = self
            .scanned
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        for (key, change) in changes {
            let hash = key.hash;
            let found = self
                .rows
                .entry(hash, |kept| kept.is_of(&key), |kept| kept.hash);
            match (found, change) {
                (Entry::Occupied(mut kept), Some(row)) => kept.get_mut().row = row,
                (Entry::Occupied(kept), None) => {
                    kept.remove();
                    if let Some(space) = space_of(&key, scanned) {
                        space.keys.remove(&key);
                    }
                }
                (Entry::Vacant(free), Some(row)) => {
                    free.insert(Kept {
                        hash,
                        key: key.as_bytes().into(),
                        row,
                    });
                    if let Some(space) = space_of(&key, scanned) {
                        space.keys.insert(key);
                    }
                }
                (Entry::Vacant(_), None) => {}
            }
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// All rows in order.
    pub fn iter(&self) -> impl Iterator<Item = (RowKey, &Row)> {
        let mut rows: Vec<&Kept> = self.rows.iter().collect();
        rows.sort_unstable_by_key(|kept| &kept.key);
        rows.into_iter()
            .map(|kept| (RowKey::from_stored(&kept.key), &kept.row))
    }

    /// One row.
    pub fn find(&self, key: &RowKey) -> Option<&Row> {
        let kept = self.rows.find(key.hash, |kept| kept.is_of(key));
        kept.map(|kept| &kept.row)
    }

    /// The rows below a prefix, in order.
    fn below(&self, keys: &BTreeSet<RowKey>, prefix: &RowKey) -> Vec<(RowKey, Row)> {
        let below = keys
            .range(prefix.clone()..)
            .take_while(|key| key.starts_with(prefix));
        let row = |key: &RowKey| Some((key.clone(), self.find(key)?.clone()));
        below.filter_map(row).collect()
    }

    fn keys_of(&self, prefix: &RowKey) -> BTreeSet<RowKey> {
        let kept = self.rows.iter();
        let below = kept.filter(|kept| kept.key.starts_with(prefix.as_bytes()));
        below.map(|kept| RowKey::from_stored(&kept.key)).collect()
    }
}

impl Rows for MapRows {
    fn get(&self, key: &RowKey) -> Lookup {
        self.find(key)
            .map_or(Lookup::Absent, |row| Lookup::Found(row.clone()))
    }

    fn scan(&self, prefix: &RowKey) -> Result<Vec<(RowKey, Row)>, RowsDamaged> {
        let Some(space) = prefix.space() else {
            // Of no space: nobody asks for that twice.
            return Ok(self.below(&self.keys_of(prefix), prefix));
        };
        let mut scanned = self.scanned.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = scanned.iter().find(|one| one.prefix == space) {
            return Ok(self.below(&known.keys, prefix));
        }
        let keys = self.keys_of(&space);
        let rows = self.below(&keys, prefix);
        scanned.push(Space {
            prefix: space,
            keys,
        });
        Ok(rows)
    }
}

impl Clone for MapRows {
    fn clone(&self) -> Self {
        let scanned = self.scanned.lock().unwrap_or_else(PoisonError::into_inner);
        Self {
            rows: self.rows.clone(),
            scanned: Mutex::new(scanned.clone()),
        }
    }
}

impl PartialEq for MapRows {
    fn eq(&self, other: &Self) -> bool {
        let same = |(key, row): (RowKey, &Row)| other.find(&key) == Some(row);
        self.rows.len() == other.rows.len() && self.iter().all(same)
    }
}

impl Eq for MapRows {}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn key(space: u8, name: u8) -> RowKey {
        RowKey::new(["a", "b"][usize::from(space % 2)], &[&[name]])
    }

    proptest! {
        /// However rows come, go and are scanned in between, a scan gives what an ordered map would.
        #[test]
        fn a_scan_is_that_of_an_ordered_map(
            steps in proptest::collection::vec((0..4u8, 0..2u8, 0..12u8), 0..200),
        ) {
            let (mut rows, mut model) = (MapRows::default(), BTreeMap::new());
            for (step, space, name) in steps {
                let key = key(space, name);
                match step {
                    0 | 1 => {
                        let value = Row::from(vec![step, name]);
                        model.insert(key.clone(), value.clone());
                        rows.apply([(key, Some(value))]);
                    }
                    2 => {
                        model.remove(&key);
                        rows.apply([(key, None)]);
                    }
                    _ => {
                        let prefix = RowKey::text(["a", "b"][usize::from(space)], &[]);
                        let below = model.iter().filter(|(key, _)| key.starts_with(&prefix));
                        let below: Vec<_> = below.map(|(k, v)| (k.clone(), v.clone())).collect();
                        prop_assert_eq!(rows.scan(&prefix).unwrap(), below);
                    }
                }
            }
            let all: Vec<_> = rows.iter().map(|(key, row)| (key, row.clone())).collect();
            prop_assert_eq!(all, model.into_iter().collect::<Vec<_>>());
            prop_assert_eq!(&rows.clone(), &rows);
        }
    }

    #[test]
    fn keys_of_rows_that_are_gone_do_not_pile_up() {
        let mut rows = MapRows::default();
        assert_eq!(rows.scan(&RowKey::text("t", &[])).unwrap(), []);
        for n in 0..10_000_u32 {
            let key = RowKey::new("t", &[&n.to_be_bytes()]);
            rows.apply([(key.clone(), Some("".into()))]);
            rows.apply([(key, None)]);
        }
        let scanned = rows.scanned.lock().unwrap();
        assert!(scanned.iter().all(|space| space.keys.is_empty()));
    }
}

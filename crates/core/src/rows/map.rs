//! Rows in memory: for replay, tests and the memory store. Everything is always loaded.
//!
//! A decision reads single rows, by hash. Scans are rare and need order: keys are put in order when the next scan asks
//! for it, so that a replay of a million lines does not sort what nobody scans.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

use super::{Lookup, Row, RowChange, RowKey, Rows, RowsDamaged};

/// Rows in memory.
#[derive(Debug, Default)]
pub struct MapRows {
    rows: HashMap<RowKey, Row>,
    order: Mutex<Order>,
}

/// The keys in order, as far as somebody asked for it.
#[derive(Clone, Debug, Default)]
struct Order {
    /// Every key that is not in `fresh`, and some whose rows are gone.
    sorted: BTreeSet<RowKey>,
    /// Keys that came since the last scan.
    fresh: Vec<RowKey>,
}

impl MapRows {
    /// Applies changes.
    pub fn apply(&mut self, changes: impl IntoIterator<Item = RowChange>) {
        let order = self.order.get_mut().unwrap_or_else(PoisonError::into_inner);
        for (key, change) in changes {
            match change {
                Some(content) => match self.rows.entry(key) {
                    Entry::Occupied(mut row) => *row.get_mut() = content,
                    Entry::Vacant(free) => {
                        order.fresh.push(free.key().clone());
                        free.insert(content);
                    }
                },
                None => {
                    self.rows.remove(&key);
                }
            }
        }
        // Rows that come and go must not leave more keys behind than there are rows.
        if order.fresh.len() > 2 * self.rows.len() + LEAST_FRESH {
            order.fresh.clear();
            order.sorted = self.rows.keys().cloned().collect();
        }
    }

    /// All rows in order.
    pub fn iter(&self) -> impl Iterator<Item = (&RowKey, &Row)> {
        let mut rows: Vec<_> = self.rows.iter().collect();
        rows.sort_unstable_by_key(|(key, _)| *key);
        rows.into_iter()
    }

    /// One row.
    pub fn find(&self, key: &RowKey) -> Option<&Row> {
        self.rows.get(key)
    }

    /// The keys in order: all that have rows.
    fn in_order(&self) -> MutexGuard<'_, Order> {
        let mut order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = std::mem::take(&mut order.fresh);
        order.sorted.extend(fresh);
        if order.sorted.len() > 2 * self.rows.len() {
            order.sorted.retain(|key| self.rows.contains_key(key));
        }
        order
    }
}

/// Below this nobody minds what lies about.
const LEAST_FRESH: usize = 1_024;

impl Rows for MapRows {
    fn get(&self, key: &RowKey) -> Lookup {
        self.find(key)
            .map_or(Lookup::Absent, |row| Lookup::Found(row.clone()))
    }

    fn scan(&self, prefix: &RowKey) -> Result<Vec<(RowKey, Row)>, RowsDamaged> {
        let order = self.in_order();
        let below = order
            .sorted
            .range(prefix.clone()..)
            .take_while(|key| key.starts_with(prefix));
        let row = |key: &RowKey| Some((key.clone(), self.rows.get(key)?.clone()));
        Ok(below.filter_map(row).collect())
    }
}

impl Clone for MapRows {
    fn clone(&self) -> Self {
        let order = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        Self {
            rows: self.rows.clone(),
            order: Mutex::new(order.clone()),
        }
    }
}

impl PartialEq for MapRows {
    fn eq(&self, other: &Self) -> bool {
        self.rows == other.rows
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
            prop_assert!(rows.iter().eq(model.iter()));
            prop_assert_eq!(&rows.clone(), &rows);
        }
    }

    #[test]
    fn keys_of_rows_that_are_gone_do_not_pile_up() {
        let mut rows = MapRows::default();
        for n in 0..10_000_u32 {
            let key = RowKey::new("t", &[&n.to_be_bytes()]);
            rows.apply([(key.clone(), Some("".into()))]);
            rows.apply([(key, None)]);
        }
        assert!(rows.order.lock().unwrap().fresh.len() <= LEAST_FRESH + 1);
        assert_eq!(rows.scan(&RowKey::text("t", &[])).unwrap(), []);
    }
}

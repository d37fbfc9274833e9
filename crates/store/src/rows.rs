//! A store's committed rows as rules read them, fetched when they are not in memory.

use chancery_core::rows::{Lookup, Row, RowKey, Rows, RowsDamaged};

use crate::contract::Store;

/// Committed rows for those who may wait: nothing is ever [`Lookup::NotLoaded`], unless the store fails.
pub struct StoreRows<'s, S: ?Sized>(pub &'s S);

impl<S: Store + ?Sized> Rows for StoreRows<'_, S> {
    fn get(&self, key: &RowKey) -> Lookup {
        match self.0.peek(key) {
            Lookup::NotLoaded => match self.0.load(std::slice::from_ref(key)).as_deref() {
                Ok([Some(bytes)]) => Lookup::Found(bytes.clone()),
                Ok(_) => Lookup::Absent,
                Err(_) => Lookup::NotLoaded,
            },
            known => known,
        }
    }

    fn scan(&self, prefix: &RowKey) -> Result<Vec<(RowKey, Row)>, RowsDamaged> {
        self.0
            .scan(prefix, None, usize::MAX)
            .map_err(|error| RowsDamaged(error.0))
    }
}

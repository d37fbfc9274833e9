//! What one batch changes, shared by those who pass it on.

use chancery_core::rows::RowChange;
use chancery_core::window::Remember;

use crate::contract::StoredUnit;

/// The changes of one batch, unit by unit.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    pub rows: Vec<Vec<RowChange>>,
    pub remembered: Vec<Remember>,
}

impl Changes {
    /// The changes of units whose lines are written.
    pub(crate) fn of(units: Vec<StoredUnit>) -> Self {
        let mut changes = Self {
            rows: Vec::with_capacity(units.len()),
            remembered: Vec::new(),
        };
        for unit in units {
            changes.rows.push(unit.rows);
            changes.remembered.extend(unit.remembered);
        }
        changes
    }

    /// How many records and rows it holds.
    pub(crate) fn len(&self) -> usize {
        self.rows.iter().map(Vec::len).sum::<usize>() + self.remembered.len()
    }
}

//! What one batch changes, shared by those who pass it on.

use chancery_core::rows::RowChange;
use chancery_core::window::Remember;

use crate::contract::StoredUnit;

/// The changes of one batch, unit by unit.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    units: Vec<StoredUnit>,
    len: usize,
}

impl Changes {
    /// The changes of units whose lines are written.
    pub(crate) fn of(units: Vec<StoredUnit>) -> Self {
        let len = |unit: &StoredUnit| unit.rows.len() + unit.remembered.len();
        let len = units.iter().map(len).sum();
        Self { units, len }
    }

    /// Changes of rows that are on no line.
    pub(crate) fn of_rows(rows: Vec<RowChange>) -> Self {
        Self::of(vec![StoredUnit {
            rows,
            remembered: Vec::new(),
        }])
    }

    /// The rows, in order.
    pub(crate) fn rows(&self) -> impl Iterator<Item = &RowChange> {
        self.units.iter().flat_map(|unit| &unit.rows)
    }

    /// What windows remember.
    pub(crate) fn remembered(&self) -> impl Iterator<Item = &Remember> {
        self.units.iter().flat_map(|unit| &unit.remembered)
    }

    /// The units, given away.
    pub(crate) fn into_units(self) -> Vec<StoredUnit> {
        self.units
    }

    /// How many records and rows it holds.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

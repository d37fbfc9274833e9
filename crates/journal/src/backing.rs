//! What a fold keeps its state in.

use chancery_core::decision::WindowsBelow;
use chancery_core::rows::{Lookup, MapRows, Row, RowChange, RowKey, Rows, RowsDamaged};
use chancery_core::time::Time;
use chancery_core::window::{Remember, WindowId, WindowName, Windows};

/// Rows and windows that units are folded into: maps in memory for replay, a store for recovery.
pub trait Backing: Rows + WindowsBelow {
    /// Takes a unit's changes, sorted by key, and what its windows remember.
    fn take(&mut self, changes: Vec<RowChange>, remembered: Vec<Remember>);

    /// The unit whose changes were taken last had so many bytes of lines: rows grow with the lines that they come from.
    ///
    /// # Errors
    /// Rows had to make room, and could not be written elsewhere.
    fn grown(&mut self, _line_bytes: usize) -> Result<(), RowsDamaged> {
        Ok(())
    }

    /// Drops what windows remembered until before `now`.
    fn forget_ended(&mut self, now: Time);

    /// Brings rows into memory that were reported as not loaded.
    ///
    /// # Errors
    /// They cannot be read.
    fn load(&mut self, keys: &[RowKey]) -> Result<(), RowsDamaged>;
}

/// Rows and windows in memory.
#[derive(Clone, Debug, Default)]
pub struct InMemory {
    /// The rows.
    pub rows: MapRows,
    /// The windows.
    pub windows: Windows,
}

impl Rows for InMemory {
    fn get(&self, key: &RowKey) -> Lookup {
        self.rows.get(key)
    }

    fn scan(&self, prefix: &RowKey) -> Result<Vec<(RowKey, Row)>, RowsDamaged> {
        self.rows.scan(prefix)
    }
}

impl WindowsBelow for InMemory {
    fn find(&self, window: WindowName, id: &WindowId, now: Time) -> Option<u64> {
        self.windows.find(window, id, now)
    }
}

impl Backing for InMemory {
    fn take(&mut self, changes: Vec<RowChange>, remembered: Vec<Remember>) {
        self.rows.apply(changes);
        for record in &remembered {
            self.windows.remember(record);
        }
    }

    fn forget_ended(&mut self, now: Time) {
        self.windows.forget_ended(now);
    }

    fn load(&mut self, _: &[RowKey]) -> Result<(), RowsDamaged> {
        Ok(())
    }
}
